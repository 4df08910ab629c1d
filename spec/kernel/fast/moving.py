"""Words that a step gives the value of another word: a batch that is committed moves from where it waited into the log.

What a step only moves it need not read: such a step is one outcome, whatever the words hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from tidegauge.spec.kernel.fast.nodes import Branch, Choice, Leaf, Listing, Node, Row

__all__ = ["Copied", "Copies"]


@attrs.frozen
class Copied:
    """The value that a word had before the step."""

    word: int


@attrs.frozen
class _Pairs:
    """The words of two places that hold the same classes."""

    words: list[tuple[int, Copied]]
    shapes: list[int]
    """Those of the one that is copied which say how long a tuple is, or of which class a value."""


class Copies:
    """How each place of a layout is copied to another one."""

    def __init__(self) -> None:
        self._known: dict[tuple[Node, Node], _Pairs | None] = {}
        self._below: dict[Node, tuple[Sequence[int], Sequence[int]]] = {}

    def forget(self) -> None:
        """Tuples have become longer."""
        self._known.clear()
        self._below.clear()

    def below(self, node: Node) -> tuple[Sequence[int], Sequence[int]]:
        """The words of a node, and those of them that say how long a tuple is, or of which class a value."""
        found = self._below.get(node)
        if found is None:
            shapes = _shapes(node)
            inner = [self.below(child) for child in _children(node)]
            words = [node.word] if isinstance(node, Leaf) else [*shapes]
            words += [word for its, _ in inner for word in its]
            found = self._below[node] = words, [*shapes, *(shape for _, its in inner for shape in its)]
        return found

    def of(self, node: Node, source: Node, is_read: Sequence[int]) -> Sequence[tuple[int, Copied]] | None:
        """The words of `node`, each with that of `source` whose value it will have; None where these do not fit.

        Where it is known how long a tuple is, or of which class a value, it is copied by its parts: None as well.
        """
        key = node, source
        if key in self._known:
            found = self._known[key]
        else:
            found = self._known[key] = _paired(node, source)
        return None if found is None or any(is_read[word] for word in found.shapes) else found.words


def _paired(node: Node, source: Node) -> _Pairs | None:
    if type(node) is not type(source) or node.piecemeal or source.piecemeal:
        return None
    found = _Pairs([], [])
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
