"""Every machine, model and bug is registered once; what is not registered is refused, never taken for its base."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.model_tests.spec.kernel.toys import DieHard
from tidegauge.spec.bugs import BUGS
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.registry import REGISTRY, NotRegisteredError, Registration, Registry
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import Controller


@attrs.frozen
class BiggerJugs(DieHard):
    """A machine of its own, though it extends another."""


@attrs.frozen
class Leaky(DieHard):
    """A bug: the goal is taken for a violation of nothing."""


LEAKY = Bug("leaky", "a leak", "Die Hard 3", "water is lost", ("NotFour",), Leaky, DieHard())
TOY = Registration("die-hard", DieHard(), (Model("small-jugs", DieHard((1, 2)), "two small jugs"),), (LEAKY,))


def test_every_model_is_of_the_machine_that_it_is_registered_with() -> None:
    for registration in REGISTRY:
        for model in registration.models:
            assert REGISTRY.of(model.machine) is registration
            assert REGISTRY.machine(model.name) is model.machine
            assert REGISTRY.registration(model.name) is registration


def test_every_bug_is_of_the_machine_that_it_is_registered_with() -> None:
    for registration in REGISTRY:
        for bug in registration.bugs:
            assert REGISTRY.of(bug.machine()) is registration
            assert bug.name in REGISTRY.bugs_of(registration.machine)
            assert bug.machine() != bug.correct_machine()


def test_what_is_not_registered_is_refused_and_not_taken_for_its_base() -> None:
    @attrs.frozen
    class Unknown(Replication):
        def is_active(self, controller: Controller, broker: int) -> bool:
            return True

    with pytest.raises(NotRegisteredError, match="Unknown is not registered"):
        REGISTRY.of(Unknown())


@pytest.mark.parametrize("name", ["die-hard", "small-jugs", "raft"])
def test_an_unknown_name_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(NotRegisteredError, match=f"there is no specification '{name}': choose one of replication"):
        REGISTRY.machine(name)


def test_a_machine_is_registered_for_a_while() -> None:
    with REGISTRY.registered(TOY):
        assert REGISTRY.machine("die-hard") == DieHard()
        assert REGISTRY.machine("small-jugs").name == "DieHard"
        assert REGISTRY.machine("die-hard", "leaky") == Leaky()
        assert REGISTRY.machine("small-jugs", "leaky") == Leaky((1, 2))
        assert REGISTRY.of(Leaky((1, 2))) is TOY
        with pytest.raises(NotRegisteredError, match="replication has no bug 'leaky'"):
            REGISTRY.machine("replication", "leaky")
    assert "die-hard" not in REGISTRY.names
    with pytest.raises(NotRegisteredError, match="DieHard is not registered"):
        REGISTRY.of(DieHard())


@pytest.mark.parametrize(
    ("registration", "told"),
    [
        (Registration("small-jugs", BiggerJugs()), "small-jugs: there is a machine or a model"),
        (Registration("other", BiggerJugs(), (Model("die-hard", BiggerJugs(), ""),)), "die-hard: there is a machine"),
        (Registration("other", DieHard()), "other is the machine that is registered as die-hard"),
        (Registration("other", BiggerJugs(), bugs=(attrs.evolve(LEAKY, title="x"),)), "leaky: there is a bug"),
    ],
)
def test_nothing_is_registered_twice(registration: Registration, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Registry(TOY).register(registration)


def test_a_bug_is_switched_on_in_any_machine_that_has_its_rule() -> None:
    bug = BUGS["kafka_14139"]
    machine = MODELS["crash"].machine
    buggy: Machine[object] = bug.switched_on(machine)
    assert type(buggy) is bug.buggy
    assert attrs.asdict(buggy, recurse=False) == attrs.asdict(machine, recurse=False)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="DieHard has no rule of Replication, which kafka_14139 breaks"):
        bug.switched_on(DieHard())


@pytest.mark.parametrize("what", ["model", "bug"])
def test_a_registration_that_has_one_name_twice_is_refused(what: str) -> None:
    models, bugs = TOY.models, TOY.bugs
    if what == "model":
        models = (*models, Model("small-jugs", DieHard((1, 3)), "other jugs"))
    else:
        bugs = (*bugs, Bug("leaky", "another leak", "Die Hard 3", "water is lost", ("NotFour",), Leaky, DieHard()))
    with pytest.raises(ValueError, match=f"{TOY.name} has .* twice"):
        Registry(Registration(TOY.name, DieHard(), models, bugs))
