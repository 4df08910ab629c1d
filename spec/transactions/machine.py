"""Transactions: records in many partitions that become visible together, or never (KIP-98, 360, 447, 890, 1228).

Theory of operation
-------------------
A producer with a transactional id asks the transaction coordinator for a producer id and an epoch; that aborts what an
older process of the id left open, and fences it. Records go to their partitions at once, and wait there: read_committed
ends at the *last stable offset*, the first record of an open transaction. Before a partition lets a transaction begin,
the coordinator has it on its list: the client says so (version 1 of the protocol), and the leader asks whether it is
true, or the leader says so itself (version 2).

The coordinator keeps one record for a transactional id in its log, which is the truth; what it has in memory is read
from there after every change of the coordinator. To end a transaction it writes *prepare*: that is the commit point. It
then writes a *marker* to every partition on the list, again and again until each has acknowledged it, and then that the
transaction is *complete*. A partition's leader keeps an index of aborted transactions, and replicas find from the log
alone what it remembers.

What is late is told from what is new by the epoch. It rises when a process begins, when the coordinator aborts without
being asked, and, in version 2, with every transaction. In version 1 two transactions of a process share an epoch, and
so three kinds of late request do harm that version 2 is made for: an EndTxn and an AddPartitionsToTxn that arrive in
the next transaction, and a marker that is written twice. The models of version 1 have none of them late; the tests show
what happens if they are.

How requests travel
-------------------
A request, what it does and its response are one step: a response that was lost is a request that was late. `Delay...`
puts a copy of a request aside, while its sender waits on, and sends again; the copy may arrive whenever it likes, or
never, and nobody waits for its response. What refuses a request changes nothing: its guard names the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.machine import Action, Invariant, LeadsTo, StepInvariant, check_processes
from tidegauge.spec.transactions import consuming, coordinating, partitioning, producing, properties
from tidegauge.spec.transactions.actions import TransactionAction
from tidegauge.spec.transactions.rules import TransactionRules
from tidegauge.spec.transactions.state import Coordination, Partition, Producer, State
from tidegauge.spec.transactions.symmetry import renamed_state


@attrs.frozen
class Transactions(TransactionRules):
    """The machine of transactions; the fields of its rules are the constants of the model."""

    action_base = TransactionAction
    action_types: ClassVar[tuple[type[TransactionAction], ...]] = (
        producing.Start,
        producing.Begin,
        producing.Send,
        producing.End,
        producing.Upgrade,
        consuming.Rebalance,
        consuming.FetchOffset,
        producing.CrashProducer,
        producing.GiveUp,
        *producing.DELAYS,
        coordinating.ReceiveInit,
        coordinating.ReceiveAdd,
        coordinating.ReceiveEnd,
        coordinating.Complete,
        coordinating.ExpireTransaction,
        coordinating.ExpireId,
        coordinating.TurnClockBack,
        coordinating.CommitRecord,
        coordinating.FailOver,
        coordinating.Load,
        partitioning.Verify,
        partitioning.Append,
        partitioning.WriteMarker,
        partitioning.Replicate,
        partitioning.Elect,
    )

    def __attrs_post_init__(self) -> None:
        """Raises ValueError for a bound on no action of the machine."""
        self.bounds.check(self.name, self.perturbations)

    def initial(self) -> Iterable[State]:
        """Nobody has started and all logs are empty. Raises ValueError if the constants fit none."""
        check_processes("transactional_ids", self.transactional_ids)
        check_processes("incarnations", self.incarnations)
        check_processes("partitions", self.partitions)
        if self.version not in (1, 2):
            raise ValueError(f"version={self.version}: the protocol of transactions has the versions 1 and 2")
        if self.log_version not in (0, 1) or self.log_version + 1 < self.version:
            raise ValueError(f"log_version={self.log_version}: it is 1, or 0 where producers speak version 1")
        if self.max_epoch < 2:
            raise ValueError(f"max_epoch={self.max_epoch}: a producer needs an epoch, and its fencing another")
        yield State(
            (Producer(),) * self.producers,
            (Coordination(),) * self.transactional_ids,
            (Partition(),) * self.partitions,
        )

    def is_fair(self, before: State, action: Action, after: State) -> bool:
        """A late request may never arrive; and clients need not go on adding partitions."""
        if getattr(action, "late", False) or isinstance(action, coordinating.ReceiveAdd):
            return False
        return super().is_fair(before, action, after)

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

    @property
    def leads_to(self) -> Mapping[str, LeadsTo[State]]:
        return properties.owed(self)

    @property
    def interchangeable(self) -> int:
        data = self.partitions - (self.inputs > 0)
        return data if data > 1 else 0

    @property
    def why_unlike(self) -> str:
        return "only partitions for data are, and it has one of them (partitions=2 and more are interchangeable)"

    def permute(self, state: State, permutation: tuple[int, ...]) -> State:
        return renamed_state(state, (*permutation, *range(len(permutation), self.partitions)))

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        return properties.explain(state)
