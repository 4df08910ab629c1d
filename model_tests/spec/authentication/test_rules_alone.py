"""Rules of authentication asked alone."""

from __future__ import annotations

import pytest

from tidegauge.spec.authentication.machine import Ask, Authentication, Outcome, Phase, Session, TimePasses
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import NotEnabled


def served(age: int) -> Session:
    return Session(Phase.REQUESTS, user=0, mechanism=0, age=age)


@pytest.mark.parametrize("lifetime", [0, 1, 2])
def test_no_time_passes_in_a_session_that_is_over_or_for_ever(lifetime: int) -> None:
    machine = Authentication(lifetime=lifetime)
    for age in range(lifetime):
        assert machine.step(served(age), TimePasses()).age == age + 1
    for age in (lifetime, lifetime + 1):
        with pytest.raises(NotEnabled):
            machine.step(served(age), TimePasses())


@pytest.mark.parametrize(("lifetime", "age", "holds"), [(0, 0, True), (1, 0, True), (1, 1, False), (2, 1, True)])
def test_to_serve_somebody_whose_session_is_over_violates_a_property(lifetime: int, age: int, holds: bool) -> None:
    after = evolve(served(age), outcome=Outcome.PASSED)
    property_of = Authentication(lifetime=lifetime).step_invariants["NothingIsServedAfterExpiry"]
    assert property_of(served(age), Ask(), after) is holds
