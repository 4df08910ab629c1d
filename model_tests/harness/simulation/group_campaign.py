"""Simulated clusters with a group whose members join, leave, crash and pause under faults.

What members saw is checked as a history of groups. When all is healed the members that live have to come together: one
stable generation that lasts, in which each partition is owned, and then all that was written is delivered and
committed. Members speak the classic protocol, or that of KIP-848, or each life one of them: then the group goes over,
and back. A run is a function of its options.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import cached_property
from itertools import count
from random import Random
from typing import Final

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import Client, ClientConfig
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicState
from tidegauge.impl.coordinators.groups.consumer.state import STABLE, ConsumerGroup
from tidegauge.impl.coordinators.transactions.rules import TransactionRules
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.linearizability.anomaly import Anomaly
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import Operations
from tidegauge.model_tests.harness.deterministic import run_deterministically
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.simulation.consumer_group_members import ConsumerGroupMember
from tidegauge.model_tests.harness.simulation.coordination import begin_coordinating, undecided
from tidegauge.model_tests.harness.simulation.faults import Injector
from tidegauge.model_tests.harness.simulation.group_goals import (
    EXPIRED,
    FENCED,
    GOALS,
    LEFT,
    MOVED,
    OF_PLAIN_MEMBERS,
    reached,
)
from tidegauge.model_tests.harness.simulation.group_members import GroupMember
from tidegauge.model_tests.harness.simulation.group_operator import GroupOperator
from tidegauge.model_tests.harness.simulation.group_options import GroupOptions
from tidegauge.model_tests.harness.simulation.group_recorder import GroupRecorder
from tidegauge.model_tests.harness.simulation.group_roles import CORRECT, CoordinatorRoles, coordinating
from tidegauge.model_tests.harness.simulation.group_trace import TraceUntilWrong, is_of_groups
from tidegauge.model_tests.harness.simulation.migrating_members import ClassicConsumer
from tidegauge.model_tests.harness.simulation.options import (
    TRANSACTIONS_CONFIG,
)
from tidegauge.model_tests.harness.simulation.processors import GOALS as OF_PROCESSORS
from tidegauge.model_tests.harness.simulation.processors import (
    OUTPUT,
    OUTPUT_PARTITIONS,
    Outputs,
    Processor,
    read_outputs,
)
from tidegauge.model_tests.harness.simulation.recorder import now_ns
from tidegauge.model_tests.harness.simulation.settling import unsettled
from tidegauge.model_tests.harness.simulation.simulated_member import NAME, REBALANCE_S, SESSION_S
from tidegauge.model_tests.harness.simulation.simulation import first_of
from tidegauge.model_tests.harness.simulation.slow_loads import SETTINGS, slow_loads
from tidegauge.model_tests.harness.simulation.unread_logs import unread_logs
from tidegauge.model_tests.harness.simulation.workload import CLIENT, TOPIC
from tidegauge.model_tests.harness.validation.coordinated import (
    ValidatedGroups,
    validate_group_coordinators,
)
from tidegauge.model_tests.harness.validation.coordinators import ValidatedCoordinators, validate_coordinators

MEMBER: Final = ClientConfig(request_timeout_ms=2_000, default_api_timeout_ms=2_500, retry_backoff_ms=50)
BEATING: Final = ClientConfig(request_timeout_ms=600, default_api_timeout_ms=2_500, retry_backoff_ms=50)
"""Of members that wait for nobody, as those of KIP-848 do not."""
CONFIG: Final = {
    **TRANSACTIONS_CONFIG,
    "group.min.session.timeout.ms": 100,
    "group.initial.rebalance.delay.ms": 100,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.session.timeout.ms": int(1_000 * SESSION_S),
    "group.consumer.min.heartbeat.interval.ms": 10,
    "group.consumer.heartbeat.interval.ms": 50,
}
CONVERGES_WITHIN_S: Final = 30.0
LASTS_S: Final = 2 * SESSION_S
LIVES: Final = (0.2, 0.5, 2.0)
"""How long a member lives, in durations of the run."""
LEAVES_SHARE: Final = 0.5
PAUSE_EACH_S: Final = 1.0
SELDOM_S: Final = 4.0
"""The same of members that have their sleep in transactions."""
PAUSES_S: Final = (0.1, 0.4, 1.6)
"""Some are shorter than a session, and some are longer."""
EXPIRES_SHARE: Final = 0.5
CLEANS: Final = {
    "offsets.retention.check.interval.ms": 500,
    "offsets.topic.segment.bytes": 2_000,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.min.cleanable.ratio": 0.01,
}
"""What expires goes soon, and the log of groups is cleaned again and again."""
GOES_OVER: Final = {"offsets.topic.segment.bytes": 4_000}
"""Room for the largest batch: all that was a group of one type goes, and one of the other comes."""
HANGS_SHARE: Final = 0.3
HANGS_S: Final = 2 * REBALANCE_S
"""An application that hangs does not give back in time what its member has to."""
EXPRESSIONS_SHARE: Final = 0.3
EXPRESSION: Final = f"{TOPIC[:3]}.*"
CLASSIC_SHARE: Final = 0.65
"""Of the lives of a group that goes over."""


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
    transactions: ValidatedCoordinators | None = None
    """The same of transaction coordinators, where members process exactly once: held against the specification."""

    @cached_property
    def coordinated(self) -> ValidatedGroups:
        """Whether what coordinators decided is a behaviour of the specification."""
        return validate_group_coordinators(self.trace, HARNESS.followers)

    @cached_property
    def anomalies(self) -> tuple[Anomaly, ...]:
        """What is wrong with what the members saw."""
        return check(self.operations).anomalies

    @property
    def of_the_run(self) -> tuple[str, ...]:
        """What went wrong, as text, but for what the history shows."""
        decided = (self.coordinated, *(() if self.transactions is None else (self.transactions,)))
        return (*self.problems, *(str(one) for one in decided if not one.holds))

    @property
    def failures(self) -> tuple[str, ...]:
        """Everything that went wrong, as text."""
        return (*self.of_the_run, *map(str, self.anomalies))


def simulate_group(
    options: GroupOptions,
    roles: CoordinatorRoles = CORRECT,
    *,
    until_wrong: bool = False,
    transaction_rules: type[TransactionRules] = TransactionRules,
) -> SimulatedGroup:
    """Run it, with these classes as the coordinators of groups and of transactions.

    With `until_wrong` it ends at the first decision that is no action of the specification, the same as without.
    """
    slowly = slow_loads(options.cluster.seed) if options.loads_slowly else nullcontext()
    with coordinating(roles), slowly, unread_logs() as unread:
        campaign = run_deterministically(_run, options, until_wrong, transaction_rules(), seed=options.cluster.seed)
    operations, faults = campaign.recorder.history.operations(), dict(campaign.faults)
    of_both = (goal for goal in GOALS if goal not in OF_PLAIN_MEMBERS)
    goals = (*of_both, *OF_PROCESSORS) if options.exactly_once else GOALS
    seen = reached(campaign.recorder.history.rows(), campaign.trace, campaign.seen, goals)
    problems = (*unread, *campaign.problems)
    return SimulatedGroup(options, operations, faults, problems, seen, campaign.trace, campaign.transactions)


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
        self.transactions: ValidatedCoordinators | None = None
        self.members: dict[str, GroupMember | ConsumerGroupMember] = {}
        """Those that live, by the name of their life."""
        self.is_healed = False
        self.is_over = False
        """From then on nobody lives again."""
        self.settled_at = math.inf
        """Since when all partitions are led and replicated. A member may still wait for what it has asked before."""
        self.outputs = Outputs()
        self._operator = GroupOperator(cluster, options.cluster.seed)
        self._lives: list[trio.CancelScope] = []
        self._writing = trio.CancelScope()

    def start(self, nursery: trio.Nursery) -> None:
        """Start all processes."""
        nursery.start_soon(self._write)
        if self.options.moves:
            nursery.start_soon(self._operator.move_now_and_then, lambda: self.is_healed)
        if self.options.fences:
            nursery.start_soon(self._operator.fence_now_and_then, lambda: self.is_healed)
            if self.options.migrates:
                nursery.start_soon(self._operator.come_back_now_and_then, lambda: self.is_healed)
        if self.options.is_consumer:
            nursery.start_soon(self._operator.remove_now_and_then, self.options.static, lambda: self.is_healed)
            nursery.start_soon(self._operator.look_now_and_then, lambda: self.partitions, lambda: self.is_healed)
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
            if isinstance(member, GroupMember):
                member.hangs = None
            else:
                member.settle_down()
            if member.processor is not None:
                member.processor.is_healed = True

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
        """One life after the other. A process of a static member that is fenced rests until something changes.

        When all is healed the next life is the last one, and there is one only if nobody lives. Who had to end before,
        and was still busy with that, is as good as ended then.
        """
        rng = Random(f"{name}/{self.options.cluster.seed}")
        for life in count():
            duration = self.options.cluster.duration
            with trio.CancelScope(deadline=trio.current_time() + rng.choice(LIVES) * duration) as scope:
                if self.is_healed:
                    scope.deadline = math.inf
                self._lives.append(scope)
                await self._live(f"{name}/{life}", instance, number, rng)
            self._lives.remove(scope)
            if self.is_over or (self.is_healed and not scope.cancelled_caught):
                return
            await trio.sleep(rng.uniform(0.05, 0.3) * duration)
            if self.is_over or (self.is_healed and self.members):
                return

    async def _live(self, name: str, instance: str | None, number: int, rng: Random) -> None:
        options = self.options
        is_consumer = options.is_consumer and not (options.migrates and rng.random() < CLASSIC_SHARE)
        async with self.cluster.client(name, config=BEATING if is_consumer else MEMBER) as client:
            member = self._member(client, name, instance, number, rng, is_consumer=is_consumer)
            if options.exactly_once:
                member.processor = self._processor(client, name, rng)
            may_leave = instance is None or is_consumer
            if may_leave and not self.is_healed and rng.random() < LEAVES_SHARE:
                member.leaves_at = trio.current_time() + rng.choice(LIVES) * options.cluster.duration
            self.members[name] = member
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._disturb, member, rng)
                    if options.wanders and isinstance(member, ConsumerGroupMember) and not self.is_healed:
                        nursery.start_soon(member.wander, Random(f"{name}/wanders/{options.cluster.seed}"))
                    await member.live(options.rest_s)
                    nursery.cancel_scope.cancel()
            finally:
                del self.members[name]
                self.seen[FENCED] += member.is_fenced
                self.seen[LEFT] += member.has_left

    def _member(
        self, client: Client, name: str, instance: str | None, number: int, rng: Random, *, is_consumer: bool
    ) -> GroupMember | ConsumerGroupMember:
        options, process = self.options, self.recorder.process(name)
        number = process if instance is None else number
        of = (client, self.recorder, TOPIC, options.cluster.partitions, process, number, instance, rng)
        if not is_consumer:
            if options.migrates:
                return ClassicConsumer(*of, is_cooperative=options.is_cooperative)
            hangs = Random(f"{name}/hangs/{options.cluster.seed}") if options.hangs and not self.is_healed else None
            return GroupMember(*of, is_cooperative=options.is_cooperative, hangs=hangs, hangs_often=options.fences)
        expression = EXPRESSION if rng.random() < EXPRESSIONS_SHARE else ""
        return ConsumerGroupMember(*of, expression=expression, repeats=options.repeats)

    def _processor(self, client: Client, name: str, rng: Random) -> Processor:
        """Its transactional id is that of all lives of its name, or of all of a static member, or its own.

        What one has left open under its own only the time-out ends: until then nobody is told where to go on.
        """
        whose = rng.choice((name, name.rsplit("/", 1)[0], name.split("/", 1)[0]))
        of = (client, self.recorder, self.outputs, NAME, f"processor {whose}", rng, self.seen)
        return Processor(*of, is_healed=self.is_healed)

    async def _disturb(self, member: GroupMember | ConsumerGroupMember, rng: Random) -> None:
        """Now and then it does nothing for a while."""
        each = PAUSE_EACH_S if member.processor is None else SELDOM_S
        while not self.is_healed:
            await trio.sleep(rng.uniform(0, 2 * each))
            if self.is_healed:
                return
            if isinstance(member, ConsumerGroupMember) and rng.random() < HANGS_SHARE:
                member.hangs_until = trio.current_time() + HANGS_S
                continue
            pause = rng.choice(PAUSES_S)
            self.seen[EXPIRED] += pause > SESSION_S
            member.paused_until = trio.current_time() + pause

    # --- when all is healed ------------------------------------------------------------------------------------------

    def group(self) -> ClassicGroup | ConsumerGroup | None:
        """The group at its coordinator; None where nobody knows it."""
        leader = self.cluster.leader(CONSUMER_OFFSETS, 0)
        if leader < 0 or not self.cluster.is_alive(leader):
            return None
        led = self.cluster.broker(leader).groups.led(NAME)
        if isinstance(led, ErrorCode):
            return None
        return led.state.classic.get(NAME) or led.state.consumers.get(NAME)

    @property
    def generation(self) -> int | None:
        """The group's generation, or its epoch."""
        group = self.group()
        return group.epoch if isinstance(group, ConsumerGroup) else None if group is None else group.generation

    @property
    def partitions(self) -> int:
        """How many there are by now."""
        return len(self.cluster.controller.controller.image.topics[TOPIC].partitions)

    def unstable(self) -> Iterator[str]:
        """Why the group has not come together."""
        group = self.group()
        if group is None:
            yield "no coordinator knows the group"
            return
        live = {one.member_id: one for one in self.members.values() if not (one.is_fenced or one.is_refused)}
        for one in live.values():
            if one.worked_at < self.settled_at:
                yield f"process {one.process} waits for what it asked before the cluster had settled"
        state = group.state if isinstance(group, ConsumerGroup) else group.state.value
        if state not in (STABLE, ClassicState.STABLE.value):
            yield f"the group is {state}"
        if set(group.members) != set(live):
            yield f"the group has {len(group.members)} members, and {len(live)} live"
        if {one.generation for one in live.values()} != {self.generation}:
            yield f"not all members are in generation {self.generation}"
        owned = sorted(partition for one in live.values() for partition in one.owned)
        if owned != list(range(self.partitions)):
            yield f"the partitions {owned} are owned"

    def behind(self) -> Iterator[str]:
        """What was written and is not delivered yet."""
        for member in self.members.values():
            for partition, position in member.owned.items():
                end = self.end(partition)
                if position != end:
                    yield f"partition {partition} is delivered up to {position}, and ends at {end}"

    def end(self, partition: int, topic: str = TOPIC) -> int:
        """The log end offset of a partition."""
        hosted = self.cluster.broker(self.cluster.leader(topic, partition)).replicas.get(topic, partition)
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
        generation = self.generation
        await trio.sleep(LASTS_S)
        why = list(self.unstable())
        if why or self.generation != generation:
            self.problems.append(f"generation {generation} did not last: {'; '.join(why) or 'another one has begun'}")
        if await self._comes_about(self.behind):
            for partition in range(self.partitions):
                self.recorder.settled(partition, self.end(partition))
            await self._read_all()
            if self.options.exactly_once:
                await self._compare()
            await self._end()

    async def _end(self) -> None:
        """All members end without a word. When they are out an operator deletes the group, or time does."""
        self.is_over = True
        for scope in self._lives:
            scope.cancel()
        if not await self._comes_about(self._left_over) or not any(self._known()):
            return
        lets_expire = self.options.is_consumer and Random(f"end/{self.options.cluster.seed}").random() < EXPIRES_SHARE
        try:
            await self._operator.delete(is_group=not lets_expire)
        except KafkaError as error:
            self.problems.append(f"the group cannot be deleted: {error}")
        if lets_expire:
            self._operator.let_time_pass()
        await self._comes_about(self._known)

    def _known(self) -> Iterator[str]:
        """What is known of the group still, which is to be gone."""
        leader = self.cluster.leader(CONSUMER_OFFSETS, 0)
        led = self.cluster.broker(leader).groups.led(NAME)
        if isinstance(led, ErrorCode):
            yield "nobody coordinates the group"
        elif led.state.is_known(NAME):
            yield f"of the group something is known: {led.state.offsets.keys_of(NAME)}"

    def _left_over(self) -> Iterator[str]:
        """Who is still a member, though all have ended. A group that has committed nothing goes with the last one."""
        if not any(self._known()):
            return
        group = self.group()
        if group is None:
            yield "no coordinator knows the group"
        elif group.members:
            yield f"{len(group.members)} members are in the group, and all have ended"

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

    async def _compare(self) -> None:
        """What read_committed returns of the outputs is held against the inputs."""
        if not await self._comes_about(lambda: undecided(self.cluster)):
            return
        async with self.cluster.client("reader of outputs", config=CLIENT) as client:
            committed = await read_outputs(self.recorder, client, lambda partition: self.end(partition, OUTPUT))
        ends = {partition: self.end(partition) for partition in range(self.partitions)}
        self.problems += self.outputs.faults(committed, ends)

    async def _comes_about(self, missing: Callable[[], Iterable[str]]) -> bool:
        with trio.move_on_after(CONVERGES_WITHIN_S) as waiting:
            while any(missing()):  # noqa: ASYNC110 - no one event to wait for
                await trio.sleep(0.05)
        if waiting.cancelled_caught:
            self.problems.append(f"not {CONVERGES_WITHIN_S:.0f} s after healing: {'; '.join(missing())}")
        return not waiting.cancelled_caught


async def _run(options: GroupOptions, until_wrong: bool, rules: TransactionRules) -> GroupCampaign:
    drawn = options.cluster
    config = {**drawn.config(), **CONFIG, **(CLEANS if options.is_consumer else {})}
    config |= SETTINGS if options.loads_slowly else {}
    config |= GOES_OVER if options.migrates else {}
    config["group.consumer.assignment.interval.ms"] = options.interval_ms
    cluster = Cluster(drawn.brokers, drawn.seed, config, trace=True, transaction_rules=rules)
    if until_wrong:
        cluster.trace = TraceUntilWrong()
    cluster.trace.of_groups = True
    campaign, injector = GroupCampaign(cluster, options), Injector(cluster, drawn)
    try:
        async with cluster, trio.open_nursery() as nursery:
            if isinstance(cluster.trace, TraceUntilWrong):
                cluster.trace.run = nursery.cancel_scope
            topics = {TOPIC: drawn.partitions, **({OUTPUT: OUTPUT_PARTITIONS} if options.exactly_once else {})}
            for topic, partitions in topics.items():
                await cluster.create_topic(topic, partitions, drawn.replication_factor, config=drawn.topic_config())
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
    if options.exactly_once:
        campaign.transactions = validate_coordinators(cluster.trace)
    return campaign
