"""The state of one partition whose records workers process: who owns it, and each consumer's work on it."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.bounds import Spent, spend
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.piecemeal import PIECEMEAL

NONE = -1


@attrs.frozen
class Run:
    """A record that a worker has handed to the application, which has not returned."""

    offset: int
    generation: int
    """Under which the consumer owned the partition; NONE if it did not."""
    lock: int
    """The number of the lock under which it began."""
    hangs: bool = False
    """Whether the application does not return in time, and does not renew the lock."""
    is_lost: bool = False
    """Whether the lock was taken from the worker meanwhile, or the partition from the consumer without a word."""


@attrs.frozen
class Consumer:
    """A consumer with its workers, and what it believes of the partition."""

    runs: tuple[Run | None, ...]
    """By worker."""
    generation: int = NONE
    """Under which it owns the partition, as far as it knows; NONE: it does not."""
    gives_back: bool = False
    """Whether it was asked for the partition, and lets work end first."""
    position: int = 0
    """The record that is to be processed next: all before it are finished."""
    fetched: int = 0
    """The records before it wait for workers, or are done."""
    lock: int = NONE
    """The number of the lock on the partition; NONE: no worker has it."""
    locks: int = 0
    """How many it has given out."""

    def with_run(self, worker: int, run: Run | None) -> Consumer:
        """The same, this worker being at that."""
        return evolve(self, runs=(*self.runs[:worker], run, *self.runs[worker + 1 :]))


@attrs.frozen
class State:
    """The group's coordinator, as far as one partition goes, and the consumers."""

    consumers: tuple[Consumer, ...]
    owner: int = NONE
    """To whom the coordinator has given the partition."""
    generation: int = 0
    """Of the last time that it gave it to somebody."""
    committed: int = 0
    finished: frozenset[int] = frozenset()
    """The records that some worker has processed to the end."""
    spent: Spent = attrs.field(default=(), metadata=PIECEMEAL)
    """How often each perturbation has happened."""

    def with_consumer(self, number: int, consumer: Consumer) -> State:
        """The same, with this consumer like that."""
        return evolve(self, consumers=(*self.consumers[:number], consumer, *self.consumers[number + 1 :]))

    def after(self, perturbation: str) -> State:
        """The same, having spent one perturbation."""
        return evolve(self, spent=spend(self.spent, perturbation))
