"""The command line: parses, calls, prints, and turns whatever went wrong into one line and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NamedTuple

from cyclopts import App, CycloptsError

import tidegauge
from tidegauge.exits import Status, Unusable, in_one_line
from tidegauge.impl.ports.log_lines import drop_lines_without_handler
from tidegauge.linearizability.command_words import values_joined
from tidegauge.screen import error_stream, write_json

TRACEBACK = "TIDEGAUGE_TRACEBACK"

HELP = """Kafka's replicated log as an executable specification, a cluster to embed, and a checker of histories.

Exit status 0: what was asked about holds. 1: it is violated. 2: the command could not run, and one line on standard
error says what is wrong with which input, and the way out."""


class Command(NamedTuple):
    """Where a command is, and the summary of it that the help shows without importing it."""

    module: str
    summary: str
    function: str = ""
    """Where it is not called as the command is."""


COMMANDS: Final = {
    "verify": Command(
        "verifying",
        "Explore the specification, drive the cluster with it, simulate, check every history twice, break it on "
        "purpose.",
    ),
    "explore": Command(
        "exploring",
        "Explore a specification exhaustively, breadth first: its invariants in every state, its goals in the end.",
    ),
    "list": Command(
        "listing",
        "List the machines; or of one its constants, its models, its properties, and the bugs that can be switched on.",
        "list_specifications",
    ),
    "simulate": Command(
        "simulating",
        "Run simulated clusters with clients under faults; check what the clients saw and what the brokers decided.",
    ),
    "replay": Command("replaying", "Replay a counterexample and show where it goes wrong."),
    "serve": Command("serving", "Run a cluster, controller and brokers, in this process, for any Kafka client."),
    "controller": Command(
        "serving", "Run a cluster's controller in a process of its own; its brokers are told where by --controller."
    ),
    "broker": Command("serving", "Run one broker in a process of its own, that may be killed and started again."),
    "strays": Command(
        "strays",
        "List the strays of a broker's log directory, or delete some of them for good; the broker may run meanwhile.",
    ),
    "record": Command(
        "recording",
        "Run a workload with a real client against any Kafka-compatible cluster, and write what it saw as a history.",
    ),
    "tap": Command(
        "tapping",
        "Pass between Kafka clients and a cluster, and write down what the clients do: tidegauge check checks it.",
    ),
    "check": Command(
        "checking",
        "Check histories: is what the clients saw a behaviour of a log? Millions: python -m tidegauge.spark_check.",
    ),
}
"""In the order of the help."""


def app_for(words: Sequence[str]) -> App:
    """The command line as far as these words need it: the command that they name is imported, and no other."""
    app = App(
        name="tidegauge",
        help=HELP,
        version=lambda: str(tidegauge.__version__),
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    if words and words[0] in COMMANDS:
        app.command(command(words[0]), name=words[0])
        return app
    for name, known in COMMANDS.items():  # help, or a mistake
        if name in words:
            app.command(command(name), name=name)
        else:
            app.command(App(name=name, help=known.summary, help_format="plaintext"))
    return app


def command(name: str) -> Callable[..., Any]:
    """The function of a command."""
    known = COMMANDS[name]
    function: Callable[..., Any] = getattr(import_module(f"tidegauge.commands.{known.module}"), known.function or name)
    return function


def with_values(app: App, words: Sequence[str]) -> list[str]:
    """The words, with values that begin with a dash where they belong. Raises Unusable for a number that is cut."""
    if not words or words[0] not in COMMANDS:
        return list(words)
    options = app[words[0]].assemble_argument_collection()
    known = {name for option in options for name in option.names} | {"--help", "-h", "--version"}
    valued = {name for option in options if option.token_count()[0] for name in option.names if name.startswith("--")}
    numbers = {name for option in options if option.hint in (int, int | None) for name in option.names}
    joined = values_joined(words, valued, known)
    check_whole_numbers(joined, numbers)
    return joined


def check_whole_numbers(words: Sequence[str], numbers: Collection[str]) -> None:
    """Raises Unusable for a fraction as the value of one of the options `numbers`: the parser would round it."""
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word == "--":
            return
        option, is_joined, value = word.partition("=")
        value = value if is_joined else after
        with suppress(ValueError):
            if option in numbers and "." in value and not float(value).is_integer():
                raise Unusable(f"{option} {value}: give a whole number")


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit status; nothing but a bug of ours gets out as an exception."""
    drop_lines_without_handler()
    try:
        app = app_for(words)
        status = app(with_values(app, words), exit_on_error=False, print_error=False)
    except KeyboardInterrupt:
        return refuse(words, "interrupted", Status.INTERRUPTED)
    except BrokenPipeError:
        drop_output()  # its reader has gone
        return Status.COULD_NOT_RUN
    except (Unusable, CycloptsError, ValueError, OSError) as error:
        if os.environ.get(TRACEBACK):
            raise
        return refuse(words, in_one_line(error))
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        told = f"{type(error).__name__}: {in_one_line(error)}"
        return refuse(words, f"this is a bug in tidegauge: {told} (set {TRACEBACK}=1 for the traceback)")
    return status if isinstance(status, Status) else Status.HOLDS


def refuse(words: Sequence[str], reason: str, status: Status = Status.COULD_NOT_RUN) -> Status:
    print(f"tidegauge: {reason}", file=error_stream(), flush=True)
    if "--json" in words:
        # Standard output may be what is wrong: closed, or on a disk that is full.
        with suppress(OSError, Unusable):
            write_json(words[0], status, {"error": reason})
    return status


def drop_output() -> None:
    """Send what is left of standard output nowhere: Python would try to write it once more on exit, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    status = run(sys.argv[1:])
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        drop_output()
        if status != Status.COULD_NOT_RUN:  # else it has been told
            status = refuse(sys.argv[1:], in_one_line(error))
    sys.exit(status)


if __name__ == "__main__":
    main()
