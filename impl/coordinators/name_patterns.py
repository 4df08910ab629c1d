r"""Patterns of names, as clients send them: regular expressions that are matched in one pass over the name.

They are for transactional ids (KIP-1152) and topics (KIP-848). A client chooses the pattern, so matching must not go
back, as Python's `re` does: `(a+)+$` would keep a broker for years. As in RE2, which Kafka takes, there are no back
references and no look-around. The pattern becomes an automaton whose states are its *positions* (Glushkov): each takes
one character. A set of positions is an int, a bit for each::

    first    where a match may begin
    joins    pairs: of which positions, where it may go on
    last     where it may end

A pattern of few characters may have all the positions that there may be, so neither making it nor a step goes through
pairs of them. A long text is matched in slices.

`^` and `$` take none: what stands before a `^` cannot be reached, and nothing follows a `$`, unless it takes none too.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import Final, NamedTuple, TypeAlias

from tidegauge.impl.coordinators.name_classes import CLASS, Characters, NoClassError, characters
from tidegauge.impl.records.slices import Sliced, at_once

MOST_POSITIONS: Final = 250
"""After repetitions are written out; this bounds the work for one character."""
MOST_NODES: Final = 4 * MOST_POSITIONS
"""Characters, groups and repetitions, before and after these are written out."""
MOST_CHARACTERS: Final = 4_000
"""Of a pattern; all but 250 of them in classes."""
MOST_NESTED: Final = 50
STEP: Final = 50
"""Characters of a text that are matched in one step."""
_FLAGS: Final = re.compile(r"\(\?([is]+)\)")
"""At the beginning of a pattern: `i` for letters of either case; `s`, which is so anyway."""
_GROUP: Final = re.compile(r"\?:|\?P?<[A-Za-z]\w*>")
_REPEAT: Final = re.compile(r"([*+?]|\{(\d{1,4})(?:(,)(\d{1,4})?)?\})\??")
_ANCHORS: Final = {"^": True, r"\A": True, "$": False, r"\z": False}
"""What takes no character; whether that is at the beginning of the name, and not at its end."""
_NOT_A_CHARACTER: Final = frozenset("bBAZzG0123456789")
"""What an escape must not be followed by: it would ask where the name is, or what was matched before."""


class PatternError(ValueError):
    """A pattern that is none, or that cannot be matched in one pass."""


class _Atom(NamedTuple):
    """One character that this takes."""

    takes: str


class _Anchor(NamedTuple):
    """No character, at the beginning or at the end of the name."""

    is_beginning: bool


class _Sequence(NamedTuple):
    parts: list[_Node]


class _Choice(NamedTuple):
    options: list[_Node]


class _Repeat(NamedTuple):
    part: _Node
    least: int
    most: int | None


_Node: TypeAlias = _Atom | _Anchor | _Sequence | _Choice | _Repeat


class _Part(NamedTuple):
    """Of a part of the pattern: where it may begin and end, and where it matches nothing too."""

    first: int
    first_of_all: int
    """Where it may begin when it begins the name."""
    last: int
    last_of_all: int
    """Where it may end when it ends the name."""
    is_optional: int
    """A set of the four places below."""


_WITHIN, _AT_BEGINNING, _AT_END, _ALONE = 1, 2, 4, 8
"""Where a part is: characters are before and after it, only after, only before, or there are none."""
_ANYWHERE: Final = _WITHIN | _AT_BEGINNING | _AT_END | _ALONE
_NOTHING: Final = _Part(0, 0, 0, 0, _ANYWHERE)


class NamePattern:
    """A pattern, ready to be matched."""

    def __init__(self, source: str) -> None:
        """Raises PatternError."""
        if len(source) > MOST_CHARACTERS:
            raise PatternError(f"the pattern has {len(source)} characters, more than {MOST_CHARACTERS}")
        flags = _FLAGS.match(source)
        reader = _Reader(source, flags.end() if flags else 0, len(source))
        node = reader.choice(0)
        if reader.position < len(source):
            raise PatternError(f"{source[:100]!r}: a bracket at {reader.position} has no beginning")
        self._ignores_case = bool(flags and "i" in flags[1])
        self._places: dict[str, int] = {}
        """Where each text stands that takes a character."""
        self._positions = 0
        self._joined_parts: dict[tuple[int, int], None] = {}
        self.work = 0
        """Parts that were put together, repetitions written out."""
        self._whole = self._part(node)
        self._takes = [(self._characters(takes), places) for takes, places in self._places.items()]
        self._joins = [*self._joined_parts]
        self._units = 1 + (len(self._joins) + len(self._takes)) // 15
        self._taking: dict[str, int] = {}
        self._reached: dict[int, int] = {}

    def matches(self, text: str) -> bool:
        """Whether it matches all of the text."""
        return at_once(self.matching(text))

    def matching(self, text: str) -> Sliced[bool]:
        """The same, in slices."""
        expected, reached = self._whole.first_of_all, 0
        for start in range(0, len(text), STEP):
            part = text[start : start + STEP]
            for character in part:
                taking = self._taking.get(character)
                if taking is None:
                    taking = self._taken_by(character)
                reached = expected & taking
                if not reached:
                    return False
                followed = self._reached.get(reached)
                expected = self._after(reached) if followed is None else followed
            yield len(part) * self._units
        return bool(reached & self._whole.last_of_all if text else self._whole.is_optional & _ALONE)

    def _taken_by(self, character: str) -> int:
        found = 0
        for takes, places in self._takes:
            if takes.take(character):
                found |= places
        if len(self._taking) < MOST_POSITIONS:
            self._taking[character] = found
        return found

    def _after(self, reached: int) -> int:
        found = 0
        for before, after in self._joins:
            if before & reached:
                found |= after
        if len(self._reached) < MOST_POSITIONS:
            self._reached[reached] = found
        return found

    def _characters(self, takes: str) -> Characters:
        try:
            return characters(takes, ignores_case=self._ignores_case)
        except NoClassError as error:
            raise PatternError(f"{takes[:100]!r} takes no character: {error}") from None

    # --- the automaton -----------------------------------------------------------------------------------------------

    def _part(self, node: _Node) -> _Part:
        self.work += 1
        if self.work > MOST_NODES or (isinstance(node, _Atom) and self._positions == MOST_POSITIONS):
            raise PatternError(f"the pattern takes more than {MOST_POSITIONS} positions: repeat less in it")
        match node:
            case _Atom(takes):
                bit = 1 << self._positions
                self._positions += 1
                self._places[takes] = self._places.get(takes, 0) | bit
                return _Part(bit, bit, bit, bit, 0)
            case _Anchor(is_beginning):
                return _NOTHING._replace(is_optional=_ALONE | (_AT_BEGINNING if is_beginning else _AT_END))
            case _Choice(options):
                first, *others = (self._part(one) for one in options)
                return reduce(_either, others, first)
            case _Sequence(nodes):
                whole = _NOTHING
                for one in nodes:
                    whole = self._joined(whole, self._part(one))
                return whole
            case _Repeat(part, least, most):
                return self._repeated(part, least, most)

    def _repeated(self, node: _Node, least: int, most: int | None) -> _Part:
        whole = _NOTHING
        for _ in range(least - 1 if most is None else least):
            whole = self._joined(whole, self._part(node))
        if most is None:
            again = self._part(node)
            self._joined(again, again)
            return self._joined(whole, again if least else again._replace(is_optional=_ANYWHERE))
        for _ in range(most - least):
            whole = self._joined(whole, self._part(node)._replace(is_optional=_ANYWHERE))
        return whole

    def _joined(self, before: _Part, after: _Part) -> _Part:
        if before.last and after.first:
            self._joined_parts[before.last, after.first] = None
        return _Part(
            before.first | (after.first if before.is_optional & _WITHIN else 0),
            before.first_of_all | (after.first_of_all if before.is_optional & _AT_BEGINNING else 0),
            after.last | (before.last if after.is_optional & _WITHIN else 0),
            after.last_of_all | (before.last_of_all if after.is_optional & _AT_END else 0),
            before.is_optional & after.is_optional,
        )


def _either(one: _Part, other: _Part) -> _Part:
    return _Part(*(each | also for each, also in zip(one, other, strict=True)))


class _Reader:
    """Reads a pattern. Each method raises PatternError."""

    def __init__(self, source: str, position: int, end: int) -> None:
        self._source = source
        self.position = position
        self._end = end
        self._nodes = 0

    def _peek(self) -> str:
        return self._source[self.position] if self.position < self._end else ""

    def choice(self, nested: int) -> _Node:
        if nested > MOST_NESTED:
            raise PatternError(f"groups are nested more than {MOST_NESTED} times")
        options = [self._sequence(nested)]
        while self._peek() == "|":
            self.position += 1
            options.append(self._sequence(nested))
        return options[0] if len(options) == 1 else _Choice(options)

    def _sequence(self, nested: int) -> _Node:
        parts: list[_Node] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeat(self._atom(nested)))
        return _Sequence(parts)

    def _repeat(self, part: _Node) -> _Node:
        found = _REPEAT.match(self._source, self.position, self._end)
        if found is None:
            return part
        self.position = found.end()
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(found[1], (int(found[2] or 0), None))
        if found[2]:
            most = least if not found[3] else int(found[4]) if found[4] else None
        if most is not None and most < least:
            raise PatternError(f"{found[0]!r} repeats from more to less")
        return _Repeat(part, least, most)

    def _atom(self, nested: int) -> _Node:
        start, character = self.position, self._peek()
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise PatternError(f"the pattern has more than {MOST_NODES} characters and groups")
        if character == "(":
            return self._group(nested)
        if character in "*+?":
            raise PatternError(f"{character!r} at {start} has nothing to repeat")
        if character == "[":
            found = CLASS.match(self._source, start, self._end)
            if found is None:
                raise PatternError(f"the class at {start} has no end, or a class in it")
            self.position = found.end()
            return _Atom(found[0])
        self.position += 2 if character == "\\" else 1
        takes = self._source[start : self.position]
        if takes in _ANCHORS:
            return _Anchor(_ANCHORS[takes])
        if self.position > self._end or takes[1:] in _NOT_A_CHARACTER:
            raise PatternError(f"{takes!r} at {start} takes no character")
        return _Atom(takes)

    def _group(self, nested: int) -> _Node:
        start = self.position
        self.position += 1
        if self._peek() == "?":
            found = _GROUP.match(self._source, self.position, self._end)
            if found is None:
                raise PatternError(f"the group at {start} asks for what needs more than one pass")
            self.position = found.end()
        inner = self.choice(nested + 1)
        if self._peek() != ")":
            raise PatternError(f"the group at {start} has no end")
        self.position += 1
        return inner
