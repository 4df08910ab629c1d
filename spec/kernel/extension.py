"""How a machine is composed: a list of extensions, each of which may wrap the machine's rules.

A rule is a method of the machine. An extension wraps it by a method of the same name that takes the machine and the
*inner* rule before the rule's own arguments:

    def is_active(self, machine, inner, controller, broker):
        return inner(controller, broker) and broker not in OfflineReplicas.of(controller).brokers

The chain is resolved once, when the machine is made. The machine's own rule is the innermost, and the last extension of
the list is the outermost. A machine without extensions pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from types import FunctionType
from typing import ClassVar, Self, TypeVar

import attrs

from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.parts import Part

S = TypeVar("S")


@attrs.frozen
class Extension:
    """A part of a machine that the machine does not name: its fields are constants of the model."""

    requires: ClassVar[tuple[type[Extension], ...]] = ()
    """Extensions that must come earlier in the list."""
    action_types: ClassVar[tuple[type[Action], ...]] = ()
    refused_types: ClassVar[tuple[type[Action], ...]] = ()
    """Its classes of request that are enabled in no state."""
    part_types: ClassVar[tuple[type[Part], ...]] = ()
    """What it adds to states and messages."""

    @classmethod
    def of(cls, machine: Machine[S]) -> Self:
        """The machine's extension of this class. Raises TypeError if it has none."""
        try:
            found: Self = machine.__dict__["extension_by_class"][cls]
        except KeyError:
            raise TypeError(f"{machine.name} has no extension {cls.__name__}") from None
        return found


def extensions_of(machine: Machine[S]) -> tuple[Extension, ...]:
    """The machine's list of extensions; empty for a machine that takes none."""
    extensions: tuple[Extension, ...] = getattr(machine, "extensions", ())
    return extensions


def check_extensions(extensions: Sequence[Extension]) -> None:
    """Raise ValueError for a list that has an extension twice, or lacks one that another requires before itself."""
    earlier: list[Extension] = []
    for extension in extensions:
        name = type(extension).__name__
        if any(isinstance(extension, type(other)) or isinstance(other, type(extension)) for other in earlier):
            raise ValueError(f"the list of extensions has {name} twice")
        for needed in extension.requires:
            if not any(isinstance(other, needed) for other in earlier):
                raise ValueError(f"{name} requires {needed.__name__} earlier in the list of extensions")
        earlier.append(extension)


def wrap_rules(machine: Machine[S], extensions: Sequence[Extension], interface: type[Extension]) -> None:
    """Put the wrapped rules in the machine's place of its own.

    `interface` declares every rule that may be wrapped. Raises TypeError for a rule that it does not declare.
    """
    machine.__dict__["extension_by_class"] = {
        kind: extension for extension in extensions for kind in type(extension).__mro__
    }
    for extension in extensions:
        for name in wrapped_by(type(extension), interface):
            machine.__dict__[name] = partial(getattr(extension, name), machine, getattr(machine, name))


_WRAPPED: dict[tuple[type, type], tuple[str, ...]] = {}


def wrapped_by(kind: type[Extension], interface: type[Extension]) -> tuple[str, ...]:
    """The names of the rules that a class of extension wraps; found once, since machines are made in every walk."""
    found = _WRAPPED.get((kind, interface))
    if found is None:
        found = _WRAPPED[kind, interface] = _found_wrapped_by(kind, interface)
    return found


def _found_wrapped_by(kind: type[Extension], interface: type[Extension]) -> tuple[str, ...]:
    declared, rules = set(_rules(interface)), tuple(_rules(kind))
    for name in rules:
        if name not in declared:
            raise TypeError(f"{kind.__name__} wraps {name}, but {interface.__name__} declares no such rule")
    return tuple(name for name in rules if getattr(kind, name) is not getattr(interface, name))


def _rules(kind: type[Extension]) -> Iterator[str]:
    """Methods that take the machine and the inner rule."""
    for name in dir(kind):
        method = getattr(kind, name)
        if isinstance(method, FunctionType) and method.__code__.co_varnames[1:3] == ("machine", "inner"):
            yield name
