"""Log starts: records that retention or DeleteRecords has taken from the front of a log (KIP-107).

Theory of operation
-------------------
Each replica's log has a *log start*; records below it are gone. It moves up in three ways: the leader is asked to
delete records (`DeleteRecords`), a replica's own retention removes old segments (`Retain`), and a follower moves to the
log start that its leader's answer tells. None goes beyond the replica's own high watermark: what is not committed is
not old.

A follower whose fetch offset lies below the leader's log start cannot be served: what it lacks is gone. It *starts
over*: it gives up everything that it has and continues at the leader's log start. It does the same when all records
that the leader still has are of later epochs than its own last one, for then the logs agree on nothing that is left.
Both are harmless for a member of the ISR: it has reached the high watermark, and no log start lies beyond that. A log
that holds no record agrees with every other.

A fetch tells the follower's log start, so that a leader knows the *low watermark*, the lowest log start of all
replicas; DeleteRecords is answered when it has passed the offset. What is told is durable: a replica writes its log
start down before it tells it (and flushes up to there first), so that no crash makes the answer untrue. Apache Kafka
writes log starts down once a minute, and a crash may bring deleted records back; here that is a bug
(`retention_bugs.TellsBeforeItIsWritten`).

This is `Replication` with log starts. `Replica.log` keeps what the deleted records were, for the invariants of the
base machine, which hold as they are; the rules look at nothing below the log start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import attrs

from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.replication.actions import ReplicationAction, not_acting, not_leading
from tidegauge.spec.replication.faults import Crash
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.properties import leaders
from tidegauge.spec.replication.state import (
    NONE,
    BrokerId,
    Error,
    FetchRequest,
    FetchResponse,
    Perturbation,
    Record,
    Replica,
    State,
)

HOLE: Final = Record(NONE, NONE)
"""In place of a record that a log claims to have and does not."""


def durable(replica: Replica) -> Replica:
    """The replica with its log start written down, and everything below it flushed before."""
    flushed = replica.flushed if replica.flushed >= replica.log_start else replica.log_end_offset
    return attrs.evolve(replica, flushed=flushed, log_start_checkpoint=replica.log_start)


# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class MoveLogStart(ReplicationAction):
    """A replica forgets its records below `offset`, durably."""

    broker: BrokerId
    offset: int

    @classmethod
    def candidates(cls, machine: Replication, state: State) -> Iterable[MoveLogStart]:
        if isinstance(machine, Retention) and machine.may_perturb(state, Perturbation.RETENTION):
            for broker, replica in enumerate(state.replicas):
                limit = machine.deletion_limit(replica)
                yield from (cls(broker, offset) for offset in range(replica.log_start + 1, limit + 1))

    def guard(self, machine: Replication, state: State) -> str:
        assert isinstance(machine, Retention), "log starts belong to the machine that has them"
        replica = state.replicas[self.broker]
        if not machine.may_perturb(state, Perturbation.RETENTION):
            return "no more deletions in this model"
        if not replica.log_start < self.offset <= machine.deletion_limit(replica):
            return f"broker {self.broker} may delete from {replica.log_start} to {machine.deletion_limit(replica)}"
        return not_acting(state, self.broker)

    def effect(self, machine: Replication, state: State) -> State:
        assert isinstance(machine, Retention), "log starts belong to the machine that has them"
        replica = machine.with_log_start_written(attrs.evolve(state.replicas[self.broker], log_start=self.offset))
        return state.with_replica(self.broker, replica).spend(Perturbation.RETENTION)


@attrs.frozen
class DeleteRecords(MoveLogStart):
    """A client has records deleted at a broker that thinks it leads."""

    def guard(self, machine: Replication, state: State) -> str:
        return not_leading(state, self.broker) or super().guard(machine, state)


@attrs.frozen
class Retain(MoveLogStart):
    """A follower removes segments that are too old, or that its log is too large for; a leader's is `DeleteRecords`."""

    def guard(self, machine: Replication, state: State) -> str:
        leads = state.replicas[self.broker].leader == self.broker
        return f"broker {self.broker} leads" if leads else super().guard(machine, state)


# --- the machine -----------------------------------------------------------------------------------------------------


@attrs.frozen
class Retention(Replication):
    """The replication machine with log starts."""

    action_types: ClassVar[tuple[type[ReplicationAction], ...]] = (*Replication.action_types, DeleteRecords, Retain)

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {**super().invariants, **INVARIANTS}

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return {**super().step_invariants, **STEP_INVARIANTS}

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return {**super().sometimes, **goals(self)}

    def explain(self, invariant: str, state: State) -> Mapping[str, Any]:
        starts = {f"log start of broker {b}": r.log_start for b, r in enumerate(state.replicas)}
        known = {f"log starts that broker {b} knows": low_watermark_known(r) for b, r in leaders(state)}
        return {**starts, **known, **super().explain(invariant, state)}

    # --- rules of every replica --------------------------------------------------------------------------------------

    def deletion_limit(self, replica: Replica) -> int:
        """Only what is committed is deleted."""
        return replica.high_watermark

    def before_fetch(self, replica: Replica) -> Replica:
        """What is told is durable."""
        return self.with_log_start_written(replica)

    def with_log_start_written(self, replica: Replica) -> Replica:
        """A log start that stays after a crash."""
        return durable(replica)

    def survivor(self, replica: Replica, kept: int) -> Replica:
        start = replica.log_start_checkpoint
        return attrs.evolve(super().survivor(replica, kept), log_start=start, log_start_checkpoint=start)

    # --- rules of the leader -----------------------------------------------------------------------------------------

    def fetch_error(self, leader: Replica, broker: int, request: FetchRequest) -> Error:
        """What lies below the log start cannot be served."""
        if error := super().fetch_error(leader, broker, request):
            return error
        return Error.OFFSET_OUT_OF_RANGE if request.offset < leader.log_start else Error.OK

    def diverging_epoch(self, leader: Replica, request: FetchRequest) -> tuple[int, int] | None:
        """As before, by the epochs that the leader knows; (-1, log start) when all of them are later."""
        if request.offset == 0:
            return None
        epoch, end_offset = self.known_end_offset(leader, request.last_fetched_epoch)
        if epoch < request.last_fetched_epoch or end_offset < request.offset:
            return epoch, end_offset
        return None

    def known_end_offset(self, replica: Replica, epoch: int) -> tuple[int, int]:
        """As `end_offset_for_epoch`, by the records that are left and the epoch of the last one that is gone.

        (-1, log start) if all of these are later.
        """
        found, end_offset = self.end_offset_for_epoch(replica.log, epoch)
        return (found, end_offset) if end_offset and end_offset >= replica.log_start else (NONE, replica.log_start)

    def refusal(self, leader: Replica, request: FetchRequest, error: Error) -> FetchResponse:
        """A follower that is out of range learns where to start over."""
        if error is not Error.OFFSET_OUT_OF_RANGE:
            return super().refusal(leader, request, error)
        return FetchResponse(request, error, log_start=leader.log_start, below=leader.log[: leader.log_start])

    def divergence(self, leader: Replica, request: FetchRequest, epoch: int, end_offset: int) -> FetchResponse:
        response = super().divergence(leader, request, epoch, end_offset)
        return attrs.evolve(response, below=leader.log[: leader.log_start])

    # --- rules of the follower ---------------------------------------------------------------------------------------

    def answered(self, follower: Replica, response: FetchResponse) -> Replica:
        """As before; a follower that cannot go on starts over, and one that can moves to its leader's log start."""
        if response.error is Error.OFFSET_OUT_OF_RANGE or self.nothing_in_common(follower, response):
            return self.started_over(follower, response)
        follower = super().answered(follower, response)
        if response.error or response.diverging_end_offset != NONE:
            return follower
        high_watermark = max(follower.log_start, follower.high_watermark)
        log_start = max(follower.log_start, min(response.log_start, high_watermark))
        return attrs.evolve(follower, high_watermark=high_watermark, log_start=log_start)

    def nothing_in_common(self, follower: Replica, response: FetchResponse) -> bool:
        """Whether the logs have parted before all that one of them still knows."""
        if response.diverging_end_offset == NONE:
            return False
        own_epoch, _ = self.known_end_offset(follower, response.diverging_epoch)
        return NONE in (response.diverging_epoch, own_epoch)

    def truncation_offset(self, follower: Replica, epoch: int, end_offset: int) -> int:
        """How far the logs agree, by what the follower knows of its own."""
        own_epoch, own_end = self.known_end_offset(follower, epoch)
        return min(own_end, end_offset) if own_epoch == epoch else own_end

    def started_over(self, follower: Replica, response: FetchResponse) -> Replica:
        """No records from the leader's log start on, durable at once; what is below counts as committed."""
        start = response.log_start
        return attrs.evolve(
            follower,
            log=response.below,
            flushed=start,
            high_watermark=start,
            log_start=start,
            log_start_checkpoint=start,
        )


# --- what must hold --------------------------------------------------------------------------------------------------


def log_start_within_committed(state: State) -> bool:
    """No log starts beyond its high watermark; nor, unless an unclean election lost some, beyond what is committed."""
    if any(replica.running and replica.log_start > replica.high_watermark for replica in state.replicas):
        return False
    if state.history.superseded_epoch != NONE:
        return True
    return all(replica.log_start <= len(state.history.committed) for replica in state.replicas)


def no_holes(state: State) -> bool:
    """Each log has a record at every offset from its log start to its end."""
    return all(HOLE not in replica.log[replica.log_start :] for replica in state.replicas)


def low_watermark_known(leader: Replica) -> dict[int, int]:
    """The log starts that a leader was told in its epoch, by broker."""
    return {b: remote.log_start for b, remote in enumerate(leader.remote) if remote.end_offset != NONE}


def low_watermark_is_true(state: State) -> bool:
    """What a leader knows of a follower's log start, and answers DeleteRecords with, is so, crashes or not.

    Unless an unclean election has overtaken the leader, or made the follower give up what it had.
    """
    if state.history.superseded_epoch != NONE:
        return True
    return all(
        log_start <= state.replicas[broker].log_start
        for _, leader in leaders(state)
        for broker, log_start in low_watermark_known(leader).items()
    )


INVARIANTS: Mapping[str, Invariant[State]] = {
    "LogStartWithinCommitted": log_start_within_committed,
    "NoHoles": no_holes,
    "LowWatermarkIsTrue": low_watermark_is_true,
}


def log_start_monotone(before: State, action: Action, after: State) -> bool:
    """No log start falls, but in a crash, down to what was written, and where an unclean election took records."""
    if after.history.superseded_epoch != NONE:
        return True
    return all(
        new.log_start >= (old.log_start_checkpoint if isinstance(action, Crash) else old.log_start)
        for old, new in zip(before.replicas, after.replicas, strict=True)
    )


STEP_INVARIANTS: Mapping[str, StepInvariant[State]] = {"LogStartMonotone": log_start_monotone}


def goals(machine: Retention) -> Mapping[str, Invariant[State]]:
    """What a search must have reached."""
    if not machine.bounds.retentions:
        return {}
    wanted: dict[str, Invariant[State]] = {
        "a follower has moved to its leader's log start": lambda s: sum(r.log_start > 0 for r in s.replicas) > 1,
        "a leader knows that a record is gone everywhere": lambda s: any(
            replica.log_start and min(low_watermark_known(replica).values(), default=0) for _, replica in leaders(s)
        ),
        "log starts differ": lambda s: len({r.log_start for r in s.replicas}) > 1,
    }
    if machine.bounds.shrinks or machine.bounds.lapses:
        wanted["a follower is out of range"] = lambda s: any(
            m.error is Error.OFFSET_OUT_OF_RANGE for m in s.network.fetch_responses
        )
    return wanted
