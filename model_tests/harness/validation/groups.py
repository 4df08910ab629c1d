"""What coordinators of classic groups decide, held against the actions of `spec.groups.classic`, decision by decision.

Theory of operation
-------------------
Each broker that leads a partition of `__consumer_offsets` is followed by itself: what it knows of a group is a `Group`
of the specification. A decision is taken for an action of the machine, in a state in which nobody waits for the
response (`late`): its error has to be that of the response, the records that it appends those that were written, and
the group after it, member by member, what the coordinator has. So who is in a generation, who is waited for, who is
fenced, whose session runs and what is told when a record is committed are the specification's.

What coordinators call by texts has numbers there: a member id the one that the machine gives with the same step, and
instance ids, protocols, metadata and assignments in the order in which they come. No text may have two numbers, so a
member id that is given twice is found.

The log is the truth. A coordinator that loads a group knows its last record that is committed, or a later one that was
written: who it was is found by what is loaded. What may not be lost is what was committed before.

What a coordinator makes of an append that failed is taken as it is: the machine has no such step. Nor has it groups
that are deleted, groups of the next protocol, transactions' commits, or several members that leave at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import Leaving
from tidegauge.impl.coordinators.groups.classic.state import ClassicState
from tidegauge.impl.coordinators.groups.group_metadata import GroupMember, GroupMetadata
from tidegauge.impl.server.trace import events, groups
from tidegauge.impl.server.trace.consumer_groups import OfConsumerGroup
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.cores.group_abstraction import STATUSES
from tidegauge.model_tests.harness.validation.coordinated import Committed, GroupAt, Logged
from tidegauge.model_tests.harness.validation.ways import Wrong
from tidegauge.spec.groups.classic import requests, timing
from tidegauge.spec.groups.classic import state as spec
from tidegauge.spec.groups.classic.coordinating import completed
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import NONE, Status, Waiting
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action

UNKNOWN: Final = -2
"""A member id that no coordinator has given."""
ASKED_BACK_FROM: Final = 4
"""The version of JoinGroup from which a new member is given its id first (KIP-394)."""
GroupKey = tuple[int, str]
"""(partition of the log, group)."""


@cache
def machine_of(instance: int, protocols: tuple[int, ...], *, requires_id: bool) -> ClassicGroups:
    """The machine with one process, who is the one that asks."""
    return ClassicGroups(
        processes=1,
        instances=(instance,),
        protocols=(protocols,),
        requires_id=requires_id,
        bounds=Bounds(FailOver=1),
    )


class Numbers(dict[object, int]):
    """Texts and their numbers, in the order in which they came."""

    def __missing__(self, text: object) -> int:
        self[text] = number = len(self)
        return number


@attrs.define
class Names:
    """What of one group has which number."""

    members: dict[str, int] = attrs.field(factory=dict)
    given: int = 0
    """How many member ids."""
    instances: Numbers = attrs.field(factory=Numbers)
    protocols: Numbers = attrs.field(factory=Numbers)
    metadata: Numbers = attrs.field(factory=Numbers)
    assignments: Numbers = attrs.field(factory=Numbers)

    def member(self, member_id: str | None) -> int:
        return self.members.get(member_id, UNKNOWN) if member_id else NONE

    def instance(self, instance_id: str | None) -> int:
        return NONE if instance_id is None else self.instances[instance_id]

    def protocol(self, name: str | None) -> int:
        return NONE if name is None else self.protocols[name]

    def subscription(self, metadata: bytes) -> spec.Subscription:
        return spec.Subscription((self.metadata[metadata],))

    def partitions(self, assignment: bytes) -> tuple[int, ...]:
        return (self.assignments[assignment],) if assignment else ()

    def seen(self, group: groups.GroupSeen) -> spec.Group:
        """A group as the specification has it."""
        return spec.Group(
            STATUSES[group.state],
            group.generation,
            self.protocol(group.protocol),
            self.member(group.leader),
            tuple(map(self._seen, group.members)),
            tuple(map(self.member, group.pending)),
            group.is_initial,
        )

    def _seen(self, member: groups.MemberSeen) -> spec.Member:
        return spec.Member(
            self.member(member.member_id),
            self.instance(member.instance_id),
            tuple(self.protocol(one.name) for one in member.protocols),
            self.subscription(member.protocols[0].metadata),
            self.partitions(member.assignment),
            Waiting.JOIN if member.is_joining else Waiting.SYNC if member.is_syncing else Waiting.NOTHING,
            NONE,
            member.is_new,
            member.is_unsynced,
            member.has_session,
        )

    def record(self, metadata: GroupMetadata) -> spec.GroupRecord:
        """A record as the specification has it."""
        protocol = self.protocol(metadata.protocol)

        def durable(one: GroupMember) -> spec.Member:
            return spec.Member(
                self.member(one.member_id),
                self.instance(one.instance_id),
                (protocol,),
                self.subscription(one.subscription),
                self.partitions(one.assignment),
            )

        return spec.GroupRecord(
            metadata.generation, protocol, self.member(metadata.leader), tuple(map(durable, metadata.members))
        )


class Written(NamedTuple):
    """A record that is on its way."""

    entry: spec.Entry
    failed: bool = False
    """Its coordinator has given it up; it may be committed all the same."""


@attrs.define
class Known:
    """A group at one coordinator."""

    group: spec.Group = attrs.field(factory=spec.Group)
    written: list[Written] = attrs.field(factory=list)


@attrs.define
class Coordinator:
    """One leader epoch of one broker."""

    leader_epoch: int
    known: dict[str, Known] = attrs.field(factory=dict)


class GroupCoordinators:
    """The coordinators of one cluster."""

    def __init__(self) -> None:
        self.actions: Counter[str] = Counter()
        self._here: dict[tuple[int, int], Coordinator] = {}
        """By broker and partition of the log."""
        self._logs: dict[GroupKey, Logged[spec.GroupRecord]] = {}
        self._names: dict[GroupKey, Names] = {}
        self._mixed: set[GroupKey] = set()
        """Groups that are, or have been, those of KIP-848: others follow them (`group_migration`)."""
        self._last_epoch: Counter[int] = Counter()
        """Of each partition, the latest epoch in which it was loaded."""

    def follow(self, event: TraceEvent) -> None:
        """Take in one event. Raises Wrong."""
        match event.decision:
            case events.Crash() | events.Stop():
                self._here = {key: one for key, one in self._here.items() if key[0] != event.node}
            case OfConsumerGroup() as decision:
                self._mixed.add((decision.log_partition, decision.group))
            case groups.OfGroup() as decision if (decision.log_partition, decision.group) in self._mixed:
                pass
            case groups.Loaded() | groups.Resign() | groups.OfGroup() as decision:
                self._coordinates((event.node, decision.log_partition), decision)
                if isinstance(decision, groups.OfGroup):
                    self.actions[type(decision).__name__] += 1

    def _coordinates(self, key: tuple[int, int], decision: groups.OfGroups) -> None:
        if isinstance(decision, groups.Resign):
            self._here.pop(key, None)
            return
        here = self._here.get(key)
        if here is None or here.leader_epoch != decision.leader_epoch:
            here = self._here[key] = Coordinator(decision.leader_epoch)
        match decision:
            case groups.Loaded():
                self._loaded(here, decision)
            case groups.LoadGroup():
                self._load(here, decision)
            case groups.OfGroup():
                self._decides(here, decision)

    # --- the log -----------------------------------------------------------------------------------------------------

    def _loaded(self, here: Coordinator, decision: groups.Loaded) -> None:
        """Every group of which the log says something is known."""
        self._last_epoch[decision.log_partition] = max(self._last_epoch[decision.log_partition], decision.leader_epoch)
        for (partition, name), logged in self._logs.items():
            is_mixed = (partition, name) in self._mixed
            is_missing = partition == decision.log_partition and name not in here.known and not is_mixed
            if is_missing and not logged.may_be_gone:
                raise Wrong(f"of {name!r} it has loaded nothing, and the log has {plain(logged.committed)}")

    def _load(self, here: Coordinator, decision: groups.LoadGroup) -> None:
        """The coordinator knows the last record of the log."""
        names, logged = self._of(decision)
        for member in decision.after.members:
            if member.member_id not in names.members:
                raise Wrong(f"it loads {member.member_id!r}, a member that nobody has let in")
        found = names.seen(decision.after)
        which = [one for one in logged.candidates if self.loaded(one) == found]
        if not which:
            expected = plain(logged.committed) if logged.committed else "nothing"
            raise Wrong(f"it loads {plain(found)}; committed is {expected}, and {len(logged.later)} may be")
        logged.commit(which[-1])
        here.known[decision.group] = Known(found)

    def loaded(self, record: spec.GroupRecord) -> spec.Group:
        """The group that a coordinator makes of a record."""
        return machine_of(NONE, (0,), requires_id=True).loaded(spec.Log((record,)))

    def _of(self, decision: groups.OfGroup) -> tuple[Names, Logged[spec.GroupRecord]]:
        key = decision.log_partition, decision.group
        return self._names.setdefault(key, Names()), self._logs.setdefault(key, Logged())

    def names_of(self, key: GroupKey) -> Names:
        """The numbers of one group."""
        return self._names.setdefault(key, Names())

    def known_at(self, node: int, decision: groups.OfGroup) -> Known:
        """The group at a coordinator."""
        key = node, decision.log_partition
        here = self._here.get(key)
        if here is None or here.leader_epoch != decision.leader_epoch:
            here = self._here[key] = Coordinator(decision.leader_epoch)
        return here.known.setdefault(decision.group, Known())

    # --- for who looks on --------------------------------------------------------------------------------------------

    def at_coordinators(self, group: str) -> Iterator[GroupAt]:
        """The group at every coordinator that has it."""
        for (node, partition), here in self._here.items():
            key = partition, group
            if group in here.known and key not in self._mixed:
                yield self.group_at(node, here.leader_epoch, here.known[group], self._names.setdefault(key, Names()))

    def group_at(self, node: int, leader_epoch: int, known: Known, names: Names) -> GroupAt:
        """A group that a coordinator knows."""
        state = self._state(known, names)
        return GroupAt(node, leader_epoch, known.group, names, lambda group: possible(evolve(state, group=group)))

    def committed(self, group: str) -> Committed | None:
        """The group's record that is committed."""
        for key, logged in self._logs.items():
            if key[1] == group and key not in self._mixed and logged.committed is not None:
                return Committed(logged.committed, self._names.setdefault(key, Names()))
        return None

    # --- decisions ---------------------------------------------------------------------------------------------------

    def _decides(self, here: Coordinator, decision: groups.OfGroup) -> None:
        names, logged = self._of(decision)
        known = here.known.setdefault(decision.group, Known())
        if isinstance(decision, groups.DeleteGroup | groups.CommitDeletion | groups.FailDeletion):
            self._delete(here, known, logged, decision)
            return
        if decision.after.state is ClassicState.DEAD:
            return
        if isinstance(decision, groups.FailRecord):
            self._fail(known, names, decision)
            return
        if isinstance(decision, groups.CommitRecord):
            while known.written and known.written[0].entry.record != names.record(decision.record):
                if not known.written[0].failed:
                    break
                known.written.pop(0)
        before = self._state(known, names)
        _, after = _Step(names, before, decision).taken()
        self._given(names, after, decision)
        assert after.group is not None, "it is loaded"
        found = names.seen(decision.after)
        if found != after.group:
            raise Wrong(_difference(names, after.group, found))
        self._timers(after.group, decision.after)
        records = [entry.record for entry in after.appended[len(before.appended) :]]
        written = [names.record(one) for one in decision.written]
        if isinstance(decision, groups.CommitRecord):
            was_failed = known.written[0].failed
            known.written.pop(0)
            if self._last_epoch[decision.log_partition] <= decision.leader_epoch:
                logged.commit(names.record(decision.record))
            assert not was_failed or not records
        if written != records:
            raise Wrong(f"it writes {plain(tuple(written))}, the specification {plain(tuple(records))}")
        known.group = found
        known.written += map(Written, after.appended[len(after.appended) - len(records) :] if records else ())
        logged.write(*written)

    def _delete(
        self, here: Coordinator, known: Known, logged: Logged[spec.GroupRecord], decision: groups.OfGroup
    ) -> None:
        """A group without members may go at any time; the machine has no such step."""
        if known.group.members:
            raise Wrong("a group that has members is deleted")
        if isinstance(decision, groups.DeleteGroup):
            logged.write(None)
        elif isinstance(decision, groups.CommitDeletion):
            del here.known[decision.group]
            if self._last_epoch[decision.log_partition] <= decision.leader_epoch:
                logged.commit(None)

    def _state(self, known: Known, names: Names) -> spec.State:
        owners = (spec.Owner(),) * len(names.assignments)
        entries = tuple(one.entry for one in known.written)
        return spec.State((spec.Process(),), known.group, appended=entries, member_ids=names.given, owners=owners)

    def _fail(self, known: Known, names: Names, decision: groups.FailRecord) -> None:
        """What comes of it is taken as it is."""
        record = names.record(decision.record)
        for place, one in enumerate(known.written):
            if one.entry.record == record and not one.failed:
                known.written[place] = Written(one.entry, failed=True)
                break
        known.group = names.seen(decision.after)
        _, logged = self._of(decision)
        for metadata in decision.written:
            entry = spec.Entry(names.record(metadata))
            known.written.append(Written(entry))
            logged.write(names.record(metadata))

    def _given(self, names: Names, after: spec.State, decision: groups.OfGroup) -> None:
        """The member id that was given has the number that the machine has given."""
        seen = [*(one.member_id for one in decision.after.members), *decision.after.pending]
        new = [one for one in seen if one not in names.members]
        if after.member_ids > names.given and not new:
            raise Wrong("a member id is given that was given before")
        if len(new) > after.member_ids - names.given:
            raise Wrong(f"it gives the member id {new[0]!r}, the specification gives none")
        if new:
            names.members[new[0]] = names.given
        names.given = after.member_ids

    def _timers(self, group: spec.Group, seen: groups.GroupSeen) -> None:
        """What is waited for is not waited for without an end."""
        if group.status is Status.PREPARING_REBALANCE and not seen.waits_for_joins:
            raise Wrong("members are waited for to join, without an end")
        if machine_of(NONE, (0,), requires_id=True).may_expire_sync(group) and not seen.waits_for_syncs:
            raise Wrong("members are waited for to ask for their assignment, without an end")


def possible(state: spec.State) -> list[tuple[Action, spec.Group]]:
    """Time-outs and departures that may come to a group, each with the group after it."""
    machine, group = machine_of(NONE, (0,), requires_id=True), state.loaded
    kinds = (timing.EndInitialDelay, timing.ExpireRebalance, timing.ExpireSync, timing.ExpireSession)
    timeouts = [one for kind in kinds for one in kind.candidates(machine, state)]
    found: list[tuple[Action, spec.State]] = [
        (one, one.effect(machine, state)) for one in timeouts if not one.guard(machine, state)
    ]
    for member in group.members:
        leave = requests.ReceiveLeave(spec.LeaveRequest(0, member.member_id))
        of_member = machine_of(member.instance, (0,), requires_id=True)
        if leave.error(of_member, state) is spec.Error.NONE:
            found.append((leave, leave.effect(of_member, state)))
    return [(action, after.loaded) for action, after in found if after.group != group]


class _Step:
    """A decision, as an action in a state."""

    def __init__(self, names: Names, state: spec.State, decision: groups.OfGroup) -> None:
        self.names = names
        self.state = state
        self.decision = decision
        self.machine = machine_of(NONE, (0,), requires_id=True)

    def taken(self) -> tuple[spec.Error, spec.State]:
        """The error, and the state after it. Raises Wrong."""
        match self.decision:
            case groups.ReceiveJoin() | groups.ReceiveSync():
                return self._waits(self.decision)
            case groups.ReceiveHeartbeat(request=asked, error=said):
                machine = machine_of(self.names.instance(asked.instance_id), (0,), requires_id=True)
                beat = spec.HeartbeatRequest(0, self.names.member(asked.member_id), asked.generation)
                error, after = requests.ReceiveHeartbeat(beat, True).outcome(machine, self.state)
                return self._agreed(error, said), after
            case groups.ReceiveLeave(request=leaving):
                return spec.Error.NONE, self._leave(leaving.members)
            case groups.ReceiveCommit():
                return self._commit(self.decision), self.state
            case groups.TakeCommit(member_id=member_id):
                return spec.Error.NONE, self._watched(self.names.member(member_id), watched=True)
            case groups.ExpireSession(member_id=member_id):
                return spec.Error.NONE, self._expire_session(self.names.member(member_id))
            case groups.ExpireRebalance():
                return spec.Error.NONE, self._expire_rebalance()
            case groups.ExpireSync():
                assert self.state.group is not None
                is_late = self.machine.may_expire_sync(self.state.group)
                after = timing.ExpireSync().effect(self.machine, self.state) if is_late else self.state
                return spec.Error.NONE, after
            case groups.CommitRecord(record=record):
                return spec.Error.NONE, self._commit_record(self.names.record(record))
        raise Wrong("no action of the specification has that name")

    def _agreed(self, error: spec.Error, said: ErrorCode | None) -> spec.Error:
        """What the response says, if there is one, is what the specification says."""
        if said is not None and said.value != error.value:
            raise Wrong(f"the response is {said.name.upper()}, in the specification {error.name}")
        if said is None and error is not spec.Error.NONE:
            raise Wrong(f"the request waits, in the specification the response is {error.name}")
        return error

    def _waits(self, decision: groups.ReceiveJoin | groups.ReceiveSync) -> tuple[spec.Error, spec.State]:
        """JoinGroup or SyncGroup."""
        names, action = self.names, None
        instance = names.instance(decision.request.instance_id)
        member_id = names.member(decision.request.member_id)
        if isinstance(decision, groups.ReceiveJoin):
            join = decision.request
            protocols = tuple(names.protocol(one.name) for one in join.protocols)
            machine = machine_of(instance, protocols, requires_id=join.version >= ASKED_BACK_FROM)
            said = names.subscription(join.protocols[0].metadata) if join.protocols else spec.Subscription(())
            action = requests.ReceiveJoin(spec.JoinRequest(0, member_id, said), True)
            error, after = action.outcome(machine, self.state)
        else:
            sync = decision.request
            machine = machine_of(instance, (0,), requires_id=True)
            group = self.state.loaded
            protocol = group.protocol if sync.protocol is None else names.protocol(sync.protocol)
            given = tuple(spec.Share(names.member(one), names.partitions(each)) for one, each in sync.assignments)
            asked = spec.SyncRequest(0, member_id, sync.generation, protocol, given)
            error, after = requests.ReceiveSync(asked, True).outcome(machine, self.state)
        return self._agreed(error, decision.error), after

    def _leave(self, members: Sequence[Leaving]) -> spec.State:
        state = self.state
        for one in members:
            instance_id, member_id = one.instance_id, one.member_id
            machine = machine_of(self.names.instance(instance_id), (0,), requires_id=True)
            number = self.names.member(member_id)
            if number == NONE and (known := state.loaded.of_instance(self.names.instance(instance_id))):
                number = known.member_id
            leave = requests.ReceiveLeave(spec.LeaveRequest(0, number))
            if leave.error(machine, state) is spec.Error.NONE:
                state = leave.effect(machine, state)
        return state

    def _commit(self, decision: groups.ReceiveCommit) -> spec.Error:
        asked, group = decision.request, self.state.loaded
        if asked.is_transactional or asked.generation < 0:
            return spec.Error.NONE
        instance = self.names.instance(asked.instance_id)
        request = spec.CommitRequest(0, self.names.member(asked.member_id), asked.generation, 0, 0)
        return self._agreed(self.machine.commit_error(group, instance, request), decision.error)

    def _watched(self, member_id: int, *, watched: bool) -> spec.State:
        group = self.state.loaded
        member = group.member(member_id)
        if member is None:
            return self.state
        return evolve(self.state, group=group.with_member(evolve(member, watched=watched)))

    def _expire_session(self, member_id: int) -> spec.State:
        """Who waits for its response is not removed, and its session runs again from there on."""
        action = timing.ExpireSession(member_id)
        if action.guard(self.machine, self.state):
            return self._watched(member_id, watched=False)
        return action.effect(self.machine, self.state)

    def _expire_rebalance(self) -> spec.State:
        group, seen = self.state.loaded, self.decision.after
        if group.status is not Status.PREPARING_REBALANCE or (group.initial and seen.is_initial):
            return self.state  # more members are waited for
        return completed(self.machine, self.state)

    def _commit_record(self, record: spec.GroupRecord) -> spec.State:
        if not self.state.appended or self.state.appended[0].record != record:
            raise Wrong("what is committed is not the first record that was written")
        return timing.CommitRecord().effect(self.machine, self.state)


def _difference(names: Names, expected: spec.Group, found: spec.Group) -> str:
    """What of a group is not as in the specification."""
    told = {number: name for name, number in names.members.items()}
    different = []
    for field in ("status", "generation", "protocol", "leader", "pending", "initial"):
        if getattr(found, field) != getattr(expected, field):
            different.append(f"{field} is {getattr(found, field)!s}, in the specification {getattr(expected, field)!s}")
    of_found, of_expected = ({one.member_id: one for one in group.members} for group in (found, expected))
    for member_id in sorted({*of_found, *of_expected}):
        here, there = of_found.get(member_id), of_expected.get(member_id)
        if here != there:
            name = told.get(member_id, str(member_id))
            different.append(f"member {name} is {_plain(here)}, in the specification {_plain(there)}")
    return "; ".join(different) or "its members are in another order"


def _plain(member: spec.Member | None) -> str:
    return "none" if member is None else str(plain(member))
