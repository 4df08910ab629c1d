"""A wrong rule for the rule of authentication that `test_authentication` has none for."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.model_tests.spec.rule_mutant import RuleMutant
from tidegauge.spec.authentication.machine import Authentication, Outcome

MUTANTS: Final[tuple[RuleMutant, ...]] = (
    RuleMutant(
        "closes_nothing",
        "close",
        lambda machine, right, state: attrs.evolve(state, outcome=Outcome.CLOSED),
        Authentication(lifetime=1),
        "a session that is not renewed ends",
    ),
)
