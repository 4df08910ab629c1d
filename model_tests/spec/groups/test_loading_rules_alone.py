"""Rules of what is written of a group and loaded, asked alone."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.groups.loading.actions import EndLoad, Read
from tidegauge.spec.groups.loading.machine import GroupLoading
from tidegauge.spec.groups.loading.state import NONE, Group, Holding, Kind, Load, Member, Record, State, Value
from tidegauge.spec.kernel.evolving import evolve

MACHINE = GroupLoading()
ASSIGNED, GIVES_BACK, NOTHING = (Member(1, one) for one in (Holding.ASSIGNED, Holding.GIVES_BACK, Holding.NOTHING))


@pytest.mark.parametrize(
    ("members", "is_free"),
    [((GIVES_BACK, None), True), ((GIVES_BACK, NOTHING), True), ((NOTHING, GIVES_BACK), False)],
    ids=["alone", "another one has nothing", "another one gives it back"],
)
def test_a_partition_is_free_for_a_member_if_no_other_one_has_it(
    members: tuple[Member | None, ...], is_free: bool
) -> None:
    assert MACHINE.is_free(Group(members, (True, False)), 0) is is_free


def test_an_owner_keeps_its_partition_whatever_others_have() -> None:
    group = Group((ASSIGNED, GIVES_BACK), (True, False))
    assert MACHINE.advanced(group, 0).holding is Holding.ASSIGNED
    assert MACHINE.advanced(evolve(group, members=(NOTHING, GIVES_BACK)), 0).holding is Holding.NOTHING


def test_a_tombstone_of_the_target_epoch_leaves_none() -> None:
    group = Group((None, None), (None, None), target_epoch=4)
    after = MACHINE.without(group, Record(0, Kind.TARGET_EPOCH, NONE, None))
    assert after is not None
    assert after.target_epoch == 0


def test_a_load_that_was_refused_does_not_end() -> None:
    ended = State(load=Load(position=1), end=1)
    assert not EndLoad().guard(MACHINE, ended)
    assert EndLoad().guard(MACHINE, evolve(ended, load=Load(position=1, is_refused=True)))


@attrs.frozen
class TakesNothing(GroupLoading):
    def takes(self, group: Group | None, record: Record) -> bool:
        return False


def test_a_load_is_refused_by_a_record_that_it_does_not_take() -> None:
    state = State(log=(Record(0, Kind.EPOCH, NONE, Value(2)),), end=1, load=Load())
    read = MACHINE.step(state, Read()).load
    refused = TakesNothing().step(state, Read()).load
    assert read is not None
    assert refused is not None
    assert (read.is_refused, read.position) == (False, 1)
    assert (refused.is_refused, refused.position) == (True, 0)
