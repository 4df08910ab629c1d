"""Every machine, model and bug, once: explorer, lockstep, simulation, replay, report and command line draw from here.

A *registration* gives a machine its name, its models and its bugs. A machine is identified by the classes that it is
made of (`Machine.kinds`), a bug's class standing for the correct one. What is not registered is refused; it is never
taken for the machine that it extends.

A test registers a machine of its own for as long as it runs: `with REGISTRY.registered(Registration(...)):`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import attrs

from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.models import ADMINISTRATION_MODELS
from tidegauge.spec.authentication.machine import Authentication
from tidegauge.spec.bugs import (
    BUGS,
    controlled_shutdown,
    damage,
    deletion,
    directories,
    late,
    lost_logs,
    reads,
    reassignment,
    retention,
    running_damage,
    settings,
    unregistering,
)
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.cleaning import CLEANING_BUGS
from tidegauge.spec.bugs.consumers import CONSUMER_BUGS
from tidegauge.spec.bugs.groups import GROUP_BUGS
from tidegauge.spec.bugs.idempotence import IDEMPOTENCE_BUGS
from tidegauge.spec.bugs.kip320 import KIP320_BUGS
from tidegauge.spec.bugs.kip848 import FIRST_KIP848_BUGS, KIP848_BUGS
from tidegauge.spec.bugs.kip853 import KIP853_BUGS, KIP996_BUGS
from tidegauge.spec.bugs.kraft import KRAFT_BUGS
from tidegauge.spec.bugs.loading import LOADING_BUGS
from tidegauge.spec.bugs.offsets import OFFSET_BUGS
from tidegauge.spec.bugs.pull_raft import PULL_RAFT_BUGS
from tidegauge.spec.bugs.reading import READING_BUGS
from tidegauge.spec.bugs.replication35 import REPLICATION35_BUGS
from tidegauge.spec.bugs.transactions import TRANSACTION_BUGS
from tidegauge.spec.bugs.transactions_diary import DIARY_BUGS
from tidegauge.spec.bugs.unclean import UNCLEAN_BUGS
from tidegauge.spec.bugs.workers import WORKER_BUGS
from tidegauge.spec.compaction.machine import Compaction
from tidegauge.spec.compaction.transactional import TransactionalCompaction
from tidegauge.spec.groups.classic import state as classic_groups
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.models import GROUP_MODELS
from tidegauge.spec.groups.consumer import state as consumer_groups
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.models import CONSUMER_MODELS
from tidegauge.spec.groups.loading.machine import GroupLoading
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.groups.migration.models import MIGRATION_MODELS
from tidegauge.spec.idempotence import state as idempotence
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.models import IDEMPOTENCE_MODELS
from tidegauge.spec.idempotence.state import named_producers
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.codec import Reader, constants
from tidegauge.spec.kernel.extension import extensions_of
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.lag.machine import EPOCHS as LAG_EPOCHS
from tidegauge.spec.lag.machine import Lag
from tidegauge.spec.membership.machine import Membership
from tidegauge.spec.membership.moves import Moves
from tidegauge.spec.membership.placement import Placement
from tidegauge.spec.membership.succession import Succession
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.published.kip848.machine import FirstKip848, Kip848
from tidegauge.spec.published.kip853.machine import Kip853
from tidegauge.spec.published.kip996.machine import Kip996
from tidegauge.spec.published.kraft.machine import Kraft
from tidegauge.spec.published.pull_raft.machine import PullRaft
from tidegauge.spec.published.pull_raft_2.machine import PullRaft2
from tidegauge.spec.published.replication35.machine import Replication35
from tidegauge.spec.published.transactions_diary.machine import TransactionsDiary
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage
from tidegauge.spec.replication.extensions.deletion import Deletion
from tidegauge.spec.replication.extensions.directories import Directories
from tidegauge.spec.replication.extensions.late import LateMessages
from tidegauge.spec.replication.extensions.lost_logs import LostLogs
from tidegauge.spec.replication.extensions.reads import Reads
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.extensions.running_damage import RunningDamage
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.extensions.unregistering import Unregistering
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import named_brokers
from tidegauge.spec.transactions import state as transactions
from tidegauge.spec.transactions.machine import Transactions
from tidegauge.spec.transactions.models import TRANSACTION_MODELS
from tidegauge.spec.transactions.reading import CommittedReads
from tidegauge.spec.transactions.unclean import UncleanTransactions
from tidegauge.spec.workers.machine import Workers
from tidegauge.spec.workers.models import WORKER_MODELS

S = TypeVar("S")
T = TypeVar("T")


class NotRegisteredError(ValueError):
    """A machine, a model or a bug that the registry does not have; says what it has."""


@attrs.frozen
class Population:
    """Whom a machine's actions may name: brokers, producers."""

    what: str
    constant: str
    """How many of them a machine has, by the name of its attribute; they are numbered from 0."""
    named_in: Callable[[object], Iterator[int]]
    """Every one that an action names."""


@attrs.frozen
class Registration:
    """A machine, with all that is known by its name."""

    name: str
    machine: Machine[Any]
    """What the name alone means: the machine with constants small enough to explore."""
    models: tuple[Model[Any], ...] = ()
    bugs: tuple[Bug[Any], ...] = ()
    populations: tuple[Population, ...] = ()

    def unknown_members(self, machine: Machine[S], action: Action) -> Iterator[str]:
        """Whom the action names that the machine does not have, and whom it has."""
        for population in self.populations:
            count = int(getattr(machine, population.constant))
            for number in population.named_in(action):
                if not 0 <= number < count:
                    what = population.what
                    yield f"names {what} {number}, but the machine has the {what}s 0 to {count - 1}"


class Registry:
    """Registrations by name. Lookups raise NotRegisteredError with what there is to choose from."""

    def __init__(self, *registrations: Registration) -> None:
        self._registrations: dict[str, Registration] = {}
        for registration in registrations:
            self.register(registration)

    def register(self, registration: Registration) -> None:
        """Add a machine. Raises ValueError if its name, a model's or a bug's, or the machine itself, is taken."""
        names = [registration.name, *(m.name for m in registration.models if m.name != registration.name)]
        own = (("model", registration.models), ("bug", registration.bugs))
        for what, named in own:
            counts = Counter(one.name for one in named)
            if twice := [name for name, count in counts.items() if count > 1]:
                raise ValueError(f"{registration.name} has the {what} {', '.join(twice)} twice")
        if taken := [name for name in names if name in self.names]:
            raise ValueError(f"{', '.join(taken)}: there is a machine or a model of that name already")
        if taken := [bug.name for bug in registration.bugs if self.bugs.get(bug.name, bug) is not bug]:
            raise ValueError(f"{', '.join(taken)}: there is a bug of that name already")
        kinds = registration.machine.kinds
        for known in self:
            if known.machine.kinds == kinds:
                raise ValueError(f"{registration.name} is the machine that is registered as {known.name}")
        self._registrations[registration.name] = registration

    @contextmanager
    def registered(self, registration: Registration) -> Iterator[Registration]:
        """The registry with one more machine, for as long as the context lasts."""
        self.register(registration)
        try:
            yield registration
        finally:
            del self._registrations[registration.name]

    def __iter__(self) -> Iterator[Registration]:
        return iter(self._registrations.values())

    @property
    def names(self) -> tuple[str, ...]:
        """What a machine may be called on the command line: the registrations' names, then the models'."""
        return (*self._registrations, *(name for name in self.models if name not in self._registrations))

    @property
    def models(self) -> dict[str, Model[Any]]:
        """Every model by name."""
        return {model.name: model for registration in self for model in registration.models}

    @property
    def bugs(self) -> dict[str, Bug[Any]]:
        """Every bug by name."""
        return {bug.name: bug for registration in self for bug in registration.bugs}

    def of(self, machine: Machine[S]) -> Registration:
        """The registration of a machine, whatever its constants, and whatever bug it has."""
        correct = {bug.buggy: bug.replaced for bug in self.bugs.values()}
        kinds = tuple(correct.get(kind, kind) for kind in machine.kinds)
        for registration in self:
            if registration.machine.kinds == kinds:
                return registration
        made_of = " with ".join(kind.__name__ for kind in kinds)
        raise NotRegisteredError(
            f"{made_of} is not registered: add it to spec.registry, which has {', '.join(self._registrations)}"
        )

    def registration(self, name: str) -> Registration:
        """The registration of that name, or that of the model of that name. Raises NotRegisteredError."""
        if name in self._registrations:
            return self._registrations[name]
        if name not in self.models:
            raise NotRegisteredError(self._unknown(name))
        return self.of(self.model(name).machine)

    def model(self, name: str) -> Model[Any]:
        """The model of that name."""
        return _chosen("model", name, self.models)

    def bug(self, name: str) -> Bug[Any]:
        """The bug of that name."""
        return _chosen("bug", name, self.bugs)

    def bugs_of(self, machine: Machine[S]) -> dict[str, Bug[Any]]:
        """The bugs that can be switched on in a machine, by name."""
        return {name: bug for name, bug in self.bugs.items() if bug.fits(machine)}

    def machine(self, name: str, bug: str | None = None) -> Machine[Any]:
        """The machine that a name means, with a bug if one is named.

        A registration's name with a bug means the model in which the bug shows.
        """
        if name not in self.names:
            raise NotRegisteredError(self._unknown(name))
        models = self.models
        machine = models[name].machine if name in models else self._registrations[name].machine
        if bug is None:
            return machine
        known = self.bugs_of(machine)
        if bug not in known:
            choice = f"choose one of {', '.join(known)}" if known else "it has no bugs, so leave that out"
            raise NotRegisteredError(f"{name} has no bug {bug!r}: {choice}")
        return known[bug].switched_on(machine) if name in models else known[bug].machine()

    def _unknown(self, name: str) -> str:
        """That nothing is called so, and what is called nearly so."""
        near = get_close_matches(name, self.names, n=3) or self._registrations
        return f"there is no specification {name!r}: choose one of {', '.join(near)} (tidegauge list tells all)"

    def described(self, machine: Machine[S]) -> dict[str, object]:
        """A registered machine as JSON: its name here, and the constants that are not at their defaults."""
        registration = self.of(machine)
        given = constants(machine)
        if "extensions" in given and extensions_of(machine) == _extensions(registration):
            del given["extensions"]
        return {"name": registration.name, "constants": given}

    def read(self, data: object) -> Machine[Any]:
        """The machine that `described` wrote. Raises ValueError, saying what is wrong with which constant."""
        if not isinstance(data, dict) or data.keys() != {"name", "constants"}:
            raise ValueError(f'"machine" must give "name" and "constants", not {data!r}')
        if not isinstance(data["name"], str) or data["name"] not in self._registrations:
            raise NotRegisteredError(
                f"there is no machine {data['name']!r}: choose one of {', '.join(self._registrations)}"
            )
        registration = self._registrations[data["name"]]
        kind = type(registration.machine)
        given = Reader(kind.__name__, registration.machine.kinds).fields(data["constants"], kind)
        for constant, value in given.items():
            if any(number < 0 for number in _numbers(value)):
                raise ValueError(f"the constant {constant} has a number below 0: {value!r}")
        if extensions := _extensions(registration):
            given.setdefault("extensions", extensions)
        machine: Machine[Any] = kind(**given)
        if self.of(machine) is not registration:
            raise ValueError(f"these constants make a machine that is registered as {self.of(machine).name}")
        try:
            list(machine.initial())
        except ValueError as error:
            raise ValueError(f"the machine's constants fit no initial state: {error}") from None
        return machine


def _extensions(registration: Registration) -> tuple[object, ...]:
    """The extensions of a registered machine, with their constants at the defaults."""
    return tuple(kind() for kind in registration.machine.kinds[1:])


def _numbers(value: object) -> Iterator[int]:
    """Every number in a constant; those of enums and bounds have their own rules."""
    if isinstance(value, tuple):
        for item in value:
            yield from _numbers(item)
    elif type(value) is int:
        yield value


def _chosen(what: str, name: str, known: dict[str, T]) -> T:
    if name not in known:
        raise NotRegisteredError(f"there is no {what} {name!r}: choose one of {', '.join(known)}")
    return known[name]


def _models(*extensions: type[ReplicationExtension]) -> tuple[Model[Any], ...]:
    """The models of replication with exactly these extensions."""
    return tuple(model for model in MODELS.values() if model.machine.kinds == (Replication, *extensions))


BROKERS: Final = Population("broker", "brokers", named_brokers)
PRODUCERS: Final = Population("producer", "producers", named_producers)
PRODUCERS_BROKERS: Final = Population("broker", "brokers", idempotence.named_brokers)
PROCESSES: Final = Population("producer", "producers", transactions.named_producers)
PARTITIONS: Final = Population("partition", "partitions", transactions.named_partitions)
MEMBERS: Final = Population("process", "processes", classic_groups.named_processes)
CONSUMERS: Final = Population("process", "processes", consumer_groups.named_processes)
TRANSACTIONAL_IDS: Final = Population("transactional id", "transactional_ids", transactions.named_ids)


def _by_fields(what: str, constant: str, *fields: str) -> Population:
    """Those that actions name in fields of these names, where plain numbers do."""

    def named_in(action: object) -> Iterator[int]:
        values = (getattr(action, field, None) for field in fields)
        return (value for value in values if isinstance(value, int))

    return Population(what, constant, named_in)


CLIENTS: Final = _by_fields("client", "clients", "client")
STARTED: Final = (
    _by_fields("server", "max_servers", "server", "peer", "asked"),
    _by_fields("host", "hosts", "host"),
)


def _extended(
    name: str, machine: Replication, bugs: Sequence[Bug[Any]], *extensions: type[ReplicationExtension]
) -> Registration:
    return Registration(name, machine, _models(*extensions), tuple(bugs), populations=(BROKERS,))


REGISTRY: Final = Registry(
    Registration(
        "replication", Replication(brokers=2, max_records=1), _models(), tuple(BUGS.values()), populations=(BROKERS,)
    ),
    Registration(
        "kip320",
        Kip320(),
        bugs=tuple(KIP320_BUGS.values()),
        populations=(_by_fields("replica", "replicas", "leader", "replica", "follower"),),
    ),
    Registration(
        "replication-3.5",
        Replication35(brokers=2, replication_factor=2, max_fences=0),
        bugs=tuple(REPLICATION35_BUGS.values()),
        populations=(_by_fields("broker", "brokers", "broker"),),
    ),
    Registration(
        "kip848",
        Kip848(),
        bugs=tuple(KIP848_BUGS.values()),
        populations=(CLIENTS,),
    ),
    Registration(
        "kip848-first",
        FirstKip848(),
        bugs=tuple(FIRST_KIP848_BUGS.values()),
        populations=(CLIENTS,),
    ),
    Registration(
        "transactions-diary",
        TransactionsDiary(),
        bugs=tuple(DIARY_BUGS.values()),
        populations=(_by_fields("client", "clients", "client"), _by_fields("broker", "brokers", "broker")),
    ),
    Registration(
        "kraft",
        Kraft(),
        bugs=tuple(KRAFT_BUGS.values()),
        populations=(_by_fields("server", "servers", "server"),),
    ),
    Registration(
        "pull-raft",
        PullRaft(),
        bugs=tuple(PULL_RAFT_BUGS.values()),
        populations=(_by_fields("server", "servers", "server"),),
    ),
    Registration("pull-raft-2", PullRaft2(), populations=(_by_fields("server", "servers", "server"),)),
    Registration("kip853", Kip853(), bugs=tuple(KIP853_BUGS.values()), populations=STARTED),
    Registration("kip996", Kip996(), bugs=tuple(KIP996_BUGS.values()), populations=STARTED),
    _extended("reassignment", MODELS["reassignment"].machine, reassignment.BUGS, Reassignment),
    _extended(
        "controlled-shutdown", MODELS["controlled-shutdown"].machine, controlled_shutdown.BUGS, ControlledShutdown
    ),
    _extended("retention", MODELS["retention"].machine, retention.BUGS, Retention),
    _extended("directories", MODELS["directories"].machine, directories.BUGS, ControlledShutdown, Directories),
    _extended("damage", MODELS["damage"].machine, damage.BUGS, ControlledShutdown, Damage),
    _extended("lost-logs", MODELS["lost-log"].machine, lost_logs.BUGS, ControlledShutdown, Damage, LostLogs),
    _extended(
        "running-damage",
        MODELS["running-damage"].machine,
        running_damage.BUGS,
        ControlledShutdown,
        Damage,
        LostLogs,
        RunningDamage,
    ),
    _extended("late-messages", MODELS["late-messages"].machine, late.BUGS, LateMessages),
    _extended("unregistering", MODELS["unregistering"].machine, unregistering.BUGS, Unregistering),
    _extended("deletion", MODELS["recreation"].machine, deletion.BUGS, Reassignment, Deletion),
    _extended("reads", MODELS["reads"].machine, reads.BUGS, Reads),
    _extended("settings", MODELS["settings"].machine, settings.BUGS, Settings),
    _extended("composed-replication", MODELS["moving-and-deleting"].machine, (), *map(type, everything())),
    Registration(
        "idempotence",
        Idempotence(max_attempts=2),
        tuple(IDEMPOTENCE_MODELS.values()),
        tuple(IDEMPOTENCE_BUGS.values()),
        populations=(PRODUCERS_BROKERS, PRODUCERS),
    ),
    Registration(
        "transactions",
        Transactions(transactions=1, partitions=1),
        tuple(TRANSACTION_MODELS.values()),
        tuple(TRANSACTION_BUGS.values()),
        populations=(PROCESSES, PARTITIONS, TRANSACTIONAL_IDS),
    ),
    Registration(
        "classic-groups",
        ClassicGroups(),
        tuple(GROUP_MODELS.values()),
        tuple(GROUP_BUGS.values()),
        populations=(MEMBERS,),
    ),
    Registration(
        "consumer-groups",
        ConsumerGroups(),
        tuple(CONSUMER_MODELS.values()),
        tuple(CONSUMER_BUGS.values()),
        populations=(CONSUMERS,),
    ),
    Registration(
        "group-migration",
        GroupMigration(),
        tuple(MIGRATION_MODELS.values()),
        populations=(CONSUMERS,),
    ),
    Registration(
        "group-loading",
        GroupLoading(),
        bugs=tuple(LOADING_BUGS.values()),
        populations=(_by_fields("member", "members", "member"),),
    ),
    Registration(
        "committed-reads",
        CommittedReads(transactions=2, partitions=1, incarnations=1),
        bugs=tuple(READING_BUGS.values()),
        populations=(PROCESSES, PARTITIONS, TRANSACTIONAL_IDS),
    ),
    Registration(
        "unclean-transactions",
        UncleanTransactions(transactions=2, partitions=1, incarnations=1, bounds=Bounds(ElectUnclean=1)),
        bugs=tuple(UNCLEAN_BUGS.values()),
        populations=(PROCESSES, PARTITIONS, TRANSACTIONAL_IDS),
    ),
    Registration(
        "offsets",
        Offsets(producers=1, max_entries=3),
        bugs=tuple(OFFSET_BUGS.values()),
        populations=(_by_fields("producer", "producers", "producer"),),
    ),
    Registration("compaction", Compaction()),
    Registration(
        "transactional-compaction", TransactionalCompaction(max_records=2), bugs=tuple(CLEANING_BUGS.values())
    ),
    Registration("recovery", Recovery(max_appends=1)),
    Registration("lag", Lag(), (LAG_EPOCHS,)),
    Registration("administration", Administration(), tuple(ADMINISTRATION_MODELS.values())),
    Registration("authentication", Authentication()),
    Registration("membership", Membership()),
    Registration("succession", Succession()),
    Registration("placement", Placement()),
    Registration(
        "workers",
        Workers(bounds=Bounds(Expel=1, Hang=1)),
        tuple(WORKER_MODELS.values()),
        tuple(WORKER_BUGS.values()),
        populations=(_by_fields("consumer", "consumers", "consumer"), _by_fields("worker", "workers", "worker")),
    ),
    Registration("moves", Moves()),
)
"""All that this project specifies."""
