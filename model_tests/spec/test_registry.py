"""Every machine, model and bug is registered once; what is not registered is refused, never taken for its base."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import attrs
import pytest

from tidegauge.model_tests.spec.kernel.toys import DieHard
from tidegauge.spec.bugs import BUGS
from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.compaction.machine import Crash
from tidegauge.spec.idempotence.producer import LoseConnection
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.registry import REGISTRY, NotRegisteredError, Registration, Registry
from tidegauge.spec.replication.actions import Append, ReceiveFetch
from tidegauge.spec.replication.control import ShrinkIsr
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import Controller, FetchRequest


@attrs.frozen
class BiggerJugs(DieHard):
    """A machine of its own, though it extends another."""


@attrs.frozen
class Leaky(DieHard):
    """A bug: the goal is taken for a violation of nothing."""


@attrs.frozen
class Foreign(Action):
    """An action of no machine."""


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


@pytest.mark.parametrize("name", ["die-hard", "small-jugs", "quorum"])
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


def test_every_machine_has_goals_that_it_reaches_for_good_but_those_that_others_have_published() -> None:
    """TLC has checked no liveness of what is published, and neither is it asked for here."""
    without = {one.name for one in REGISTRY if not one.machine.converges}
    assert without == {"kip320", "pull-raft", "pull-raft-2", "kip853", "kip996"}


# --- machines as JSON, and whom actions name -------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGISTRY.names)
def test_every_registered_machine_reads_back_as_it_was_described(name: str) -> None:
    machine = REGISTRY.machine(name)
    assert REGISTRY.read(json.loads(json.dumps(REGISTRY.described(machine)))) == machine


def test_a_description_leaves_out_what_the_name_says() -> None:
    machine = Replication(brokers=2, extensions=(Retention(),))
    assert REGISTRY.described(machine) == {"name": "retention", "constants": {"brokers": 2}}
    assert REGISTRY.read({"name": "retention", "constants": {"brokers": 2}}) == machine
    written = attrs.evolve(machine, extensions=(Retention(written_by_clock=True),))
    told = {"brokers": 2, "extensions": [{"Retention": {"written_by_clock": True}}]}
    assert REGISTRY.described(written) == {"name": "retention", "constants": told}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (["retention"], r'"machine" must give "name" and "constants", not \[\'retention\'\]'),
        ({"name": "retention"}, '"machine" must give "name" and "constants"'),
        ({"name": "retentoin", "constants": {}}, "there is no machine 'retentoin': choose one of replication, "),
        ({"name": ["retention"], "constants": {}}, r"there is no machine \['retention'\]: choose one of"),
        ({"name": "isr", "constants": {}}, "there is no machine 'isr'"),
        ({"name": "replication", "constants": 3}, "3 is not an object with the fields of Replication"),
        ({"name": "replication", "constants": {"brokers": -2}}, "the constant brokers has a number below 0: -2"),
        (
            {"name": "replication", "constants": {"initial_isr": [0, -1]}},
            "initial_isr has a number below 0: .0, -1",
        ),
        ({"name": "replication", "constants": {"brokers": 17}}, "fit no initial state: brokers=17: .* at most 16"),
        ({"name": "replication", "constants": {"initial_isr": [1]}}, "initial_leader=0 is not in the initial ISR"),
        ({"name": "replication", "constants": {"initial_isr": [0, 9]}}, "must name brokers from 0 to 2, each once"),
        (
            {"name": "retention", "constants": {"extensions": []}},
            "these constants make a machine that is registered as replication",
        ),
    ],
)
def test_a_description_that_is_wrong_is_refused_with_the_constant(data: object, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        REGISTRY.read(data)


@pytest.mark.parametrize(
    ("name", "action", "told"),
    [
        ("replication", Append(2), ["names broker 2, but the machine has the brokers 0 to 1"]),
        ("replication", Append(1), []),
        ("replication", ReceiveFetch(FetchRequest(7, 0, 0, 0, 0, 0)), ["names broker 7, but the machine has the bro"]),
        ("replication", ShrinkIsr(0, (1, 5)), ["names broker 5, but the machine has the brokers 0 to 1"]),
        (
            "idempotence",
            LoseConnection(producer=3, broker=4),
            ["names broker 4, but the machine has the brokers 0 to 1", "names producer 3, but the machine has the pr"],
        ),
        ("compaction", Crash(), []),
    ],
)
def test_whom_an_action_names_is_held_against_the_machine(name: str, action: Action, told: list[str]) -> None:
    found = list(REGISTRY.registration(name).unknown_members(REGISTRY.machine(name), action))
    assert len(found) == len(told)
    assert all(line.startswith(start) for line, start in zip(found, told, strict=True))


@pytest.mark.parametrize(
    ("lookup", "told"),
    [
        (REGISTRY.model, "there is no model 'raft': choose one of isr, "),
        (REGISTRY.bug, "there is no bug 'raft': choose"),
    ],
)
def test_an_unknown_model_or_bug_is_refused(lookup: Callable[[str], object], told: str) -> None:
    with pytest.raises(NotRegisteredError, match=told):
        lookup("raft")


def test_a_bug_that_overrides_nothing_of_its_model_is_refused() -> None:
    stray = Bug("leaky", "a leak", "Die Hard 3", "water is lost", ("NotFour",), Leaky, Replication())
    with pytest.raises(TypeError, match="leaky: Leaky overrides nothing that Replication is made of"):
        _ = stray.replaced


@pytest.mark.parametrize("registration", list(REGISTRY), ids=lambda one: one.name)
def test_an_action_of_no_machine_is_refused_by_name_in_every_state(registration: Registration) -> None:
    machine, choices = registration.machine, Random(1)
    for state in machine.initial():
        reached = state
        for _ in range(30):
            with pytest.raises((TypeError, NotEnabled, NotImplementedError), match=r"^Foreign\(\)"):
                machine.step(reached, Foreign())
            if not (actions := list(machine.actions(reached))):
                break
            reached = machine.step(reached, choices.choice(actions))


@pytest.mark.parametrize(
    ("name", "what", "field"),
    [
        ("group-loading", "member", "member"),
        ("offsets", "producer", "producer"),
        ("workers", "consumer", "consumer"),
        ("workers", "worker", "worker"),
        ("kip320", "replica", "leader"),
        ("replication-3.5", "broker", "broker"),
        ("kip848", "client", "client"),
        ("kip848-first", "client", "client"),
        ("transactions-diary", "client", "client"),
        ("kraft", "server", "server"),
        ("pull-raft", "server", "server"),
        ("pull-raft-2", "server", "server"),
        ("kip853", "server", "server"),
        ("kip853", "server", "peer"),
        ("kip996", "server", "server"),
    ],
)
def test_whom_a_machine_does_not_have_is_told_where_actions_name_plain_numbers(
    name: str, what: str, field: str
) -> None:
    registration = REGISTRY.registration(name)
    machine = registration.machine
    frontier, named = [*machine.initial()], None
    while named is None:
        steps = [step for state in frontier for step in machine.successors(state)]
        assert not [told for action, _ in steps for told in registration.unknown_members(machine, action)]
        named = next((action for action, _ in steps if hasattr(action, field)), None)
        frontier = [state for _, state in steps]
    for number in (-1, 99):
        (told,) = registration.unknown_members(machine, attrs.evolve(named, **{field: number}))
        assert told.startswith(f"names {what} {number}, but the machine has the {what}s 0 to ")
