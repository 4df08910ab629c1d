"""Consumer groups (KIP-848) in lockstep: the core of a coordinator beside the machine of `spec.groups.consumer`.

The harness is the shell: it has the log, in records as they are on a disk, and lets deadlines pass when the machine
says so. A new coordinator loads the bytes of all records that were committed, or, every other time, of the last one of
each key. What processes make of their responses is the specification's; the native member goes beside it in
`test_consumer_group_members`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from random import Random
from typing import Final, TypeVar

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import Moment
from tidegauge.impl.coordinators.groups.consumer.coordinator import (
    Beat,
    ConsumerDeadline,
    ConsumerLimits,
    ConsumerTimer,
    ConsumerWrite,
    Decided,
    Ended,
    Landed,
    Loaded,
    Told,
)
from tidegauge.impl.coordinators.groups.consumer.records import GROUP_EPOCH, TARGET_EPOCH
from tidegauge.impl.coordinators.groups.consumer.rules import PAUSE_MS
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerHeartbeat, HeartbeatResponse, Topic
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.log_entries import LogEntry, log_entries
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey, GroupRecord, decode_key
from tidegauge.impl.coordinators.groups.requests import Commit, NewOffset, Ruling
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.payload import Record, build_batch, decode_records
from tidegauge.model_tests.harness.cores.consumer_abstraction import (
    CORRECT_CONSUMERS,
    GROUP,
    INTERVAL_MS,
    REFRESH_MS,
    ConsumerRoles,
    Numbers,
    abstract_group,
    abstract_offsets,
    abstract_resolving,
    check_error,
    check_told,
    error_as_specified,
    expression_of,
    instance_name,
    member_name,
    partitions_in,
    topic_name,
    with_target_of,
)
from tidegauge.model_tests.harness.cores.consumer_asked import asked_differs
from tidegauge.model_tests.harness.cores.consumer_beside import (
    ASSIGNORS,
    TOO_LARGE,
    assignors,
    commits,
    deletions,
    of_nobody,
    refuses_long_texts,
    while_time_runs,
    with_one_more,
    without_too_large,
)
from tidegauge.model_tests.harness.cores.consumer_values import check_values, forgets_what_is_deleted
from tidegauge.model_tests.harness.cores.known_topics import Known
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan, enabled_candidates
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.groups.consumer import processes, requests, timing
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer.machine import ConsumerGroups as Machine
from tidegauge.spec.groups.consumer.state import NONE, State
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action

R = TypeVar("R")
FAILS_EACH: Final = 3
"""One of so many batches never is in the log, at its first try."""
SESSION_MS: Final = 1_000
CLASSIC_SESSION_MS: Final = 10_000
REBALANCE_MS: Final = 500
NOW_MS: Final = 1_000_000
FIRST_MS: Final = 1
"""What the clock says when a walk begins: less than any interval after 1970, for who has never made a target."""
OFTEN: Final = 1_000
TOPIC_VERSION: Final = 1_000_000
"""What the version of topics grows by with each one that comes; it grows by less with all else."""
TOPIC_IDS: Final = tuple(f"00000000-0000-0000-0000-00000000000{number}" for number in range(3))


def large_consumers(rng: Random) -> Machine:
    """A machine for a walk: it bounds little. What is deleted has no offsets, which go with it."""
    count, topics, commits = rng.choice((1, 2, 3)), rng.choice((1, 2, 3)), rng.choice((0, 2))
    shapes: tuple[tuple[int, ...], ...] = ((), (0,), (0, 1), (0, 0))
    bounds = dict.fromkeys(Machine().perturbations, OFTEN)
    bounds |= {"AddPartition": 2, "FailOver": rng.choice((0, OFTEN)), "CreateTopic": rng.choice((0, 1))}
    bounds["ChangeRacks"] = rng.choice((0, 2))
    bounds |= {name: rng.choice((0, 3)) for name in ("Hang", "ExpireRebalance", "ExpireSession")}
    bounds["DeleteTopic"] = 0 if commits else rng.choice((0, 1))
    return Machine(
        processes=count,
        instances=rng.choice([shape for shape in shapes if len(shape) <= count]),
        partitions=topics + rng.choice((0, 1, 2)),
        topics=topics,
        matches=((0,),) if topics == 1 else ((0, topics - 1), (topics - 1,)),
        expressions=rng.choice(((), (0,), (0, NONE, 1) if topics > 1 else (0, NONE)))[:count],
        commits=commits,
        bounds=Bounds(bounds),
        named=rng.choice(((), (0,))),
        spaces_targets=rng.random() < 0.5,
    )


class ConsumerCores:
    """One group at its coordinator, in the machine's initial state."""

    def __init__(self, machine: Machine, roles: ConsumerRoles = CORRECT_CONSUMERS) -> None:
        self.machine = machine
        self.roles = roles
        ids = dict(enumerate(TOPIC_IDS[: machine.topics]))
        created_at = [max(0, topic + 1 - machine.first_topics) for topic in range(machine.topics)]
        self.numbers = Numbers(machine, ids, FIRST_MS, [one * TOPIC_VERSION for one in created_at])
        self.log: list[GroupRecord] = []
        """What is committed."""
        self.appended: list[ConsumerWrite | Ruling | None] = []
        """What is not; None is a response that waits for what was decided before it."""
        self.reader, self.read, self.offsets = GroupCoordinator(Limits()), 0, (spec.Offset(),) * machine.most_partitions
        """Who has read so much of the log, and the offsets there."""
        self.fail_overs = 0
        self.asked = 0
        """How many states have been asked about."""
        self.writes = 0
        """How many batches were on their way into the log."""
        self.decided: list[Decided] = []
        """What the coordinator has told who follows its decisions."""
        self.coordinator: GroupCoordinator | None = self.started([])

    def close(self) -> None:
        """There is nothing to stop."""

    def started(self, records: list[GroupRecord]) -> GroupCoordinator:
        """A coordinator that has read these records."""
        limits = ConsumerLimits(refresh_ms=REFRESH_MS, interval_ms=self.numbers.interval_ms)
        coordinator = GroupCoordinator(Limits(consumer=limits))
        coordinator.consumers.rules = with_target_of(self.machine, self.roles.rules, self.numbers)
        coordinator.consumers.watching = lambda group, decided: self.decided.append(decided)
        coordinator.replay(entries(records))
        for group in coordinator.consumers.committed:
            self.told_of(Loaded, partial(coordinator.consumers.load, group, SESSION_MS, 0))
        return coordinator

    def told_of(self, kind: type[Decided], ask: Callable[[], R]) -> R:
        """Ask for a decision; who follows the coordinator is told of it."""
        self.decided.clear()
        decided = ask()
        assert [type(one) for one in self.decided] == [kind], f"{self.decided} is told, and not {kind.__name__}"
        return decided

    @property
    def core(self) -> GroupCoordinator:
        assert self.coordinator is not None, "it is loading"
        return self.coordinator

    def perform(self, action: Action, before: State) -> None:
        """Do what the action says; it is enabled in the specification."""
        if type(action) in STEPS:
            STEPS.perform(self, action, before)
        while self.appended and not self.machine.writes_in_two_steps:
            self.commit_first()

    # --- requests ----------------------------------------------------------------------------------------------------

    def known(self, state: State) -> Known:
        """The topics that there are."""
        there = [topic for topic in range(self.machine.topics) if self.machine.has_topic(state, topic)]
        sizes = {topic: partitions_in(self.machine, topic, state.partitions) for topic in there}
        newest = (state.created - self.machine.first_topics) * TOPIC_VERSION
        version = newest + len(state.deleted) + state.partitions * 100 + state.racks * 10_000
        topics = {topic_name(one): Topic(TOPIC_IDS[one], sizes[one]) for one in there}
        return Known(topics, version, newest, self.numbers.now_ms, rack=str(state.racks))

    def beat(self, request: spec.HeartbeatRequest, state: State) -> ConsumerWrite | HeartbeatResponse:
        says = request.full or request.epoch == spec.JOINING_EPOCH
        asked = ConsumerHeartbeat(
            GROUP,
            member_name(request.member_id),
            request.epoch,
            instance_id=instance_name(self.machine, request.process),
            rebalance_timeout_ms=REBALANCE_MS if says else -1,
            topics=tuple(map(topic_name, request.topics)),
            expression=expression_of(self.machine, request.expression),
            owned=None if request.owned is None else frozenset(map(self.numbers.place, request.owned)),
            assignor=ASSIGNORS[request.member_id % len(ASSIGNORS)],
        )
        ask = partial(self.core.consumers.heartbeat, asked, self.known(state), SESSION_MS, 0)
        ask = partial(while_time_runs, self, asked.member_id, ask)
        if request.epoch == spec.JOINING_EPOCH:
            ask = partial(with_one_more, self, asked.member_id, asked.instance_id, ask)
        return self.retried(Beat, ask, state)

    def retried(self, kind: type[Decided], ask: Callable[[], R], state: State) -> R:
        """Ask for a decision. Of what is written a third is not in the log, in some walks the first batch of a group:
        that changes nothing, and it is asked for again.
        """
        made = self.told_of(kind, ask)
        if not isinstance(made, ConsumerWrite) or not made.records:
            return made
        assert not self.core.consumers.is_committed(made), "it is in the log before it is written"
        self.writes += 1
        if (self.writes + self.machine.partitions) % FAILS_EACH:
            return made
        self.told_of(Landed, lambda: self.core.consumers_failed(made, Moment(0, NOW_MS)))
        assert self.decided == [Landed(made, is_committed=False)], f"{self.decided} is told of what is not written"
        assert self.core.consumers.get(GROUP) is made.before, "the group is another one, and nothing is written"
        assert not list(self.timers(state)), f"{list(self.timers(state))} after nothing was written"
        if made.before is None and (begun := self.core.consumers.resolving.get(GROUP)) is not None:
            ended = self.core.consumers.end_resolution(begun, self.known(state))
            assert ended is None, "expressions of a group that there is not are resolved"
        return self.told_of(kind, ask)

    def commit(self, request: spec.CommitRequest) -> Ruling:
        """The metadata says whose it is."""
        name, index = topic_name(request.partition % self.machine.topics), request.partition // self.machine.topics
        new = NewOffset(name, index, request.offset, metadata=str(request.member_id))
        ids = {topic_name(topic): topic_id for topic, topic_id in self.numbers.ids.items()}
        member, instance_id = self.name_of(request.member_id), instance_name(self.machine, request.process)
        commit = Commit(GROUP, (new, TOO_LARGE), request.epoch, member, instance_id, topic_ids=ids)
        return without_too_large(self.core.commit(commit, NOW_MS))

    def name_of(self, member_id: int) -> str:
        """The member id."""
        return member_name(member_id)

    def receive_heartbeat(
        self, action: requests.ReceiveHeartbeat | requests.ReceiveLeave | requests.LoseResponse, before: State
    ) -> None:
        if isinstance(action, requests.LoseResponse):
            request = self.machine.heartbeat_request(before, action.process)
            assert request is not None, "the guard says so"
        else:
            request = action.request
        if before.group is None:
            return
        made = self.beat(request, before)
        if isinstance(action, requests.ReceiveHeartbeat):
            error, _ = action.outcome(self.machine, before)
            check_error(made.error if isinstance(made, HeartbeatResponse) else ErrorCode.none, error)
            if isinstance(made, ConsumerWrite):
                self.told_of(Told, partial(self.core.consumers.responded, made))
                expected = requests.advanced(self.machine, before, request)[1]
                check_told(self.numbers, made.response.epoch, made.response.assignment, expected)
        if isinstance(made, ConsumerWrite) and made.records:
            self.append(made)

    def append(self, write: ConsumerWrite) -> None:
        """A batch is on its way into the log: each of its records says something new."""
        check_values(write.records)
        last, kinds = self.last_records(), {decode_key(record.key) for record in write.records}
        begun = {ConsumerKey(kind, GROUP) for kind in (GROUP_EPOCH, TARGET_EPOCH)}
        assert write.before is not None or begun <= kinds, f"{kinds} are written of a group that begins"
        for key, value in write.records:
            assert value is None or last.get(key) != value, f"{decode_key(key)} is written, and says nothing new"
        self.appended.append(write)

    def last_records(self) -> dict[bytes, bytes | None]:
        """The last value of each key, once all that is on its way is in the log."""
        last = {record.key: record.value for record in self.log}
        for one in self.appended:
            last |= {} if one is None else {record.key: record.value for record in one.records}
        return last

    def receive_commit(self, action: requests.ReceiveCommit, before: State) -> None:
        ruling = self.commit(action.request)
        check_error(error_of(ruling), action.outcome(self.machine, before)[0])
        self.core.appended(ruling)
        self.appended.append(ruling)

    # --- requests that are refused -----------------------------------------------------------------------------------

    def can_send(self, kind: type[Action]) -> bool:
        return issubclass(kind, SENT)

    def refuse(self, action: Action, before: State) -> ErrorCode | None:
        """Ask for what is refused, or changes nothing; returns the error, None where there is nobody to ask."""
        assert isinstance(action, SENT), "no other action can be sent"
        if self.coordinator is None:
            return None
        if isinstance(action, requests.ReceiveCommit):
            return error_as_specified(error_of(self.commit(action.request)))
        made = self.beat(action.request, before)
        if isinstance(made, HeartbeatResponse):
            return error_as_specified(made.error)
        assert not made.records, f"{made.records} are written"
        return ErrorCode.none

    # --- time and the log --------------------------------------------------------------------------------------------

    def expire(self, action: timing.MemberTimeout, before: State) -> None:
        timer = ConsumerTimer.SESSION if isinstance(action, timing.ExpireSession) else ConsumerTimer.REBALANCE
        due = ConsumerDeadline(GROUP, timer, member_name(action.member_id))
        consumers = self.core.consumers

        def ask() -> ConsumerWrite:
            """All others have more time."""
            consumers.deadlines.set(due, -1)
            assert consumers.next_deadline() == -1, "it looks at what is due later on"
            (write,) = consumers.time_passed(-1)
            return write

        self.append(self.retried(ConsumerDeadline, ask, before))

    def end_resolution(self, action: timing.EndResolution, before: State) -> None:
        """The expressions are those of a heartbeat; what fails is asked for again here, and else by a heartbeat."""
        resolution = self.core.consumers.resolving[GROUP]

        def ask() -> ConsumerWrite:
            self.core.consumers.resolving[GROUP] = resolution
            write = self.core.consumers.end_resolution(resolution, self.known(before))
            assert write is not None, "the group has members, or had"
            return write

        write = self.retried(Ended, ask, before)
        if write.records:
            self.append(write)

    def end_interval(self, action: timing.EndInterval, before: State) -> None:
        self.numbers.now_ms += INTERVAL_MS

    def end_pause(self, action: timing.EndPause, before: State) -> None:
        self.numbers.now_ms += PAUSE_MS + 1

    def become_due(self, action: timing.BecomeDue, before: State) -> None:
        self.numbers.now_ms += REFRESH_MS + 1

    def commit_first(self) -> None:
        """The first batch that is not committed is now."""
        first, place = self.appended.pop(0), len(self.log)
        if first is None:
            return
        self.log += first.records
        if isinstance(first, Ruling):
            self.core.committed(first, place)
            return
        self.told_of(Landed, lambda: self.core.consumers_written(first, place))
        assert self.decided == [Landed(first, is_committed=True)], f"{self.decided} is told of what is in the log"
        assert self.core.consumers.is_committed(first), "it is not in the log when it was written"

    def commit_record(self, action: timing.CommitRecord, before: State) -> None:
        self.commit_first()

    def fail_over(self, action: timing.FailOver, before: State) -> None:
        for one in self.appended[: action.kept]:
            self.log += () if one is None else one.records
        self.appended.clear()
        consumers = self.core.consumers
        consumers.unload()
        left = (consumers.groups, consumers.committed, consumers.next_deadline(), consumers.has_looked(GROUP, 0))
        assert left == ({}, {}, None, False), f"a coordinator that has resigned knows {left}"
        assert not consumers.resolving, "a coordinator that has resigned resolves expressions"
        self.coordinator = None
        self.fail_overs += 1

    def load(self, action: timing.Load, before: State) -> None:
        last = {record.key: record for record in self.log}
        cleaned = [record for record in self.log if last[record.key] is record]
        self.coordinator = self.started(cleaned if self.fail_overs % 2 else self.log)
        refuses_long_texts(self.coordinator, self.known(before))

    # --- what no field shows -----------------------------------------------------------------------------------------

    def differences(self, state: State) -> Iterable[Change]:
        """Who is waited for, what nobody may take away, and, of one member and epoch after the other, whose commits
        would be taken.
        """
        if self.coordinator is None:
            return
        yield from self.logged(state)
        yield from self.timers(state)
        if state.classic is None:
            yield from commits(self, state)
            yield from of_nobody(self, state)
            yield from assignors(self)
            yield from deletions(self, state)
            yield from asked_differs(self, self.known(state))
        if (committed := self.core.consumers.committed.get(GROUP)) is not None:
            forgets_what_is_deleted(committed)

    def logged(self, state: State) -> Iterator[Change]:
        """Who describes the group sees it as the log has it."""
        known = abstract_group(self.core.consumers.committed.get(GROUP), self.numbers, state.log.group)
        if known != state.log.group:
            yield Change("what it knows to be committed", state.log.group, known)

    def timers(self, state: State) -> Iterator[Change]:
        """Of each member the session runs, of who has to give back the time for that; and of nobody else.

        No time goes by here: each ends when its whole length is over.
        """
        for member_id, (timer, action) in product(range(state.member_ids), TIMERS.items()):
            member = None if state.classic is not None else state.loaded.member(member_id)
            expected = None
            if member is not None and not action(member_id).missing(self.machine, member):
                session_ms = CLASSIC_SESSION_MS if member.classic else SESSION_MS
                expected = REBALANCE_MS if timer is ConsumerTimer.REBALANCE else session_ms
            key = ConsumerDeadline(GROUP, timer, self.name_of(member_id))
            if (found := self.core.consumers.deadlines.get(key)) != expected:
                yield Change(f"timers[{member_id}].{timer.value}", expected, found)

    # --- as the specification has it ---------------------------------------------------------------------------------

    def abstraction(self, expected: State) -> State:
        """The group in memory, the log, and what of it is not committed."""
        self.appended += [None] * (len(expected.appended) - len(self.appended))
        assert len(self.appended) == len(expected.appended), "something is written that changes nothing"
        new = list(entries(self.log[self.read :]))
        self.read = len(self.log)
        self.reader.replay(new)
        self.offsets = abstract_offsets(new, self.machine, self.offsets)
        committed = abstract_group(self.reader.consumers.committed.get(GROUP), self.numbers, expected.log.group)
        group, resolving = None, None
        if self.coordinator is not None:
            known = expected.group or spec.Group()
            group = abstract_group(self.coordinator.consumers.get(GROUP), self.numbers, known)
            resolving = abstract_resolving(self.machine, self.coordinator.consumers)
        return evolve(expected, group=group, resolving=resolving, log=spec.Log(committed, self.offsets))


def error_of(ruling: Ruling) -> ErrorCode:
    """The error of a commit, or of the one partition that it is about."""
    return next(iter(ruling.refused.values()), ruling.error)


def entries(records: list[GroupRecord]) -> Iterator[LogEntry]:
    """What a log of these records says: their bytes are read."""
    for place, (key, value) in enumerate(records):
        batch = build_batch([Record(0, NOW_MS, key, value)])
        for entry in log_entries(BatchHeader.parse(batch), decode_records(batch), None):
            yield entry._replace(log_offset=place)


TIMERS: Final[Mapping[ConsumerTimer, type[timing.MemberTimeout]]] = {
    ConsumerTimer.SESSION: timing.ExpireSession,
    ConsumerTimer.REBALANCE: timing.ExpireRebalance,
}
SENT: Final = (requests.ReceiveHeartbeat, requests.ReceiveCommit, requests.ReceiveLeave)
STEPS: Final = Steps[ConsumerCores, [State], None](
    on(requests.ReceiveHeartbeat, ConsumerCores.receive_heartbeat),
    on(requests.ReceiveLeave, ConsumerCores.receive_heartbeat),
    on(requests.LoseResponse, ConsumerCores.receive_heartbeat),
    on(requests.ReceiveCommit, ConsumerCores.receive_commit),
    on(timing.ExpireSession, ConsumerCores.expire),
    on(timing.ExpireRebalance, ConsumerCores.expire),
    on(timing.EndResolution, ConsumerCores.end_resolution),
    on(timing.EndInterval, ConsumerCores.end_interval),
    on(timing.EndPause, ConsumerCores.end_pause),
    on(timing.BecomeDue, ConsumerCores.become_due),
    on(timing.CommitRecord, ConsumerCores.commit_record),
    on(timing.FailOver, ConsumerCores.fail_over),
    on(timing.Load, ConsumerCores.load),
)
"""All others are no coordinator's; topics are what the state says."""
CONSUMER_WALKS: Final = WalkPlan(
    large_consumers,
    perturbations=frozenset(
        {
            requests.ReceiveLeave,
            processes.Crash,
            processes.Hang,
            processes.Resubscribe,
            processes.AddPartition,
            processes.ChangeRacks,
            processes.CreateTopic,
            processes.DeleteTopic,
            timing.BecomeDue,
            requests.LoseResponse,
            requests.DelayHeartbeat,
            requests.DelayCommit,
            timing.ExpireSession,
            timing.FailOver,
        }
    ),
    enabled=enabled_candidates,
    length=80,
)
