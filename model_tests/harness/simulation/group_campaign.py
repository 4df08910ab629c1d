"""Simulated clusters with a group whose members join, leave, crash and pause under faults.

What members saw is checked as a history of groups. When all is healed the members that live have to come together: one
stable generation that lasts, in which each partition is owned, and then all that was written is delivered and
committed. A run is a function of its options.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import count
from random import Random
from typing import Final
from unittest.mock import patch

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import ClientConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicState
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.server.broker import groups
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace import groups as decisions
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.linearizability.anomaly import Anomaly
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import Kind, Operations, Outcome
from tidegauge.model_tests.harness.cores.classic_groups import CORRECT_GROUPS, GroupRoles
from tidegauge.model_tests.harness.deterministic import run_deterministically
from tidegauge.model_tests.harness.simulation.coordination import begin_coordinating
from tidegauge.model_tests.harness.simulation.faults import Injector
from tidegauge.model_tests.harness.simulation.group_members import NAME, SESSION_S, GroupMember
from tidegauge.model_tests.harness.simulation.group_recorder import GroupRecorder
from tidegauge.model_tests.harness.simulation.options import (
    TRANSACTIONS_CONFIG,
    Fault,
    Losses,
    Options,
    sparse,
    transacting,
)
from tidegauge.model_tests.harness.simulation.recorder import now_ns
from tidegauge.model_tests.harness.simulation.settling import unsettled
from tidegauge.model_tests.harness.simulation.simulation import first_of
from tidegauge.model_tests.harness.simulation.workload import CLIENT, TOPIC
from tidegauge.model_tests.harness.validation.groups import ValidatedGroups, validate_groups

MEMBER: Final = ClientConfig(request_timeout_ms=2_000, default_api_timeout_ms=2_500, retry_backoff_ms=50)
CONFIG: Final = {
    **TRANSACTIONS_CONFIG,
    "group.min.session.timeout.ms": 100,
    "group.initial.rebalance.delay.ms": 100,
}
CONVERGES_WITHIN_S: Final = 30.0
LASTS_S: Final = 2 * SESSION_S
LIVES: Final = (0.2, 0.5, 2.0)
"""How long a member lives, in durations of the run."""
LEAVES_SHARE: Final = 0.5
PAUSE_EACH_S: Final = 1.0
PAUSES_S: Final = (0.1, 0.4, 1.6)
"""Some are shorter than a session, and some are longer."""
NO_PART: Final = (Fault.GROWTH, Fault.CLOCK)
"""Faults by which partitions come that no member looks for, and offsets expire."""


@attrs.frozen
class GroupOptions:
    """What a run depends on besides the code."""

    cluster: Options
    dynamic: int = 2
    static: int = 1
    """Static members, each with two processes at times."""
    is_cooperative: bool = False
    rest_s: float = 0.05

    def described(self) -> dict[str, str]:
        """Who the members are, as text."""
        protocol = "cooperative" if self.is_cooperative else "eager"
        return {"members": f"{self.dynamic} dynamic, {self.static} static", "protocol": protocol}


def draw_group(seed: int) -> GroupOptions:
    """The options of a seed. A static member that crashes may leave a partition to nobody where it is cooperative."""
    rng = Random(f"options/{seed}/groups")
    options = transacting(sparse(seed))
    faults: Mapping[Fault, int] = {fault: weight for fault, weight in options.faults.items() if fault not in NO_PART}
    is_cooperative = rng.random() < 0.5
    return GroupOptions(
        attrs.evolve(options, transactions=0, faults=faults, losses=rng.choice((Losses.NONE, Losses.SPARED))),
        dynamic=rng.choice((2, 3)),
        static=0 if is_cooperative else rng.choice((0, 1, 2)),
        is_cooperative=is_cooperative,
    )


@attrs.frozen(eq=False, slots=False)
class SimulatedGroup:
    """The result of a run."""

    options: GroupOptions
    operations: Operations
    """The history; its id is the seed."""
    faults: Mapping[str, int]
    """Kind of fault -> times injected."""
    problems: tuple[str, ...]
    """What the healed group did not come to."""
    sometimes: Mapping[str, int]
    """Rare things that a good campaign has seen -> times seen."""
    trace: tuple[TraceEvent, ...] = ()
    """What coordinators decided, and which brokers ended."""

    @cached_property
    def coordinated(self) -> ValidatedGroups:
        """Whether what coordinators decided is a behaviour of the specification."""
        return validate_groups(self.trace)

    @cached_property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """What is wrong with what the members saw."""
        return check(self.operations).anomalies

    @property
    def of_the_run(self) -> tuple[str, ...]:
        """What went wrong, as text, but for what the history shows."""
        return self.problems if self.coordinated.holds else (*self.problems, str(self.coordinated))

    @property
    def failures(self) -> tuple[str, ...]:
        """Everything that went wrong, as text."""
        return (*self.of_the_run, *map(str, self.anomalies))


def simulate_group(options: GroupOptions, roles: GroupRoles = CORRECT_GROUPS) -> SimulatedGroup:
    """Run it, with these classes as the coordinator of groups."""

    def coordinator(limits: Limits) -> GroupCoordinator:
        made = roles.coordinator(limits)
        made.classic.rules = roles.rules()
        return made

    with patch.object(groups, "GroupCoordinator", coordinator):
        campaign = run_deterministically(_run, options, seed=options.cluster.seed)
    operations, faults = campaign.recorder.history.operations(), dict(campaign.faults)
    seen = sometimes(campaign)
    return SimulatedGroup(options, operations, faults, tuple(campaign.problems), seen, campaign.trace)


REBALANCED: Final = "a group began another generation"
REFUSED: Final = "a commit was refused"
UNKNOWN: Final = "a commit has an unknown outcome"
AGAIN: Final = "a record was delivered again"
TAKEN_OVER: Final = "a partition went from one member to another"
FENCED: Final = "a static member's former process was fenced"
EXPIRED: Final = "a pause was longer than the session"
LEFT: Final = "a member left"
MOVED: Final = "another broker coordinated the group in the end"
GOALS: Final = (REBALANCED, REFUSED, UNKNOWN, AGAIN, TAKEN_OVER, FENCED, EXPIRED, LEFT, MOVED)


def sometimes(campaign: GroupCampaign) -> Mapping[str, int]:
    """How often each goal was reached."""
    rows, counts = campaign.recorder.history.rows(), campaign.seen
    commits = Counter(row.outcome for row in rows if row.kind is Kind.COMMIT_OFFSETS)
    delivered = [(row.partition, offset) for row in rows if row.kind is Kind.DELIVER for offset in row.placed]
    owners = {(partition, row.process) for row in rows if row.kind is Kind.ASSIGN for partition in row.values}
    counts[REBALANCED] += len({row.generation for row in rows if row.kind is Kind.ASSIGN}) - 1
    counts[REFUSED] += commits[Outcome.FAIL]
    counts[UNKNOWN] += commits[Outcome.INFO]
    counts[AGAIN] += len(delivered) - len(set(delivered))
    counts[TAKEN_OVER] += len(owners) - len({partition for partition, _ in owners})
    return {goal: counts[goal] for goal in GOALS}


class GroupCampaign:
    """The members of one run, and who writes what they consume."""

    def __init__(self, cluster: Cluster, options: GroupOptions) -> None:
        self.cluster = cluster
        self.options = options
        self.recorder = GroupRecorder(options.cluster.seed)
        self.seen: Counter[str] = Counter()
        self.problems: list[str] = []
        self.faults: Mapping[str, int] = {}
        self.trace: tuple[TraceEvent, ...] = ()
        """What coordinators decided, and which brokers ended."""
        self.members: dict[str, GroupMember] = {}
        """Those that live, by the name of their life."""
        self.is_healed = False
        self.settled_at = math.inf
        """Since when all partitions are led and replicated. A member may still wait for what it has asked before."""
        self._lives: list[trio.CancelScope] = []
        self._writing = trio.CancelScope()

    def start(self, nursery: trio.Nursery) -> None:
        """Start all processes."""
        nursery.start_soon(self._write)
        for number in range(self.options.dynamic):
            nursery.start_soon(self._live_again, f"dynamic-{number}", None, number)
        for number in range(self.options.static):
            for process in range(2):
                name = f"static-{number}/{process}"
                nursery.start_soon(self._live_again, name, f"static-{number}", 1_000_000 + number)

    def heal(self) -> None:
        """From now on nobody ends, pauses or writes; of a static member one process goes on."""
        self.is_healed = True
        self._writing.cancel()
        for scope in self._lives:
            scope.deadline = math.inf
        for member in self.members.values():
            member.leaves_at = math.inf

    async def _write(self) -> None:
        values = count()
        rng = Random(f"writer/{self.options.cluster.seed}")
        with self._writing:
            async with self.cluster.client("writer", config=CLIENT, observer=self.recorder) as client:
                while True:
                    partition = rng.randrange(self.options.cluster.partitions)
                    with suppress(KafkaError):
                        await client.produce(TOPIC, b"%d" % next(values), partition=partition)
                    await trio.sleep(rng.uniform(0, 2 * self.options.rest_s))

    async def _live_again(self, name: str, instance: str | None, number: int) -> None:
        """One life after the other. A process of a static member that is fenced rests until something changes."""
        rng = Random(f"{name}/{self.options.cluster.seed}")
        for life in count():
            duration = self.options.cluster.duration
            with trio.CancelScope(deadline=trio.current_time() + rng.choice(LIVES) * duration) as scope:
                if self.is_healed:
                    scope.deadline = math.inf
                self._lives.append(scope)
                await self._live(f"{name}/{life}", instance, number, rng)
            self._lives.remove(scope)
            if self.is_healed:
                return
            await trio.sleep(rng.uniform(0.05, 0.3) * duration)
            if self.is_healed:
                return

    async def _live(self, name: str, instance: str | None, number: int, rng: Random) -> None:
        options = self.options
        async with self.cluster.client(name, config=MEMBER) as client:
            process = self.recorder.process(name)
            member = GroupMember(
                client,
                self.recorder,
                TOPIC,
                options.cluster.partitions,
                process,
                process if instance is None else number,
                instance,
                options.is_cooperative,
                rng,
            )
            if instance is None and not self.is_healed and rng.random() < LEAVES_SHARE:
                member.leaves_at = trio.current_time() + rng.choice(LIVES) * options.cluster.duration
            self.members[name] = member
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._disturb, member, rng)
                    await member.live(options.rest_s)
                    nursery.cancel_scope.cancel()
            finally:
                del self.members[name]
                self.seen[FENCED] += member.is_fenced
                self.seen[LEFT] += member.has_left

    async def _disturb(self, member: GroupMember, rng: Random) -> None:
        """Now and then it does nothing for a while."""
        while not self.is_healed:
            await trio.sleep(rng.uniform(0, 2 * PAUSE_EACH_S))
            if self.is_healed:
                return
            pause = rng.choice(PAUSES_S)
            self.seen[EXPIRED] += pause > SESSION_S
            member.paused_until = trio.current_time() + pause

    # --- when all is healed ------------------------------------------------------------------------------------------

    def group(self) -> ClassicGroup | None:
        """The group at its coordinator; None where nobody knows it."""
        leader = self.cluster.leader(CONSUMER_OFFSETS, 0)
        if leader < 0 or not self.cluster.is_alive(leader):
            return None
        led = self.cluster.broker(leader).groups.led(NAME)
        return None if isinstance(led, ErrorCode) else led.state.classic.get(NAME)

    def unstable(self) -> Iterator[str]:
        """Why the group has not come together."""
        group = self.group()
        if group is None:
            yield "nobody coordinates the group"
            return
        live = {one.member_id: one for one in self.members.values() if not one.is_fenced}
        for one in live.values():
            if one.worked_at < self.settled_at:
                yield f"process {one.process} waits for what it asked before the cluster had settled"
        if group.state is not ClassicState.STABLE:
            yield f"the group is {group.state.value}"
        if set(group.members) != set(live):
            yield f"the group has {len(group.members)} members, and {len(live)} live"
        if {one.generation for one in live.values()} != {group.generation}:
            yield f"not all members are in generation {group.generation}"
        owned = sorted(partition for one in live.values() for partition in one.owned)
        if owned != list(range(self.options.cluster.partitions)):
            yield f"the partitions {owned} are owned"

    def behind(self) -> Iterator[str]:
        """What was written and is not delivered yet."""
        for member in self.members.values():
            for partition, position in member.owned.items():
                end = self.end(partition)
                if position != end:
                    yield f"partition {partition} is delivered up to {position}, and ends at {end}"

    def end(self, partition: int) -> int:
        """The log end offset of a partition."""
        hosted = self.cluster.broker(self.cluster.leader(TOPIC, partition)).replicas.get(TOPIC, partition)
        assert hosted is not None, "its leader has it"
        return hosted.replica.log_end_offset

    async def comes_to_rest(self) -> None:
        """The group is stable, stays so, and all is delivered."""
        self.heal()
        await trio.sleep(max(PAUSES_S))
        if not await self._comes_about(lambda: unsettled(self.cluster, self.options.cluster)):
            return
        self.settled_at = trio.current_time()
        if not await self._comes_about(self.unstable):
            return
        generation = getattr(self.group(), "generation", None)
        await trio.sleep(LASTS_S)
        why = list(self.unstable())
        if why or getattr(self.group(), "generation", None) != generation:
            self.problems.append(f"generation {generation} did not last: {'; '.join(why) or 'another one has begun'}")
        if await self._comes_about(self.behind):
            for partition in range(self.options.cluster.partitions):
                self.recorder.settled(partition, self.end(partition))
            await self._read_all()

    async def _read_all(self) -> None:
        """A reader that is no member reads each partition from its start to its end: nothing written is lost."""
        async with self.cluster.client("reader", config=CLIENT, observer=self.recorder) as client:
            for partition in range(self.options.cluster.partitions):
                self.recorder.history.settled(call=now_ns(), partition=partition, topic=TOPIC)
                position = 0
                try:
                    while position < self.end(partition):
                        position = (await client.fetch(TOPIC, position, partition=partition)).next_offset
                except KafkaError as error:
                    self.problems.append(f"partition {partition} cannot be read from {position} on: {error}")

    async def _comes_about(self, missing: Callable[[], Iterable[str]]) -> bool:
        with trio.move_on_after(CONVERGES_WITHIN_S) as waiting:
            while any(missing()):  # noqa: ASYNC110 - no one event to wait for
                await trio.sleep(0.05)
        if waiting.cancelled_caught:
            self.problems.append(f"not {CONVERGES_WITHIN_S:.0f} s after healing: {'; '.join(missing())}")
        return not waiting.cancelled_caught


def is_of_groups(event: TraceEvent) -> bool:
    """Whether it is for the validation of groups."""
    return isinstance(event.decision, decisions.OfGroups | events.Crash | events.Stop)


async def _run(options: GroupOptions) -> GroupCampaign:
    drawn = options.cluster
    cluster = Cluster(drawn.brokers, drawn.seed, {**drawn.config(), **CONFIG}, trace=True)
    cluster.trace.of_groups = True
    campaign, injector = GroupCampaign(cluster, options), Injector(cluster, drawn)
    try:
        async with cluster, trio.open_nursery() as nursery:
            await cluster.create_topic(TOPIC, drawn.partitions, drawn.replication_factor, config=drawn.topic_config())
            await begin_coordinating(cluster)
            first = cluster.leader(CONSUMER_OFFSETS, 0)
            campaign.start(nursery)
            injector.disturb_links()
            with trio.move_on_after(drawn.duration):
                await injector.run()
                await trio.sleep_forever()
            await injector.heal()
            await injector.settle()
            await campaign.comes_to_rest()
            campaign.seen[MOVED] += cluster.leader(CONSUMER_OFFSETS, 0) != first
            nursery.cancel_scope.cancel()
    except Exception as error:
        campaign.problems.append(f"the run ended by {first_of(error)!r}")
    campaign.faults = injector.injected
    campaign.trace = tuple(one for one in cluster.trace if is_of_groups(one))
    return campaign
