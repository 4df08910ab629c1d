"""The rules of workers, each a method that a mutant overrides; the constants bound the search."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import EnumeratingMachine
from tidegauge.spec.workers.state import NONE, Consumer, Run, State

DEFAULT_BOUNDS = Bounds()


@attrs.frozen
class WorkerRules(EnumeratingMachine[State]):
    """What a consumer that has workers decides about one partition."""

    consumers: int = 2
    workers: int = 2
    """Of each consumer."""
    records: int = 2
    bounds: Bounds = DEFAULT_BOUNDS

    def given(self, consumer: Consumer, generation: int, committed: int) -> Consumer:
        """A consumer that was given the partition goes on from what is committed."""
        return evolve(consumer, generation=generation, gives_back=False, position=committed, fetched=committed)

    def gone(self, consumer: Consumer) -> Consumer:
        """A consumer that has the partition no more. What was fetched is dropped, and the lock ends with it."""
        return evolve(consumer, generation=NONE, gives_back=False, lock=NONE)

    def is_dropped(self, consumer: Consumer) -> bool:
        """Whether what was fetched must not be processed here: the partition was taken away, or asked for."""
        return consumer.generation == NONE or consumer.gives_back

    def is_locked(self, consumer: Consumer) -> bool:
        """Whether a worker has the partition."""
        return consumer.lock != NONE

    def next_record(self, consumer: Consumer) -> int:
        """Which of the records that wait is processed next: the first one."""
        return consumer.position

    def counts(self, consumer: Consumer, run: Run) -> bool:
        """Whether the end of this run is the end of the partition's next record: its worker has the lock still."""
        return consumer.lock == run.lock

    def may_give_back(self, consumer: Consumer) -> bool:
        """The partition is given back when no worker has it."""
        return not self.is_locked(consumer)

    def expires(self, run: Run) -> bool:
        """Whether a worker that has the lock loses it: it was not renewed in time."""
        return run.hangs

    def committable(self, consumer: Consumer) -> int:
        """The offset to commit: all records before it are finished."""
        return consumer.position

    def owns(self, state: State, number: int) -> bool:
        """Whether the coordinator takes this consumer's commits: it is the owner, in its generation."""
        return state.owner == number and state.generation == state.consumers[number].generation
