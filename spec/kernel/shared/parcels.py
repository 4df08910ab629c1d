"""What shares of a search send to each other: the states that another one owns, and the values that it lacks."""

from __future__ import annotations

import pickle
import traceback
from array import array
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from tidegauge.spec.kernel.shared.values import Key, Peer

__all__ = ["Parcel", "Reached", "loaded_error", "packed_error"]

Reached: TypeAlias = tuple[int, int, int, Key, Key]
"""The first step to a state, its class of action, the size of the orbit, the state, and the orbit."""


class Parcel:
    """States for one share, with what led to them."""

    def __init__(self, reached: Sequence[Reached]) -> None:
        steps, kinds, sizes, keys, orbits = zip(*reached, strict=True) if reached else ((),) * 5
        self._steps, self._kinds, self._sizes = array("q", steps), array("h", kinds), array("Q", sizes)
        self._keys: Sequence[Key] = keys
        self.orbits: Sequence[Key] = orbits

    def __iter__(self) -> Iterator[Reached]:
        return zip(self._steps, self._kinds, self._sizes, self._keys, self.orbits, strict=True)

    def packed(self, peer: Peer[Any]) -> bytes:
        """As bytes, with what the peer has to learn first. Raises TypeError for what cannot be sent."""
        content: list[object] = [self._steps, self._kinds, self._sizes]
        for keys in (self._keys, self.orbits) if self.orbits != self._keys else (self._keys,):
            columns = peer.values.by_field(keys)
            content += [peer.definitions(columns), columns]
        return pickle.dumps(content, pickle.HIGHEST_PROTOCOL)

    @classmethod
    def read(cls, packed: bytes, peer: Peer[Any]) -> Parcel:
        """What a peer has sent, in the numbers of this process."""
        read = cls(())
        read._steps, read._kinds, read._sizes, *sent = pickle.loads(packed)
        keys = []
        for definitions, columns in zip(sent[::2], sent[1::2], strict=True):
            peer.learn(definitions)
            keys.append(peer.read(columns))
        read._keys, read.orbits = keys[0], keys[-1]
        return read


def packed_error(error: Exception) -> bytes:
    """An exception as bytes, with its traceback as a note; one that cannot be sent is told in words."""
    error.add_note("".join(["in a worker: ", *traceback.format_exception(error)]).rstrip())
    try:
        packed = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
        pickle.loads(packed)
    except Exception:
        told = RuntimeError(f"{type(error).__name__}: {error}")
        told.__notes__ = error.__notes__
        return pickle.dumps(told, pickle.HIGHEST_PROTOCOL)
    return packed


def loaded_error(packed: bytes) -> Exception:
    """The exception of `packed_error`."""
    error: Exception = pickle.loads(packed)
    return error
