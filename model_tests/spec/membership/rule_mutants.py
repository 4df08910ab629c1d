"""A wrong rule for the rule of membership that `test_membership` has none for."""

from __future__ import annotations

from typing import Final

from tidegauge.model_tests.spec.rule_mutant import RuleMutant, always
from tidegauge.spec.membership.machine import Membership

MUTANTS: Final[tuple[RuleMutant, ...]] = (
    RuleMutant("knows_no_topic", "known", always(frozenset()), Membership(topics=1), "WhatWasCreatedIsThere"),
)
