"""What may happen to a partition whose records workers process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Self

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratedAction
from tidegauge.spec.workers.rules import WorkerRules
from tidegauge.spec.workers.state import NONE, Consumer, Run, State


@attrs.frozen
class OfConsumer(EnumeratedAction[WorkerRules, State]):
    """An action of one consumer."""

    consumer: int

    @classmethod
    def candidates(cls, machine: WorkerRules, state: State) -> Iterable[Self]:
        return [cls(number) for number in range(machine.consumers)]

    def one(self, state: State) -> Consumer:
        """The consumer."""
        return state.consumers[self.consumer]


@attrs.frozen
class OfWorker(EnumeratedAction[WorkerRules, State]):
    """An action of one worker of a consumer."""

    consumer: int
    worker: int

    @classmethod
    def candidates(cls, machine: WorkerRules, state: State) -> Iterable[Self]:
        return [cls(number, worker) for number in range(machine.consumers) for worker in range(machine.workers)]

    def one(self, state: State) -> Consumer:
        """The consumer."""
        return state.consumers[self.consumer]

    def run(self, state: State) -> Run:
        """What the worker is at; there is something."""
        run = self.one(state).runs[self.worker]
        assert run is not None
        return run


# --- the partition's owner -------------------------------------------------------------------------------------------


@attrs.frozen
class Assign(OfConsumer):
    """The coordinator gives the partition to a consumer, which knows that it has it no more from before."""

    def guard(self, machine: WorkerRules, state: State) -> str:
        if state.owner != NONE:
            return "somebody owns it"
        return "" if self.one(state).generation == NONE else "it has yet to learn that it was taken away"

    def effect(self, machine: WorkerRules, state: State) -> State:
        generation = state.generation + 1
        given = machine.given(self.one(state), generation, state.committed)
        return evolve(state.with_consumer(self.consumer, given), owner=self.consumer, generation=generation)


@attrs.frozen
class AskBack(OfConsumer):
    """The group rebalances: the owner is asked to give the partition back."""

    fair: ClassVar[bool] = False
    bounded_as: ClassVar[str] = "AskBack"

    def guard(self, machine: WorkerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "the bound is reached"
        if not machine.owns(state, self.consumer):
            return "it does not own the partition"
        return "it was asked already" if self.one(state).gives_back else ""

    def effect(self, machine: WorkerRules, state: State) -> State:
        asked = evolve(self.one(state), gives_back=True)
        return state.with_consumer(self.consumer, asked).after(self.bounded_as)


@attrs.frozen
class GiveBack(OfConsumer):
    """It commits what is finished, and gives the partition back."""

    def guard(self, machine: WorkerRules, state: State) -> str:
        consumer = self.one(state)
        if not consumer.gives_back:
            return "nobody has asked for it"
        if not machine.may_give_back(consumer):
            return "a worker is at it"
        return "" if machine.owns(state, self.consumer) else "it was taken away meanwhile"

    def effect(self, machine: WorkerRules, state: State) -> State:
        consumer = self.one(state)
        after = state.with_consumer(self.consumer, machine.gone(consumer))
        return evolve(after, owner=NONE, committed=machine.committable(consumer))


@attrs.frozen
class Expel(OfConsumer):
    """The coordinator takes the partition away from an owner that sent nothing for long, and does not tell it."""

    fair: ClassVar[bool] = False
    bounded_as: ClassVar[str] = "Expel"

    def guard(self, machine: WorkerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "the bound is reached"
        return "" if state.owner == self.consumer else "it does not own the partition"

    def effect(self, machine: WorkerRules, state: State) -> State:
        runs = tuple(run and evolve(run, is_lost=True) for run in self.one(state).runs)
        after = state.with_consumer(self.consumer, evolve(self.one(state), runs=runs))
        return evolve(after, owner=NONE).after(self.bounded_as)


@attrs.frozen
class Learn(OfConsumer):
    """A consumer learns that the partition was taken away."""

    def guard(self, machine: WorkerRules, state: State) -> str:
        if self.one(state).generation == NONE:
            return "it knows that it does not have it"
        return "it owns the partition" if machine.owns(state, self.consumer) else ""

    def effect(self, machine: WorkerRules, state: State) -> State:
        return state.with_consumer(self.consumer, machine.gone(self.one(state)))


@attrs.frozen
class Commit(OfConsumer):
    """It commits what is finished, as it does now and then."""

    def guard(self, machine: WorkerRules, state: State) -> str:
        consumer = self.one(state)
        if consumer.generation == NONE:
            return "it has nothing to commit for"
        if not machine.owns(state, self.consumer):
            return "the response is ILLEGAL_GENERATION (`spec.groups.classic`)"
        return "all is committed" if machine.committable(consumer) == state.committed else ""

    def effect(self, machine: WorkerRules, state: State) -> State:
        return evolve(state, committed=machine.committable(self.one(state)))


# --- the work --------------------------------------------------------------------------------------------------------


@attrs.frozen
class Fetch(OfConsumer):
    """The next record arrives, and waits for a worker."""

    def guard(self, machine: WorkerRules, state: State) -> str:
        consumer = self.one(state)
        if machine.is_dropped(consumer):
            return "the partition is not its own"
        return "" if consumer.fetched < machine.records else "there is no more"

    def effect(self, machine: WorkerRules, state: State) -> State:
        consumer = self.one(state)
        return state.with_consumer(self.consumer, evolve(consumer, fetched=consumer.fetched + 1))


@attrs.frozen
class Begin(OfWorker):
    """A worker locks the partition, and hands its next record to the application."""

    def guard(self, machine: WorkerRules, state: State) -> str:
        consumer = self.one(state)
        if consumer.runs[self.worker] is not None:
            return "the worker is at something"
        if machine.is_dropped(consumer):
            return "the partition is not its own"
        if machine.is_locked(consumer):
            return "another worker has the partition"
        return "" if consumer.position < consumer.fetched else "nothing waits"

    def effect(self, machine: WorkerRules, state: State) -> State:
        consumer = self.one(state)
        # Who was taken the partition away and does not know it is in no order with its new owner.
        is_lost = not machine.owns(state, self.consumer)
        run = Run(machine.next_record(consumer), consumer.generation, consumer.locks, is_lost=is_lost)
        locked = evolve(consumer.with_run(self.worker, run), lock=consumer.locks, locks=consumer.locks + 1)
        return state.with_consumer(self.consumer, locked)


@attrs.frozen
class Finish(OfWorker):
    """The application returns. If the worker has the lock, the first record that waits is done."""

    def guard(self, machine: WorkerRules, state: State) -> str:
        run = self.one(state).runs[self.worker]
        if run is None:
            return "the worker is at nothing"
        return "the application hangs" if run.hangs else ""

    def effect(self, machine: WorkerRules, state: State) -> State:
        consumer, run = self.one(state), self.run(state)
        after = consumer.with_run(self.worker, None)
        if machine.counts(consumer, run):
            after = evolve(after, lock=NONE, position=min(consumer.position + 1, consumer.fetched))
        return evolve(state.with_consumer(self.consumer, after), finished=state.finished | {run.offset})


@attrs.frozen
class Hang(OfWorker):
    """The application does not return, and does not renew its lock."""

    fair: ClassVar[bool] = False
    bounded_as: ClassVar[str] = "Hang"

    def guard(self, machine: WorkerRules, state: State) -> str:
        if not machine.may_perturb(state, self.bounded_as):
            return "the bound is reached"
        run = self.one(state).runs[self.worker]
        return "the worker is at nothing" if run is None else "it hangs already" if run.hangs else ""

    def effect(self, machine: WorkerRules, state: State) -> State:
        hanging = self.one(state).with_run(self.worker, evolve(self.run(state), hangs=True))
        return state.with_consumer(self.consumer, hanging).after(self.bounded_as)


@attrs.frozen
class GoOn(OfWorker):
    """An application that hung goes on."""

    fair: ClassVar[bool] = False

    def guard(self, machine: WorkerRules, state: State) -> str:
        run = self.one(state).runs[self.worker]
        return "" if run is not None and run.hangs else "it does not hang"

    def effect(self, machine: WorkerRules, state: State) -> State:
        going = self.one(state).with_run(self.worker, evolve(self.run(state), hangs=False))
        return state.with_consumer(self.consumer, going)


@attrs.frozen
class Expire(OfWorker):
    """The time of a lock that is not renewed is over: another worker may take the partition over."""

    def guard(self, machine: WorkerRules, state: State) -> str:
        consumer = self.one(state)
        run = consumer.runs[self.worker]
        if run is None or consumer.lock != run.lock:
            return "the worker has no lock"
        return "" if machine.expires(run) else "the lock is renewed in time"

    def effect(self, machine: WorkerRules, state: State) -> State:
        lost = self.one(state).with_run(self.worker, evolve(self.run(state), is_lost=True))
        return state.with_consumer(self.consumer, evolve(lost, lock=NONE))


@attrs.frozen
class Cancel(OfWorker):
    """The application's work is cancelled, since its worker has the lock no more; it may take its time to obey."""

    def guard(self, machine: WorkerRules, state: State) -> str:
        consumer = self.one(state)
        run = consumer.runs[self.worker]
        if run is None:
            return "the worker is at nothing"
        return "the worker has the lock" if machine.counts(consumer, run) else ""

    def effect(self, machine: WorkerRules, state: State) -> State:
        return state.with_consumer(self.consumer, self.one(state).with_run(self.worker, None))
