"""The machine of placement keeps its invariants, each rule is needed, and the implementation has the same rule."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from uuid import UUID

import attrs
import pytest

from tidegauge.impl.storage.former_logs import that_counts
from tidegauge.model_tests.spec.counts import counted
from tidegauge.spec.kernel.explorer import Stop as StopExploring
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Action, NotEnabled
from tidegauge.spec.membership.placement import Fail, Give, Host, Make, Placement, Start, Stop, TakeAway, Tell, Write

IDS = (UUID(int=7), UUID(int=8), UUID(int=9))


def test_the_machine_keeps_its_invariants() -> None:
    found = explore(Placement(), stop=StopExploring.NEVER, converges=True)
    assert found.holds
    assert found.complete
    assert counted(found) == (656, 1_488)
    assert not found.unreached
    assert not found.never_enabled


@attrs.frozen
class FirstCounts(Placement):
    """The first directory's log is the replica's."""

    def that_counts(self, known: int | None, found: Mapping[int, bool]) -> int | None:
        return min(found, default=None)


@attrs.frozen
class KnownCounts(Placement):
    """Where the controller knows neither, the last one made counts, though it has nothing."""

    def that_counts(self, known: int | None, found: Mapping[int, bool]) -> int | None:
        return known if known in found else next((one for one in found if not found[one]), None)


@attrs.frozen
class ActsAtOnce(Placement):
    """A replica that was made beside a failed directory acts before the controller knows where it is."""

    def may_act(self, state: Host) -> bool:
        return True


@pytest.mark.parametrize(
    ("machine", "violated"),
    [
        (FirstCounts(), "WhatWasWrittenCounts"),
        (KnownCounts(), "WhatWasWrittenCounts"),
        (ActsAtOnce(), "OneOfTwoLogsCounts"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_rule_that_is_wrong_is_found(machine: Placement, violated: str) -> None:
    assert violated in {violation.invariant for violation in explore(machine, stop=StopExploring.EACH).violations}


@attrs.frozen
class NeverTells(Placement):
    """A broker does not say where its replica is."""

    def guard(self, state: Host, action: Action) -> str:
        return "it is not told" if isinstance(action, Tell) else super().guard(state, action)


def test_a_place_that_is_never_told_is_found() -> None:
    found = explore(NeverTells(), converges=True)
    assert found.convergence is not None
    assert [lasso.goal for lasso in found.convergence.lassos] == list(Placement().converges)


def test_a_former_log_that_comes_back_first_does_not_count() -> None:
    machine = Placement()
    (state,) = machine.initial()
    anew: tuple[Action, ...] = (Make(0), Tell(), Write(), Fail(0), TakeAway(), Give(), Make(1))
    for action in anew:
        state = machine.step(state, action)
    with pytest.raises(NotEnabled, match="the replica does not act"):
        machine.step(state, Write())
    for action in (Tell(), Write(), Stop(), Start()):
        state = machine.step(state, action)
    assert (state.hosted, [log is not None for log in state.logs]) == (1, [False, True])


@pytest.mark.parametrize(
    ("known", "records"), list(product((None, 0, 1, 2), product((None, False, True), repeat=2))), ids=str
)
def test_the_broker_chooses_as_in_the_specification(
    known: int | None, records: tuple[bool | None, bool | None]
) -> None:
    """Whatever the controller knows: nothing, one of the two, or a directory that this broker does not have."""
    found = {directory: has for directory, has in enumerate(records) if has is not None}
    wanted = Placement().that_counts(known, found)
    chosen = that_counts(None if known is None else IDS[known], {IDS[one]: has for one, has in found.items()})
    assert chosen == (None if wanted is None else IDS[wanted])
