"""What must hold of records that workers process, as the partition goes from owner to owner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegauge.spec.kernel.machine import Action, Invariant, StepInvariant
from tidegauge.spec.workers.rules import WorkerRules
from tidegauge.spec.workers.state import NONE, Consumer, Run, State


def invariants() -> Mapping[str, Invariant[State]]:
    """What holds in every state."""
    return {
        "CommittedIsFinished": committed_is_finished,
        "OrderIsKept": order_is_kept,
        "OneWorkerAtATime": one_worker_at_a_time,
        "HandedOverAtRest": handed_over_at_rest,
    }


def committed_is_finished(state: State) -> bool:
    """Every record before the committed offset was processed to the end: at least once."""
    return all(offset in state.finished for offset in range(state.committed))


def order_is_kept(state: State) -> bool:
    """No record begins before all earlier ones were processed to the end."""
    return all(offset in state.finished for _, run in runs(state) for offset in range(run.offset))


def one_worker_at_a_time(state: State) -> bool:
    """A partition has one worker of a consumer, but for those that have lost their locks."""
    return all(sum(not run.is_lost for run in own(consumer)) <= 1 for consumer in state.consumers)


def handed_over_at_rest(state: State) -> bool:
    """No worker is at a partition that its consumer has given back; who was expelled, or lost its lock, may yet be."""
    return all(run.is_lost or run.generation == consumer.generation for consumer, run in runs(state))


def step_invariants() -> Mapping[str, StepInvariant[State]]:
    """What holds of every step."""
    return {
        "DroppedIsNotBegun": dropped_is_not_begun,
        "WhoRenewsKeepsItsLock": who_renews_keeps_its_lock,
        "CommittedNeverGoesBack": committed_never_goes_back,
    }


def dropped_is_not_begun(before: State, action: Action, after: State) -> bool:
    """No record begins of a partition that the consumer does not own, or was asked for."""
    return all(
        now is None or once is not None or (old.generation != NONE and not old.gives_back)
        for old, new in zip(before.consumers, after.consumers, strict=True)
        for once, now in zip(old.runs, new.runs, strict=True)
    )


def who_renews_keeps_its_lock(before: State, action: Action, after: State) -> bool:
    """A worker that does not hang has its lock until it has finished, or its consumer knows the partition gone."""
    return all(
        now is None or once is None or once.hangs or old.lock != once.lock or new.lock != NONE
        for old, new in zip(before.consumers, after.consumers, strict=True)
        if old.generation == new.generation
        for once, now in zip(old.runs, new.runs, strict=True)
    )


def committed_never_goes_back(before: State, action: Action, after: State) -> bool:
    """A commit of somebody who is the owner no more is not taken."""
    return before.committed <= after.committed


def converging(machine: WorkerRules) -> Mapping[str, Invariant[State]]:
    """What comes about in the end."""
    return {"every record is processed, and that is committed": lambda state: state.committed == machine.records}


def goals(machine: WorkerRules) -> Mapping[str, Invariant[State]]:
    """What a search that proves anything must reach."""
    found: dict[str, Invariant[State]] = {}
    if machine.records > 1:
        found["one worker is at a partition, and a record waits"] = lambda state: any(
            consumer.lock != NONE and consumer.position + 1 < consumer.fetched for consumer in state.consumers
        )
    if "Hang" in machine.bounds and machine.workers > 1:
        found["a worker takes the partition over from one that hangs"] = lambda state: any(
            run.hangs and run.is_lost and consumer.lock not in (NONE, run.lock) for consumer, run in runs(state)
        )
    if "Expel" in machine.bounds:
        found["a record was processed, and cannot be committed"] = lambda state: any(
            NONE < consumer.generation < state.generation and consumer.position > state.committed
            for consumer in state.consumers
        )
        found["a partition comes back while a worker is at it from before"] = lambda state: any(
            run.generation < consumer.generation for consumer, run in runs(state)
        )
    if "AskBack" in machine.bounds:
        found["a partition that was asked for waits for its worker"] = lambda state: any(
            consumer.gives_back and consumer.lock != NONE for consumer in state.consumers
        )
    return found


def own(consumer: Consumer) -> Iterator[Run]:
    """What the workers of a consumer are at."""
    return (run for run in consumer.runs if run is not None)


def runs(state: State) -> Iterator[tuple[Consumer, Run]]:
    """What all workers are at, with their consumers."""
    return ((consumer, run) for consumer in state.consumers for run in own(consumer))
