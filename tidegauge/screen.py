"""What a command shows: text and tables on standard output, progress on standard error, or one JSON document.

With `json` standard output carries that document and nothing else. Progress is a bar on a terminal and a plain line
every few seconds elsewhere.
"""

from __future__ import annotations

import json as jsonlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, Literal, TextIO

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import tidegauge
from tidegauge.exits import Status, Unusable

BETWEEN_LINES = 5.0
"""Seconds between two plain lines of progress."""
PLAIN_WIDTH = 120
"""Columns where there is no terminal to ask."""

Advance = Callable[..., None]
"""advance(text, done=None, total=None): where the work stands."""

STYLES = {"holds": "green", "caught": "green", "violated": "bold red", "missed": "bold red", "unknown": "yellow"}


class PlainConsole(Console):
    """Rich, but for a reader that goes away: Rich would exit with 1, which here says that something is violated."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    stream = error_stream() if stderr else output_stream()
    width = None if stream.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    return PlainConsole(file=stream, width=width, highlight=False, soft_wrap=False)


def output_stream() -> TextIO:
    """Standard output."""
    if sys.stdout is None:
        raise Unusable("standard output is closed: leave it open, or send it to /dev/null")
    return writable(sys.stdout)


def error_stream() -> TextIO:
    """Standard error; nowhere if it is closed, since there is nobody to tell."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the rest of the process
    return writable(sys.stderr)


def writable(stream: TextIO) -> TextIO:
    """`stream`, with a character that its encoding lacks written as an escape."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


class Screen:
    """One command's output."""

    def __init__(self, command: str, *, json: bool) -> None:
        self.command = command
        self.json = json
        self.out = console()
        self.err = console(stderr=True)
        self.options: Mapping[str, Any] = {}
        self.started = time.monotonic()

    def header(self, options: Mapping[str, Any]) -> None:
        """What is about to run: the seed first, then every option, so that the run can be had again."""
        self.options = options
        self.say(f"tidegauge {tidegauge.__version__} {self.command}", style="bold")
        self.say("  ".join(f"{name}={value}" for name, value in options.items()))
        self.say()

    def say(self, text: str = "", *, style: str | None = None) -> None:
        """A line of output; long ones are left to the terminal to break, so that they can be copied."""
        if not self.json:
            self.out.print(Text(text, style=style or ""), soft_wrap=True)

    def warn(self, text: str) -> None:
        """A line on standard error, with `json` as well."""
        self.err.print(Text(f"tidegauge: {text}"), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, named: bool = False) -> None:
        """A table; numbers stand right, verdicts have their colour; if rows are `named`, the first column is whole."""
        if self.json:
            return
        shown = [list(row) for row in rows]
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for index, name in enumerate(columns):
            numbers = any(isinstance(row[index], int | float) for row in shown)
            justify: Literal["left", "right"] = "right" if numbers else "left"
            table.add_column(escape(name), justify=justify, overflow="fold", no_wrap=named and index == 0)
        for row in shown:
            table.add_row(*(Text(shown_value(value), style=STYLES.get(str(value), "")) for value in row))
        self.out.print(table)

    @contextmanager
    def progress(self, what: str) -> Iterator[Advance]:
        """Shows how far `what` has come while the block runs."""
        if self.err.is_terminal:
            with self._bar(what) as advance:
                yield advance
        else:
            yield self._lines(what)

    @contextmanager
    def _bar(self, what: str) -> Iterator[Advance]:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=30), TimeElapsedColumn())
        with Progress(*columns, TextColumn("{task.fields[text]}"), console=self.err, transient=True) as progress:
            task = progress.add_task(escape(what), total=None, text="")

            def advance(text: str, done: float | None = None, total: float | None = None) -> None:
                progress.update(task, completed=done, total=total, text=escape(text))

            yield advance

    def _lines(self, what: str) -> Advance:
        last = time.monotonic()

        def advance(text: str, done: float | None = None, total: float | None = None) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= BETWEEN_LINES:
                last = now
                share = f" {done:,.0f} of {total:,.0f}" if done is not None and total is not None else ""
                self.err.print(Text(f"{what}:{share} {text}"), soft_wrap=True)

        return advance

    @property
    def seconds(self) -> float:
        """Since the command began."""
        return time.monotonic() - self.started

    def finish(self, status: Status, document: Mapping[str, Any]) -> Status:
        """The end: with `json`, the document; the status is the command's exit status."""
        if self.json:
            write_json(self.command, status, {"options": dict(self.options), **document})
        return status


def shown_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def write_json(command: str, status: Status, document: Mapping[str, Any], *, has_verdict: bool = True) -> None:
    """One JSON document on standard output; without a verdict where nothing is checked."""
    head = {"tidegauge": tidegauge.__version__, "command": command, "status": int(status)}
    if has_verdict:
        head["verdict"] = status.name.lower()
    print(jsonlib.dumps({**head, **document}, ensure_ascii=False, default=str), file=output_stream(), flush=True)
