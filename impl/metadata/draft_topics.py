"""The topics of a draft image: its own changes over the original's topics, which are neither copied nor changed.

A draft is made with every decision that writes a record, so making one costs the same with one topic and with 10,000.
`[]` is what decisions ask most; of a topic that the draft has changed it is a plain dict's.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any, TypeVar

Topic = TypeVar("Topic")


class DraftTopics(dict[str, Topic]):
    """What the draft has changed or created, by name; as a mapping it has the original's other topics too."""

    def __init__(self, original: dict[str, Topic]) -> None:
        super().__init__()
        self._original = original
        self._removed: set[str] = set()

    def merge(self) -> dict[str, Topic]:
        """The original with the changes made in it, in order of creation; this object is void then."""
        for name in self._removed:
            del self._original[name]
        dict.update(self._original, zip(dict.keys(self), dict.values(self), strict=True))
        return self._original

    def __missing__(self, name: str) -> Topic:
        if name in self._removed:
            raise KeyError(name)
        return self._original[name]

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or (name not in self._removed and name in self._original)

    def __iter__(self) -> Iterator[str]:
        for name in self._original:
            if name not in self._removed:
                yield name
        for name in dict.keys(self):
            if name in self._removed or name not in self._original:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == other

    __hash__ = None

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        dict.pop(self, name, None)
        if name in self._original:
            self._removed.add(name)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        return KeysView(self)

    def values(self) -> ValuesView[Topic]:  # type: ignore[override]
        return ValuesView(self)

    def items(self) -> ItemsView[str, Topic]:  # type: ignore[override]
        return ItemsView(self)
