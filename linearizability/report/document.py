"""What pages are made of: one HTML file that needs no network, readable in light and in dark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Final

from tidegauge.linearizability.report.markup import Child, Html, classes, element

# The page may run its own styles and script and load nothing at all, whatever text finds its way into it.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)

_DOCTYPE: Final = "<!doctype html>"
BEGINNING: Final = len(_DOCTYPE)
"""Bytes of a file by which `may_replace` decides."""


def may_replace(beginning: bytes) -> bool:
    """Whether a page may take the place of a file that begins so: of another page, or of an empty file.

    What a command reads, or anything else that somebody keeps, is never overwritten by a page.
    """
    return not beginning or beginning[:BEGINNING].lower() == _DOCTYPE.encode()


def document(title: str, *body: Child, styles: str = "") -> str:
    """One HTML document: the styles of every page, then `styles` of its own, then the body."""
    base = (files(__package__) / "base.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", title),
        element("style", Html(base + styles)),
    )
    return f"{_DOCTYPE}\n{element('html', head, element('body', *body), lang='en')}\n"


def definitions(facts: Mapping[str, str]) -> Html:
    """Facts by their names, side by side."""
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in facts.items()]
    return element("dl", pairs, class_="facts")


def pill(text: str, *, good: bool) -> Html:
    """A verdict as a mark."""
    return element("span", text, class_=classes("pill", "good" if good else "bad", text))


def section(title: Child, *children: Child, anchor: str) -> Html:
    return element("section", element("h2", title), *children, id=anchor, class_="part")


def table(head: Iterable[str], rows: Iterable[Html], *, class_: str | None = None, numbers: Iterable[str] = ()) -> Html:
    """A table that scrolls by itself; the heads of columns of `numbers` stand right as their numbers do."""
    right = frozenset(numbers)
    cells = [element("th", name, scope="col", class_="number" if name in right else None) for name in head]
    return element(
        "div",
        element("table", element("thead", element("tr", cells)), element("tbody", rows)),
        class_=classes("scroll", class_),
    )


def row(*cells: Child, class_: str | None = None) -> Html:
    """A table row; counts stand right, with their thousands apart."""
    return element(
        "tr",
        [
            element("td", f"{cell:,}", class_="number") if isinstance(cell, int) else element("td", cell)
            for cell in cells
        ],
        class_=class_,
    )
