"""A consumer group's records in `__consumer_offsets`: written, cleaned, and loaded while they are cleaned.

Theory of operation
-------------------
A group (KIP-848) is several records, each with a key: the group's epoch, the target's, and three of each member. A
change appends a batch of those that are new; of a member that leaves there are three tombstones. Who becomes the
coordinator reads the log batch by batch, and the group is what the last record of each key says.

The cleaner drops a record that a later one of the same key replaces, and it does so while the log is read. So a load
does not see a past group grow to the present one. It may have read that one member has a partition, and read next that
another one has it: the record in between, by which the first gave it back, was dropped, for a later one of the first
member replaces it (KAFKA-19862). It may begin with tombstones of what it never read (KAFKA-17306). Kafka's replay took
either for a broken log, and the load failed, at every broker, for good.

So a load takes every record as it comes, and says nothing of the group before it has read all. What makes that right is
that the last record of a key is never dropped, unless it is a tombstone; and that one stays until each load is over
that began before: `delete.retention.ms` is longer than a load.

The group has one topic with one partition. Heartbeats and what they ask for are in `spec.groups.consumer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.groups.loading import actions, properties
from tidegauge.spec.groups.loading.rules import LoadingRules
from tidegauge.spec.groups.loading.state import State
from tidegauge.spec.kernel.guarded import GuardedAction
from tidegauge.spec.kernel.machine import Action, Invariant, check_processes


@attrs.frozen
class GroupLoading(LoadingRules):
    """The machine; the fields of its rules are the constants of the model."""

    action_base = actions.LoadingAction
    action_types: ClassVar[tuple[type[Action], ...]] = (
        actions.Join,
        actions.Leave,
        actions.Delete,
        actions.Advance,
        actions.Clean,
        actions.DropTombstones,
        actions.BeginLoad,
        actions.Read,
        actions.EndLoad,
    )

    def __attrs_post_init__(self) -> None:
        check_processes("members", self.members)

    def initial(self) -> Iterable[State]:
        return (State(),)

    def candidates(self, state: State) -> Iterable[GuardedAction[LoadingRules, State]]:
        yield from (actions.BeginLoad(), actions.Read(), actions.EndLoad(), actions.Delete())
        for member in range(self.members):
            yield from (actions.Join(member), actions.Leave(member), actions.Advance(member))
        for end in range(1, state.end + 1):
            yield from (actions.Clean(end), actions.DropTombstones(end))

    # --- properties ----------------------------------------------------------------------------------------------

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return properties.invariants()

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        return properties.converging()

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return properties.goals()

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        load = state.load
        return {
            "the group that was written": state.group,
            "the group that is loaded": None if load is None else load.group,
            "yet to be read": state.unread,
            "log": state.log,
        }
