"""The rooms whose rules are changed: their files, their tests, and how many of their mutants are to be killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from tidegauge.model_tests.mutants.operators import Mutant, SourceModule, mutants_of
from tidegauge.model_tests.mutants.patching import ROOT, source_module
from tidegauge.model_tests.mutants.rings import LOCKSTEP_TESTS, Ring


@attrs.frozen
class Room:
    """Files of one kind of rule."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    """Folders and files of its own tests: unit tests, or what the explorer finds of a specification."""
    rings: tuple[Ring, ...] = (Ring.CORES, Ring.CLUSTER, Ring.SIMULATION, Ring.UNIT)
    """In the order in which they try a mutant."""

    def has(self, file: str | None) -> bool:
        """Whether a part tries its mutants: any part that is no test, a test of lockstep, and its own tests."""
        return file is None or file == LOCKSTEP_TESTS or file.startswith(self.tests)

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

_SPEC_TESTS: Final = "model_tests/spec"
_OF_EVERY_MACHINE: Final = tuple(f"{_SPEC_TESTS}/test_{name}.py" for name in ("goals", "guards", "properties", "steps"))
"""Tests that try all machines."""


def _specification(name: str, folder: str, tests: tuple[str, ...], *but: str) -> Room:
    """A folder of the specification: the explorer tries a change of it first, then lockstep on cores."""
    return Room(f"spec: {name}", _folder(f"spec/{folder}", *but), (*tests, *_OF_EVERY_MACHINE), (Ring.SPEC, Ring.CORES))


ROOMS: Final = (
    Room("partition", _folder("impl/partition"), ("model_tests/partition",)),
    Room("controller", _folder("impl/controller", *_WITHOUT_SPECIFICATION), ("model_tests/controller",)),
    Room(
        "controller's settings",
        tuple(f"impl/controller/{name}" for name in _WITHOUT_SPECIFICATION),
        ("model_tests/controller",),
    ),
    Room(
        "transaction coordinator",
        _folder("impl/coordinators/transactions", "metadata.py", "messages.py"),
        ("model_tests/coordinators/transactions",),
        (Ring.CORES, Ring.UNIT),
    ),
    Room(
        "recovery",
        tuple(
            f"impl/storage/{name}.py"
            for name in ("recovery", "epoch_recovery", "survey", "damage", "surviving_logs", "strays")
        ),
        ("model_tests/storage",),
    ),
    _specification(
        "replication",
        "replication",
        (f"{_SPEC_TESTS}/replication/test_", f"{_SPEC_TESTS}/bugs"),
        "models.py",
    ),
    _specification(
        "extensions",
        "replication/extensions",
        (f"{_SPEC_TESTS}/replication/extensions", f"{_SPEC_TESTS}/replication/test_composed.py", f"{_SPEC_TESTS}/bugs"),
    ),
    *(
        _specification(name, name, (f"{_SPEC_TESTS}/{name}",), "models.py")
        for name in ("idempotence", "transactions", "offsets", "compaction", "recovery", "membership", "authentication")
    ),
    _specification("classic groups", "groups/classic", (f"{_SPEC_TESTS}/groups",), "models.py"),
    _specification("KIP-320", "published/kip320", (f"{_SPEC_TESTS}/published",)),
)


def mutants(room: Room) -> Iterator[Mutant]:
    """Every mutant that an operator makes of a room."""
    for module in room.modules():
        yield from mutants_of(module)
