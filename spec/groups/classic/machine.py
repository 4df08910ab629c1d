"""Classic groups: members that share partitions out among themselves, by JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Theory of operation
-------------------
The coordinator of a group begins a *generation* when its members have changed: it lets all of them join, and tells one,
the *leader*, who they are and what they want. The leader says who is to own what, and the coordinator tells each member
its part. A generation is a number that every request of a member has; a request of another one is refused. So a
partition may have two processes that believe that they own it, while a rebalance goes on, but the commits of one of
them only are taken: of the member that was given it last, in the generation of that.

With the *eager* protocol a member gives all its partitions back before it joins. With the *cooperative* one (KIP-429)
it goes on with them, and says what they are; the leader gives nothing away that somebody has, and a member that had to
give something back joins again. A *static* member (KIP-345) has a name of its own: a process that begins under the same
one takes its place, with what it owns, and the former process is fenced by the member id that the coordinator has
given.

The coordinator's log has the generations that were shared out, and those without members, and committed offsets. What
it has in memory beside that is lost with it: who has joined, who waits, which member ids were given. A generation whose
assignment nobody has may therefore come twice. No other one does, as long as the group is not deleted.

How requests travel
-------------------
A request and what it does are one step, and so is its response, unless it has to wait for other members: then it is on
its way until its process receives it, or loses its connection. `Delay...` puts a copy of a request aside, which may
arrive whenever it likes, or never. A heartbeat's response may be as late as the copy. A process hangs if its
application does nothing any more; a client library would have it leave after `max.poll.interval.ms`, which is no part
of the protocol and not needed for its promises.

A generation that a coordinator began and took with it begins again under the same number. If its leader has lost a
JoinGroup on the way, and that one arrives now, the next generation begins without the leader knowing it; the assignment
that it made for the lost one counts, for a SyncGroup says nothing of coordinators. Who is not in the generation gets
nothing, and its partitions are nobody's until a rebalance begins. That is a gap of Kafka's protocol
(`GroupMetadataManager.classicGroupSyncToClassicGroup` takes any assignment of the leader, and gives nothing to whom it
does not name): what is given is given once, but not all of it.

A static member of a cooperative group that crashes before it has given a partition back is a gap of the protocol: its
next process takes the place without a rebalance, and the partition is nobody's until one begins. No model has that.

Not here: deletion of groups and offsets, and expiry (`spec.offsets`); offsets in transactions (`spec.transactions`);
the largest size of a group. Nobody asks a group that its coordinator has unloaded, and so no group is in state Dead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.groups.classic import actions, processes, properties, requests, timing
from tidegauge.spec.groups.classic.actions import GroupAction
from tidegauge.spec.groups.classic.rules import GroupRules
from tidegauge.spec.groups.classic.state import Log, Offset, Owner, Process, State
from tidegauge.spec.kernel.machine import Action, Invariant, LeadsTo, StepInvariant, check_processes


@attrs.frozen
class ClassicGroups(GroupRules):
    """The machine of one classic group; the fields of its rules are the constants of the model."""

    action_base = GroupAction
    action_types: ClassVar[tuple[type[GroupAction], ...]] = (
        processes.Start,
        processes.ReceiveResponse,
        requests.ReceiveJoin,
        requests.ReceiveSync,
        requests.ReceiveHeartbeat,
        requests.ReceiveCommit,
        requests.ReceiveLeave,
        processes.FetchOffsets,
        processes.Resubscribe,
        processes.NoticePartitions,
        processes.LoseConnection,
        processes.Crash,
        processes.Hang,
        *actions.DELAYS,
        timing.EndInitialDelay,
        timing.ExpireRebalance,
        timing.ExpireSync,
        timing.ExpireSession,
        timing.CommitRecord,
        timing.FailOver,
        timing.Load,
        processes.AddPartition,
    )

    def __attrs_post_init__(self) -> None:
        """Raises ValueError for a bound on no action of the machine."""
        self.bounds.check(self.name, self.perturbations)

    def initial(self) -> Iterable[State]:
        """Nobody has started and the log is empty. Raises ValueError if the constants fit none."""
        check_processes("processes", self.processes)
        check_processes("partitions", self.partitions)
        check_processes("topics", self.topics)
        for constant, given in (("instances", self.instances), ("protocols", self.protocols)):
            if len(given) > self.processes:
                raise ValueError(f"{constant}={given}: there are no more than {self.processes} processes")
        if not all(self.protocols):
            raise ValueError(f"protocols={self.protocols}: a process knows at least one")
        count = self.most_partitions
        yield State(
            (Process(),) * self.processes,
            log=Log((), (Offset(),) * count),
            partitions=self.partitions,
            owners=(Owner(),) * count,
            told=(0,) * count,
        )

    def is_fair(self, before: State, action: Action, after: State) -> bool:
        """A late request may never arrive."""
        return not getattr(action, "late", False) and super().is_fair(before, action, after)

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

    def explain(self, invariant: str, state: State) -> Mapping[str, object]:
        return properties.explain(state)
