"""Why no model has a wrong rule for `is_known_end`: it saves a warning, and without it nothing is lost in silence."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.rule_mutant import RuleMutant, always
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.state import State

ONE_DAMAGE = Recovery(max_appends=1, max_damages=1, max_crashes=0)


def _says(known: bool, machine: Recovery) -> Machine[State]:
    return RuleMutant("says_so_of_all_ends", "is_known_end", always(known), machine, "").machine


def test_a_wrong_rule_warns_of_ends_that_are_known_and_loses_nothing_in_silence() -> None:
    right, wrong = explore(ONE_DAMAGE), explore(_says(False, ONE_DAMAGE))
    assert right.holds
    assert wrong.holds
    assert wrong.distinct > right.distinct, "logs that are in doubt, where they are not with the right rule"


@pytest.mark.deep
@pytest.mark.parametrize("known", [True, False])
def test_with_two_damages_nothing_is_lost_in_silence_whatever_the_rule_says(known: bool) -> None:
    assert explore(_says(known, Recovery(max_appends=1, max_damages=2, max_crashes=0))).holds
