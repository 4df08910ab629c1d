"""What the harness has for a machine is what is registered: all else is refused, and never taken for its base."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import pytest

from tidegauge.model_tests.harness.counterexamples.files import Counterexample, Expected, Failure, Found
from tidegauge.model_tests.harness.counterexamples.replay import Level, levels_of, replay
from tidegauge.model_tests.harness.driven import driven, unsent
from tidegauge.model_tests.harness.lockstep.on_cores import CoresLockstep
from tidegauge.model_tests.harness.registry import HARNESS, Registration, Side, registered
from tidegauge.model_tests.harness.report.replayed import figure_of
from tidegauge.model_tests.harness_tests.toy_machine import Toy, toy_registered
from tidegauge.spec.registry import REGISTRY, NotRegisteredError
from tidegauge.spec.registry import Registration as Specification
from tidegauge.spec.replication.machine import Replication

ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"

NOT_DRIVEN = [registration.machine for registration in HARNESS if not registration.sides]
NOT_SENT: Mapping[Side, set[str]] = {
    Side.CORES: {"FetchOfFormer", "ProposalOfFormer", "Join", "Leave", "Delete", "Advance"},
    Side.CLUSTER: {"ReceiveFetchResponse", "ReceiveAlterPartitionResponse"},
}
"""What is refused and cannot be sent: no core knows a topic's id, or is asked before its broker has loaded a group, and
no connection carries a response twice."""


def test_every_machine_is_registered_and_bound_or_says_why_not() -> None:
    assert {registration.machine for registration in HARNESS} == {registration.name for registration in REGISTRY}
    for registration in HARNESS:
        assert set(registration.unbound) == set(Side).difference(registration.sides), registration.machine
        assert all(registration.unbound.values()), registration.machine


def test_the_docs_say_what_drives_which_machine() -> None:
    written = re.findall(r"^\| `[\w.-]+` \| \d+ \|.*\|$", ARCHITECTURE.read_text(), re.MULTILINE)
    assert written == [one.line for one in driven()], "these are the lines of the table"


@pytest.mark.parametrize("side", Side)
def test_whatever_a_machine_refuses_is_sent_to_what_it_is_bound_to(side: Side) -> None:
    for registration in HARNESS:
        if side in registration.sides:
            missing = unsent(registration, side, seed=1, length=40)
            assert missing <= NOT_SENT[side], f"{registration.machine} on the {side.value}: {missing}"


@pytest.mark.parametrize("name", NOT_DRIVEN)
def test_a_machine_without_a_binding_has_no_cores_though_its_base_has(name: str) -> None:
    machine = REGISTRY.registration(name).machine
    with pytest.raises(NotRegisteredError, match=f"{name} has no binding to the cores: explore"):
        CoresLockstep(machine)
    assert levels_of(machine) == [Level.SPEC]


@pytest.mark.parametrize("name", NOT_DRIVEN)
def test_a_machine_without_a_binding_is_replayed_on_the_specification_and_drawn(name: str) -> None:
    machine = REGISTRY.registration(name).machine
    action = next(iter(machine.actions(next(iter(machine.initial())))))
    counterexample = Counterexample(machine, None, (action,), Expected(Failure.DIFFERENCE, "x"), Found("by hand"))
    done = replay(counterexample, Level.SPEC)
    assert (done.failed, done.trace.actions) == (False, (action,))
    assert [step.action for step in figure_of(counterexample, done, "").steps][1:] == [action.name]


@attrs.frozen
class Stray(Replication):
    """A machine that no registry has."""


def test_a_machine_that_no_registry_has_is_not_taken_for_its_base() -> None:
    with pytest.raises(NotRegisteredError, match="Stray is not registered"):
        HARNESS.of(Stray())


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda bare: bare.bind(Side.CORES), "stray has no binding to the cores"),
        (lambda bare: bare.bind(Side.CLUSTER), "stray has no binding to the cluster"),
        (lambda bare: bare.walk(1), "stray has no binding to the cores"),
        (lambda bare: bare.walk(1, side=Side.CLUSTER), "stray has no binding to the cluster"),
    ],
    ids=["cores", "cluster", "walks on cores", "walks on a cluster"],
)
def test_a_binding_that_is_not_registered_is_refused_by_name(use: Callable[[Registration], object], told: str) -> None:
    with registered("stray", Stray()) as bare:
        assert HARNESS["stray"] is bare
        assert bare.sides == ()
        with pytest.raises(NotRegisteredError, match=told):
            use(bare)
    told = "stray has no registration in model_tests/harness/registry.py: add one to HARNESS there"
    with REGISTRY.registered(Specification("stray", Stray())), pytest.raises(NotRegisteredError, match=told):
        HARNESS["stray"]


def test_walks_of_a_machine_without_a_plan_draw_its_models() -> None:
    with toy_registered() as toy:
        drawn = {found.machine for found in toy.walks(1, 20)}
    assert drawn == {Toy(2), Toy(1)}


def test_what_is_registered_cannot_be_registered_again() -> None:
    with pytest.raises(ValueError, match="replication has a registration in the harness already"):
        HARNESS.register(Registration("replication"))
    with pytest.raises(ValueError, match="kafka_1211: there is a bug of that name already"):
        HARNESS.register(Registration("stray", bugs=(HARNESS.bug("kafka_1211"),)))


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
