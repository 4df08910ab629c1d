"""The log lines that `docs/logging.md` lists, and those that the code logs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

LOGGING_FUNCTIONS = ("log_event", "log_error", "log")


def documented(page: str) -> dict[str, str]:
    """Line -> level, by the table of the page."""
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in page.splitlines() if row.startswith("| ")]
    return {row[0]: row[1] for row in rows if row[0] != "line"}


def logged(folder: Path = ROOT / "impl") -> Iterator[tuple[str, str]]:
    """(line, level) of every call in the code that logs a line by its literal name."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                yield from _logged_by(node)


def _logged_by(call: ast.Call) -> Iterator[tuple[str, str]]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name not in LOGGING_FUNCTIONS:
        return
    literal = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    lines = [value for value in literal if isinstance(value, str) and value != "%s"]
    levels = [
        argument.attr for argument in call.args if isinstance(argument, ast.Attribute) and argument.attr.isupper()
    ]
    for line in lines[:1]:
        yield line, levels[0].lower() if levels else "error"
