"""The options that say on which Spark a command runs, the same for every command of this package."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidegauge.linearizability.command_words import values_joined
from tidegauge.spark_check.session import (
    CORES,
    JVM_MEMORY,
    BadMemory,
    NoSpark,
    cluster_session,
    heap,
    local_session,
    submitted,
)
from tidegauge.spark_check.starting import check_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["add_session_options", "parsed", "positive", "session_of"]

MOST_CORES = 64
"""Each is a process of Python of some hundred megabytes."""
MakeParser = Callable[[bool], argparse.ArgumentParser]
"""Makes the parser; with True one that misses nothing that is not there."""


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add --cores, --memory, --master and --conf."""
    parser.add_argument("--cores", type=_cores, metavar="N", help=f"workers on this machine (default: {CORES})")
    parser.add_argument("--memory", type=_memory, metavar="SIZE", help=f"heap of the JVM (default: {JVM_MEMORY})")
    parser.add_argument("--master", metavar="URL", help="a cluster's master; with spark-submit, its own holds")
    parser.add_argument(
        "--conf", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark"
    )


def parsed(make: MakeParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, in whatever order with the words. Ends the process, with 2, for what does not go together."""
    parser = make(False)
    options_of = [(action.option_strings, action.nargs != 0) for action in parser._actions]
    known = {name for names, _ in options_of for name in names}
    valued = {name for names, takes_value in options_of if takes_value for name in names}
    words = values_joined(sys.argv[1:] if arguments is None else arguments, valued, known)
    _refuse_misspelt(parser, make(True), words)
    options = parser.parse_intermixed_args(words)
    if _elsewhere(options) and (options.cores is not None or options.memory is not None):
        parser.error("--cores and --memory are for this machine alone: use --conf, such as spark.executor.memory=4g")
    return options


def check_session(options: argparse.Namespace) -> None:
    """Raise NoSpark for a master that there cannot be, before any work is done."""
    if options.master is not None:
        check_master("--master", options.master)


def session_of(options: argparse.Namespace, name: str) -> SparkSession:
    """The session that the options ask for. Raises CannotRun."""
    if not _elsewhere(options):
        return local_session(options.cores or CORES, options.memory or JVM_MEMORY, name, dict(options.conf))
    try:
        return cluster_session(options.master, dict(options.conf))
    except NoSpark as error:
        raise NoSpark(f"--master {options.master}: {error}" if options.master is not None else str(error)) from error


def _elsewhere(options: argparse.Namespace) -> bool:
    """Whether the user has chosen a master, here or with spark-submit."""
    return options.master is not None or submitted()


def _refuse_misspelt(parser: argparse.ArgumentParser, lenient: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """End with the option that there is none of: argparse would name what is missing first, such as --out."""
    lenient.usage = parser.format_usage().removeprefix("usage: ")
    _, left = lenient.parse_known_args(words)
    unknown = [word for word in left if word.startswith("-")]
    if unknown:
        known = [option for action in parser._actions for option in action.option_strings]
        name = unknown[0].partition("=")[0]
        close = difflib.get_close_matches(name, known, n=1)
        parser.error(f"unknown option {name}" + (f": did you mean {close[0]}?" if close else ""))


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least 1")
    return int(text)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no setting: write NAME=VALUE")
    return name, value


def _cores(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_CORES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers: use 1 to {MOST_CORES}")
    return int(text)


def _memory(text: str) -> str:
    try:
        return heap(text)
    except BadMemory as error:
        raise argparse.ArgumentTypeError(str(error)) from None
