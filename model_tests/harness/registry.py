"""What the harness has for each machine of `spec.registry`: one registration a machine, under the machine's name.

A registration says how the machine is bound to an implementation (cores, a cluster), and which classes have its bugs;
and, where the defaults do not serve, how its random walks and its examples for Hypothesis are drawn, and how a report
draws a trace of it. Lockstep, replay, report and verification look here and nowhere else. A binding that is not
registered is refused with NotRegisteredError: an extension of a machine is never bound as the machine that it extends.

A machine of this project has one line in `spec.registry` and one here. A test registers a machine of its own in both by
one call, for as long as it runs: `with registered("toy", Toy(), cores=ToyCores):`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from tidegauge.model_tests.bugs import BUGS
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.bugs.cleaning import CLEANING_BUGS
from tidegauge.model_tests.bugs.consumers import CONSUMER_BUGS
from tidegauge.model_tests.bugs.groups import GROUP_BUGS
from tidegauge.model_tests.bugs.idempotence import IDEMPOTENCE_BUGS
from tidegauge.model_tests.bugs.loading import LOADING_BUGS
from tidegauge.model_tests.bugs.offsets import OFFSET_BUGS
from tidegauge.model_tests.bugs.transactions import TRANSACTION_BUGS
from tidegauge.model_tests.bugs.workers import WORKER_BUGS
from tidegauge.model_tests.harness import published
from tidegauge.model_tests.harness.cluster.administration import AdministrationCluster
from tidegauge.model_tests.harness.cluster.binding import ClusterExtension
from tidegauge.model_tests.harness.cluster.classic_groups import GroupCluster
from tidegauge.model_tests.harness.cluster.consumer_groups import ConsumerCluster
from tidegauge.model_tests.harness.cluster.extensions.composed import TogetherOnCluster
from tidegauge.model_tests.harness.cluster.extensions.deletion import DeletionOnCluster
from tidegauge.model_tests.harness.cluster.extensions.directories import DirectoriesOnCluster
from tidegauge.model_tests.harness.cluster.extensions.reads import ReadsOnCluster
from tidegauge.model_tests.harness.cluster.extensions.reassignment import ReassignmentOnCluster
from tidegauge.model_tests.harness.cluster.extensions.retention import RetentionOnCluster
from tidegauge.model_tests.harness.cluster.extensions.settings import SettingsOnCluster
from tidegauge.model_tests.harness.cluster.extensions.shutdown import ShutdownOnCluster
from tidegauge.model_tests.harness.cluster.extensions.unregistering import UnregisteringOnCluster
from tidegauge.model_tests.harness.cluster.group_loading import LoadingCluster
from tidegauge.model_tests.harness.cluster.group_migration import MigrationCluster
from tidegauge.model_tests.harness.cluster.idempotence import IdempotentCluster
from tidegauge.model_tests.harness.cluster.offsets import OffsetCluster
from tidegauge.model_tests.harness.cluster.steps import ReplicationCluster
from tidegauge.model_tests.harness.cluster.transactions import TransactionCluster
from tidegauge.model_tests.harness.cores.administration import AdministrationCores
from tidegauge.model_tests.harness.cores.classic_groups import CORRECT_GROUPS, GROUP_WALKS, GroupCores
from tidegauge.model_tests.harness.cores.consumer_abstraction import CORRECT_CONSUMERS
from tidegauge.model_tests.harness.cores.consumer_groups import CONSUMER_WALKS, ConsumerCores
from tidegauge.model_tests.harness.cores.extensions.composed import ComposedCores
from tidegauge.model_tests.harness.cores.extensions.damage import DamageCores
from tidegauge.model_tests.harness.cores.extensions.deletion import DeletionCores
from tidegauge.model_tests.harness.cores.extensions.directories import DirectoryCores
from tidegauge.model_tests.harness.cores.extensions.late import LateCores
from tidegauge.model_tests.harness.cores.extensions.lost_logs import LostLogCores
from tidegauge.model_tests.harness.cores.extensions.reads import ReadsCores
from tidegauge.model_tests.harness.cores.extensions.reassignment import ReassignmentCores
from tidegauge.model_tests.harness.cores.extensions.retention import RetentionCores
from tidegauge.model_tests.harness.cores.extensions.running_damage import RunningDamageCores
from tidegauge.model_tests.harness.cores.extensions.settings import SettingsCores
from tidegauge.model_tests.harness.cores.extensions.shutdown import ShutdownCores
from tidegauge.model_tests.harness.cores.extensions.unregistering import UnregisteringCores
from tidegauge.model_tests.harness.cores.group_loading import CORRECT_LOADING, LOADING_WALKS, LoadingCores
from tidegauge.model_tests.harness.cores.group_migration import CORRECT_MIGRATION, MIGRATION_WALKS, MigrationCores
from tidegauge.model_tests.harness.cores.idempotence import IdempotentCores
from tidegauge.model_tests.harness.cores.lag import LagCores
from tidegauge.model_tests.harness.cores.log_cleaning import CORRECT_CLEANING, CleaningCores, large_logs
from tidegauge.model_tests.harness.cores.message_parts import Additions
from tidegauge.model_tests.harness.cores.offsets import CORRECT_OFFSETS, OffsetCores, large_offsets
from tidegauge.model_tests.harness.cores.recovery_windows import recovery_cores
from tidegauge.model_tests.harness.cores.replication import CORRECT
from tidegauge.model_tests.harness.cores.steps import ReplicationCores
from tidegauge.model_tests.harness.cores.transaction_roles import CORRECT as CORRECT_TRANSACTIONS
from tidegauge.model_tests.harness.cores.transactions import TransactionCores
from tidegauge.model_tests.harness.cores.workers import CORRECT_WORKERS, WorkerCores, large_workers
from tidegauge.model_tests.harness.lockstep.administration_walks import ADMINISTRATION_WALKS
from tidegauge.model_tests.harness.lockstep.idempotence_walks import IDEMPOTENCE_WALKS
from tidegauge.model_tests.harness.lockstep.lag_walks import LAG_WALKS
from tidegauge.model_tests.harness.lockstep.lockstep import Bind, Binding
from tidegauge.model_tests.harness.lockstep.recovery_walks import RECOVERY_WALKS
from tidegauge.model_tests.harness.lockstep.replication_walks import replication_walks
from tidegauge.model_tests.harness.lockstep.transaction_walks import TRANSACTION_WALKS
from tidegauge.model_tests.harness.lockstep.walks import Walk, WalkPlan, first_failure, plan_of_models, walk, walks
from tidegauge.model_tests.harness.report import idempotence as idempotence_steps
from tidegauge.model_tests.harness.report import replication as replication_steps
from tidegauge.model_tests.harness.report import transactions as transaction_steps
from tidegauge.model_tests.harness.report.model import Step
from tidegauge.model_tests.harness.report.plain_steps import PlainSteps
from tidegauge.model_tests.harness.validation.consumer_groups import ConsumerCoordinators
from tidegauge.model_tests.harness.validation.coordinated import Begin
from tidegauge.model_tests.harness.validation.group_migration import MigrationCoordinators
from tidegauge.model_tests.harness.validation.group_offsets import OffsetCoordinators
from tidegauge.model_tests.harness.validation.groups import GroupCoordinators
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.kernel.traces import Trace
from tidegauge.spec.offsets.actions import Clean, FailOver
from tidegauge.spec.registry import REGISTRY, NotRegisteredError, Population
from tidegauge.spec.registry import Registration as Specification
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage, DamageLog, LoseEnd
from tidegauge.spec.replication.extensions.deletion import DeleteTopic, Deletion
from tidegauge.spec.replication.extensions.directories import Directories, FailDirectory
from tidegauge.spec.replication.extensions.late import LateMessages
from tidegauge.spec.replication.extensions.lost_logs import LoseLog, LostLogs
from tidegauge.spec.replication.extensions.reads import Reads
from tidegauge.spec.replication.extensions.reassignment import Reassignment, StartReassignment
from tidegauge.spec.replication.extensions.retention import DeleteRecords, Retain, Retention
from tidegauge.spec.replication.extensions.running_damage import (
    MeetDamage,
    ReportArrivesLate,
    ReportUnread,
    RunningDamage,
)
from tidegauge.spec.replication.extensions.settings import ChangeSettings, Settings
from tidegauge.spec.replication.extensions.shutdown import BeginShutdown, ControlledShutdown, StopUnasked
from tidegauge.spec.replication.extensions.unregistering import Unregister, Unregistering

BindRoles: TypeAlias = Callable[[Any, Any], Binding]
"""Makes the binding of a machine, with the classes that play each part."""
PLAIN: Final = PlainSteps()
NO_BUGS: Final[Mapping[Bug[Any], object]] = MappingProxyType({})


class Side(Enum):
    """An implementation that a machine can be bound to."""

    CORES = "cores"
    CLUSTER = "cluster"


@attrs.frozen
class Registration:
    """What the harness has for one machine. To an implementation that is None it cannot be bound."""

    machine: str
    """The name in `spec.registry`."""
    roles: object = None
    """The classes that play each part of the implementation, as in production."""
    cores: BindRoles | None = None
    cluster: BindRoles | None = None
    plan: WalkPlan[Any] | None = None
    """How random walks in lockstep are drawn; None: with the constants that `spec.registry` has for it."""
    rules: Callable[[], type[Any]] | None = None
    """Imports and returns the machine's rules for Hypothesis; None: they are made of the plan."""
    steps: Callable[[Trace[Any]], tuple[Step, ...]] = PLAIN
    """A trace as the steps of a sequence diagram; unless it says otherwise, the fields of the state in plain lanes."""
    bugs: tuple[CoreBug[Any], ...] = ()
    follower: Begin | None = None
    """Follows the coordinators of groups in the traces of campaigns, by the rules of the machine."""
    unbound: Mapping[Side, str] = MappingProxyType({})
    """Why there is no binding to an implementation, for each to which there is none."""

    @property
    def sides(self) -> tuple[Side, ...]:
        """The implementations that the machine is bound to."""
        return tuple(side for side in Side if self._binds(side) is not None)

    def bind(self, side: Side, roles: object = None) -> Bind[Machine[Any]]:
        """What binds the machine to an implementation, with the classes in `roles` or those of production."""
        bind = self._binds(side)
        if bind is None:
            raise NotRegisteredError(
                f"{self.machine} has no binding to the {side.value}: explore and simulate it, replay it on the "
                "specification, or add a binding to its registration in harness.registry"
            )
        return lambda machine: bind(machine, self.roles if roles is None else roles)

    def walk_plan(self) -> WalkPlan[Any]:
        """How random walks are drawn."""
        if self.plan is not None:
            return self.plan
        known = REGISTRY.registration(self.machine)
        return plan_of_models((known.machine, *(model.machine for model in known.models)))

    def hypothesis_rules(self) -> type[Any]:
        """The machine's rules for Hypothesis, which must be installed."""
        from tidegauge.model_tests.harness.lockstep.hypothesis_machine import rules_of_plan

        if self.rules is not None:
            return self.rules()
        machine = REGISTRY.registration(self.machine).machine
        return rules_of_plan(self.walk_plan(), machine.action_types)

    def walk(
        self,
        seed: int,
        number: int = 0,
        *,
        side: Side = Side.CORES,
        roles: object = None,
        wrong: type[object] | None = None,
        length: int | None = None,
    ) -> Walk[Any]:
        """Walk `number` of `seed` beside an implementation; a bug may be in `roles`, in `wrong`, or in both."""
        return walk(self.walk_plan(), self.bind(side, roles), seed, number, wrong=wrong, length=length)

    def walks(
        self,
        seed: int,
        count: int,
        *,
        side: Side = Side.CORES,
        roles: object = None,
        first: int = 0,
        wrong: type[object] | None = None,
        length: int | None = None,
    ) -> Iterator[Walk[Any]]:
        """`count` walks of `seed`, one at a time, from the walk with the number `first` on."""
        bind = self.bind(side, roles)
        return walks(self.walk_plan(), bind, seed, count, first=first, wrong=wrong, length=length)

    def first_failure(
        self,
        seed: int,
        limit: int,
        *,
        side: Side = Side.CORES,
        roles: object = None,
        first: int = 0,
        wrong: type[object] | None = None,
        length: int | None = None,
    ) -> Walk[Any] | None:
        """The first of `limit` walks that fails, from the walk with the number `first` on; None if none does."""
        bind = self.bind(side, roles)
        return first_failure(self.walk_plan(), bind, seed, limit, first=first, wrong=wrong, length=length)

    def _binds(self, side: Side) -> BindRoles | None:
        return self.cores if side is Side.CORES else self.cluster


class HarnessRegistry:
    """Registrations by the name of their machine. Lookups raise NotRegisteredError."""

    def __init__(self, *registrations: Registration) -> None:
        self._registrations: dict[str, Registration] = {}
        for registration in registrations:
            self.register(registration)

    def register(self, registration: Registration) -> None:
        """Add what the harness has for a machine. Raises ValueError if it has something for it already."""
        if registration.machine in self._registrations:
            raise ValueError(f"{registration.machine} has a registration in the harness already")
        for bug in registration.bugs:
            if bug.name in self.bugs:
                raise ValueError(f"{bug.name}: there is a bug of that name already")
        self._registrations[registration.machine] = registration

    @contextmanager
    def registered(self, registration: Registration) -> Iterator[Registration]:
        """The registry with one more machine, for as long as the context lasts."""
        self.register(registration)
        try:
            yield registration
        finally:
            del self._registrations[registration.machine]

    def __iter__(self) -> Iterator[Registration]:
        return iter(self._registrations.values())

    def of(self, machine: Machine[Any]) -> Registration:
        """What the harness has for a machine, whatever its constants, and whatever bug it has."""
        return self[REGISTRY.of(machine).name]

    def __getitem__(self, name: str) -> Registration:
        """What the harness has for the machine that `spec.registry` has by this name, or by that of a model."""
        machine = REGISTRY.registration(name).name
        if machine not in self._registrations:
            raise NotRegisteredError(
                f"{machine} has no registration in model_tests/harness/registry.py: add one to HARNESS there, as "
                "_undriven(name, why) for a machine that nothing implements"
            )
        return self._registrations[machine]

    @property
    def followers(self) -> dict[str, Begin]:
        """What follows coordinators of groups, by machine."""
        return {one.machine: one.follower for one in self if one.follower is not None}

    @property
    def bugs(self) -> dict[str, CoreBug[Any]]:
        """Every bug of the implementations by name."""
        return {bug.name: bug for registration in self for bug in registration.bugs}

    def bug(self, name: str) -> CoreBug[Any]:
        """The bug of that name."""
        known = self.bugs
        if name not in known:
            raise NotRegisteredError(f"no implementation has a bug {name!r}: choose one of {', '.join(known)}")
        return known[name]

    def machine_of(self, bug: str) -> str | None:
        """The machine whose implementation has the bug; None if none has."""
        return next((one.machine for one in self if bug in {each.name for each in one.bugs}), None)

    def roles(self, bug: str | None) -> object:
        """The classes that play each part with this bug; None, which stands for those of production, without one."""
        return None if bug is None else self.bug(bug).roles


def _replication_rules() -> type[Any]:
    from tidegauge.model_tests.harness.lockstep.replication_rules import ReplicationRules

    return ReplicationRules


def _recreated(rng: Random) -> tuple[ReplicationExtension, ...]:
    """A topic that may be deleted; in most walks there was one of its name, which some brokers still have."""
    return Reassignment(), Deletion(former=rng.choice(((), (1,), (0, 1), (0, 2))), former_records=rng.choice((1, 2)))


ON_CLUSTER: Final[tuple[type[ClusterExtension], ...]] = (
    DeletionOnCluster,
    DirectoriesOnCluster,
    ReassignmentOnCluster,
    ShutdownOnCluster,
    RetentionOnCluster,
    SettingsOnCluster,
    ReadsOnCluster,
    UnregisteringOnCluster,
    TogetherOnCluster,
)
"""The extensions of replication that a cluster performs; where two have steps for an action, the first one's count."""


ON_CORES: Final = Additions(*(extension.messages for extension in ON_CLUSTER))
"""What the extensions of replication add to messages, beside the cores as beside a cluster."""


def _of_replication(
    machine: str,
    cores: Callable[..., Binding],
    *extensions: ReplicationExtension,
    perturbations: frozenset[type[Action]] = frozenset(),
    drawn: Callable[[Random], tuple[ReplicationExtension, ...]] | None = None,
    bugs: tuple[CoreBug[Any], ...] = (),
    no_cluster: str = "",
) -> Registration:
    """What the harness has for replicated partitions with these extensions.

    Most walks leave `perturbations` out, actions of the extensions. `drawn`: the extensions with the constants of a
    walk. `no_cluster`: why no cluster performs them all, if none does.
    """
    return Registration(
        machine,
        roles=CORRECT,
        cores=partial(cores, additions=ON_CORES),
        cluster=None if no_cluster else partial(ReplicationCluster, extensions=ON_CLUSTER),
        unbound={Side.CLUSTER: no_cluster} if no_cluster else {},
        plan=replication_walks(*extensions, perturbations=perturbations, drawn=drawn),
        rules=None if extensions else _replication_rules,
        steps=replication_steps.steps,
        bugs=bugs,
    )


def _undriven(machine: str, why: str, steps: Callable[[Trace[Any]], tuple[Step, ...]] = PLAIN) -> Registration:
    """What has no binding, for it is held against the implementation otherwise, or has none."""
    return Registration(machine, steps=steps, unbound=dict.fromkeys(Side, why))


PROCESSES: Final = PlainSteps((("processes", "process"),))

DAMAGE: Final = "campaigns of damage under whole clusters are validated against it"
LATE: Final = "a connection carries nothing that outlives it; what arrives late in campaigns is validated against it"

HARNESS: Final = HarnessRegistry(
    _of_replication("replication", ReplicationCores, bugs=tuple(BUGS.values())),
    _of_replication("reassignment", ReassignmentCores, Reassignment(), perturbations=frozenset({StartReassignment})),
    _of_replication(
        "controlled-shutdown",
        ShutdownCores,
        ControlledShutdown(),
        perturbations=frozenset({BeginShutdown, StopUnasked}),
    ),
    _of_replication(
        "directories",
        DirectoryCores,
        ControlledShutdown(),
        Directories(),
        perturbations=frozenset({BeginShutdown, StopUnasked, FailDirectory}),
    ),
    _of_replication(
        "damage",
        DamageCores,
        ControlledShutdown(),
        Damage(),
        perturbations=frozenset({BeginShutdown, StopUnasked, DamageLog, LoseEnd}),
        no_cluster=DAMAGE,
    ),
    _of_replication(
        "lost-logs",
        LostLogCores,
        ControlledShutdown(),
        Damage(),
        LostLogs(),
        perturbations=frozenset({BeginShutdown, StopUnasked, DamageLog, LoseEnd, LoseLog}),
        no_cluster=DAMAGE,
    ),
    _of_replication(
        "running-damage",
        RunningDamageCores,
        ControlledShutdown(),
        Damage(),
        LostLogs(),
        RunningDamage(),
        perturbations=frozenset(
            {BeginShutdown, StopUnasked, DamageLog, LoseEnd, LoseLog, MeetDamage, ReportUnread, ReportArrivesLate}
        ),
        no_cluster=DAMAGE,
    ),
    _of_replication("retention", RetentionCores, Retention()),
    _of_replication("settings", SettingsCores, Settings()),
    _of_replication(
        "unregistering",
        UnregisteringCores,
        Unregistering(),
        perturbations=frozenset({Unregister}),
    ),
    _of_replication("reads", ReadsCores, Reads(consumers=2)),
    _of_replication("late-messages", LateCores, LateMessages(), no_cluster=LATE),
    _of_replication(
        "deletion",
        DeletionCores,
        Reassignment(),
        Deletion(),
        perturbations=frozenset({StartReassignment, DeleteTopic}),
        drawn=_recreated,
    ),
    Registration(
        "idempotence",
        roles=CORRECT,
        cores=IdempotentCores,
        cluster=IdempotentCluster,
        plan=IDEMPOTENCE_WALKS,
        steps=idempotence_steps.steps,
        bugs=tuple(IDEMPOTENCE_BUGS.values()),
    ),
    _of_replication(
        "composed-replication",
        ComposedCores,
        *everything(),
        perturbations=frozenset(
            {BeginShutdown, StopUnasked, FailDirectory, StartReassignment, DeleteRecords, Retain, ChangeSettings}
        ),
    ),
    Registration(
        "classic-groups",
        roles=CORRECT_GROUPS,
        cores=GroupCores,
        cluster=GroupCluster,
        plan=GROUP_WALKS,
        steps=PROCESSES,
        follower=GroupCoordinators,
        bugs=tuple(GROUP_BUGS.values()),
    ),
    Registration(
        "consumer-groups",
        roles=CORRECT_CONSUMERS,
        cores=ConsumerCores,
        cluster=ConsumerCluster,
        plan=CONSUMER_WALKS,
        steps=PROCESSES,
        follower=ConsumerCoordinators,
        bugs=tuple(CONSUMER_BUGS.values()),
    ),
    Registration(
        "group-migration",
        roles=CORRECT_MIGRATION,
        cores=MigrationCores,
        cluster=MigrationCluster,
        plan=MIGRATION_WALKS,
        steps=PROCESSES,
        follower=MigrationCoordinators,
    ),
    Registration(
        "group-loading",
        roles=CORRECT_LOADING,
        cores=LoadingCores,
        cluster=LoadingCluster,
        plan=LOADING_WALKS,
        bugs=tuple(LOADING_BUGS.values()),
    ),
    Registration(
        "offsets",
        roles=CORRECT_OFFSETS,
        cores=OffsetCores,
        cluster=OffsetCluster,
        plan=WalkPlan(large_offsets, perturbations=frozenset({FailOver, Clean}), length=40),
        follower=OffsetCoordinators,
        bugs=tuple(OFFSET_BUGS.values()),
    ),
    Registration(
        "transactions",
        roles=CORRECT_TRANSACTIONS,
        cores=TransactionCores,
        cluster=TransactionCluster,
        plan=TRANSACTION_WALKS,
        steps=transaction_steps.steps,
        bugs=tuple(TRANSACTION_BUGS.values()),
    ),
    Registration(
        "workers",
        roles=CORRECT_WORKERS,
        cores=WorkerCores,
        plan=WalkPlan(large_workers, length=60),
        steps=PlainSteps((("consumers", "consumer"),)),
        unbound={Side.CLUSTER: "it is about one consumer, and no broker"},
        bugs=tuple(WORKER_BUGS.values()),
    ),
    Registration(
        "recovery",
        cores=recovery_cores,
        plan=RECOVERY_WALKS,
        unbound={Side.CLUSTER: "it is about one log, and no broker"},
    ),
    Registration(
        "lag",
        roles=CORRECT,
        cores=LagCores,
        plan=LAG_WALKS,
        steps=PlainSteps((("followers", "follower"),)),
        unbound={Side.CLUSTER: "it is about what time it is, and no cluster in lockstep has a clock"},
    ),
    Registration(
        "administration",
        roles=CORRECT,
        cores=AdministrationCores,
        cluster=AdministrationCluster,
        plan=ADMINISTRATION_WALKS,
    ),
    Registration(
        "transactional-compaction",
        roles=CORRECT_CLEANING,
        cores=CleaningCores,
        plan=WalkPlan(large_logs, length=60),
        unbound={Side.CLUSTER: "it is about one log, and no broker"},
        bugs=tuple(CLEANING_BUGS.values()),
    ),
    _undriven(
        "committed-reads",
        "its rules are one function of a replica, broken in a broker (test_reading_zoo)",
        steps=transaction_steps.steps,
    ),
    _undriven(
        "unclean-transactions",
        "its rule is ahead of Kafka, and of the implementation",
        steps=transaction_steps.steps,
    ),
    *(_undriven(name, published.WHY, steps=steps) for name, steps in published.STEPS.items()),
    _undriven("compaction", "the log cleaner is compared with it pass by pass (test_compaction)"),
    _undriven("authentication", "it drives the SASL gate walk by walk (test_authentication_machine)"),
    _undriven("membership", "each rule is asked beside the implementation's in every state (test_membership)"),
    _undriven("succession", "each rule is asked beside the implementation's in every state (test_succession)"),
    _undriven("placement", "its rule is asked beside the implementation's in every state (test_placement)"),
    _undriven("moves", "log directories are driven beside it, walk by walk (test_moves)"),
)
"""What the harness has for each machine of `spec.registry`; the last ones have no cores and no cluster beside them."""


@contextmanager
def registered(
    name: str,
    machine: Machine[Any],
    *,
    models: tuple[Model[Any], ...] = (),
    populations: tuple[Population, ...] = (),
    bugs: Mapping[Bug[Any], object] = NO_BUGS,
    cores: BindRoles | None = None,
    cluster: BindRoles | None = None,
    roles: object = None,
    plan: WalkPlan[Any] | None = None,
    steps: Callable[[Trace[Any]], tuple[Step, ...]] = PLAIN,
) -> Iterator[Registration]:
    """A machine of a test's own, in `spec.registry` and here, for as long as the context lasts.

    `bugs` has, for each bug of the specification, the roles that have it too; None where no implementation has it.
    """
    specification = Specification(name, machine, models, tuple(bugs), populations)
    core_bugs = tuple(CoreBug(bug.name, wrong) for bug, wrong in bugs.items() if wrong is not None)
    harness = Registration(name, roles, cores, cluster, plan, steps=steps, bugs=core_bugs)
    with REGISTRY.registered(specification), HARNESS.registered(harness):
        yield harness
