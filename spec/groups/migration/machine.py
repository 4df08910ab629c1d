"""Groups that go over from the classic protocol to KIP-848's and back, member by member, while they are at work.

Theory of operation
-------------------
A group is of one type at a time; its members need not be. A classic group becomes a consumer group when somebody joins
it by ConsumerGroupHeartbeat: its generation is the epoch then, and every member has what the leader gave it last. Its
classic members stay, and go on speaking JoinGroup, SyncGroup and Heartbeat; the coordinator translates. A JoinGroup is
a heartbeat that says what the member owns, its response has the member's epoch for a generation, a SyncGroup tells what
the member has, and a Heartbeat tells to join again while there is anything to give back or to get. So a classic member
of a consumer group waits for nobody. When the last member of KIP-848 goes, the group is a classic one again, with its
epoch for a generation, and rebalances. `group.consumer.migration.policy` says which of the two may be; a group without
members goes over in any case. Each way is one batch in the log: tombstones of the one, records of the other.

A classic group is told from its members' point of view only (`classic_side`); `spec.groups.classic` has the rest.

What the model says about Kafka's protocol, and that is otherwise here
----------------------------------------------------------------------
A member that was removed, or has given something back in a request that it thinks was lost, may say in its JoinGroup
that it owns what is another's by now. In a generation of its own it could commit that, so it is refused as unknown
(`claims_error`); it gives up what it owned, and joins anew. Kafka takes it in.

A rebalance that begins while the leader's assignment is awaited leaves members with what they were assigned before:
cooperative ones go on with that. So it has to be known when the group goes over (`had`).

A new coordinator that finds a group which was a consumer group rebalances: the log has it as a stable one, and nobody
would share out what its last member of KIP-848 had (`taken_over`).

A member of KIP-848 whose group has become a classic one in the meantime is told that it is unknown, and joins again.

Static members (KIP-345)
------------------------
A static member is known by its group instance id; each of its processes has a member id of its own. One of KIP-848
makes that itself, and says when it ends that it comes back; one of the classic protocol is given it with its first
JoinGroup, which has none, and ends without a word. Its next process, of either protocol, takes its place: the same
part, and no rebalance of a stable group. So a member goes over in its place: a JoinGroup takes that of a member of
KIP-848, and a first heartbeat that of a classic one, whether that has left or not; UNRELEASED_INSTANCE_ID is for two
processes of KIP-848 only. Who has had the place is told FENCED_INSTANCE_ID, by what it waits for or by its next
request, and ends. If it was the last member of KIP-848, the group is a classic one with that very JoinGroup. A classic
generation takes static members in that have not joined; one that has missed a generation so has lost what it owned, and
its leader believes nothing that it says of that (KIP-792).

A static member of a cooperative classic group that ends before it has given a partition back is a gap of the protocol
(`spec.groups.classic`): no model has that.

Not here: groups that members of one protocol alone
have, as far as they do not go over (`spec.groups.consumer`, `spec.groups.classic`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.groups.consumer import processes
from tidegauge.spec.groups.consumer import requests as consumer_requests
from tidegauge.spec.groups.consumer import timing as consumer_timing
from tidegauge.spec.groups.consumer.actions import ConsumerAction
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.groups.consumer.state import State
from tidegauge.spec.groups.migration import properties, requests, timing
from tidegauge.spec.groups.migration.rules import MigrationRules
from tidegauge.spec.kernel.machine import Invariant, LeadsTo, StepInvariant


@attrs.frozen
class GroupMigration(MigrationRules, ConsumerGroups):
    """The machine of one group that goes over."""

    action_types: ClassVar[tuple[type[ConsumerAction], ...]] = (
        timing.Start,
        timing.StartOver,
        requests.ReceiveHeartbeat,
        requests.ReceiveSync,
        requests.ReceiveBeat,
        consumer_requests.ReceiveCommit,
        requests.ReceiveLeave,
        processes.GiveBack,
        processes.Reconcile,
        processes.FetchOffsets,
        processes.Crash,
        requests.LoseResponse,
        consumer_requests.DelayHeartbeat,
        consumer_requests.DelayCommit,
        timing.ExpireSession,
        timing.ExpireRebalance,
        timing.ExpireRejoin,
        consumer_timing.EndInterval,
        timing.EndJoining,
        timing.CommitRecord,
        consumer_timing.FailOver,
        consumer_timing.Load,
    )

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
        """Nothing by weak fairness alone: here a classic process that has its assignment may be told of a rebalance
        first, and join again before it takes what it was assigned, again and again."""
        return {}
