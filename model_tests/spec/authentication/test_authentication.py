"""The machine of authentication keeps its invariants, and a rule that is wrong is found."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from tidegauge.model_tests.spec.authentication.small_machines import MACHINES
from tidegauge.model_tests.spec.counts import counted
from tidegauge.spec.authentication.machine import Ask, Authentication, Phase, Session, TimePasses
from tidegauge.spec.kernel.explorer import Stop, explore
from tidegauge.spec.kernel.machine import Action, NotEnabled

WELL_BEHAVED = [attrs.evolve(machine, well_behaved=True) for machine in MACHINES]


COUNTS = dict(
    zip(
        (*MACHINES, *WELL_BEHAVED),
        ((85, 624), (29, 200), (13, 96), (45, 290), (44, 90), (20, 34), (12, 18), (24, 48)),
        strict=True,
    )
)
"""States and steps."""


@pytest.mark.parametrize("machine", [*MACHINES, *WELL_BEHAVED], ids=str)
def test_the_machine_keeps_its_invariants_and_reaches_its_goals(machine: Authentication) -> None:
    found = explore(machine, stop=Stop.NEVER, converges=True)
    assert found.holds, found.convergence
    assert counted(found) == COUNTS[machine]
    if machine.lifetime:
        assert not found.unreached
        assert not found.never_enabled


@attrs.frozen
class AnybodyRenews(Authentication):
    """A user with a password may take over another user's connection."""

    def admits(self, state: Session, user: int) -> bool:
        return True


@attrs.frozen
class SessionsGoOn(Authentication):
    """Requests are served whatever the time."""

    def expired(self, state: Session) -> bool:
        return False


@pytest.mark.parametrize(
    ("machine", "violated"),
    [
        (AnybodyRenews(), {"ThePrincipalNeverChanges", "TheMechanismNeverChanges"}),
        (SessionsGoOn(), {"NothingIsServedAfterExpiry"}),
    ],
)
def test_a_rule_that_is_wrong_is_found(machine: Authentication, violated: set[str]) -> None:
    assert {violation.invariant for violation in explore(machine, stop=Stop.EACH).violations} == violated


@attrs.frozen
class NoTimePasses(Authentication):
    """Sessions do not grow older."""

    def actions(self, state: Session) -> Iterator[Action]:
        return (action for action in super().actions(state) if action != TimePasses())


@attrs.frozen
class NobodyRenews(Authentication):
    """A second proof is one too many."""

    def may_renew(self, state: Session) -> bool:
        return False


@attrs.frozen
class NoProofCounts(Authentication):
    """A gate that lets nobody in."""

    def admits(self, state: Session, user: int) -> bool:
        return False


@pytest.mark.parametrize("machine", [NoTimePasses(), NobodyRenews(well_behaved=True), NoProofCounts(well_behaved=True)])
def test_a_gate_that_ends_no_session_or_serves_nobody_for_good_is_found(machine: Authentication) -> None:
    found = explore(machine, converges=True)
    assert not found.violations
    assert found.convergence is not None
    assert [lasso.goal for lasso in found.convergence.lassos] == list(machine.converges)


def test_a_well_behaved_peer_does_nothing_else() -> None:
    machine = Authentication(well_behaved=True)
    (state,) = machine.initial()
    with pytest.raises(NotEnabled, match="a well-behaved peer does so"):
        machine.step(state, Ask())


def test_nothing_happens_on_a_closed_connection_and_no_time_passes_without_a_session() -> None:
    machine = Authentication()
    (state,) = machine.initial()
    with pytest.raises(NotEnabled, match="the connection is open"):
        machine.step(attrs.evolve(state, phase=Phase.CLOSED), Ask())
    with pytest.raises(NotEnabled, match="a session is running"):
        machine.step(state, TimePasses())
