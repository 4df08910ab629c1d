"""Consumers that read at leaders and at followers, and ask where the log ends (KIP-207, KIP-320, KIP-392).

Theory of operation
-------------------
A consumer names the leader epoch that it knows of. A broker of another epoch refuses it: of an older one because the
consumer may have been shown more than it has (UNKNOWN_LEADER_EPOCH), of a newer one so that the consumer looks at the
metadata first (FENCED_LEADER_EPOCH). What a broker shows ends at its own high watermark, at a follower too, whose high
watermark lags behind the leader's and never runs ahead of it.

A new leader does not know yet what former leaders have committed. Its high watermark is what it learned as a follower,
and below what consumers may have been told. So it tells no latest offset, and does not say that nothing more has come,
before its high watermark has reached the offset at which its epoch began (OFFSET_NOT_AVAILABLE). Only a leader tells
the latest offset.

A read is one step: of two responses on their way to a consumer it would take the one that it waits for. The extension
adds to the history what each consumer has been shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, ClassVar, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import AttemptedAction, Refusal
from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.kernel.near_misses import epochs_around
from tidegauge.spec.kernel.parts import Part, with_part
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.convergence import acting_leader
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.retention import log_start_of
from tidegauge.spec.replication.properties import is_prefix
from tidegauge.spec.replication.rules import ReplicationRules, not_acting
from tidegauge.spec.replication.state import NONE, BrokerId, Error, Log, Replica, State

# --- state -----------------------------------------------------------------------------------------------------------

ConsumerId = Annotated[int, "a consumer of the model"]


@attrs.frozen
class Consumer:
    """The leader epoch that a consumer knows, the records that it was shown, the latest offset that it was told."""

    leader_epoch: int = 0
    shown: Log = ()
    told: int = 0


@attrs.frozen
class Consumers(Part):
    """Of the history: the consumers, without those at the end that know nothing yet."""

    known: tuple[Consumer, ...] = ()

    def __getitem__(self, number: int) -> Consumer:
        return self.known[number] if number < len(self.known) else Consumer()

    def changed(self, number: int, consumer: Consumer) -> Consumers:
        known = [self[n] for n in range(max(number + 1, len(self.known)))]
        known[number] = consumer
        while known and known[-1] == Consumer():
            known.pop()
        return Consumers(tuple(known))


def consumer_of(state: State, number: int) -> Consumer:
    return Consumers.of(state.history)[number]


def with_consumer(state: State, number: int, consumer: Consumer) -> State:
    consumers = Consumers.of(state.history).changed(number, consumer)
    return evolve(state, history=with_part(state.history, consumers))


# --- actions ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class ConsumerAction(ReplicationAction):
    """A consumer asks a broker."""

    consumer: ConsumerId
    broker: BrokerId

    @classmethod
    def candidates(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        consumers = range(Reads.of(machine).consumers)
        return [cls(consumer, broker) for consumer in consumers for broker in range(machine.brokers)]


@attrs.frozen
class LearnLeader(ConsumerAction):
    """A consumer asks a broker for metadata, which count if they are newer than what it knows (KIP-320)."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if state.replicas[self.broker].leader_epoch <= consumer_of(state, self.consumer).leader_epoch:
            return f"broker {self.broker} has nothing new to tell"
        return not_acting(state, self.broker)

    def effect(self, machine: ReplicationRules, state: State) -> State:
        known = consumer_of(state, self.consumer)
        leader_epoch = state.replicas[self.broker].leader_epoch
        return with_consumer(state, self.consumer, evolve(known, leader_epoch=leader_epoch))


@attrs.frozen
class Consume(ConsumerAction):
    """A consumer fetches what follows the records that it has been shown, at a leader or at a follower."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if reason := not_acting(state, self.broker):
            return reason
        replica, known = state.replicas[self.broker], consumer_of(state, self.consumer)
        reads, position = Reads.of(machine), len(known.shown)
        if error := reads.read_error(replica, self.broker, position, known.leader_epoch):
            return Refusal(f"broker {self.broker} does not show consumer {self.consumer} offset {position}", error)
        if not reads.shown(replica, position):
            return Refusal(f"broker {self.broker} has nothing to show at offset {position}", Error.OK)
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        known = consumer_of(state, self.consumer)
        records = Reads.of(machine).shown(state.replicas[self.broker], len(known.shown))
        return with_consumer(state, self.consumer, evolve(known, shown=known.shown + records))


@attrs.frozen
class ListLatest(ConsumerAction):
    """A consumer asks for the latest offset (ListOffsets)."""

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if reason := not_acting(state, self.broker):
            return reason
        replica, known = state.replicas[self.broker], consumer_of(state, self.consumer)
        if error := Reads.of(machine).latest_error(replica, self.broker, known.leader_epoch):
            return Refusal(f"broker {self.broker} does not tell consumer {self.consumer} the latest offset", error)
        if replica.high_watermark == known.told:
            return f"consumer {self.consumer} knows that"
        return ""

    def effect(self, machine: ReplicationRules, state: State) -> State:
        told = state.replicas[self.broker].high_watermark
        return with_consumer(state, self.consumer, evolve(consumer_of(state, self.consumer), told=told))


@attrs.frozen
class ReadAt(AttemptedAction[ReplicationRules, State], ReplicationAction):
    """Reads that are refused in every state in which they are sent: of any offset, in any epoch, of nobody known."""

    broker: BrokerId
    offset: int
    leader_epoch: int

    @classmethod
    def attempts(cls, machine: ReplicationRules, state: State) -> Iterable[Self]:
        for broker, replica in enumerate(state.replicas):
            for offset in sorted({replica.high_watermark, replica.log_end_offset, replica.log_end_offset + 1}):
                yield from (cls(broker, offset, epoch) for epoch in epochs_around(replica.leader_epoch))

    def guard(self, machine: ReplicationRules, state: State) -> str:
        if reason := not_acting(state, self.broker):
            return reason
        replica = state.replicas[self.broker]
        if error := Reads.of(machine).read_error(replica, self.broker, self.offset, self.leader_epoch):
            return Refusal(f"broker {self.broker} does not show offset {self.offset}", error)
        if Reads.of(machine).shown(replica, self.offset):
            return "it would be served"
        return Refusal(f"broker {self.broker} has nothing to show at offset {self.offset}", Error.OK)


# --- the extension ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Reads(ReplicationExtension):
    """Consumers, so many, beside the partition."""

    action_types: ClassVar[tuple[type[Action], ...]] = (LearnLeader, Consume, ListLatest)
    refused_types: ClassVar[tuple[type[Action], ...]] = (ReadAt,)
    part_types: ClassVar[tuple[type[Part], ...]] = (Consumers,)

    consumers: int = 1

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "CommittedRead": committed_read,
            "HighWatermarkIsCommitted": high_watermark_is_committed,
        }

    def step_invariants(self, machine: ReplicationRules) -> Mapping[str, StepInvariant[State]]:
        return {"LatestOffsetMonotone": latest_offset_monotone}

    def goals(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        goals: dict[str, Invariant[State]] = {
            "a consumer was shown what its broker only follows": lambda s: any(
                consumer.shown and replica.leader != broker and replica.high_watermark
                for consumer in Consumers.of(s.history).known
                for broker, replica in enumerate(s.replicas)
            ),
            "a consumer knows where the log ends": lambda s: any(c.told for c in Consumers.of(s.history).known),
        }
        if machine.bounds["PreferredElection"]:
            goals["a new leader cannot tell the latest offset"] = lambda s: any(
                replica.leader == broker and not self.knows_high_watermark(replica)
                for broker, replica in enumerate(s.replicas)
            )
        if machine.bounds["PreferredElection"] + machine.bounds["ExpireSession"]:
            goals["a consumer has followed to a later leader"] = lambda s: any(
                c.leader_epoch and c.told for c in Consumers.of(s.history).known
            )
        return goals

    def converges(self, machine: ReplicationRules) -> Mapping[str, Invariant[State]]:
        def everything_committed_is_shown(state: State) -> bool:
            leader = acting_leader(machine, state)
            if leader is None or state.history.superseded_epoch != NONE:
                return True
            replica = state.replicas[leader]
            committed = replica.log[: replica.high_watermark]
            consumers = [consumer_of(state, number) for number in range(self.consumers)]
            return all((one.shown, one.told) == (committed, len(committed)) for one in consumers)

        return {"a consumer is shown all that is committed, and told where it ends": everything_committed_is_shown}

    def explain(self, state: State) -> Mapping[str, object]:
        return {
            f"consumer {number}": f"was shown [{' '.join(map(str, one.shown))}], told {one.told}, in {one.leader_epoch}"
            for number, one in enumerate(Consumers.of(state.history).known)
        }

    # --- rules -------------------------------------------------------------------------------------------------------

    def epoch_error(self, replica: Replica, leader_epoch: int) -> Error:
        """Whether broker and consumer know of the same leader (KIP-320)."""
        if leader_epoch < replica.leader_epoch:
            return Error.FENCED_LEADER_EPOCH
        return Error.UNKNOWN_LEADER_EPOCH if leader_epoch > replica.leader_epoch else Error.OK

    def read_error(self, replica: Replica, broker: int, offset: int, leader_epoch: int) -> Error:
        """Why a consumer is shown nothing at an offset, by leader or follower (KIP-392)."""
        if error := self.epoch_error(replica, leader_epoch):
            return error
        if not log_start_of(replica) <= offset <= replica.log_end_offset:
            return Error.OFFSET_OUT_OF_RANGE
        if offset >= replica.high_watermark and not self.knows_high_watermark(replica):
            return Error.OFFSET_NOT_AVAILABLE
        return Error.OK

    def latest_error(self, replica: Replica, broker: int, leader_epoch: int) -> Error:
        """Why a consumer is not told the latest offset."""
        if error := self.epoch_error(replica, leader_epoch):
            return error
        if replica.leader != broker:
            return Error.NOT_LEADER_OR_FOLLOWER
        return Error.OK if self.knows_high_watermark(replica) else Error.OFFSET_NOT_AVAILABLE

    def knows_high_watermark(self, replica: Replica) -> bool:
        """False in a new epoch until the high watermark covers what former leaders may have committed (KIP-207)."""
        return replica.high_watermark >= replica.epoch_start_offset

    def shown(self, replica: Replica, offset: int) -> Log:
        """What a consumer is shown from an offset on: nothing beyond the broker's own high watermark."""
        return replica.log[offset : replica.high_watermark]


# --- properties ------------------------------------------------------------------------------------------------------


def committed_read(state: State) -> bool:
    """No consumer was shown what could be lost; a leader that an unclean election has overtaken promises nothing."""
    history = state.history
    return history.superseded_epoch != NONE or all(
        is_prefix(consumer.shown, history.committed) for consumer in Consumers.of(history).known
    )


def high_watermark_is_committed(state: State) -> bool:
    """A follower's high watermark is never ahead of what a leader has committed, nor below it anything else."""
    history = state.history
    return all(
        is_prefix(replica.log[: replica.high_watermark], history.committed)
        for replica in state.replicas
        if replica.running and history.superseded_epoch == NONE
    )


def latest_offset_monotone(before: State, action: Action, after: State) -> bool:
    """No consumer sees the log grow shorter, but by an unclean election."""
    if after.history.superseded_epoch != NONE or not isinstance(action, ListLatest):
        return True
    return consumer_of(before, action.consumer).told <= consumer_of(after, action.consumer).told
