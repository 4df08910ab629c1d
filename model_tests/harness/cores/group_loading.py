"""The records of consumer groups in lockstep: what the coordinator writes and loads beside `spec.groups.loading`.

The harness is the shell: it keeps the log, as records of bytes, and hands it to the core record by record. What the
cleaner leaves is copied from the specification: the cleaner has a lockstep of its own (`spec.compaction`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final
from uuid import UUID

import attrs

from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerGroups
from tidegauge.impl.coordinators.groups.consumer.records import changes, replayed
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, ConsumerMember, Held, Place
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey, GroupRecord, decode_key
from tidegauge.impl.records.batches import RecordError
from tidegauge.model_tests.harness.lockstep.lockstep import Lockstep
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.groups.loading import actions
from tidegauge.spec.groups.loading.machine import GroupLoading
from tidegauge.spec.groups.loading.state import NONE, Group, Holding, Kind, Load, Member, Record, State, Value
from tidegauge.spec.kernel.machine import Action

GROUP: Final = "group"
PLACE: Final[Place] = (str(UUID(int=7)), 0)
SESSION_MS: Final = 10


@attrs.frozen
class LoadingRoles:
    """The class that plays each part."""

    groups: type[ConsumerGroups] = ConsumerGroups


CORRECT_LOADING: Final = LoadingRoles()


def large_loads(rng: Random) -> GroupLoading:
    """A machine for a walk."""
    return GroupLoading(
        members=rng.choice((1, 2, 2, 3)), max_changes=rng.choice((4, 20)), max_rounds=rng.choice((2, 8))
    )


def hand_over(lockstep: Lockstep[GroupLoading], rng: Random) -> Iterator[Action]:
    """A member comes, the partition moves to it, and perhaps the former owner goes."""
    members = range(lockstep.machine.members)
    yield actions.Join(rng.choice(members))
    for _ in range(3):
        yield from map(actions.Advance, members)
    if rng.random() < 0.7:
        yield actions.Leave(rng.choice(members))


def overtaken_load(lockstep: Lockstep[GroupLoading], rng: Random) -> Iterator[Action]:
    """A load that the cleaner overtakes."""
    yield actions.BeginLoad()
    yield from (actions.Read() for _ in range(rng.randrange(8)))
    rounds = [one for one in lockstep.machine.actions(lockstep.state) if isinstance(one, actions.Clean)]
    yield from rounds[-1:]
    while lockstep.state.load is not None and not lockstep.state.load.is_refused and lockstep.state.unread:
        yield actions.Read()
    yield actions.EndLoad()


LOADING_WALKS: Final = WalkPlan(large_loads, rounds=(hand_over, overtaken_load), round_shares=(0.2, 0.6), length=80)


class LoadingCores:
    """A coordinator of one group over its log, in the machine's initial state."""

    def __init__(self, machine: GroupLoading, roles: LoadingRoles = CORRECT_LOADING) -> None:
        self.machine = machine
        self.roles = roles
        self.groups = roles.groups()
        self.written: ConsumerGroup | None = None
        self.log: list[tuple[int, GroupRecord]] = []
        """Each record with the number of its batch."""
        self.end = 0
        self.position: int | None = None
        """The batch that is read next; None if nothing is loaded."""
        self.is_refused = False
        self.changes = 0
        self.rounds = 0

    def close(self) -> None:
        """There is nothing to stop."""

    def perform(self, action: Action, before: State) -> None:
        """Do what the action says; it is enabled in the specification."""
        STEPS.perform(self, action, before)

    def can_send(self, kind: type[Action]) -> bool:
        """What is refused while a coordinator loads its broker refuses: the core is what is loaded."""
        return False

    def refuse(self, action: Action, before: State) -> None:
        """Nothing is sent."""

    # --- what is written -----------------------------------------------------------------------------------------

    def change(self, action: actions.Join | actions.Leave | actions.Delete, before: State) -> None:
        """Members come and go, and the group."""
        self.changes += 1
        self._write(action, before)

    def advance(self, action: actions.Advance, before: State) -> None:
        self._write(action, before)

    def _write(self, action: Action, before: State) -> None:
        """The records by which the coordinator's group becomes the specification's."""
        after = grouped(self.machine.step(before, action).group)
        self.log += [(self.end, record) for record in changes(self.written, after, GROUP)]
        self.end += 1
        self.written = after

    # --- the cleaner ---------------------------------------------------------------------------------------------

    def clean(self, action: actions.Clean | actions.DropTombstones, before: State) -> None:
        """The log as the specification's cleaner leaves it."""
        kept = {(one.batch, one.kind, one.member) for one in self.machine.step(before, action).log}
        self.log = [(batch, record) for batch, record in self.log if (batch, *_key(record)) in kept]
        self.rounds += 1

    # --- the load ------------------------------------------------------------------------------------------------

    def begin_load(self, action: actions.BeginLoad, before: State) -> None:
        """A coordinator that knows nothing."""
        self.groups = self.roles.groups()
        self.position, self.is_refused = 0, False

    def read(self, action: actions.Read, before: State) -> None:
        """The next batch; a record that the core cannot take is the end of the load, as in `CoordinatorLog`."""
        assert self.position is not None
        batch = min(batch for batch, _ in self.log if batch >= self.position)
        known = dict(self.groups.committed)
        try:
            for number, record in self.log:
                key = decode_key(record.key)
                if number == batch and isinstance(key, ConsumerKey):
                    self.groups.replay(key, record.value)
        except RecordError:
            self.is_refused, self.groups.committed = True, known
        else:
            self.position = batch + 1

    def end_load(self, action: actions.EndLoad, before: State) -> None:
        """The coordinator serves what it has loaded."""
        for group in list(self.groups.committed):
            self.groups.load(group, SESSION_MS, 0)
        self.position = None
        self.written = self.groups.get(GROUP)

    # --- what is compared ----------------------------------------------------------------------------------------

    def abstraction(self, state: State) -> State:
        load = None
        if self.position is not None:
            load = Load(
                self.position, abstract_group(self.groups.committed.get(GROUP), self.machine.members), self.is_refused
            )
        log = tuple(abstract_record(batch, record) for batch, record in self.log)
        return State(abstract_group(self.written, self.machine.members), log, self.end, load, self.changes, self.rounds)


def abstract_group(group: ConsumerGroup | None, members: int) -> Group | None:
    """A coordinator's group as the specification has it, which has so many members."""
    if group is None:
        return None
    numbers = range(members)
    targets = (group.target.get(str(number)) for number in numbers)
    return Group(
        tuple(_member(group.members.get(str(number))) for number in numbers),
        tuple(None if target is None else PLACE in target for target in targets),
        group.epoch,
        group.target_epoch,
    )


def abstract_record(batch: int, record: GroupRecord) -> Record:
    """A record as the specification has it."""
    return Record(batch, *_key(record), _value(record))


def grouped(group: Group | None) -> ConsumerGroup | None:
    """A group of the specification as the coordinator has it."""
    if group is None:
        return None
    members: Mapping[str, ConsumerMember] = {
        str(number): ConsumerMember(
            str(number),
            topics=frozenset({"topic"}),
            epoch=one.epoch,
            assigned=_held(one, Holding.ASSIGNED),
            revoking=_held(one, Holding.GIVES_BACK),
        )
        for number, one in enumerate(group.members)
        if one is not None
    }
    targets = enumerate(group.targets)
    target = {str(number): frozenset({PLACE} if own else ()) for number, own in targets if own is not None}
    return ConsumerGroup(GROUP, epoch=group.epoch, target_epoch=group.target_epoch, target=target, members=members)


def _held(member: Member, holding: Holding) -> Held:
    return {PLACE: member.epoch} if member.holding is holding else {}


def _member(member: ConsumerMember | None) -> Member | None:
    if member is None:
        return None
    if PLACE in member.assigned:
        return Member(member.epoch, Holding.ASSIGNED)
    return Member(member.epoch, Holding.GIVES_BACK if PLACE in member.revoking else Holding.NOTHING)


def _key(record: GroupRecord) -> tuple[Kind, int]:
    key = decode_key(record.key)
    assert isinstance(key, ConsumerKey)
    return Kind(key.kind), int(key.member_id) if key.member_id else NONE


def _value(record: GroupRecord) -> Value | None:
    """What a record says, read by itself."""
    if record.value is None:
        return None
    key = decode_key(record.key)
    assert isinstance(key, ConsumerKey)
    group = replayed(None, key, record.value)
    assert group is not None
    match key.kind:
        case Kind.EPOCH:
            return Value(group.epoch)
        case Kind.TARGET_EPOCH:
            return Value(group.target_epoch)
        case Kind.TARGET:
            return Value(is_owner=PLACE in group.target[key.member_id])
    member = _member(group.members[key.member_id])
    assert member is not None
    return Value(member.epoch, member.holding)


STEPS: Final = Steps(
    on(actions.Join, LoadingCores.change),
    on(actions.Leave, LoadingCores.change),
    on(actions.Delete, LoadingCores.change),
    on(actions.Advance, LoadingCores.advance),
    on(actions.Clean, LoadingCores.clean),
    on(actions.DropTombstones, LoadingCores.clean),
    on(actions.BeginLoad, LoadingCores.begin_load),
    on(actions.Read, LoadingCores.read),
    on(actions.EndLoad, LoadingCores.end_load),
)
