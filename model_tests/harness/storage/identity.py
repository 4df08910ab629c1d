"""What a checkpoint is of: a machine with its constants, how it is searched, and the code that does it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.machine import Machine, constants_of

__all__ = ["differences", "identity_of"]

TOLD = 3
"""So many differences besides the machine are told."""
_SPEC = Path(__file__).resolve().parents[3] / "spec"


def identity_of(machine: Machine[Any], **how: object) -> dict[str, str]:
    """Name, constants and bounds of a machine, the options of its search, and a hash of the source of its rules."""
    kinds = ", ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in machine.kinds)
    constants = {name: plain(value) for name, value in constants_of(machine).items()}
    options = {name: str(value) for name, value in how.items()}
    return {"machine": kinds, **constants, **options, "source": _source_of(machine)}


def differences(saved: Mapping[str, str], asked: Mapping[str, str]) -> str:
    """In words what a checkpoint has and what is asked for, where they differ; empty where they do not."""
    names = [name for name in {**saved, **asked} if saved.get(name) != asked.get(name)]
    if names == ["source"]:
        return "the specification's source has changed since"
    told = [
        f"{name}={saved.get(name, 'none')}, not {asked.get(name, 'none')}"
        for name in names
        if name not in {"machine", "source"}
    ]
    if len(told) > TOLD:
        told[TOLD:] = [f"and {len(told) - TOLD} more"]
    if "machine" in names:
        told.insert(0, "the machine {}, not {}".format(*_short([saved.get("machine", ""), asked.get("machine", "")])))
    return "it is of " + "; ".join(told) if told else ""


def _short(kinds: Sequence[str]) -> Sequence[str]:
    """The names of machines' classes, without their modules if that tells the machines apart."""
    short = [", ".join(kind.rpartition(".")[2] for kind in each.split(", ")) for each in kinds]
    return kinds if len({*short}) == 1 else short


def _source_of(machine: Machine[Any]) -> str:
    """A hash of all files of the specifications and of the explorer, and of the machine's own where it is elsewhere."""
    found = {path.relative_to(_SPEC).as_posix(): path for path in _SPEC.rglob("*.py")}
    for kind in machine.kinds:
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        if file is not None and not Path(file).resolve().is_relative_to(_SPEC):
            found[kind.__module__] = Path(file)
    hashed = hashlib.sha256()
    for name, path in sorted(found.items()):
        hashed.update(f"{name}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return hashed.hexdigest()
