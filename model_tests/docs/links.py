"""The links of the documentation: to pages, to headings of pages, and to names in the code.

A link whose text is in code letters and whose target is a Python file names what is there: `Class`, `function`,
`CONSTANT`, or `Class.method`. A method may be inherited from a base class, which has to be in the code as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import attrs

from tidegauge.model_tests.docs.code_blocks import FENCE, ROOT

LINK = re.compile(r"(?<!!)\[([^\]\[]+)\]\(([^)\s]+)\)")
SYMBOL = re.compile(r"`([A-Za-z_][\w.]*)(?:\(\))?`")
HEADING = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)


@attrs.frozen
class Link:
    """A link: the page and line where it is, its text and its target."""

    page: Path
    line: int
    text: str
    target: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}-{self.target}"


def linked_pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def links(page: Path) -> Iterator[Link]:
    """Every link of a page, except those in code blocks and those to the web."""
    text = page.read_text(encoding="utf-8")
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    for match in LINK.finditer(prose):
        if not match[2].startswith(("http://", "https://", "mailto:")):
            yield Link(page, prose.count("\n", 0, match.start()) + 1, match[1], match[2])


def problem(link: Link) -> str | None:
    """Say what is wrong with a link; None if nothing is."""
    path, _, anchor = link.target.partition("#")
    target = (link.page.parent / path).resolve() if path else link.page
    if not target.exists():
        return f"{path} does not exist"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"{target.name} has no heading #{anchor}"
    named = SYMBOL.fullmatch(link.text)
    if named and target.suffix == ".py" and not named[1].endswith(".py") and not defines(target, named[1]):
        return f"{path} does not define {named[1]}"
    return None


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def defines(file: Path, symbol: str) -> bool:
    """Whether a module defines `symbol`, at its top or, as `Class.name`, in a class or a base class of it."""
    first, _, rest = symbol.partition(".")
    found = next((node for node in tree(file).body if first in names(node)), None)
    if found is None or not rest:
        return found is not None
    if not isinstance(found, ast.ClassDef):
        return False
    if any(rest in names(node) for node in found.body):
        return True
    bases = {ast.unparse(base).partition("[")[0] for base in found.bases}
    return any(defines(other, f"{base}.{rest}") for base in bases for other in definitions().get(base, ()))


def names(node: ast.stmt) -> set[str]:
    """The names that a statement defines."""
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return {node.name}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


@cache
def tree(file: Path) -> ast.Module:
    source = file.read_text(encoding="utf-8")
    try:
        return ast.parse(source)
    except SystemError:  # Python 3.11 counts wrongly where something else is parsed meanwhile, as for a traceback
        return ast.parse(source)


@cache
def definitions() -> dict[str, list[Path]]:
    """The files that define a class, by its name."""
    found: dict[str, list[Path]] = {}
    for package in ("compilation", "spec", "impl", "linearizability", "spark_check", "model_tests"):
        for file in (ROOT / package).rglob("*.py"):
            for node in tree(file).body:
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(file)
    return found
