"""What the harness has for a machine is what is registered: all else is refused, and never taken for its base."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side
from tidegauge.spec.registry import REGISTRY, NotRegisteredError
from tidegauge.spec.replication.machine import Replication

NOT_DRIVEN = ("kip320", "directories", "composed-replication", "compaction", "authentication")


def test_every_machine_is_driven_or_known_not_to_be() -> None:
    driven = {registration.machine for registration in HARNESS}
    assert driven.isdisjoint(NOT_DRIVEN)
    assert driven.union(NOT_DRIVEN) == {registration.name for registration in REGISTRY}


@pytest.mark.parametrize("name", NOT_DRIVEN)
def test_a_machine_that_is_not_registered_has_no_cores_though_its_base_has(name: str) -> None:
    with pytest.raises(NotRegisteredError, match=f"{name} has no registration in harness.registry"):
        CoresLockstep(REGISTRY.registration(name).machine)


@attrs.frozen
class Stray(Replication):
    """A machine that no registry has."""


def test_a_machine_that_no_registry_has_is_not_taken_for_its_base() -> None:
    with pytest.raises(NotRegisteredError, match="Stray is not registered"):
        HARNESS.of(Stray())


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda bare: bare.bind(Side.CORES), "compaction has no binding to the cores"),
        (lambda bare: bare.bind(Side.CLUSTER), "compaction has no binding to the cluster"),
        (lambda bare: bare.walk(1), "compaction has no plan for random walks"),
        (lambda bare: bare.hypothesis_rules(), "compaction has no plan for random walks"),
        (lambda bare: bare.needed_steps(), "compaction has no way to draw it in a report"),
    ],
    ids=["cores", "cluster", "walks", "Hypothesis", "report"],
)
def test_a_part_that_is_not_registered_is_refused_by_name(use: Any, told: str) -> None:
    with HARNESS.registered(Registration("compaction")) as bare:
        assert HARNESS["compaction"] is bare
        assert bare.sides == ()
        with pytest.raises(NotRegisteredError, match=told):
            use(bare)
    with pytest.raises(NotRegisteredError, match="compaction has no registration"):
        HARNESS["compaction"]


def test_what_is_registered_cannot_be_registered_again() -> None:
    with pytest.raises(ValueError, match="replication has a registration in the harness already"):
        HARNESS.register(Registration("replication"))
    with pytest.raises(ValueError, match="kafka_1211: there is a bug of that name already"):
        HARNESS.register(Registration("compaction", bugs=(HARNESS.bug("kafka_1211"),)))


@pytest.mark.parametrize("registration", list(HARNESS), ids=lambda registration: str(registration.machine))
def test_a_bug_of_the_implementation_has_a_twin_that_fits_the_machine(registration: Registration) -> None:
    known = REGISTRY.registration(registration.machine)
    driven = [bug.name for bug in known.bugs if bug.name in HARNESS.bugs]
    assert [bug.name for bug in registration.bugs] == driven
    for bug in registration.bugs:
        assert bug.twin.fits(known.machine)
        assert HARNESS.of(bug.twin.machine()) is registration


def test_a_bug_that_nobody_has_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(NotRegisteredError, match="no implementation has a bug 'kafka_1': choose one of kafka_1211, "):
        HARNESS.bug("kafka_1")
