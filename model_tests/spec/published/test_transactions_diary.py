"""What the published models of transactions are made of; TLC's counts of them are in `test_tlc`."""

from __future__ import annotations

import pytest

from tidegauge.spec.kernel.explorer import Stop, explore
from tidegauge.spec.published.transactions_diary import variants
from tidegauge.spec.published.transactions_diary.machine import TransactionsDiary


@pytest.mark.parametrize("constant", ["brokers", "clients"])
def test_constants_that_fit_no_state_are_refused_by_name(constant: str) -> None:
    with pytest.raises(ValueError, match=f"{constant}=0"):
        next(iter(TransactionsDiary(**{constant: 0}).initial()))


def test_a_violation_shows_who_leads_in_which_epoch() -> None:
    found = explore(variants.KeepsCoordinatorEpoch(), stop=Stop.FIRST)
    assert dict(found.violations[0].values)["coordinators"] == [(0, 1), (1, 1)]
