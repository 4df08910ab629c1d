"""Log starts: records that retention or DeleteRecords has taken from the front of a log (KIP-107).

Theory of operation
-------------------
Each replica's log has a *log start*; records below it are gone. It moves up in three ways: the leader is asked to
delete records (`DeleteRecords`), a replica's own retention removes old segments (`Retain`), and a follower moves to the
log start that its leader's response tells. None goes beyond the replica's own high watermark: what is not committed is
not old.

A follower whose fetch offset lies below the leader's log start cannot be served: what it lacks is gone. It *starts
over*: it gives up everything that it has and continues at the leader's log start. It does the same when all records
that the leader still has are of later epochs than its own last one, for then the logs agree on nothing that is left.
Both are harmless for a member of the ISR: it has reached the high watermark, and no log start lies beyond that. A log
that holds no record agrees with every other.

A log without records still knows the epoch of the last one that is gone, as long as that is written down. A follower
that dies, or whose disk fails, while it starts over may leave a log that begins at the leader's log start and knows no
epoch (`interrupted`). Such a log agrees with those that start where it does, and with no other.

A fetch tells the follower's log start, so that a leader knows the *low watermark*, the lowest log start of all
replicas; a DeleteRecords request is complete when it has passed the offset. What is told is durable: a replica writes
its log start down before it tells it (and flushes up to there first), so that no crash makes the response untrue.
Apache Kafka writes log starts down once a minute, and a crash may bring deleted records back; here that is a bug
(`spec.bugs.retention.TellsBeforeItIsWritten`).

The extension adds a log start to replicas and to the messages of a fetch. `Replica.log` keeps what the deleted records
were, for the invariants of the base machine, which hold as they are; the rules look at nothing below the log start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import ClassVar, Final, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import Refusal
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.parts import Part, updated, with_part
from tidegauge.spec.replication import properties
from tidegauge.spec.replication.actions import ReceiveFetchResponse, ReplicationAction, not_leading
from tidegauge.spec.replication.convergence import acting_leader, living
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.faults import Crash
from tidegauge.spec.replication.properties import leaders
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import (
    NONE,
    BrokerId,
    Error,
    FetchRequest,
    FetchResponse,
    Log,
    Record,
    RemoteReplica,
    Replica,
    State,
)

EPOCH: Final = attrgetter("epoch")
HOLE: Final = Record(NONE, NONE)
"""In place of a record that a log claims to have and does not."""


# --- state -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class LogStart(Part):
    """Of a replica: where its log starts."""

    offset: int = 0
    """Records below it are gone; `Replica.log` still says what they were, for the explorer."""
    checkpoint: int = 0
    """What is written down of it."""


@attrs.frozen
class FollowerLogStart(Part):
    """Of a fetch, and of what a leader knows of a follower: where the follower's log starts."""

    offset: int = 0


@attrs.frozen
class LeaderLogStart(Part):
    """Of a response to a fetch: where the leader's log starts."""

    offset: int = 0
    below: Log = ()
    """What the records below it were; all but the epoch of the last one is for the explorer."""
    known: bool = True
    """Whether the leader knows that epoch."""


def log_start_of(replica: Replica) -> int:
    return LogStart.of(replica).offset


def started_at(replica: Replica, offset: int) -> Replica:
    """The replica with a log start written down, and what is below it flushed."""
    start = LogStart.of(replica)
    if start.checkpoint == offset and replica.flushed >= offset:
        return replica
    parts = updated(replica.parts, LogStart(start.offset, offset))
    return evolve(replica, flushed=max(replica.flushed, offset), parts=parts)


def durable(replica: Replica) -> Replica:
    """The replica with its log start written down, and everything below it flushed before."""
    start = LogStart.of(replica)
    if start.checkpoint == start.offset and replica.flushed >= start.offset:
        return replica
    flushed = replica.flushed if replica.flushed >= start.offset else replica.log_end_offset
    return evolve(replica, flushed=flushed, parts=updated(replica.parts, LogStart(start.offset, start.offset)))


@attrs.frozen
class ForgottenEpoch(Part):
    """Of a replica: from which log start on it does not know the epoch of the record before."""

    start: int = NONE


def knows_below(replica: Replica) -> bool:
    """Whether a replica knows the epoch of the last record below its log start, if there was one."""
    return ForgottenEpoch.of(replica).start != log_start_of(replica)


# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class MoveLogStart(ReplicationAction):
    """A replica forgets its records below `offset`, durably."""

    bounded_as: ClassVar[str] = "DeleteRecords"

    broker: BrokerId
    offset: int

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        if machine.may_perturb(state, cls.bounded_as):
            retention = Retention.of(machine)
            for broker, replica in enumerate(state.replicas):
                limit = retention.deletion_limit(replica)
                yield from (cls(broker, offset) for offset in range(log_start_of(replica) + 1, limit + 1))

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        start, limit = log_start_of(replica), Retention.of(machine).deletion_limit(replica)
        if not machine.may_perturb(state, self.bounded_as):
            return "no more deletions in this model"
        if not start < self.offset <= limit:
            return f"broker {self.broker} may delete from {start} to {limit}"
        return machine.not_hosting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        replica = state.replicas[self.broker]
        moved = with_part(replica, evolve(LogStart.of(replica), offset=self.offset))
        moved = Retention.of(machine).with_log_start_written(moved)
        return state.with_replica(self.broker, moved).spend(self.bounded_as)


@attrs.frozen
class DeleteRecords(MoveLogStart):
    """A client has records deleted at a broker that thinks it leads."""

    @classmethod
    def attempts(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        """Up to and beyond the high watermark, and below the log start. (-1 stands for the high watermark.)"""
        for broker, replica in enumerate(state.replicas):
            start, limit = log_start_of(replica), Retention.of(machine).deletion_limit(replica)
            for offset in sorted({-2, 0, start, limit, limit + 1, replica.log_end_offset, replica.log_end_offset + 1}):
                yield cls(broker, offset)

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if leading := not_leading(state, self.broker):
            return leading
        if not machine.may_perturb(state, self.bounded_as):
            return super().guard(machine, state)
        replica = state.replicas[self.broker]
        start, limit = log_start_of(replica), Retention.of(machine).deletion_limit(replica)
        if not 0 <= self.offset <= limit:
            return Refusal(f"broker {self.broker} has {limit} committed records", Error.OFFSET_OUT_OF_RANGE)
        if self.offset <= start:
            return Refusal(f"the log of broker {self.broker} starts at {start}", Error.OK)
        return super().guard(machine, state)


@attrs.frozen
class Retain(MoveLogStart):
    """A follower removes segments that are too old, or that its log is too large for; a leader's is `DeleteRecords`."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        leads = state.replicas[self.broker].leader == self.broker
        return f"broker {self.broker} leads" if leads else super().guard(machine, state)


@attrs.frozen
class WriteLogStart(ReplicationAction):
    """A broker has written down where the log started; it matters where a crash may follow."""

    fair: ClassVar[bool] = False

    broker: BrokerId
    offset: int

    @classmethod
    def is_possible(cls, machine: ReplicationRules) -> bool:
        return Crash.is_possible(machine)

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        for broker, replica in enumerate(state.replicas):
            start = LogStart.of(replica)
            yield from (cls(broker, offset) for offset in range(start.checkpoint + 1, start.offset + 1))

    def guard(self, machine: ReplicationRules, state: State) -> str:
        replica = state.replicas[self.broker]
        start = LogStart.of(replica)
        if not machine.may_perturb(state, Crash.bounded_as):
            return "no more crashes in this model"
        if not start.checkpoint < self.offset <= start.offset:
            return f"broker {self.broker} can write down {start.checkpoint} to {start.offset}"
        return "" if replica.running else f"broker {self.broker} is down"

    def effect(self, machine: ReplicationRules, state: State) -> State:
        return state.with_replica(self.broker, started_at(state.replicas[self.broker], self.offset))


# --- the extension ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Retention(ReplicationExtension):
    """Log starts."""

    action_types: ClassVar[tuple[type[Action], ...]] = (DeleteRecords, Retain)
    part_types: ClassVar[tuple[type[Part], ...]] = (LogStart, ForgottenEpoch, FollowerLogStart, LeaderLogStart)
    leader_stays: ClassVar[frozenset[str]] = frozenset({"DeleteRecords"})

    written_by_clock: bool = False
    """Whether a log start is also written down from time to time (`WriteLogStart`), though it was told to nobody."""

    @property
    def all_action_types(self) -> tuple[type[Action], ...]:
        return (*self.action_types, WriteLogStart) if self.written_by_clock else self.action_types

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return INVARIANTS

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        return STEP_INVARIANTS

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        return goals(machine)

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        return {"a live follower's log starts no lower than its leader's": log_starts_follow(machine)}

    def explain(self, state: State) -> Mapping[str, object]:
        starts = {f"log start of broker {b}": log_start_of(r) for b, r in enumerate(state.replicas)}
        known = {f"log starts that broker {b} knows": low_watermark_known(r) for b, r in leaders(state)}
        return {**starts, **known}

    # --- rules of every replica --------------------------------------------------------------------------------------

    def deletion_limit(self, replica: Replica) -> int:
        """Only what is committed is deleted."""
        return replica.high_watermark

    def before_fetch(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        """What is told is durable."""
        return self.with_log_start_written(inner(replica))

    def with_log_start_written(self, replica: Replica) -> Replica:
        """A log start that stays after a crash. One that the clock may have written asks for nothing above it."""
        return started_at(replica, log_start_of(replica)) if self.written_by_clock else durable(replica)

    def truncated(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, offset: int
    ) -> Replica:
        kept, start = inner(replica, offset), LogStart.of(replica)
        if kept is replica:
            return replica
        return with_part(kept, LogStart(min(start.offset, offset), min(start.checkpoint, offset)))

    def written(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        start = log_start_of(replica)
        return with_part(inner(replica), LogStart(start, start))

    def survivor(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], Replica], replica: Replica, kept: int
    ) -> Replica:
        """The log starts where that is written down, and knows what it did."""
        start = LogStart.of(replica).checkpoint
        return with_part(with_part(inner(replica, kept), LogStart(start, start)), ForgottenEpoch.of(replica))

    def restarted(self, machine: ReplicationRules, inner: Callable[[Replica], Replica], replica: Replica) -> Replica:
        """What is below the log start was committed."""
        started = inner(replica)
        start = log_start_of(started)
        return evolve(started, high_watermark=start) if start > started.high_watermark else started

    # --- rules of the leader -----------------------------------------------------------------------------------------

    def fetch_error(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, int, FetchRequest], Error],
        leader: Replica,
        broker: int,
        request: FetchRequest,
    ) -> Error:
        """What lies below the log start cannot be served."""
        if error := inner(leader, broker, request):
            return error
        return Error.OFFSET_OUT_OF_RANGE if request.offset < log_start_of(leader) else Error.OK

    def diverging_epoch(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchRequest], tuple[int, int] | None],
        leader: Replica,
        request: FetchRequest,
    ) -> tuple[int, int] | None:
        """As in the base, by the epochs that the leader knows; (-1, log start) when all of them are later."""
        if request.offset == 0:
            return None
        epoch, end_offset = self.known_end_offset(machine, leader, request.last_fetched_epoch)
        if epoch < request.last_fetched_epoch or end_offset < request.offset:
            return epoch, end_offset
        return None

    def known_end_offset(self, machine: ReplicationRules, replica: Replica, epoch: int) -> tuple[int, int]:
        """As `end_offset_for_epoch`, by the records that are left and the epoch of the last one that is gone.

        (-1, log start) if all of these are later.
        """
        start = log_start_of(replica)
        found, end_offset = machine.end_offset_for_epoch(replica.log, epoch)
        is_known = end_offset > start or (end_offset == start > 0 and knows_below(replica))
        return (found, end_offset) if is_known else (NONE, start)

    def remote_replica(
        self, machine: ReplicationRules, inner: Callable[[FetchRequest], RemoteReplica], request: FetchRequest
    ) -> RemoteReplica:
        return with_part(inner(request), FollowerLogStart.of(request)) if request.parts else inner(request)

    def refusal(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchRequest, Error], FetchResponse],
        leader: Replica,
        request: FetchRequest,
        error: Error,
    ) -> FetchResponse:
        """A follower that is out of range learns where to start over."""
        response = inner(leader, request, error)
        return with_part(response, start_and_below(leader)) if error is Error.OFFSET_OUT_OF_RANGE else response

    def divergence(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchRequest, int, int], FetchResponse],
        leader: Replica,
        request: FetchRequest,
        epoch: int,
        end_offset: int,
    ) -> FetchResponse:
        return with_part(inner(leader, request, epoch, end_offset), start_and_below(leader))

    def served(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchRequest, Log], FetchResponse],
        leader: Replica,
        request: FetchRequest,
        records: Log,
    ) -> FetchResponse:
        response, start = inner(leader, request, records), log_start_of(leader)
        return with_part(response, LeaderLogStart(start)) if start else response

    # --- rules of the follower ---------------------------------------------------------------------------------------

    def fetch_request(
        self, machine: ReplicationRules, inner: Callable[[Replica, int], FetchRequest], follower: Replica, broker: int
    ) -> FetchRequest:
        request, start = inner(follower, broker), log_start_of(follower)
        if follower.log_end_offset == start and not knows_below(follower):
            request = evolve(request, last_fetched_epoch=NONE)
        return with_part(request, FollowerLogStart(start)) if start else request

    def after_response(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, FetchResponse], Replica],
        follower: Replica,
        response: FetchResponse,
    ) -> Replica:
        """A follower that cannot go on starts over, and one that can moves to its leader's log start."""
        if self.starts_over(machine, follower, response):
            return self.started_over(follower, response)
        follower = inner(follower, response)
        if response.error or response.diverging_end_offset != NONE:
            return follower
        start = LogStart.of(follower)
        high_watermark = max(start.offset, follower.high_watermark)
        offset = max(start.offset, min(LeaderLogStart.of(response).offset, high_watermark))
        if (high_watermark, offset) == (follower.high_watermark, start.offset):
            return follower
        parts = updated(follower.parts, evolve(start, offset=offset))
        return evolve(follower, high_watermark=high_watermark, parts=parts)

    def starts_over(self, machine: ReplicationRules, follower: Replica, response: FetchResponse) -> bool:
        """Whether the follower has to give up all that it has."""
        return response.error is Error.OFFSET_OUT_OF_RANGE or self.nothing_in_common(machine, follower, response)

    def nothing_in_common(self, machine: ReplicationRules, follower: Replica, response: FetchResponse) -> bool:
        """Whether the logs diverge before all that one of them still knows."""
        if response.diverging_end_offset == NONE:
            return False
        own_epoch, _ = self.known_end_offset(machine, follower, response.diverging_epoch)
        return NONE in (response.diverging_epoch, own_epoch)

    def truncation_offset(
        self,
        machine: ReplicationRules,
        inner: Callable[[Replica, int, int], int],
        follower: Replica,
        epoch: int,
        end_offset: int,
    ) -> int:
        """How far the logs agree, by what the follower knows of its own."""
        own_epoch, own_end = self.known_end_offset(machine, follower, epoch)
        return min(own_end, end_offset) if own_epoch == epoch else own_end

    def started_over(self, follower: Replica, response: FetchResponse) -> Replica:
        """No records from the leader's log start on, durable at once; what is below counts as committed."""
        leader = LeaderLogStart.of(response)
        parts = updated(follower.parts, LogStart(leader.offset, leader.offset))
        return evolve(
            follower,
            log=leader.below,
            flushed=leader.offset,
            high_watermark=leader.offset,
            parts=updated(parts, ForgottenEpoch(NONE if leader.known else leader.offset)),
        )


def start_and_below(leader: Replica) -> LeaderLogStart:
    """A leader's log start, and what was below it."""
    start = log_start_of(leader)
    return LeaderLogStart(start, leader.log[:start], known=knows_below(leader))


# --- what must hold --------------------------------------------------------------------------------------------------


def log_start_within_committed(state: State) -> bool:
    """No log starts beyond its high watermark; nor, unless an unclean election lost some, beyond what is committed."""
    may_exceed, committed = state.history.superseded_epoch != NONE, len(state.history.committed)
    return all(
        (may_exceed or start <= committed) and (start <= replica.high_watermark or not replica.running)
        for replica in state.replicas
        if (start := log_start_of(replica))
    )


def no_holes(state: State) -> bool:
    """Each log has a record at every offset from its log start to its end."""
    return not any(has_hole(r.log) and has_hole(r.log[log_start_of(r) :]) for r in state.replicas)


def has_hole(log: Log) -> bool:
    """Whether a record is missing; no record but HOLE has its epoch."""
    return HOLE.epoch in map(EPOCH, log)


def low_watermark_known(leader: Replica) -> dict[int, int]:
    """The log starts that a leader was told in its epoch, by broker."""
    return {
        b: FollowerLogStart.of(remote).offset for b, remote in enumerate(leader.remote) if remote.end_offset != NONE
    }


def low_watermark_is_true(state: State) -> bool:
    """What a leader knows of a follower's log start, and responds to DeleteRecords with, is so, crashes or not.

    Unless an unclean election has overtaken the leader, or made the follower give up what it had.
    """
    if state.history.superseded_epoch != NONE:
        return True
    return all(
        log_start <= log_start_of(state.replicas[broker])
        for _, leader in leaders(state)
        for broker, log_start in low_watermark_known(leader).items()
    )


INVARIANTS: Mapping[str, Invariant[State]] = {
    "LogStartWithinCommitted": log_start_within_committed,
    "NoHoles": no_holes,
    "LowWatermarkIsTrue": low_watermark_is_true,
}


def log_start_monotone(before: State, action: Action, after: State) -> bool:
    """No log start goes back, but in a crash, down to what was written, and where an unclean election took records.

    A log that knows no epoch starts over, also where its leader starts earlier.
    """
    if after.history.superseded_epoch != NONE:
        return True
    return all(
        log_start_of(new) >= (LogStart.of(old).checkpoint if isinstance(action, Crash) else log_start_of(old))
        for old, new in zip(before.replicas, after.replicas, strict=True)
        if new is not old and not starts_over(action, old)
    )


def starts_over(action: Action, follower: Replica) -> bool:
    """Whether a response may have a follower begin anew, which has no records and knows no epoch of what is gone."""
    return isinstance(action, ReceiveFetchResponse) and not knows_below(follower)


def common_prefix_kept(before: State, action: Action, after: State) -> bool:
    """As in the base, but for a follower that starts over: of what is below a log start nothing is compared."""
    if isinstance(action, ReceiveFetchResponse):
        follower, below = action.response.request.follower, LeaderLogStart.of(action.response).below
        started_below = log_start_of(before.replicas[follower]) > after.replicas[follower].log_end_offset
        if (below or started_below) and after.replicas[follower].log == below:
            return True
    return properties.common_prefix_kept(before, action, after)


STEP_INVARIANTS: Mapping[str, StepInvariant[State]] = {
    "LogStartMonotone": log_start_monotone,
    "CommonPrefixKept": common_prefix_kept,
}


def goals(machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
    """What a search must have reached."""
    if not machine.bounds["DeleteRecords"]:
        return {}
    wanted: dict[str, Invariant[State]] = {
        "a follower has moved to its leader's log start": lambda s: sum(log_start_of(r) > 0 for r in s.replicas) > 1,
        "a leader knows that a record is gone everywhere": lambda s: any(
            log_start_of(replica) and min(low_watermark_known(replica).values(), default=0) for _, replica in leaders(s)
        ),
        "log starts differ": lambda s: len(set(map(log_start_of, s.replicas))) > 1,
    }
    if machine.bounds["ShrinkIsr"] or machine.bounds["ExpireSession"]:
        wanted["a follower is out of range"] = lambda s: any(
            m.error is Error.OFFSET_OUT_OF_RANGE for m in s.network.fetch_responses
        )
    return wanted


def log_starts_follow(machine: ReplicationRules) -> Invariant[State]:
    """What was deleted at the leader is deleted everywhere, and a DeleteRecords request completes."""

    def holds(state: State) -> bool:
        leader = acting_leader(machine, state)
        if leader is None:
            return True
        start = log_start_of(state.replicas[leader])
        known = low_watermark_known(state.replicas[leader])
        return all(
            broker == leader or (log_start_of(state.replicas[broker]) >= start and known.get(broker, NONE) >= start)
            for broker in living(machine, state)
        )

    return holds
