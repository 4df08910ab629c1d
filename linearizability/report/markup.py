"""HTML as nested calls: text is escaped unless it is already Html, so that nothing untrusted can become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable

EMPTY_ELEMENTS = frozenset({"meta", "br", "hr", "input", "wbr"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]


def escape(child: Child) -> Html:
    """A child as markup: Html as it is, other text escaped, None as nothing, a sequence piece by piece."""
    if isinstance(child, Html):
        return child
    if child is None:
        return Html("")
    if isinstance(child, str | int | float):
        return Html(html.escape(str(child)))
    return Html("".join(escape(each) for each in child))


def element(tag: str, *children: Child, **attributes: str | int | bool | None) -> Html:
    """An element; `class_` stands for class, `data_x` for data-x, None and False leave an attribute out."""
    written = "".join(
        f" {attribute_name(name)}" if value is True else f' {attribute_name(name)}="{html.escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in EMPTY_ELEMENTS:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{escape(children)}</{tag}>")


def attribute_name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def classes(*names: str | bool | None) -> str:
    """Class names joined; false ones left out."""
    return " ".join(name for name in names if isinstance(name, str) and name)
