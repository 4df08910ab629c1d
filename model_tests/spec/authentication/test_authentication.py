"""The machine of authentication keeps its invariants, and a rule that is wrong is found."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.authentication.small_machines import MACHINES
from tidegauge.spec.authentication.machine import Ask, Authentication, Phase, Session, TimePasses
from tidegauge.spec.kernel.explorer import Stop, explore
from tidegauge.spec.kernel.machine import NotEnabled


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_the_machine_keeps_its_invariants(machine: Authentication) -> None:
    found = explore(machine, stop=Stop.NEVER)
    assert found.holds
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


def test_nothing_happens_on_a_closed_connection_and_no_time_passes_without_a_session() -> None:
    machine = Authentication()
    (state,) = machine.initial()
    with pytest.raises(NotEnabled, match="the connection is open"):
        machine.step(attrs.evolve(state, phase=Phase.CLOSED), Ask())
    with pytest.raises(NotEnabled, match="a session is running"):
        machine.step(state, TimePasses())
