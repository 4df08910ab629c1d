"""What the published KIP-848 models are made of; TLC's counts of them are in `test_tlc`."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.published.kip848 import variants
from tidegauge.spec.published.kip848.machine import Kip848
from tidegauge.spec.published.kip848.rules import REACHED_FROM, became, may_become
from tidegauge.spec.published.kip848.state import Client, ClientStatus


def test_a_transition_that_the_protocol_does_not_have_is_an_error() -> None:
    client = Client((1,), ClientStatus.UNSUBSCRIBED)
    assert not may_become(client.status, ClientStatus.STABLE)
    with pytest.raises(AssertionError, match="UNSUBSCRIBED → STABLE"):
        became(client, ClientStatus.STABLE)
    assert all(became(attrs.evolve(client, status=one), one).status == one for one in ClientStatus)
    assert REACHED_FROM.keys() == set(ClientStatus)


@pytest.mark.parametrize("constant", ["clients", "topics", "partitions_per_topic"])
def test_constants_that_fit_no_state_are_refused_by_name(constant: str) -> None:
    with pytest.raises(ValueError, match=f"{constant}=0"):
        next(iter(Kip848(**{constant: 0}).initial()))


def test_a_violation_shows_who_owns_what() -> None:
    found = explore(variants.AssignBeforeRevoke())
    values = dict(found.violations[0].values)
    assert values["owned"] == [((1, 1),), ((1, 1),)]
    assert values["epochs"] == [1, 2]
