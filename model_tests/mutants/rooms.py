"""The rooms whose rules are changed: their files, their tests, and how many of their mutants are to be killed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import attrs

from tidegauge.model_tests.mutants.operators import Function, Mutant, SourceModule, mutants_of
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
    is_protocol: bool | None = None
    """Whether only its rules of protocols are changed, or only what is none; None: all its functions."""

    def changes(self, function: Function) -> bool:
        """Whether mutants of the function are mutants of the room."""
        return self.is_protocol is None or _is_protocol(function) is self.is_protocol

    def has(self, file: str | None) -> bool:
        """Whether a part tries its mutants: any part that is no test, a test of lockstep, and its own tests."""
        return file is None or file in LOCKSTEP_TESTS or file.startswith(self.tests)

    def modules(self) -> tuple[SourceModule, ...]:
        return tuple(map(source_module, self.files))


def _folder(path: str, *but: str) -> tuple[str, ...]:
    files = (file.relative_to(ROOT).as_posix() for file in sorted((ROOT / path).glob("*.py")))
    return tuple(file for file in files if Path(file).name not in {"__init__.py", *but})


_SETTINGS: Final = (
    "acls.py",
    "client_quotas.py",
    "config.py",
    "configs.py",
    "producer_ids.py",
    "scram_credentials.py",
)
"""What clients and operators set."""
NO_PROTOCOL: Final[Mapping[str, tuple[str, ...]]] = {
    "impl/controller/acls.py": ("",),
    "impl/controller/client_quotas.py": ("",),
    "impl/controller/config.py": ("",),
    "impl/controller/scram_credentials.py": ("",),
    "impl/controller/placement.py": ("",),
    "impl/controller/configs.py": (
        "Configs._name_error",
        "Configs._absence",
        "Configs._setting",
        "Configs._configs",
        "_differences",
    ),
    "impl/controller/features.py": ("Features._problem",),
    "impl/controller/requested_elections.py": ("misplaced_leaders",),
    "impl/controller/topics.py": ("Topics._topic_error", "Topics._colliding", "Topics._assignments_error"),
    "impl/coordinators/transactions/coordinator.py": (
        "TransactionCoordinator._init_error",
        "TransactionCoordinator.list_transactions",
    ),
    "impl/coordinators/transactions/listing.py": ("",),
    "impl/coordinators/transactions/log_format.py": ("version_of",),
    "impl/coordinators/transactions/metadata.py": ("TransactionStatus.kafka_name",),
    "impl/coordinators/groups/coordinator.py": ("GroupCoordinator._is_too_large",),
    "impl/coordinators/groups/classic/coordinator.py": ("ClassicGroups.join_error", "_fits"),
    "impl/coordinators/groups/classic/members.py": ("_said",),
    "impl/coordinators/groups/classic/turn.py": ("Turn.note",),
    "impl/coordinators/groups/consumer/coordinator.py": ("ConsumerGroups._why",),
    "impl/coordinators/groups/consumer/state.py": ("ConsumerGroup.state",),
    "impl/storage/strays.py": ("",),
    "impl/storage/noted_epochs.py": ("NotedEpochs.told",),
    "impl/storage/survey.py": ("_Reader.is_spent", "_Reader._is_plausible"),
}
"""Functions, by the beginning of their names, that are no rule of a protocol: no state of a machine depends on them.

They say how a request has to look (names, forms, limits), keep what only its own readers ask for (quotas, ACLs,
credentials, lists of transactions and of stray directories, what a log line says), choose among what is equally right
for every machine (placement, which leaders are worth moving), or save work (where a search looks at checksums, and when
it has looked at enough).
"""


def _is_protocol(function: Function) -> bool:
    """Whether a machine of `spec/` has what the function decides, whatever test knows of it."""
    without = NO_PROTOCOL.get(function.module.path, ())
    return not function.qualname.startswith(without)


_SPEC_TESTS: Final = "model_tests/spec"
_OF_EVERY_MACHINE: Final = tuple(f"{_SPEC_TESTS}/test_{name}.py" for name in ("goals", "teeth"))
"""Tests that try all machines, but those of what is observed on walks: these are a ring of their own."""


def _specification(name: str, folder: str, tests: tuple[str, ...], *but: str) -> Room:
    """A folder of the specification: what is observed on walks comes first, then the explorer, lockstep on cores."""
    rings = (Ring.OBSERVED, Ring.SPEC, Ring.CORES)
    return Room(f"spec: {name}", _folder(f"spec/{folder}", *but), (*tests, *_OF_EVERY_MACHINE), rings)


_RECOVERY: Final = tuple(
    f"impl/storage/{name}.py"
    for name in (
        "damage",
        "epoch_recovery",
        "interrupted_replacements",
        "left_out",
        "log_starts",
        "neighbours",
        "noted_epochs",
        "recovery",
        "recovery_points",
        "stray_segments",
        "strays",
        "survey",
        "surviving_logs",
        "transaction_recovery",
    )
)
"""What a log holds that is opened, and what is done to it."""

ROOMS: Final = (
    Room("partition", _folder("impl/partition"), ("model_tests/partition",)),
    Room("controller", _folder("impl/controller", *_SETTINGS), ("model_tests/controller",), is_protocol=True),
    Room(
        "controller's settings",
        tuple(f"impl/controller/{name}" for name in _SETTINGS),
        ("model_tests/controller",),
        is_protocol=True,
    ),
    Room("controller: no protocol", _folder("impl/controller"), ("model_tests/controller",), is_protocol=False),
    Room(
        "transaction coordinator",
        _folder("impl/coordinators/transactions"),
        ("model_tests/coordinators/transactions",),
        is_protocol=True,
    ),
    Room(
        "group coordinator",
        _folder("impl/coordinators/groups"),
        ("model_tests/coordinators/groups",),
        is_protocol=True,
    ),
    Room(
        "classic groups",
        _folder("impl/coordinators/groups/classic"),
        ("model_tests/coordinators/groups",),
        is_protocol=True,
    ),
    Room(
        "consumer groups",
        (*_folder("impl/coordinators/groups/consumer"), *_folder("impl/coordinators/groups/migration")),
        ("model_tests/coordinators/groups",),
        is_protocol=True,
    ),
    Room("coordinators", _folder("impl/coordinators"), ("model_tests/coordinators",)),
    Room(
        "coordinators: no protocol",
        tuple(path for path in NO_PROTOCOL if path.startswith("impl/coordinators/")),
        ("model_tests/coordinators",),
        is_protocol=False,
    ),
    Room(
        "clients",
        (
            *_folder("impl/client/assignors"),
            *(f"impl/client/{name}.py" for name in ("membership", "consumer_membership", "positions", "work_queues")),
        ),
        ("model_tests/client",),
        (Ring.CORES, Ring.UNIT),
    ),
    Room(
        "metadata",
        _folder("impl/metadata"),
        ("model_tests/metadata", "model_tests/controller"),
        (Ring.CORES, Ring.UNIT),
    ),
    Room("records", _folder("impl/records"), ("model_tests/records", "model_tests/wire"), (Ring.CORES, Ring.UNIT)),
    Room("recovery", _RECOVERY, ("model_tests/storage",), is_protocol=True),
    Room("recovery: no protocol", _RECOVERY, ("model_tests/storage",), (Ring.CORES, Ring.UNIT), is_protocol=False),
    Room(
        "cleaner",
        tuple(f"impl/storage/cleaner_{name}.py" for name in ("filter", "transactions")),
        ("model_tests/storage",),
        (Ring.CORES, Ring.UNIT),
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
        for name in (
            "idempotence",
            "transactions",
            "offsets",
            "compaction",
            "recovery",
            "membership",
            "authentication",
            "lag",
            "administration",
            "workers",
        )
    ),
    _specification("groups", "groups/classic", (f"{_SPEC_TESTS}/groups",), "models.py"),
    _specification("consumer groups", "groups/consumer", (f"{_SPEC_TESTS}/groups",), "models.py"),
    _specification("group migration", "groups/migration", (f"{_SPEC_TESTS}/groups",), "models.py"),
    _specification("group loading", "groups/loading", (f"{_SPEC_TESTS}/groups",)),
    _specification("KIP-320", "published/kip320", (f"{_SPEC_TESTS}/published",)),
    _specification("replication 3.5", "published/replication35", (f"{_SPEC_TESTS}/published",)),
    _specification("KIP-848", "published/kip848", (f"{_SPEC_TESTS}/published",)),
    _specification("transactions' diary", "published/transactions_diary", (f"{_SPEC_TESTS}/published",)),
    _specification("KRaft", "published/kraft", (f"{_SPEC_TESTS}/published",)),
    _specification("PullRaft", "published/pull_raft", (f"{_SPEC_TESTS}/published",)),
    _specification("KIP-853", "published/kip853", (f"{_SPEC_TESTS}/published",)),
    _specification("KIP-996", "published/kip996", (f"{_SPEC_TESTS}/published",)),
    _specification("PullRaft, variant 2", "published/pull_raft_2", (f"{_SPEC_TESTS}/published",)),
)


@cache
def mutants_in(file: str) -> tuple[Mutant, ...]:
    """Every mutant that an operator makes of a file, whichever rooms divide it."""
    return tuple(mutants_of(source_module(file)))


def mutants(room: Room) -> Iterator[Mutant]:
    """Every mutant that an operator makes of a room."""
    for file in room.files:
        yield from (mutant for mutant in mutants_in(file) if room.changes(mutant.function))
