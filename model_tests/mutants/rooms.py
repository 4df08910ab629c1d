"""The rooms whose rules are changed: their files, their tests, and how many of their mutants are to be killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from tidegauge.model_tests.mutants.operators import Mutant, SourceModule, mutants_of
from tidegauge.model_tests.mutants.patching import ROOT, source_module


@attrs.frozen
class Room:
    """Files of one kind of rule."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    """Folders and files of its unit tests."""

    def modules(self) -> tuple[SourceModule, ...]:
        return tuple(map(source_module, self.files))


def _folder(path: str, *but: str) -> tuple[str, ...]:
    files = (file.relative_to(ROOT).as_posix() for file in sorted((ROOT / path).glob("*.py")))
    return tuple(file for file in files if Path(file).name not in {"__init__.py", *but})


_WITHOUT_SPECIFICATION: Final = (
    "acls.py",
    "client_quotas.py",
    "config.py",
    "configs.py",
    "producer_ids.py",
    "scram_credentials.py",
)
"""What the controller keeps that no machine of `spec/` has, or only as one number."""

ROOMS: Final = (
    Room("partition", _folder("impl/partition"), ("model_tests/partition",)),
    Room("controller", _folder("impl/controller", *_WITHOUT_SPECIFICATION), ("model_tests/controller",)),
    Room(
        "controller's settings",
        tuple(f"impl/controller/{name}" for name in _WITHOUT_SPECIFICATION),
        ("model_tests/controller",),
    ),
    Room(
        "recovery",
        tuple(
            f"impl/storage/{name}.py"
            for name in ("recovery", "epoch_recovery", "survey", "damage", "surviving_logs", "strays")
        ),
        ("model_tests/storage",),
    ),
)


def mutants(room: Room) -> Iterator[Mutant]:
    """Every mutant that an operator makes of a room."""
    for module in room.modules():
        yield from mutants_of(module)
