"""What must hold of idempotent producing, and what a search must have reached.

A batch taken *on trust* (an unknown producer that does not begin at 0, where something may have been forgotten) may
follow a gap: KIP-360 lets it. From there on the producer's session is under the same guarantee again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from tidegauge.spec.idempotence.actions import awaiting
from tidegauge.spec.idempotence.rules import IdempotenceRules
from tidegauge.spec.idempotence.state import (
    NONE,
    Batch,
    Error,
    InFlight,
    LoggedBatch,
    ProducerEntry,
    ProduceResponse,
    Replica,
    State,
    entry_of,
)
from tidegauge.spec.kernel.bounds import times
from tidegauge.spec.kernel.machine import Invariant, StepInvariant
from tidegauge.spec.kernel.piecemeal import question


def by_producer(replica: Replica) -> Mapping[int, list[LoggedBatch]]:
    """Every batch that the replica's log has or had, by producer."""
    found: dict[int, list[LoggedBatch]] = {}
    for logged in replica.log:
        found.setdefault(logged.batch.producer, []).append(logged)
    return found


def no_duplicate(state: State) -> bool:
    """No record is in a log twice."""
    for replica in state.replicas:
        firsts = [(logged.batch.producer, logged.batch.first) for logged in replica.log]
        if len(firsts) != len(set(firsts)):
            return False
    return True


def no_reordering(state: State) -> bool:
    """A producer's records are in the order in which it sent them, each by its first occurrence."""
    for replica in state.replicas:
        for batches in by_producer(replica).values():
            firsts = list(dict.fromkeys(logged.batch.first for logged in batches))
            if firsts != sorted(firsts):
                return False
    return True


def no_gap(state: State) -> bool:
    """Within an epoch nothing is missing: a session begins at its first record, and each batch follows the last."""
    for replica in state.replicas:
        for batches in by_producer(replica).values():
            if batches[0].batch.sequence != 0 and not batches[0].on_trust:
                return False
            for one, other in pairwise(batches):
                same_epoch = one.batch.epoch == other.batch.epoch
                follows = one.batch.first + one.batch.count == other.batch.first if same_epoch else None
                begins = other.batch.sequence == 0 if follows is None else follows
                if not begins and not other.on_trust:
                    return False
    return True


def acknowledged_where_it_is(state: State) -> bool:
    """The leader has an acknowledged batch at the offset that its producer was told."""
    log = {logged.base_offset: logged.batch for logged in state.replicas[state.leader].log}
    for promise in state.acknowledged:
        found = log.get(promise.base_offset)
        if found is None or (found.producer, found.first) != (promise.batch.producer, promise.batch.first):
            return False
    return True


def producer_state_matches_log(machine: IdempotenceRules) -> Invariant[State]:
    """What a replica remembers is what its log says: kept, replicated or rebuilt, that is no difference.

    It may remember fewer batches only where they, or the producer, were deleted or have expired.
    """

    def holds(state: State) -> bool:
        for replica in state.replicas:
            logged = by_producer(replica)
            if not all(entry.producer in logged for entry in replica.producers):
                return False
            for producer, batches in logged.items():
                latest = [each for each in batches if each.batch.epoch == batches[-1].batch.epoch]
                latest = latest[-machine.batches_retained :]
                if not _matches(machine, replica, latest, entry_of(replica.producers, producer)):
                    return False
        return True

    return holds


def _matches(
    machine: IdempotenceRules, replica: Replica, latest: Sequence[LoggedBatch], found: ProducerEntry | None
) -> bool:
    kept = sum(logged.base_offset >= replica.log_start for logged in latest)
    if found is None:
        return replica.forgot or not kept
    if found.epoch != latest[-1].batch.epoch or len(found.batches) > len(latest):
        return False
    if not replica.forgot and len(found.batches) < kept:
        return False
    return all(
        (known.base_offset, known.last_offset) == (logged.base_offset, logged.end_offset - 1)
        and known.last_sequence == (logged.batch.sequence + logged.batch.count - 1) % machine.sequences
        for known, logged in zip(found.batches, latest[-len(found.batches) :], strict=True)
    )


def replication_goes_on(state: State) -> bool:
    """No follower refuses what its leader has."""
    return not any(replica.stuck for replica in state.replicas)


def head_of_line_accepted(machine: IdempotenceRules) -> StepInvariant[State]:
    """A batch before which everything was acknowledged is never refused: its producer could only lose or double it.

    Unless a later batch overtook it to a leader that had forgotten their producer, and was taken on trust (KIP-360).
    """

    def holds(before: State, action: object, after: State) -> bool:
        new = added(before.responses, after.responses)
        return not any(_ends_session(machine, after, each) and not is_overtaken(after, each) for each in new)

    return holds


@question
def added(before: tuple[ProduceResponse, ...], after: tuple[ProduceResponse, ...]) -> tuple[ProduceResponse, ...]:
    """The responses that are new."""
    return tuple(response for response in after if response not in before)


def _ends_session(machine: IdempotenceRules, state: State, response: ProduceResponse) -> bool:
    """Whether a producer that gets the response can't go on: it refuses its latest attempt, and for good."""
    if response.error in (Error.OK, Error.NOT_LEADER_OR_FOLLOWER):
        return False
    flight = awaiting(state.producers[response.request.batch.producer].in_flight, response.request)
    return flight is not None and not (
        response.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER and machine.refusal_is_temporary(flight)
    )


def is_overtaken(state: State, refused: ProduceResponse) -> bool:
    """Whether the leader that refuses a batch has a later one of its session, and knew nothing before that."""
    batch = refused.request.batch
    return refused.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER and any(
        logged.on_trust
        and (logged.batch.producer, logged.batch.epoch) == (batch.producer, batch.epoch)
        and logged.batch.first > batch.first
        for logged in state.replicas[refused.request.broker].log
    )


def invariants(machine: IdempotenceRules) -> Mapping[str, Invariant[State]]:
    """Without sequences a repeat is appended again, and only the order can be kept."""
    always: dict[str, Invariant[State]] = {
        "NoReordering": no_reordering,
        "AcknowledgedWhereItIs": acknowledged_where_it_is,
        "ReplicationGoesOn": replication_goes_on,
    }
    if not machine.idempotent:
        return always
    return {
        "NoDuplicate": no_duplicate,
        "NoGap": no_gap,
        **always,
        "ProducerStateMatchesLog": producer_state_matches_log(machine),
    }


def step_invariants(machine: IdempotenceRules) -> Mapping[str, StepInvariant[State]]:
    return {"HeadOfLineAccepted": head_of_line_accepted(machine)} if machine.idempotent else {}


def goals(machine: IdempotenceRules) -> Mapping[str, Callable[[State], bool]]:
    """What a search within these constants must have reached, else it has proved little."""
    bounds = machine.bounds
    wanted: dict[str, Callable[[State], bool]] = {
        "all records are acknowledged": lambda s: (
            sum(promise.batch.count for promise in s.acknowledged) == machine.producers * machine.max_records
        )
    }
    if not machine.idempotent:
        return wanted
    if bounds["LoseConnection"]:
        wanted["a repeat is acknowledged"] = lambda s: any(r.repeated for r in s.responses)
    if machine.reordering and machine.max_in_flight > 1:
        wanted["a gap is refused"] = lambda s: any(r.error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER for r in s.responses)
    if bounds["GiveUp"]:
        wanted["an old epoch is fenced"] = lambda s: any(
            request.broker == s.leader
            and (entry := entry_of(s.replicas[s.leader].producers, request.batch.producer)) is not None
            and request.batch.epoch < entry.epoch
            for request in s.requests
        )
    if bounds["Expire"]:
        wanted["a producer has expired, and is taken on trust"] = lambda s: any(
            logged.on_trust for replica in s.replicas for logged in replica.log
        )
    overtakes = machine.max_in_flight > 1 and machine.max_records > 2 and machine.max_attempts > 1
    if bounds["Expire"] and overtakes and (machine.reordering or bounds["Elect"]):
        wanted["a batch is refused that one on trust has overtaken"] = lambda s: any(
            is_overtaken(s, response) and _ends_session(machine, s, response) for response in s.responses
        )
    if machine.sequences < machine.max_records:
        wanted["sequences have wrapped"] = lambda s: any(
            b.batch.first + b.batch.count > machine.sequences for replica in s.replicas for b in replica.log
        )
    if bounds["Elect"]:
        wanted["two logs have parted"] = lambda s: any(
            one.leader_epoch != other.leader_epoch
            for a in s.replicas
            for b in s.replicas
            for one, other in zip(a.log, b.log, strict=False)
        )
    if bounds["Crash"] and machine.segments:
        wanted["memory is rebuilt from a snapshot"] = lambda s: any(
            times(s.spent, "Crash") and replica.snapshots and replica.producers for replica in s.replicas
        )
    return wanted


def converging(machine: IdempotenceRules) -> Mapping[str, Invariant[State]]:
    """What comes of all that was sent, if connections last: requests arrive, responses too, followers fetch."""

    def batch_is_acknowledged(state: State) -> bool:
        """The oldest batch in flight of a producer is none, or one that its producer may not send again.

        Or its session has ended: when that may be is what `HeadOfLineAccepted` says.
        """
        waiting = [producer for producer in state.producers if producer.in_flight]
        return all(producer.desynchronised or used_up(producer.in_flight[0]) for producer in waiting)

    def used_up(flight: InFlight) -> bool:
        return flight.sent_to == NONE and flight.attempt + 1 >= machine.max_attempts

    return {
        "a batch is acknowledged, or all its attempts are used": batch_is_acknowledged,
        "a follower has what its leader has": follower_has_all,
    }


def follower_has_all(state: State) -> bool:
    """Every batch, at the same offset."""
    leader = state.replicas[state.leader]
    return all(replica.log == leader.log for replica in state.replicas)


def explain(state: State) -> Mapping[str, object]:
    """The values on which the invariants turn."""
    shown: dict[str, object] = {
        "leader": f"broker {state.leader} in epoch {state.leader_epoch}, in sync {list(state.in_sync)}",
        "acknowledged": tuple(f"{_told(promise.batch)} at {promise.base_offset}" for promise in state.acknowledged),
    }
    for broker, replica in enumerate(state.replicas):
        start = f", from offset {replica.log_start}" if replica.log_start else ""
        stuck = ", which refuses more" if replica.stuck else ""
        shown[f"log of broker {broker}{start}{stuck}"] = tuple(
            f"{logged.base_offset}: {_told(logged.batch)}" for logged in replica.log
        )
        shown[f"memory of broker {broker}"] = tuple(
            f"producer {entry.producer}, epoch {entry.epoch}: sequences up to {known.last_sequence} at offsets "
            f"{known.base_offset} to {known.last_offset}"
            for entry in replica.producers
            for known in entry.batches
        )
    for number, producer in enumerate(state.producers):
        state_of = ", which can't go on" if producer.desynchronised else ""
        shown[f"in flight of producer {number}{state_of}"] = tuple(_told(flight.batch) for flight in producer.in_flight)
    return shown


def _told(batch: Batch) -> str:
    last = batch.first + batch.count - 1
    records = f"record {batch.first}" if batch.count == 1 else f"records {batch.first} to {last}"
    return f"{records} of producer {batch.producer} (epoch {batch.epoch}, sequence {batch.sequence})"
