"""How the values of decisions are printed: the same in every process, whatever its hash seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import NoneType
from typing import Any, Final, TypeAlias

import attrs

Printer: TypeAlias = Callable[[Any], str]
"""How the values of one class are printed."""
_PRINTERS: Final[dict[type, Printer]] = {}
"""By class, once one of its values was printed: a trace has few classes and many values."""


def plain(value: object) -> str:
    """A field's value in print: sets sorted, classes as (name=value, …)."""
    kind = type(value)
    printer = _PRINTERS.get(kind)
    if printer is None:
        printer = _PRINTERS[kind] = _printer_of(kind)
    return printer(value)


def _printer_of(kind: type) -> Printer:
    """What prints a value of a class."""
    if kind in (int, bool, str, NoneType):
        return str
    if attrs.has(kind):
        return partial(_plain_fields, tuple(field.name for field in attrs.fields(kind)))
    if issubclass(kind, frozenset):
        return lambda value: plain(tuple(sorted(value)))
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        return _plain_tuple if names is None else partial(_plain_fields, names)
    return _plain_mapping if issubclass(kind, Mapping) else _plain_name


def _plain_fields(names: tuple[str, ...], value: object) -> str:
    return "(" + ", ".join([f"{name}={plain(getattr(value, name))}" for name in names]) + ")"


def _plain_tuple(value: tuple[object, ...]) -> str:
    return "(" + ", ".join([plain(one) for one in value]) + ")"


def _plain_mapping(value: Mapping[object, object]) -> str:
    return "{" + ", ".join([f"{plain(key)}: {plain(one)}" for key, one in value.items()]) + "}"


def _plain_name(value: object) -> str:
    """The name of a value that has one, as those of an enumeration have."""
    return getattr(value, "name", None) or str(value)
