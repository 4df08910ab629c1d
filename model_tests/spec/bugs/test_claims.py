"""A bug violates each property that it is said to violate, in the small model that shows it, and not just one."""

from __future__ import annotations

from typing import Final

import pytest

from tidegauge.model_tests.spec.bugs.test_twins import SMALL, TWINS
from tidegauge.model_tests.spec.teeth import asked_only
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.registry import REGISTRY

CLAIMS: Final = [(bug.name, claim) for bug in REGISTRY.bugs.values() for claim in bug.violates]


@pytest.mark.parametrize(
    ("name", "claim"),
    [pytest.param(*one, marks=[pytest.mark.deep] * (TWINS.get(one[0], 0) > SMALL)) for one in CLAIMS],
)
def test_a_bug_violates_what_it_is_said_to_violate(name: str, claim: str) -> None:
    machine = REGISTRY.bug(name).machine()
    found = explore(asked_only(machine, claim), converges=claim in {*machine.converges, *machine.leads_to})
    assert claim in {*(one.invariant for one in found.violations), *(lasso.goal for lasso in found.lassos)}
