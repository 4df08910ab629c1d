"""A machine of guarded actions: what may happen, what a step does, and what is not asked at all."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from enum import IntEnum
from typing import ClassVar, Self

import attrs
import pytest

from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.idempotence.producer import RefreshMetadata
from tidegauge.spec.kernel.bounds import Bounds, Spent, spend
from tidegauge.spec.kernel.guarded import AttemptedAction, EnumeratedAction, EnumeratingMachine, Refusal
from tidegauge.spec.kernel.machine import Action, Machine, NotEnabled
from tidegauge.spec.published.kip320.actions import LeaderWrite
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.replication.actions import SendFetch
from tidegauge.spec.replication.machine import Replication

STILL_AIR = Bounds()


@attrs.frozen
class Lamp:
    on: bool = False
    spent: Spent = ()


@attrs.frozen
class LampRules(EnumeratingMachine[Lamp]):
    bounds: Bounds = STILL_AIR


@attrs.frozen
class LampAction(EnumeratedAction[LampRules, Lamp]):
    @classmethod
    def candidates(cls, machine: LampRules, state: Lamp) -> Iterable[Self]:
        return (cls(),)


@attrs.frozen
class Light(LampAction):
    def guard(self, machine: LampRules, state: Lamp) -> str:
        return "the lamp is lit" if state.on else ""

    def effect(self, machine: LampRules, state: Lamp) -> Lamp:
        return attrs.evolve(state, on=True)


@attrs.frozen
class Blow(LampAction):
    """A gust: it happens within bounds only, and counts how often it was asked."""

    bounded_as: ClassVar[str] = "Blow"
    asked: ClassVar[list[Lamp]] = []

    def guard(self, machine: LampRules, state: Lamp) -> str:
        self.asked.append(state)
        return "" if machine.may_perturb(state, "Blow") else "the air is still"

    def effect(self, machine: LampRules, state: Lamp) -> Lamp:
        return Lamp(False, spend(state.spent, "Blow"))


@attrs.frozen
class Lamps(LampRules):
    action_base = LampAction
    action_types = (Light, Blow)

    def initial(self) -> Iterable[Lamp]:
        return (Lamp(),)


def test_what_may_happen_is_what_no_guard_forbids() -> None:
    machine = Lamps(Bounds(Blow=1))
    assert list(machine.actions(Lamp())) == [Light(), Blow()]
    assert list(machine.actions(Lamp(on=True))) == [Blow()]
    blown = machine.step(Lamp(on=True), Blow())
    assert blown == Lamp(spent=(("Blow", 1),))
    assert list(machine.successors(blown)) == [(Light(), attrs.evolve(blown, on=True))]


def test_a_step_that_a_guard_forbids_says_why() -> None:
    with pytest.raises(NotEnabled, match=r"Light\(\) is not enabled: the lamp is lit") as refused:
        Lamps().step(Lamp(on=True), Light())
    assert (refused.value.action, refused.value.guard) == (Light(), "the lamp is lit")


def test_what_the_constants_rule_out_is_asked_in_no_state() -> None:
    Blow.asked.clear()
    assert list(Lamps().actions(Lamp())) == [Light()]
    assert not Blow.asked


@pytest.mark.parametrize(
    ("machine", "action", "base"),
    [
        (Replication(), RefreshMetadata(0), "ReplicationAction"),
        (Idempotence(), SendFetch(0), "IdempotenceAction"),
        (Kip320(), SendFetch(0), "Kip320Action"),
    ],
)
def test_an_action_of_another_machine_is_refused(machine: Machine[object], action: Action, base: str) -> None:
    with pytest.raises(TypeError, match=rf"is not an action of {machine.name}: those extend {base}"):
        machine.step(next(iter(machine.initial())), action)


def test_the_guards_of_a_published_model_say_what_is_missing() -> None:
    with pytest.raises(NotEnabled, match="the replica presumes leadership"):
        Kip320().step(next(iter(Kip320().initial())), LeaderWrite(0))


def test_an_action_is_called_as_its_class() -> None:
    assert [action.name for action in Lamps(Bounds(Blow=1)).actions(Lamp())] == ["Light", "Blow"]


def test_only_a_class_that_a_machine_is_made_of_can_be_exchanged() -> None:
    assert Lamps(Bounds(Blow=2)).exchanged(Lamps, Lamps) == Lamps(Bounds(Blow=2))
    with pytest.raises(ValueError, match="Lamps is not made of LampRules"):
        Lamps().exchanged(LampRules, Lamps)


class Told(IntEnum):
    """What who turns the switch is told."""

    REFUSED = 7


@attrs.frozen
class TurnByHand(AttemptedAction[LampRules, Lamp]):
    """Somebody would switch the lamp by hand: it is refused, lit or not."""

    @classmethod
    def attempts(cls, machine: LampRules, state: Lamp) -> Iterable[Self]:
        return (cls(),)

    def guard(self, machine: LampRules, state: Lamp) -> str:
        return Refusal("the switch is sealed", Told.REFUSED)


@attrs.frozen
class SealedLamp(Lamps):
    refused_types = (TurnByHand,)


def test_an_action_that_is_attempted_only_is_sent_and_never_happens() -> None:
    machine, lit = SealedLamp(), Lamp(on=True)
    assert TurnByHand() not in machine.actions(lit)
    assert not list(TurnByHand.candidates(machine, lit)), "nobody is ever enabled"
    assert machine.refused(lit, TurnByHand) == [(TurnByHand(), "the switch is sealed")]
    assert TurnByHand().effect(machine, lit) == lit, "without its guard it would change nothing"


def test_an_action_without_a_guard_is_not_refused_either() -> None:
    assert SealedLamp().refused(Lamp(), Action) == []


def test_a_refusal_keeps_its_error_on_the_way_to_another_process() -> None:
    refusal = pickle.loads(pickle.dumps(Refusal("the switch is sealed", Told.REFUSED)))
    assert (refusal, refusal.error) == ("the switch is sealed", Told.REFUSED)
