"""The workers of consumers in lockstep: each consumer's queues beside the machine of `spec.workers`.

The harness is the group's coordinator, and the shell that runs the application's work: it has the generations, keeps
what each worker has begun, and cancels what the queues say has lost its lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from random import Random
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.consumer_record import ConsumerRecord
from tidegauge.impl.client.work_queues import Run, WorkQueues
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.workers import actions
from tidegauge.spec.workers import state as spec
from tidegauge.spec.workers.machine import Workers
from tidegauge.spec.workers.state import NONE, State

PARTITION: Final = ("topic", 3)
TIMEOUT_MS: Final = 10


@attrs.frozen
class WorkerRoles:
    """The class that plays each part."""

    queues: type[WorkQueues] = WorkQueues


CORRECT_WORKERS: Final = WorkerRoles()


def large_workers(rng: Random) -> Workers:
    """A machine for a walk."""
    return Workers(
        consumers=rng.choice((1, 2, 3)),
        workers=rng.choice((1, 2, 3)),
        records=rng.choice((3, 8)),
        bounds=Bounds(AskBack=5, Expel=5, Hang=5),
    )


class WorkerCores:
    """Consumers with their queues, in the machine's initial state."""

    def __init__(self, machine: Workers, roles: WorkerRoles = CORRECT_WORKERS) -> None:
        self.machine = machine
        self.now_ms = 0
        self.queues = [roles.queues(TIMEOUT_MS) for _ in range(machine.consumers)]
        self.runs: dict[tuple[int, int], Run] = {}
        """What each worker of each consumer is at."""
        self.hanging: set[tuple[int, int]] = set()
        self.cancelled: set[tuple[int, int]] = set()
        """Consumers and the numbers of the locks that their workers have lost."""
        self.generations = [NONE] * machine.consumers
        self.fetched = [0] * machine.consumers
        self.owner = NONE
        self.generation = 0
        self.committed = 0

    def close(self) -> None:
        """There is nothing to stop."""

    def perform(self, action: Action, before: State) -> None:
        """Do what the action says; it is enabled in the specification."""
        STEPS.perform(self, action, before)

    # --- the coordinator, and what it tells ----------------------------------------------------------------------

    def assign(self, action: actions.Assign, before: State) -> None:
        self.owner = action.consumer
        self.generation += 1
        self.generations[action.consumer] = self.generation
        self.fetched[action.consumer] = self.committed
        self.queues[action.consumer].given([PARTITION])

    def ask_back(self, action: actions.AskBack, before: State) -> None:
        self.queues[action.consumer].ask_back([PARTITION])

    def give_back(self, action: actions.GiveBack, before: State) -> None:
        assert self.queues[action.consumer].is_at_rest([PARTITION])
        self.committed = self._position(action.consumer)
        self.owner = NONE
        self._gone(action.consumer)

    def expel(self, action: actions.Expel, before: State) -> None:
        self.owner = NONE

    def learn(self, action: actions.Learn, before: State) -> None:
        self._gone(action.consumer)

    def commit(self, action: actions.Commit, before: State) -> None:
        self.committed = self._position(action.consumer)

    def _position(self, consumer: int) -> int:
        """What the consumer would commit, which has nothing to commit before something was finished."""
        return self.queues[consumer].committable().get(PARTITION, self.committed)

    def _gone(self, consumer: int) -> None:
        self.generations[consumer] = NONE
        self._cancel(consumer, self.queues[consumer].gone([PARTITION]))

    def _cancel(self, consumer: int, runs: Iterable[Run]) -> None:
        self.cancelled.update((consumer, run.lock) for run in runs)

    # --- workers -------------------------------------------------------------------------------------------------

    def fetch(self, action: actions.Fetch, before: State) -> None:
        offset = self.fetched[action.consumer]
        self.fetched[action.consumer] += 1
        self.queues[action.consumer].add([ConsumerRecord(*PARTITION, offset, 0, None, None, (), 0)])

    def begin(self, action: actions.Begin, before: State) -> None:
        run = self.queues[action.consumer].begin(self.now_ms)
        assert run is not None, "a worker found nothing to do"
        self.runs[action.consumer, action.worker] = run

    def finish(self, action: actions.Finish, before: State) -> None:
        self.queues[action.consumer].finish(self.runs.pop((action.consumer, action.worker)))

    def hang(self, action: actions.Hang, before: State) -> None:
        self.hanging.add((action.consumer, action.worker))

    def go_on(self, action: actions.GoOn, before: State) -> None:
        self.hanging.discard((action.consumer, action.worker))

    def expire(self, action: actions.Expire, before: State) -> None:
        """Time goes on, and who does not hang renews its lock."""
        self.now_ms += TIMEOUT_MS
        for consumer, queues in enumerate(self.queues):
            self._renew(consumer, queues)
        self._cancel(action.consumer, self.queues[action.consumer].expire(self.now_ms))

    def _renew(self, consumer: int, queues: WorkQueues) -> None:
        for (number, worker), run in self.runs.items():
            if number == consumer and (number, worker) not in self.hanging:
                queues.renew(run, self.now_ms)

    def cancel(self, action: actions.Cancel, before: State) -> None:
        worker = action.consumer, action.worker
        del self.runs[worker]
        self.hanging.discard(worker)

    def can_send(self, kind: type[Action]) -> bool:
        """Nothing is refused here: who commits for another one is a matter of the coordinator (`spec.groups`)."""
        return False

    def refuse(self, action: Action, before: State) -> ErrorCode | None:
        """Nothing is sent."""
        return None

    # --- what is compared ----------------------------------------------------------------------------------------

    def differences(self, state: State) -> Iterable[Change]:
        """What the queues would do: begin, expire, give back; and whether they say what is to be cancelled."""
        for number, consumer in enumerate(state.consumers):
            waits = not self.machine.is_dropped(consumer) and not self.machine.is_locked(consumer)
            begins = waits and consumer.position < consumer.fetched
            if (found := deepcopy(self.queues[number]).begin(self.now_ms) is not None) != begins:
                yield Change(f"consumer {number} begins", begins, found)
            expires = [run.lock for run in consumer.runs if run and run.hangs and run.lock == consumer.lock]
            later = deepcopy(self.queues[number])
            now_ms, self.now_ms = self.now_ms, self.now_ms + TIMEOUT_MS
            self._renew(number, later)
            if (lost := [run.lock for run in later.expire(self.now_ms)]) != expires:
                yield Change(f"locks of consumer {number} that end", expires, lost)
            self.now_ms = now_ms
            is_at_rest = self.queues[number].is_at_rest([PARTITION])
            if consumer.gives_back and is_at_rest != self.machine.may_give_back(consumer):
                yield Change(f"consumer {number} may give back", self.machine.may_give_back(consumer), is_at_rest)
            for run in consumer.runs:
                is_cancelled = run is not None and (number, run.lock) in self.cancelled
                if run is not None and is_cancelled == self.machine.counts(consumer, run):
                    yield Change(f"the work on {run.offset} is cancelled", not is_cancelled, is_cancelled)

    def abstraction(self, state: State) -> State:
        consumers = tuple(self._consumer(number, each) for number, each in enumerate(state.consumers))
        return State(consumers, self.owner, self.generation, self.committed, state.finished, state.spent)

    def _consumer(self, number: int, expected: spec.Consumer) -> spec.Consumer:
        """What a consumer that has the partition no more once knew of it is nobody's business."""
        queues = self.queues[number]
        runs = tuple(self._run((number, worker), expected.runs[worker]) for worker in range(self.machine.workers))
        known = evolve(expected, runs=runs, generation=self.generations[number], locks=queues.locks)
        queue = queues.of(PARTITION)
        if queue is None:
            return evolve(known, gives_back=False)
        position = self._position(number) if queue.position is not None else self.fetched[number] - len(queue.waiting)
        return evolve(
            known,
            gives_back=queue.gives_back,
            position=position,
            fetched=position + len(queue.waiting),
            lock=NONE if queue.lock is None else queue.lock.run.lock,
        )

    def _run(self, worker: tuple[int, int], expected: spec.Run | None) -> spec.Run | None:
        """What the queues cannot know: who owned the partition in truth."""
        run = self.runs.get(worker)
        if run is None:
            return None
        generation, is_lost = (NONE, False) if expected is None else (expected.generation, expected.is_lost)
        return spec.Run(run.record.offset, generation, run.lock, worker in self.hanging, is_lost)


STEPS: Final = Steps(
    on(actions.Assign, WorkerCores.assign),
    on(actions.AskBack, WorkerCores.ask_back),
    on(actions.GiveBack, WorkerCores.give_back),
    on(actions.Expel, WorkerCores.expel),
    on(actions.Learn, WorkerCores.learn),
    on(actions.Commit, WorkerCores.commit),
    on(actions.Fetch, WorkerCores.fetch),
    on(actions.Begin, WorkerCores.begin),
    on(actions.Finish, WorkerCores.finish),
    on(actions.Hang, WorkerCores.hang),
    on(actions.GoOn, WorkerCores.go_on),
    on(actions.Expire, WorkerCores.expire),
    on(actions.Cancel, WorkerCores.cancel),
)
