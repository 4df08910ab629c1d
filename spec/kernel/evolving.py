"""`evolve` of attrs for states, six times as fast: which fields are copied is compiled once for each set of changes.

A state is copied with some of its fields changed two or three times a step, so exploring and lockstep spend much of
their time in it. A frozen class sets its fields through `object.__setattr__`, which takes longer than all else, so a
copy is made as an instance of a subclass that is not frozen, and then becomes one of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

__all__ = ["evolve", "evolved_by", "making"]

if TYPE_CHECKING:
    from attrs import evolve
else:

    def evolve(instance: Any, /, **changes: Any) -> Any:
        """A copy of an instance of an attrs class with these fields changed. Raises TypeError for other names."""
        return _copier(instance.__class__, *changes)(instance, changes)


@cache
def _copier(kind: type, *changed: str) -> Callable[[Any, dict[str, Any]], Any]:
    import attrs

    fields = {field.alias: field.name for field in attrs.fields(kind) if field.init}
    own = _COPIERS.get(kind)
    if unknown := set(changed) - fields.keys():
        raise TypeError(f"{kind.__name__} has no field {sorted(unknown)[0]!r}; it has {', '.join(fields)}")
    if own is not None:
        return own
    values = {alias: f"new[{alias!r}]" if alias in changed else f"old.{name}" for alias, name in fields.items()}
    lines, names = making(kind, values)
    exec("\n    ".join(["def copied(old, new):", *lines, "return made"]), names)
    found: Callable[[Any, dict[str, Any]], Any] = names["copied"]
    return found


def making(kind: type, values: Mapping[str, str]) -> tuple[list[str], dict[str, Any]]:
    """Lines of code that have `made` be an instance of an attrs class, and the names that they need.

    `values`: by the alias of each field an expression.
    """
    import attrs

    if not _only_keeps_its_fields(kind):
        return [f"made = kind({', '.join(f'{alias}={value}' for alias, value in values.items())})"], {"kind": kind}
    names = {field.alias: field.name for field in attrs.fields(kind)}
    lines = [f"made.{names[alias]} = {value}" for alias, value in values.items()]
    if _CACHED_HASH in kind.__slots__:  # type: ignore[attr-defined]
        lines.append(f"made.{_CACHED_HASH} = None")
    needed = {"kind": kind, "make": object.__new__, "Unfrozen": _unfrozen(kind)}
    return ["made = make(Unfrozen)", *lines, "made.__class__ = kind"], needed


_COPIERS: dict[type, Callable[[Any, dict[str, Any]], Any]] = {}


def evolved_by(kind: type, copier: Callable[[Any, dict[str, Any]], Any]) -> None:
    """Have `evolve` copy instances of the class by `copier`, which is given the instance and its changes by alias."""
    _COPIERS[kind] = copier


_CACHED_HASH = "_attrs_cached_hash"
"""Where attrs keeps the hash of an instance."""


def _only_keeps_its_fields(kind: type) -> bool:
    """Whether making an instance sets its fields, and does nothing else."""
    import attrs

    return (
        "__slots__" in vars(kind)
        and kind.__dictoffset__ == 0
        and not hasattr(kind, "__attrs_post_init__")
        and not hasattr(kind, "__attrs_pre_init__")
        and all(field.init and field.converter is None and field.validator is None for field in attrs.fields(kind))
    )


@cache
def _unfrozen(kind: type) -> type:
    """A subclass of the same layout whose fields can be set."""
    able = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    return type(kind.__name__, (kind,), {"__slots__": (), **able})
