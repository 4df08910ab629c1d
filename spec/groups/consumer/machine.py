"""Consumer groups (KIP-848): the coordinator shares partitions out, and members get there by their heartbeats alone.

Theory of operation
-------------------
A group has an *epoch*, one more whenever its members, what they want, the number of partitions, or the racks of their
replicas have changed. With the next heartbeat the coordinator makes a *target* for it: who is to own what in the end.
Every member has an epoch of its own, and goes to the target's by itself: it gives back what the target takes from it,
says so, and is in the target's epoch then; in that it is given what the target gives it, as soon as no other member has
it. So there is no moment at which all wait for all, and a partition has one owner at any time: what a member has yet to
give back is its own still. It has one owner in each member epoch, too, over all time: a member that has more to give
back is in no other epoch before (KAFKA-19974). (Kafka's assignors do not decide by racks, nor do these: an epoch begins
all the same.)

A heartbeat joins (epoch 0), goes on, acknowledges (it says what the member owns), leaves for good (-1), or, of a
static member, until its next process begins (-2). The response has the member's epoch, and what it is to own where
that is new. If the response is lost, the member is behind by an epoch: that is forgiven as long as it owns nothing that
it should not. Anyone else of another epoch is fenced: it gives everything up and joins again, under its id.

A member names topics, or has a regular expression of their names, which the coordinator resolves in a task of its own:
the response to the heartbeat that brings it is about topics that members name. When the task has ended, what the
expression has matched is in the log, and begins an epoch if that is new; the member is told with a heartbeat after it.
All expressions of a group are resolved together: when one is new, when topics have come, and every ten minutes; not
twice at once, nor within ten seconds. A coordinator that fails meanwhile has a successor that begins again.

A target is not made sooner than `consumer.assignment.interval.ms` after the last one (KIP-1263): epochs begin, and one
target is for all that have begun meanwhile. Until then members keep to the target that there is: who joins owns
nothing, and what a member that has gone owned nobody has. What a member unsubscribes from, or what is deleted, it gives
back at once (KAFKA-19431), in the epoch that it is in. Who is in the target's epoch, and has nothing to give back, gets
nothing more of it: a member that subscribes again, or whose expression is resolved again, waits for the next one. Only
what others had still when it came there it is given as soon as they have given it back. A group without members has
made no target, and its first member does not wait.

A commit is taken from the member that has the partition: in its epoch, or in one that is over if the member had the
partition in it and was not yet told of the next (KIP-1251). What it has given back it may commit while it is in the
target's epoch: nobody else has it before the next. (Kafka takes such a commit after that, too.)

All that the coordinator knows of a group is in its log, each change in one batch; a member is told of it when it is
committed. A new coordinator goes on where the last one was. What it cannot know is when the last heartbeats came.

How requests travel
-------------------
A heartbeat, what it does and its response are one step; where the coordinator may fail, the response comes when the
records are committed. `LoseResponse` is a heartbeat whose process does not get the response; `DelayHeartbeat` puts a
copy aside, which arrives whenever it likes, or never. A process hangs if its application does nothing any more, while
its heartbeats go on.

A copy that arrives after its process has been told more is a gap of the protocol. What the member is given by it, its
process is never told of, as nothing that it sends says what it has not: nobody reads that partition until the next
epoch. No commit of two members is taken; so the invariants are asked of such behaviours, and the goals are not.

A member gives back, and then owns what is new, in two steps: heartbeats go on between the two, and say nothing of what
it owns, and it may be assigned something else there.

A process takes nothing up that it was assigned before a heartbeat in which it says that it owns less: the coordinator
may have given that to another member, and the response has the process in the epoch of that.

Two processes of one static member may run at once; the second one is refused as long as the first has not left. Then
the group has to do with the first one only, and nothing is said of what becomes of the second.

Not here: deletion of groups and offsets, and expiry (`spec.offsets`); offsets in transactions (`spec.transactions`);
the largest size of a group; who may describe which topic; members of the classic protocol in a group of this one. The
member epoch of OffsetFetch is checked as that of a commit: it protects nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.groups.consumer import processes, properties, requests, timing
from tidegauge.spec.groups.consumer.actions import ConsumerAction
from tidegauge.spec.groups.consumer.rules import ConsumerRules
from tidegauge.spec.groups.consumer.state import Log, Offset, Process, State
from tidegauge.spec.kernel.machine import Action, Invariant, LeadsTo, StepInvariant, check_processes


@attrs.frozen
class ConsumerGroups(ConsumerRules):
    """The machine of one consumer group; the fields of its rules are the constants of the model."""

    action_base = ConsumerAction
    action_types: ClassVar[tuple[type[ConsumerAction], ...]] = (
        processes.Start,
        requests.ReceiveHeartbeat,
        requests.ReceiveCommit,
        requests.ReceiveLeave,
        processes.GiveBack,
        processes.Reconcile,
        processes.FetchOffsets,
        processes.Resubscribe,
        processes.Crash,
        processes.Hang,
        requests.LoseResponse,
        requests.DelayHeartbeat,
        requests.DelayCommit,
        timing.ExpireSession,
        timing.ExpireRebalance,
        timing.EndInterval,
        timing.EndResolution,
        timing.EndPause,
        timing.BecomeDue,
        timing.CommitRecord,
        timing.FailOver,
        timing.Load,
        processes.AddPartition,
        processes.ChangeRacks,
        processes.CreateTopic,
        processes.DeleteTopic,
    )

    def __attrs_post_init__(self) -> None:
        """Raises ValueError for a bound on no action of the machine."""
        self.bounds.check(self.name, self.perturbations)

    def initial(self) -> Iterable[State]:
        """Nobody has started and the log is empty. Raises ValueError if the constants fit none."""
        check_processes("processes", self.processes)
        check_processes("partitions", self.partitions)
        check_processes("topics", self.topics)
        if any(one >= len(self.matches) for one in self.expressions):
            raise ValueError(f"expressions={self.expressions}: matches has what each of them matches")
        if len(self.instances) > self.processes:
            raise ValueError(f"instances={self.instances}: there are no more than {self.processes} processes")
        count = self.most_partitions
        yield State(
            (Process(),) * self.processes,
            log=Log(offsets=(Offset(),) * count),
            partitions=self.partitions,
            created=self.first_topics,
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
