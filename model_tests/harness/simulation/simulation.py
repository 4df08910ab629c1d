"""One simulated run: a cluster with clients under faults, all from one seed.

A run has three phases. In the *safety* phase faults are injected, and the history of the clients is recorded. Then all
else is healed, but a leader crashes and stays down: the others must go on *without a leader* (see `liveness`). At last
it comes back, and in the *liveness* phase the cluster must converge: every partition has a leader, its replicas are in
sync and equal, and a produce with acks=all is acknowledged. The trace of decisions is validated against the
specification here; histories are checked elsewhere.

A run is a function of its options: the same options give the same bytes, in any process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from unittest.mock import patch

import attrs
import trio

from tidegauge.impl.client.client import ALL, EARLIEST, Client
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.transactions.coordinator import TransactionCoordinator
from tidegauge.impl.coordinators.transactions.rules import TransactionRules
from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.server.broker import transactions
from tidegauge.linearizability.history import Kind, Operations, Outcome
from tidegauge.model_tests.harness.cluster.remembering import remembering
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.cores.transaction_roles import TransactionRoles
from tidegauge.model_tests.harness.deterministic import run_deterministically
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.simulation import sometimes, sometimes_of_transactions
from tidegauge.model_tests.harness.simulation.coordination import begin_coordinating, undecided
from tidegauge.model_tests.harness.simulation.coverage import shape_of, steps_of
from tidegauge.model_tests.harness.simulation.disks import WhatDisksDid
from tidegauge.model_tests.harness.simulation.faults import Injector
from tidegauge.model_tests.harness.simulation.following import broken, follow, takes_part
from tidegauge.model_tests.harness.simulation.group_roles import coordinating
from tidegauge.model_tests.harness.simulation.lines import Lines, out_of_order
from tidegauge.model_tests.harness.simulation.liveness import WithoutALeader, without_a_leader
from tidegauge.model_tests.harness.simulation.options import Options, told_turns
from tidegauge.model_tests.harness.simulation.recorder import (
    Recorder,
    TimedTrace,
    UncleanElection,
    declare,
    now_ns,
    unclean_elections,
)
from tidegauge.model_tests.harness.simulation.recreation import (
    LedgerClients,
    partitions_of,
    recreates,
)
from tidegauge.model_tests.harness.simulation.settling import under_way, unsettled
from tidegauge.model_tests.harness.simulation.transacting import keeps_offsets, read_in_the_end
from tidegauge.model_tests.harness.simulation.workload import TOPIC, Workload
from tidegauge.model_tests.harness.validation.coordinated import ValidatedGroups
from tidegauge.model_tests.harness.validation.coordinators import ValidatedCoordinators
from tidegauge.model_tests.harness.validation.incarnations import name_of, shared_names
from tidegauge.model_tests.harness.validation.validation import Validated

CLOSING = "closing"
CONVERGES_WITHIN = 60.0
"""Virtual seconds after which a healed cluster that hasn't come together never will."""
LOST_WITHIN = 10.0
"""The same of transactions in a run whose logs may have lost records: as long as several time-outs."""


@attrs.frozen(eq=False)
class Simulated:
    """The result of a run."""

    options: Options
    operations: Operations
    """The history; its id is the seed."""
    faults: Mapping[str, int]
    """Kind of fault -> times injected."""
    elections: tuple[UncleanElection, ...]
    validated: tuple[Validated, ...]
    """For each partition, how far its trace is a behaviour of the specification; empty if that was not asked."""
    coordinators: ValidatedCoordinators | None
    """The same of transaction coordinators; None if that was not asked, or clients have no transactions."""
    groups: ValidatedGroups | None
    """The same of coordinators of groups, where their log has lost nothing."""
    problems: tuple[str, ...]
    """What the healed cluster failed to do."""
    sometimes: Mapping[str, int]
    """Rare things that a good campaign has seen -> times seen."""
    trace: TimedTrace
    """The decisions of all nodes."""
    closing: int
    """The history's process that read every partition from beginning to end when all was healed."""
    covered: Mapping[int, float] = attrs.field(factory=dict)
    """What `coverage` counts -> after how many seconds it was first reached; empty if that was not asked."""

    @property
    def seed(self) -> int:
        """The id of the history."""
        return self.options.seed if self.options.number is None else self.options.number

    @property
    def events(self) -> int:
        """Decisions in the trace."""
        return len(self.trace)

    @property
    def digest(self) -> str:
        """A hash of the trace."""
        return self.trace.digest()

    @property
    def holds(self) -> bool:
        """Whether the cluster converged and behaved as the specification allows; histories are checked elsewhere."""
        return not self.failures

    @property
    def failures(self) -> tuple[str, ...]:
        """Everything that went wrong, as text."""
        return (*self.problems, *broken(self.validated, self.coordinators, self.groups))

    @property
    def declared_lost(self) -> int:
        """Records that were acknowledged with acks=all and that the closing client did not find in the healed log,
        though they were not deleted.
        """
        rows = [row for row in self.operations if row.outcome is Outcome.OK]
        closing = [row for row in rows if row.kind is Kind.FETCH and row.process == self.closing and row.topic == TOPIC]
        found = {value for row in closing for value in row.values}
        starts = {row.partition: row.offset for row in reversed(closing)}
        acknowledged = {
            value
            for row in rows
            if row.kind is Kind.PRODUCE and row.acks == ALL and row.topic == TOPIC
            for value, offset in zip(row.values, row.placed, strict=True)
            if offset >= starts.get(row.partition, 0)
        }
        return len(acknowledged - found) if self.elections else 0

    @property
    def reproduce(self) -> str:
        """The command that runs the same again."""
        return reproduce(self.options)


def reproduce(options: Options) -> str:
    """The command that runs these options again."""
    bug = "" if options.bug is None else f" --bug {options.bug}"
    transactions = " --transactions" if options.transactions else ""
    turns = f" --turns {told_turns(options.turns)}" if options.turns else ""
    return f"tidegauge simulate --seed {options.seed}{turns}{transactions}{bug}"


def simulate(
    options: Options,
    *,
    validated: bool = True,
    roles: Roles | TransactionRoles | None = None,
    measured: bool = False,
    kept: bool = False,
) -> Simulated:
    """Run it. With `validated` the trace, if one is kept, is validated against the specification.

    With `measured` the result says what the run has covered, with `kept` what of each partition was followed.

    The classes in `roles` play their parts, or those of the bug in the options, or those of production.
    """
    given = roles or roles_of(options)
    with coordinating(given) if isinstance(given, OffsetRoles) else nullcontext():
        ran = run_deterministically(_run, options, given, seed=options.seed)
    trace, recorder = ran.trace.told_apart(), ran.recorder
    validated = validated and options.traced
    covered: dict[int, float] = {}
    if measured:
        note_first(trace, steps_of(trace), covered)
    reached = (lambda place, state: note_first(trace, [(shape_of(state), place)], covered)) if measured else None
    followed = follow(trace, options, ran.disks, reached, asked=validated, kept=kept)
    elections = followed.elections
    declared = [one for one in elections if takes_part(one.topic, one.partition, options)]
    problems = ran.problems + tuple(misplaced(ran)) + (() if declared else ran.hanging)
    recorder.tell_apart(shared_names(ran.trace))
    declare(recorder, declared)
    return Simulated(
        options,
        recorder.history.operations(),
        ran.faults,
        elections,
        followed.validated if validated else (),
        followed.coordinators if validated else None,
        followed.groups if validated else None,
        problems,
        _sometimes(ran, trace, elections),
        trace,
        recorder.process(CLOSING),
        covered,
    )


def _sometimes(ran: _Ran, trace: TimedTrace, elections: Sequence[UncleanElection]) -> Mapping[str, int]:
    """How often each goal of the run's kind of campaign was reached."""
    if ran.transacting is not None:
        return sometimes_of_transactions.seen(trace, {**ran.transacting, **ran.seen})
    return {
        **sometimes.seen(trace, ran.recorder.history.rows(), elections),
        **ran.seen,
        "an idempotent producer began a new epoch": ran.lines.begun_again,
        "a crashed leader was replaced in time": ran.without.replaced,
        "a partition took writes without its leader": ran.without.written,
    }


def note_first(trace: TimedTrace, found: Iterable[tuple[int, int]], covered: dict[int, float]) -> None:
    """Note when each of these was first reached, given its place in the trace."""
    for point, place in found:
        at = round((trace.times[place] - trace.times[0]) / 1e9, 3)
        covered[point] = min(at, covered.get(point, at))


def traced(options: Options) -> TimedTrace:
    """The trace of decisions alone."""
    return run_deterministically(_run, options, roles_of(options), seed=options.seed).trace


def roles_of(options: Options) -> Roles | TransactionRoles | OffsetRoles:
    """The classes of the bug in the options, or those of production."""
    if options.bug is None:
        return CORRECT
    roles: Roles | TransactionRoles | OffsetRoles = HARNESS.bug(options.bug).roles
    return roles


@attrs.frozen(eq=False)
class _Ran:
    """What a run left, before it is checked."""

    trace: TimedTrace
    recorder: Recorder
    faults: Mapping[str, int]
    problems: tuple[str, ...]
    hanging: tuple[str, ...]
    """What of transactions the healed cluster did not bring to an end: no problem where logs have lost something."""
    without: WithoutALeader
    lines: Lines
    seen: Mapping[str, int]
    """What no trace shows."""
    transacting: Mapping[str, int] | None
    """What clients saw of transactions, in a run that has some."""
    disks: WhatDisksDid


def misplaced(ran: _Ran) -> Iterator[str]:
    """Idempotent producers whose records are not once and in order in what the closing client read."""
    closing = ran.recorder.process(CLOSING)
    logs: dict[int, list[int]] = {}
    for row in ran.recorder.history.rows():
        if row.process == closing and row.kind is Kind.FETCH and row.outcome is Outcome.OK and row.topic == TOPIC:
            logs.setdefault(row.partition, []).extend(row.values)
    for log in logs.values():
        yield from out_of_order(ran.lines.sent, log)


async def _run(options: Options, given: Roles | TransactionRoles | OffsetRoles) -> _Ran:
    roles, rules, coordinator = players(given)
    lines = Lines(roles.sequencing, options.sequences)
    cluster = Cluster(
        options.brokers,
        options.seed,
        options.config(),
        trace=options.traced,
        replica_class=replica_of(roles, options.sequences),
        controller_class=roles.controller,
        transaction_rules=rules(max_epoch=options.max_epoch),
    )
    trace = cluster.trace = TimedTrace()
    trace.of_groups = bool(options.transactions)
    recorder = Recorder(options.seed if options.number is None else options.number)
    injector = Injector(cluster, options)
    workload = Workload(cluster, options, recorder, lines)
    problems: list[str] = []
    hanging: list[str] = []
    without = WithoutALeader()
    try:
        async with coordinated_by(coordinator), cluster:
            await cluster.create_topic(
                TOPIC,
                options.partitions,
                options.replication_factor,
                config=options.topic_config(),
            )
            if options.transactions:
                await begin_coordinating(cluster)
            await injector.recreation.settle()
            await _safety(workload, injector)
            without = await without_a_leader(cluster, options, recorder, injector)
            problems += without.problems
            await injector.heal()
            problems += await _liveness(cluster, options, recorder, injector, hanging)
    except Exception as error:
        problems.append(f"the run ended by {first_of(error)!r}")
    problems += lines.findings
    transacting = workload.transacting.seen if options.transactions else None
    failed, seen = (tuple(problems), tuple(hanging)), dict(injector.seen)
    disks = WhatDisksDid(
        lied=frozenset(injector.lied),
        damaged=frozenset(injector.damaged),
        slowed=frozenset(injector.slowed),
        lacking=frozenset(injector.lacking),
    )
    return _Ran(trace, recorder, dict(injector.injected), *failed, without, lines, seen, transacting, disks)


def players(
    roles: Roles | TransactionRoles | OffsetRoles,
) -> tuple[Roles, type[TransactionRules], type[TransactionCoordinator]]:
    """The classes that play each part in a whole cluster."""
    if isinstance(roles, OffsetRoles):
        roles = CORRECT  # those of groups are put in place around the run (`coordinating`)
    if isinstance(roles, Roles):
        return roles, TransactionRules, TransactionCoordinator
    return Roles(replica=roles.replica, producers=roles.producers), roles.rules, roles.coordinator


@asynccontextmanager
async def coordinated_by(kind: type[TransactionCoordinator]) -> AsyncIterator[None]:
    """The brokers that start meanwhile have transaction coordinators of this class."""
    with patch.object(transactions, "TransactionCoordinator", kind):
        yield


def replica_of(roles: Roles, sequences: int) -> type[PartitionReplica]:
    """The class of replicas, which count sequences modulo so many."""
    if roles.producers is ProducerStates and sequences == ProducerStates.sequences:
        return roles.replica
    return remembering(roles.replica, type("Counted", (roles.producers,), {"sequences": sequences}))


def first_of(error: BaseException) -> BaseException:
    """The first error of a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _safety(workload: Workload, injector: Injector) -> None:
    """Clients and faults together, for the run's duration."""
    injector.disturb_links()
    with trio.move_on_after(workload.options.duration):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workload.run)
            if recreates(workload.options):
                nursery.start_soon(LedgerClients(workload.cluster, workload.options, workload.recorder).run)
            nursery.start_soon(injector.run)


async def _liveness(
    cluster: Cluster, options: Options, recorder: Recorder, injector: Injector, hanging: list[str]
) -> list[str]:
    """What the healed cluster fails to do; `hanging` gets what of that is due to transactions.

    It waits for one session timeout first: a session without heartbeats may still expire after the healing. And no
    topic is there for good, and no leader, as long as something is under way that may delete the one or elect another.
    """
    await trio.sleep(cluster.config.broker_session_timeout_ms / 1000)
    with trio.move_on_after(CONVERGES_WITHIN):
        while any(under_way(cluster)):  # noqa: ASYNC110
            await trio.sleep(0.05)
    await injector.settle()
    if not await _comes_to_be(CONVERGES_WITHIN, lambda: not any(unfinished(cluster, options))):
        return [not_converged(CONVERGES_WITHIN, why) for why in unfinished(cluster, options)]
    assert isinstance(cluster.trace, TimedTrace), "the run's own"
    within = LOST_WITHIN if unclean_elections(cluster.trace, {}) else CONVERGES_WITHIN
    if not await _comes_to_be(within, lambda: not any(undecided(cluster))):
        hanging += [not_converged(within, why) for why in undecided(cluster)]
    problems: list[str] = []
    async with cluster.client(CLOSING, observer=recorder) as client:
        for place, (topic, partition) in enumerate(partitions_of(options)):
            recorder.history.settled(topic=called(cluster, topic), partition=partition, call=now_ns())
            problems += await _close(client, topic, partition, 1_000_000_000 + place)
        if options.transactions and keeps_offsets(options) and not hanging:
            problems += await read_in_the_end(recorder, client, TOPIC)
    with trio.move_on_after(CONVERGES_WITHIN):
        while unsettled(cluster, options):  # noqa: ASYNC110
            await trio.sleep(0.05)
    return problems + list(unsettled(cluster, options))


def unfinished(cluster: Cluster, options: Options) -> Iterator[str]:
    """Why the run has not settled."""
    yield from under_way(cluster)
    yield from unsettled(cluster, options)


async def _comes_to_be(within: float, holds: Callable[[], bool]) -> bool:
    """Wait until it holds, so many virtual seconds at most; whether it does."""
    with trio.move_on_after(within) as waiting:
        while not holds():  # noqa: ASYNC110 - no one event to wait for
            await trio.sleep(0.05)
    return not waiting.cancelled_caught


def not_converged(within: float, why: str) -> str:
    """What a healed cluster has not come to."""
    return f"not converged {within:.0f} s after healing: {why}"


async def _close(client: Client, topic: str, partition: int, value: int) -> list[str]:
    """The healed partition takes a record with acks=all, and is read from where it begins to its end."""
    try:
        await client.list_offsets(topic, partition=partition)
        await client.produce(topic, b"%d" % value, partition=partition)
        position = (await client.list_offsets(topic, EARLIEST, partition=partition)).offset
        while True:
            fetched = await client.fetch(topic, position, partition=partition)
            if fetched.next_offset == position:
                return []
            position = fetched.next_offset
    except KafkaError as error:
        return [f"after healing, {topic}-{partition} fails: {error}"]


def called(cluster: Cluster, topic: str) -> str:
    """The name of a topic that is not the first of its name, where it is told apart from those before it."""
    if topic not in shared_names(cluster.trace):
        return topic
    return name_of(topic, cluster.controller.controller.image.topics[topic].topic_id)
