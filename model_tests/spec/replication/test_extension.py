"""What an extension inherits changes nothing: every rule of the interface passes the call on to the inner rule."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import attrs
import pytest

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.extension import wrapped_by
from tidegauge.spec.kernel.simulation import walk
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.rules import ReplicationRules

RULES = {
    name
    for name, rule in vars(ReplicationExtension).items()
    if isinstance(rule, FunctionType) and rule.__code__.co_varnames[1:3] == ("machine", "inner")
}


def passing_on(called: set[str]) -> ReplicationExtension:
    """An extension that wraps every rule and has each done as the interface does it; it notes which were called."""

    def wrapped(name: str) -> Callable[..., object]:
        def rule(
            self: object, machine: Replication, inner: Callable[..., object], *given: object, **named: object
        ) -> object:
            called.add(name)
            inherited: Callable[..., object] = getattr(ReplicationExtension, name)
            return inherited(self, machine, inner, *given, **named)

        return rule

    kind = type("PassesOn", (ReplicationExtension,), {name: wrapped(name) for name in RULES})
    assert set(wrapped_by(kind, ReplicationExtension)) == RULES
    made: ReplicationExtension = kind()
    return made


def test_every_rule_that_may_be_wrapped_is_a_rule_of_the_machine() -> None:
    assert all(callable(getattr(ReplicationRules, rule)) for rule in RULES)


def test_an_extension_that_passes_every_rule_on_changes_no_walk() -> None:
    called: set[str] = set()
    changing = Replication(brokers=2, max_records=9, bounds=Bounds(ExpireSession=9, ShrinkIsr=9, PreferredElection=9))
    together = Replication(brokers=3, max_records=6, extensions=everything((0, 1), ((1, 2), (0, 2)))).without_bounds()
    for machine in (changing, together, MODELS["late-messages"].machine):
        wrapped = attrs.evolve(machine, extensions=(*machine.extensions, passing_on(called)))
        for number in range(12):
            assert walk(wrapped, 1, number).trace == walk(machine, 1, number).trace
    assert called == RULES


def test_an_extension_contributes_nothing_of_itself() -> None:
    class Nothing(ReplicationExtension):
        pass

    machine, plain = Replication(extensions=(Nothing(),)), Replication()
    assert machine.action_types == plain.action_types
    assert machine.invariants.keys() == plain.invariants.keys()
    assert machine.step_invariants.keys() == plain.step_invariants.keys()
    assert machine.sometimes.keys() == plain.sometimes.keys()
    (state,) = machine.initial()
    assert machine.explain("StrongIsr", state) == plain.explain("StrongIsr", state)


def test_a_class_that_a_composed_machine_is_not_made_of_can_not_be_exchanged() -> None:
    with pytest.raises(ValueError, match="Replication is not made of ReplicationRules"):
        Replication().exchanged(ReplicationRules, Replication)
