r"""The characters that one position of a pattern takes: a class in brackets, an escape, a dot, or a character itself.

A class is read here, and not by `re`: a class with a range of many characters takes `re` 4 ms, and a pattern that a
client chooses may have a class at every position.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import Final, NamedTuple

CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\\[])*\]", re.DOTALL)
"""A class, whole."""
_NAMED: Final = re.compile(r"\[:(\w+):\]")
_NAMED_CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
"""Inside a class: `[[:alpha:]_]`."""
_ITEM: Final = re.compile(r"\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\.|.", re.DOTALL)
_SETS: Final = frozenset("dDsSwW")
"""Escapes of many characters."""
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class NoClassError(ValueError):
    """Text that takes no character."""


class Characters(NamedTuple):
    """What a position takes."""

    starts: list[int]
    ends: list[int]
    """Ranges of code points, both ends included, in order and apart."""
    sets: tuple[re.Pattern[str], ...]
    is_negated: bool
    ignores_case: bool

    def take(self, character: str) -> bool:
        """Whether it is one of them."""
        forms = {character, character.lower(), character.upper()} if self.ignores_case else {character}
        return any(self._has(one) for one in forms if len(one) == 1) != self.is_negated

    def _has(self, character: str) -> bool:
        point = ord(character)
        place = bisect_right(self.starts, point) - 1
        return (place >= 0 and point <= self.ends[place]) or any(one.match(character) for one in self.sets)


def characters(text: str, *, ignores_case: bool) -> Characters:
    """What a position takes of which the pattern has this text. Raises NoClassError."""
    if text == ".":
        return Characters([0], [0x10FFFF], (), is_negated=False, ignores_case=False)
    if not text.startswith("[") or not CLASS.fullmatch(text):
        return _made([text], is_negated=False, ignores_case=ignores_case)
    is_negated = text.startswith("[^")
    items = _ITEM.findall(_NAMED.sub(_named, text[1 + is_negated : -1]))
    if not items:
        raise NoClassError(f"{text} has no end")
    return _made(items, is_negated=is_negated, ignores_case=ignores_case)


def _made(items: list[str], *, is_negated: bool, ignores_case: bool) -> Characters:
    ranges: list[tuple[int, int]] = []
    sets: dict[str, re.Pattern[str]] = {}
    place = 0
    while place < len(items):
        item = items[place]
        is_range = items[place + 1 : place + 2] == ["-"] and place + 2 < len(items)
        if item[0] == "\\" and item[1:] in _SETS:
            if is_range:
                raise NoClassError(f"{item!r} begins no range")
            sets[item] = _set(item)
            place += 1
            continue
        first, last = _point(item), _point(items[place + 2] if is_range else item)
        if last < first:
            raise NoClassError(f"{item}-{items[place + 2]} is no range")
        ranges.append((first, last))
        place += 3 if is_range else 1
    starts, ends = _merged(ranges)
    return Characters(starts, ends, tuple(sets.values()), is_negated, ignores_case)


def _merged(ranges: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    starts: list[int] = []
    ends: list[int] = []
    for first, last in sorted(ranges):
        if ends and first <= ends[-1] + 1:
            ends[-1] = max(ends[-1], last)
        else:
            starts.append(first)
            ends.append(last)
    return starts, ends


def _point(item: str) -> int:
    """The code point of what is one character. Raises NoClassError."""
    if item[0] != "\\" or len(item) == 1:
        return ord(item)
    escaped = item[1:]
    if len(escaped) > 1:
        return int(escaped[1:], 16)
    if escaped in _CONTROLS:
        return ord(_CONTROLS[escaped])
    if escaped.isalnum() and escaped.isascii():
        raise NoClassError(f"{item!r} is no character")
    return ord(escaped)


def _named(found: re.Match[str]) -> str:
    if found[1] not in _NAMED_CLASSES:
        raise NoClassError(f"there is no class of the name {found[1][:100]!r}")
    return _NAMED_CLASSES[found[1]]


@cache
def _set(item: str) -> re.Pattern[str]:
    return re.compile(item)
