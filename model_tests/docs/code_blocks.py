"""The code blocks of the documentation, found and run.

* A ```python block is run in a namespace and a folder of its own, so that a copy of it does what the page promises.
  Top-level `await` and `async with` are allowed, as in a notebook: such a block runs under trio.
* In a ```console block each `$ tidegauge …` or `$ python -m …` line is run from the root of the repository. The lines
  below it are its output: they must come in this order; numbers stand for any number, `…` for anything.
* `<!-- no-run -->` in the line above a block leaves it out; `<!-- exit: 1 -->` says how the block's last command ends;
  `<!-- continues -->` runs a ```python block in the namespace of the one before it, after that one.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import trio

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE = 120.0
"""Seconds that one console command of the docs may take."""

FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!--\s*(no-run|continues|exit:\s*(\d+))\s*-->\s*\Z")


@attrs.frozen
class Block:
    """A fenced block: the page, the line on which its code begins, its language and its text."""

    page: str
    line: int
    language: str
    text: str
    runs: bool = True
    exit_status: int = 0
    before: Block | None = None
    """The block that it continues."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@attrs.frozen
class Command:
    """A line after `$ `, and the output that the page shows below it."""

    words: tuple[str, ...]
    shown: tuple[str, ...]


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: str, text: str) -> Iterator[Block]:
    last: Block | None = None
    for match in FENCE.finditer(text):
        mark = MARK.search(text[: match.start()])
        line = text.count("\n", 0, match.start(2)) + 1
        last = Block(
            page,
            line,
            match.group(1),
            match.group(2),
            runs=mark is None or mark.group(1) != "no-run",
            exit_status=int(mark.group(2) or 0) if mark else 0,
            before=last if mark is not None and mark.group(1) == "continues" else None,
        )
        yield last


def run_python(block: Block) -> None:
    """Run the block, after those that it continues. Its exceptions are raised, with the page's line numbers."""
    run_in({"__name__": "__main__"}, block)


def run_in(namespace: dict[str, Any], block: Block) -> None:
    """Run the block in a namespace, after those that it continues."""
    if block.before is not None:
        run_in(namespace, block.before)
    padded = "\n" * (block.line - 1) + block.text
    code = compile(padded, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(code, namespace)
    if inspect.iscoroutine(result):

        async def main() -> None:
            await result

        trio.run(main)


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block, a trailing backslash joining lines."""
    text = block.text.replace("\\\n", " ")
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, *shown = part.splitlines()
        yield Command(tuple(shlex.split(line, comments=True)), tuple(shown))


def run_console(block: Block) -> None:
    """Run the block's commands; AssertionError when one ends or prints otherwise than the page says."""
    listed = list(commands(block))
    for command in listed:
        argv = as_argv(command.words)
        if argv is None:
            continue
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env=os.environ | {"COLUMNS": "120", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        status = block.exit_status if command is listed[-1] else 0
        said = f"{block}: {shlex.join(command.words)}"
        assert done.returncode == status, f"{said}: exit status {done.returncode}, not {status}\n{done.stdout}"
        if missing := first_line_not_printed(command.shown, done.stdout):
            raise AssertionError(f"{said}: the page shows a line that is not printed:\n{missing}\n---\n{done.stdout}")


def as_argv(words: tuple[str, ...]) -> list[str] | None:
    """How to run the command with this Python, or None if it is not ours to run (make, pip, git …)."""
    match words:
        case ("tidegauge", *rest):
            return [sys.executable, "-m", "tidegauge", *rest]
        case ("python", *rest):
            return [sys.executable, *rest]
    return None


def first_line_not_printed(shown: tuple[str, ...], printed: str) -> str | None:
    """The first shown line that does not follow, in order, among the printed ones."""
    lines = iter(printed.splitlines())
    for line in shown:
        if line.strip() in {"", "…"}:
            continue
        if not any(as_pattern(line).fullmatch(" ".join(candidate.split())) for candidate in lines):
            return line
    return None


def as_pattern(line: str) -> re.Pattern[str]:
    pattern = re.escape(" ".join(line.split())).replace("…", ".*")
    return re.compile(re.sub(r"\d+([.,]\d+)*", r"\\d[\\d.,]*", re.sub(r"(?<=\d)\\(?=[.,])", "", pattern)))
