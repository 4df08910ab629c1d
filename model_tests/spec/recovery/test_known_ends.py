"""Why no model has a wrong rule for `is_known_end`: it saves a warning, and without it nothing is lost in silence."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from tidegauge.model_tests.spec.rule_mutant import RuleMutant, always
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Invariant, Machine
from tidegauge.spec.recovery.machine import Recovery
from tidegauge.spec.recovery.state import State


@attrs.frozen
class OneDamage(Recovery):
    """One batch, and one damage of its log: where the log ended is known in spite of it."""

    max_appends: int = 1
    max_damages: int = 1
    max_crashes: int = 0

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {**super().invariants, "NoEndIsInDoubt": lambda state: not state.ends_in_damage}


def _says(known: bool, machine: Recovery) -> Machine[State]:
    return RuleMutant("says_so_of_all_ends", "is_known_end", always(known), machine, "").machine


def test_with_one_damage_no_end_is_in_doubt_and_a_wrong_rule_warns() -> None:
    assert explore(OneDamage()).holds
    assert explore(_says(False, OneDamage())).violations[0].invariant == "NoEndIsInDoubt"


@pytest.mark.deep
@pytest.mark.parametrize("known", [True, False])
def test_with_two_damages_nothing_is_lost_in_silence_whatever_the_rule_says(known: bool) -> None:
    assert explore(_says(known, Recovery(max_appends=1, max_damages=2, max_crashes=0))).holds
