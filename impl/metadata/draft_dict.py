"""A dict of a draft image: the draft's own changes over the original's dict, which is neither copied nor changed.

A draft is made with every decision that writes a record. So its topics and the partitions of a topic are such dicts:
making one costs the same with one item and with 10,000. `[]` is what decisions ask most; of an item that the draft has
changed it is a plain dict's.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class DraftDict(dict[Key, Value]):
    """What the draft has changed or added, by key; as a mapping it has the original's other items too."""

    __slots__ = ("_original", "_removed")

    def __init__(self, original: dict[Key, Value]) -> None:
        self._original = original
        self._removed: set[Key] | None = None

    def merge(self) -> dict[Key, Value]:
        """The original with the changes made in it, in order of insertion; this object is void then."""
        for key in self._removed or ():
            del self._original[key]
        dict.update(self._original, dict.items(self))
        return self._original

    def __missing__(self, key: Key) -> Value:
        if self._removed is not None and key in self._removed:
            raise KeyError(key)
        return self._original[key]

    def __contains__(self, key: object) -> bool:
        if dict.__contains__(self, key):
            return True
        return key in self._original and (self._removed is None or key not in self._removed)

    def __iter__(self) -> Iterator[Key]:
        removed = self._removed or ()
        for key in self._original:
            if key not in removed:
                yield key
        for key in dict.keys(self):
            if key in removed or key not in self._original:
                yield key

    def __len__(self) -> int:
        removed = self._removed or ()
        added = sum(1 for key in dict.keys(self) if key in removed or key not in self._original)
        return len(self._original) - len(removed) + added

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == other

    __hash__ = None

    def __delitem__(self, key: Key) -> None:
        if key not in self:
            raise KeyError(key)
        dict.pop(self, key, None)
        if key in self._original:
            if self._removed is None:
                self._removed = set()
            self._removed.add(key)

    def pop(self, key: Key, default: Any = None) -> Any:
        """Remove an item; returns its value, or the default."""
        value = self.get(key, default)
        if key in self:
            del self[key]
        return value

    def get(self, key: Key, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def keys(self) -> KeysView[Key]:  # type: ignore[override]
        return KeysView(self)

    def values(self) -> ValuesView[Value]:  # type: ignore[override]
        return ValuesView(self)

    def items(self) -> ItemsView[Key, Value]:  # type: ignore[override]
        return ItemsView(self)
