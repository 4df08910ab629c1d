"""The offsets of a group in `__consumer_offsets`: kept, compacted, expired and loaded again.

Theory of operation
-------------------
One group commits offsets (here: *values*) for one partition of its input, in transactions and without. The leader of
the group's partition of `__consumer_offsets` is its coordinator. A value is in the log first; when it is committed, the
coordinator replays it. So its store is a function of the committed log, and a leader that loads the log, or what the
cleaner has left of it, knows the same. `spec.transactions` tells when which marker is written; here they come as they
please.

Four rules follow from that one:

* of two values that both count the one counts that was *written* later, whenever its marker came: the order of the
  markers is lost when the cleaner has been there;
* a tombstone takes along what is pending, for the cleaner does;
* the coordinator writes no tombstone by itself while another value is pending, or on its way: it would take that along,
  and a client was or will be told that it is committed;
* who asks for a stable offset is not told one while another value is pending (KIP-447).

Four constants add what most searches do without. With `applies_later` a coordinator takes its time to replay what is
committed, and acknowledges a marker only then. With `max_rebalances` the group may have members: while there is one,
and be it unassigned, nothing expires, and when the last one has gone the time of all offsets begins anew, which the
group's record says for every coordinator (KIP-211). With `asked` a client may name a time after which its value goes
(OffsetCommit 2 to 4), whatever the setting says. With `is_old_format` every value in the log has such a time, as
brokers before 2.1 write it: -1 says that no client has named one. What members commit, and who they are, is no part of
this machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.guarded import GuardedAction
from tidegauge.spec.kernel.machine import Action, Invariant
from tidegauge.spec.offsets import actions, properties
from tidegauge.spec.offsets.rules import OffsetRules
from tidegauge.spec.offsets.state import State

A_GENERATION = 3
"""What no group without members has."""


@attrs.frozen
class Offsets(OffsetRules):
    """The machine; the fields of its rules are the constants of the model."""

    action_base = actions.OffsetAction
    action_types: ClassVar[tuple[type[Action], ...]] = (
        actions.Commit,
        actions.CommitInTransaction,
        actions.WriteMarker,
        actions.Replicate,
        actions.Apply,
        actions.Acknowledge,
        actions.FailOver,
        actions.Delete,
        actions.Expire,
        actions.Clean,
        actions.Tick,
        actions.Join,
        actions.Assign,
        actions.Leave,
    )
    refused_types: ClassVar[tuple[type[Action], ...]] = (actions.FetchStable,)

    def initial(self) -> Iterable[State]:
        return (State(),)

    def candidates(self, state: State) -> Iterable[GuardedAction[OffsetRules, State]]:
        yield from (actions.Commit(), actions.Replicate(), actions.Delete(), actions.Expire(), actions.Tick())
        yield from (actions.Commit(retention=asked) for asked in self.asked)
        if self.applies_later:
            yield from (actions.Apply(), actions.Acknowledge())
        if self.max_rebalances:
            yield from (actions.Join(), actions.Assign(), actions.Leave())
        for producer in range(self.producers):
            yield actions.CommitInTransaction(producer)
            yield from (actions.WriteMarker(producer, commits) for commits in (True, False))
        yield from (actions.FailOver(end) for end in range(state.high_watermark, state.end + 1))
        yield from (actions.Clean(end) for end in range(1, state.end + 1))

    def attempts(self, state: State, kind: type[Action]) -> Iterable[Action]:
        if kind is actions.FetchStable:
            return (actions.FetchStable(),)
        if kind is actions.Commit:
            return (actions.Commit(A_GENERATION),)
        if kind is actions.CommitInTransaction:
            return (actions.CommitInTransaction(0, A_GENERATION),)
        return super().attempts(state, kind)

    # --- properties ----------------------------------------------------------------------------------------------

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return properties.invariants(self)

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        return properties.converging()

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        return {
            "log": state.log,
            "what was ever appended": state.history,
            "what the coordinator has": state.store,
            "replayed up to": state.applied,
            "markers acknowledged up to": state.acknowledged,
        }

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return properties.goals()
