"""Idempotent producers: no duplicate, no reordering and no gap, with several requests in flight (KIP-98, 185, 360).

Theory of operation
-------------------
A producer has an id and an epoch, and numbers the records that it sends to a partition. A batch that gets no response
is sent again under the same numbers. The partition's leader remembers of each producer its epoch and its latest
batches, and asks that memory before it appends:

* a batch that it remembers is acknowledged with the offset that it got the first time, and not appended again;
* the epoch must not be older than the one remembered (a late request of a session that was given up is *fenced*);
* the sequence must follow the last one; a later epoch begins at 0. What comes too early (its predecessor was lost, or
  overtaken on another connection) is refused, and its producer sends it again.

It remembers as many batches as a producer may have in flight. The memory is a function of the log: followers have it
because they append what the leader appended, unconditionally, and a replica that restarts or truncates has it again
from the newest snapshot and the log. A snapshot keeps one batch a producer (that is Kafka's file format), so the
batches before it are looked up in the log behind it.

Two things make a replica forget: a producer that was idle for `producer.id.expiration.ms` is dropped, and a restart
finds nothing of a producer whose records retention deleted. An unknown producer must begin at 0 where nothing can have
been forgotten (KAFKA-15591), and is taken on trust elsewhere, as KIP-360 wants it: there a gap may go unnoticed if
requests overtake each other.

Sequences count modulo `sequences` (2^31 on the wire; small models wrap at small numbers). Replication is here what
`spec.replication` proves of it, one step a fetch; the controller's part is a step as well. Actions are in
`producer` and `partition`, invariants in `properties`, the constants and the rules, of which a historical bug
(`spec.bugs`) overrides one, in `rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.idempotence import partition, properties
from tidegauge.spec.idempotence import producer as producing
from tidegauge.spec.idempotence.actions import IdempotenceAction
from tidegauge.spec.idempotence.rules import IdempotenceRules
from tidegauge.spec.idempotence.state import (
    NONE,
    Producer,
    Replica,
    State,
)
from tidegauge.spec.kernel.machine import Invariant, StepInvariant, check_processes


@attrs.frozen
class Idempotence(IdempotenceRules):
    """The machine of idempotent producers; the fields of its rules are the constants of the model."""

    action_base = IdempotenceAction
    action_types: ClassVar[tuple[type[IdempotenceAction], ...]] = (
        producing.Send,
        producing.Retry,
        producing.LoseConnection,
        producing.RefreshMetadata,
        producing.GiveUp,
        producing.ReceiveProduceResponse,
        partition.ReceiveProduce,
        partition.Fetch,
        partition.Elect,
        partition.FillSegment,
        partition.Crash,
        partition.DeleteRecords,
        partition.Expire,
    )

    def __attrs_post_init__(self) -> None:
        """Raises ValueError for a bound on no action of the machine."""
        self.bounds.check(self.name, self.perturbations)

    # --- the machine -------------------------------------------------------------------------------------------

    def initial(self) -> Iterable[State]:
        """An empty partition that broker 0 leads, everybody in sync. Raises ValueError if the constants fit none."""
        check_processes("brokers", self.brokers)
        check_processes("producers", self.producers)
        remembered = max(self.batch_sizes) * max(self.max_in_flight, self.batches_retained)
        if self.sequences <= remembered:
            raise ValueError(
                f"sequences={self.sequences}: {remembered} are remembered, so a new batch looks like an old"
            )
        replicas = (Replica(epoch_start=0, known_ends=(NONE,) * self.brokers), *(Replica(),) * (self.brokers - 1))
        yield State((Producer(),) * self.producers, replicas, 0, 0, tuple(range(self.brokers)))

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return properties.invariants(self)

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return properties.step_invariants(self)

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return properties.goals(self)

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        return properties.converging(self)

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        return properties.explain(state)
