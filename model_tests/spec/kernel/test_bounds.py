"""Bounds by the name of the action: what is not named does not happen, and a misspelt name is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.bounds import Bounds, Spent, spend, times
from tidegauge.spec.kernel.constants import settable, with_constants
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.machine import Replication


def test_a_perturbation_happens_as_often_as_its_bound_says() -> None:
    bounds = Bounds(Crash=2)
    spent: Spent = ()
    assert bounds.allow("Crash", spent)
    spent = spend(spend(spent, "Crash"), "Pause")
    assert bounds.allow("Crash", spent)
    spent = spend(spent, "Crash")
    assert not bounds.allow("Crash", spent)
    assert (times(spent, "Crash"), times(spent, "Pause"), times(spent, "Disconnect")) == (2, 1, 0)


def test_what_is_not_named_does_not_happen() -> None:
    assert not Bounds(Crash=1).allow("Pause", ())
    assert Bounds(Crash=1)["Pause"] == 0


def test_equal_bounds_are_the_same_in_whatever_order() -> None:
    one, other = Bounds(Crash=1, Pause=2, Disconnect=0), Bounds({"Pause": 2}, Crash=1)
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == "Bounds(Crash=1, Pause=2)"
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize("count", [-1, 1.5, "1", True])
def test_a_bound_is_a_whole_number(count: Any) -> None:
    with pytest.raises(ValueError, match=r"the bound Crash=.* is no whole number of at least 0"):
        Bounds(Crash=count)


def test_a_bound_on_what_a_machine_does_not_do_is_refused() -> None:
    with pytest.raises(ValueError, match="Replication has no perturbation DeleteRecords; it has DuplicateFetch"):
        Replication(bounds=Bounds(DeleteRecords=1))
    assert Replication(bounds=Bounds(DeleteRecords=1), extensions=(Retention(),)).bounds["DeleteRecords"] == 1
    with pytest.raises(ValueError, match="Idempotence has no perturbation ShrinkIsr; it has LoseConnection"):
        Idempotence(bounds=Bounds(ShrinkIsr=1))


def test_constants_and_bounds_are_set_by_name() -> None:
    machine = with_constants(Replication(), ["brokers=2", "Crash=3", "long_polls=true"])
    assert machine == Replication(brokers=2, long_polls=True, bounds=Bounds(ShrinkIsr=1, ExpireSession=1, Crash=3))
    assert settable(machine)["Crash"] == 3
    with pytest.raises(ValueError, match="'Crsh=3' is not a constant of Replication"):
        with_constants(Replication(), ["Crsh=3"])
    with pytest.raises(ValueError, match="Crash=4: Crash is given twice"):
        with_constants(Replication(), ["Crash=3", "Crash=4"])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("long_polls=yes", "long_polls='yes' is neither true nor false"),
        ("brokers=two", "brokers='two' is not a whole number between 0 and 999999999"),
        ("brokers=9999999999", "brokers='9999999999' is not a whole number"),
        ("brokers", "'brokers' is not a constant of Replication: give NAME=VALUE with one of brokers, "),
    ],
)
def test_a_word_that_sets_no_constant_is_refused(word: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_constants(Replication(), [word])


def test_a_name_is_bounded_if_it_is_given() -> None:
    assert "Crash" in Bounds(Crash=1)
    assert "Pause" not in Bounds(Crash=1, Pause=0)
    assert len(Bounds(Crash=1, Pause=0)) == 1
