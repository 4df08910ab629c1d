"""A binding that is compared with the specification by the names of its attributes.

Where an implementation has, or can be given, an attribute for each field of the machine's state, nothing need be said
of how to read it. A list counts as the tuple of its items, a set as a frozenset.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

import attrs

from tidegauge.spec.kernel.machine import Action

S = TypeVar("S", bound=attrs.AttrsInstance)


class FieldByField(ABC, Generic[S]):
    """A binding whose attributes (or properties) have the names of the fields of the state."""

    not_compared: ClassVar[frozenset[str]] = frozenset()
    """Fields that only serve the specification's invariants, and have no counterpart."""

    @abstractmethod
    def perform(self, action: Action, before: S) -> None:
        """Perform `action`, which is enabled in the specification's state `before`."""

    def abstraction(self, state: S) -> S:
        """The attributes as a state of the machine. Raises TypeError for a field that the binding does not have."""
        compared = [field.name for field in attrs.fields(type(state)) if field.name not in self.not_compared]
        if missing := [name for name in compared if not hasattr(self, name)]:
            raise TypeError(
                f"{type(self).__name__} lacks {', '.join(missing)} of {type(state).__name__}: "
                "give it attributes of these names, or name them in not_compared"
            )
        copied = {name: getattr(state, name) for name in self.not_compared}
        kind: Callable[..., S] = type(state)
        return kind(**copied, **{name: frozen(getattr(self, name)) for name in compared})

    def close(self) -> None:
        """Nothing is to be given back, unless a subclass says so."""


def frozen(value: object) -> object:
    """A value as a state of a machine has it."""
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    return frozenset(map(frozen, value)) if isinstance(value, set | frozenset) else value
