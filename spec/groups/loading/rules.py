"""The rules of the group's records, each a method that a mutant overrides; the constants bound the search."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeVar

import attrs

from tidegauge.spec.groups.loading.state import NONE, Group, Holding, Kind, Member, Record, State, Value
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.guarded import GuardedMachine

T = TypeVar("T")
Change = tuple[Kind, int, Value | None]
"""A record that is not in the log yet."""
OF_MEMBER: Final = (Kind.CURRENT, Kind.TARGET, Kind.MEMBER)
"""In the order of their tombstones."""


def put(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    """The tuple with another item at this place."""
    return (*items[:place], item, *items[place + 1 :])


def empty(members: int) -> Group:
    """A group without members, of which there may be so many."""
    return Group((None,) * members, (None,) * members)


@lru_cache(maxsize=1024)
def replaced_in(log: tuple[Record, ...]) -> frozenset[Record]:
    """The records that a later one of the same key replaces."""
    last = {(record.kind, record.member): record for record in log}
    return frozenset(log) - frozenset(last.values())


@attrs.frozen
class LoadingRules(GuardedMachine[State]):
    """What a coordinator writes of a group, what the cleaner leaves, and what a load makes of it."""

    members: int = 2
    max_changes: int = 3
    """How often members come and go, and the group."""
    max_rounds: int = 2
    """How often the cleaner is there."""

    # --- what is written -----------------------------------------------------------------------------------------

    def rebalanced(self, group: Group, owner: int) -> Group:
        """A new epoch, and a target that gives the partition to this member."""
        targets = tuple(None if one is None else number == owner for number, one in enumerate(group.members))
        return evolve(group, epoch=group.epoch + 1, targets=targets, target_epoch=group.epoch + 1)

    def is_free(self, group: Group, member: int) -> bool:
        """Whether nobody else has the partition, or has yet to give it back (KAFKA-16147)."""
        others = (one for number, one in enumerate(group.members) if number != member and one is not None)
        return all(one.holding is Holding.NOTHING for one in others)

    def advanced(self, group: Group, number: int) -> Member:
        """A member after its next heartbeat: it gives back what it is not to have, and then it is in the epoch."""
        member, is_owner = group.members[number], group.targets[number]
        assert member is not None
        if member.holding is Holding.ASSIGNED and not is_owner:
            return evolve(member, holding=Holding.GIVES_BACK)
        takes = is_owner and (member.holding is Holding.ASSIGNED or self.is_free(group, number))
        return Member(group.target_epoch, Holding.ASSIGNED if takes else Holding.NOTHING)

    def changed(self, before: Group | None, after: Group | None) -> Iterator[Change]:
        """The records by which one group becomes the other, in Kafka's order."""
        nobody = empty(self.members)
        old, new = before or nobody, after or nobody
        for number, member in enumerate(old.members):
            if member is not None and new.members[number] is None:
                yield from ((kind, number, None) for kind in OF_MEMBER)
        for number, member in enumerate(new.members):
            if member is not None and old.members[number] is None:
                yield Kind.MEMBER, number, Value()
        if after is None:
            yield Kind.TARGET_EPOCH, NONE, None
            yield Kind.EPOCH, NONE, None
            return
        if old.epoch != new.epoch:
            yield Kind.EPOCH, NONE, Value(new.epoch)
        for number, is_owner in enumerate(new.targets):
            if is_owner is not None and old.targets[number] != is_owner:
                yield Kind.TARGET, number, Value(is_owner=is_owner)
        if old.target_epoch != new.target_epoch:
            yield Kind.TARGET_EPOCH, NONE, Value(new.target_epoch)
        for number, member in enumerate(new.members):
            if member is not None and old.members[number] != member:
                yield Kind.CURRENT, number, Value(member.epoch, member.holding)

    # --- the cleaner ---------------------------------------------------------------------------------------------

    def is_replaced(self, state: State, record: Record) -> bool:
        """Whether a later record has the same key: the cleaner may drop it, whatever is being read."""
        return record in replaced_in(state.log)

    def is_clean(self, state: State, end: int) -> bool:
        """Whether tombstones below an offset may go: nothing is left there that a later record replaces."""
        return not any(record.batch < end and self.is_replaced(state, record) for record in state.log)

    def has_had_its_time(self, state: State, record: Record) -> bool:
        """Whether a tombstone may be dropped: no load that began before is yet to read it.

        For a load is over before `delete.retention.ms` is.
        """
        return state.load is None or record.batch < state.load.position

    # --- the load ------------------------------------------------------------------------------------------------

    def takes(self, group: Group | None, record: Record) -> bool:
        """Whether a load goes on after this record: always, for any record that a later one replaces may be missing.

        So may the one by which a partition was given back (KAFKA-19862), and all that a tombstone is about
        (KAFKA-17306). The record that puts it right is yet to come.
        """
        return True

    def replayed(self, group: Group | None, record: Record) -> Group | None:
        """The group once a record counts; None is not there."""
        number, value = record.member, record.value
        if value is None:
            return None if group is None else self.without(group, record)
        group = group or empty(self.members)
        match record.kind:
            case Kind.EPOCH:
                return evolve(group, epoch=value.epoch)
            case Kind.TARGET_EPOCH:
                return evolve(group, target_epoch=value.epoch)
            case Kind.TARGET:
                return evolve(group, targets=put(group.targets, number, value.is_owner))
            case Kind.MEMBER:
                member = group.members[number] or Member()
            case Kind.CURRENT:
                member = Member(value.epoch, value.holding)
        return evolve(group, members=put(group.members, number, member))

    def without(self, group: Group, tombstone: Record) -> Group | None:
        """The group without what a tombstone takes away, of which nothing may be known."""
        number = tombstone.member
        match tombstone.kind:
            case Kind.EPOCH:
                return None
            case Kind.TARGET_EPOCH:
                return evolve(group, target_epoch=0)
            case Kind.TARGET:
                return evolve(group, targets=put(group.targets, number, None))
            case Kind.MEMBER:
                return evolve(group, members=put(group.members, number, None))
        member = None if group.members[number] is None else Member()
        return evolve(group, members=put(group.members, number, member))
