"""Words that a step gives the value of another word: a batch that is committed moves from where it waited into the log.

What a step only moves it need not read: such a step is one outcome, whatever the words hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from tidegauge.spec.kernel.fast.nodes import Branch, Choice, Keyed, Leaf, Listing, Node, Row

__all__ = ["Copied", "Copies", "Gone", "Moved", "is_unread"]


@attrs.frozen
class Copied:
    """The value that a word had before the step."""

    word: int


class Moved:
    """The words of a place whose values another place of the same classes will have."""

    def __init__(self) -> None:
        self.words: list[tuple[int, Copied]] = []
        """The words that change, each with the one that is copied."""
        self.shapes: list[int] = []
        """Those that are copied which say how long a tuple is, or of which class a value."""
        self.spans: list[tuple[int, int]] = []
        """Where those that are copied begin, and where they end."""


class Gone:
    """The words of a place where nothing is any more."""

    def __init__(self, words: Sequence[int], shapes: Sequence[int]) -> None:
        self.words, self.shapes = words, shapes
        """`shapes`: those that say how long a tuple is, or of which class a value."""
        self.spans = _spans(words)


def is_unread(spans: Iterable[tuple[int, int]], is_read: bytearray) -> bool:
    """Whether none of these words has been read."""
    for first, end in spans:  # noqa: SIM110 - a generator takes as long as all that it asks
        if is_read.find(1, first, end) >= 0:
            return False
    return True


def _spans(words: Iterable[int]) -> list[tuple[int, int]]:
    """Where words that follow each other begin, and where they end."""
    found: list[tuple[int, int]] = []
    for word in sorted(words):
        if found and found[-1][1] == word:
            found[-1] = found[-1][0], word + 1
        else:
            found.append((word, word + 1))
    return found


class Copies:
    """How each place of a layout is copied to another one."""

    def __init__(self) -> None:
        self._known: dict[tuple[Node, Node], Moved | None] = {}
        self._below: dict[Node, Gone] = {}

    def forget(self) -> None:
        """Tuples have become longer."""
        self._known.clear()
        self._below.clear()

    def below(self, node: Node) -> Gone:
        """The words of a node."""
        found = self._below.get(node)
        if found is None:
            shapes = _shapes(node)
            inner = [self.below(child) for child in _children(node)]
            words = [node.word] if isinstance(node, Leaf) else [*shapes]
            words += [word for its in inner for word in its.words]
            found = self._below[node] = Gone(words, [*shapes, *(shape for its in inner for shape in its.shapes)])
        return found

    def of(self, node: Node, source: Node, is_read: bytearray) -> Moved | None:
        """The words of `node`, each with that of `source` whose value it will have; None where these do not fit.

        Where it is known how long a tuple is, or of which class a value, it is copied by its parts: None as well.
        """
        key = node, source
        if key in self._known:
            found = self._known[key]
        else:
            found = self._known[key] = _paired(node, source)
            if found is not None:
                found.spans = _spans(by.word for _, by in found.words)
        return None if found is None or any(is_read[word] for word in found.shapes) else found


def _paired(node: Node, source: Node) -> Moved | None:
    if type(node) is not type(source) or node.piecemeal or source.piecemeal or isinstance(node, Keyed):
        return None
    found = Moved()
    if isinstance(node, Leaf) and isinstance(source, Leaf):
        found.words.append((node.word, Copied(source.word)))
    elif isinstance(node, Listing) and isinstance(source, Listing):
        if not node.field or node.field != source.field:
            return None
    elif isinstance(node, Choice) and isinstance(source, Choice):
        if [*node.children] != [*source.children]:
            return None
    elif isinstance(node, Branch) and isinstance(source, Branch) and node.kind is not source.kind:
        return None
    found.shapes.extend(_shapes(source))
    found.words.extend((word, Copied(other)) for word, other in zip(_shapes(node), found.shapes, strict=True))
    own, others = _children(node), _children(source)
    for child, other in zip(own, others, strict=False):
        inner = _paired(child, other)
        if inner is None:
            return None
        found.words.extend(inner.words)
        found.shapes.extend(inner.shapes)
    return found if len(own) == len(others) else None


def _shapes(node: Node) -> Sequence[int]:
    return [node.length] if isinstance(node, Listing) else [node.choice] if isinstance(node, Choice) else []


def _children(node: Node) -> Sequence[Node]:
    if isinstance(node, Choice):
        return [*node.children.values()]
    return node.children if isinstance(node, Branch | Row | Listing) else ()
