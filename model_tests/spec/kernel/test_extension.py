"""Extensions wrap rules in the order of the list, and own their part of the state."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import attrs
import pytest

from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.extension import Extension, extensions_of
from tidegauge.spec.kernel.parts import Part, Parts, parts_of, with_part
from tidegauge.spec.replication.composed import Together, everything
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.retention import LogStart, Retention
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.rules import ReplicationRules
from tidegauge.spec.replication.state import Controller, Replica


@attrs.frozen
class Doubles(ReplicationExtension):
    def required_insync(
        self, machine: ReplicationRules, inner: Callable[[Replica | Controller], int], known: Replica | Controller
    ) -> int:
        return 2 * inner(known)


@attrs.frozen
class AddsOne(ReplicationExtension):
    def required_insync(
        self, machine: ReplicationRules, inner: Callable[[Replica | Controller], int], known: Replica | Controller
    ) -> int:
        return inner(known) + 1


def required(*extensions: ReplicationExtension) -> int:
    return Replication(min_insync_replicas=3, extensions=extensions).required_insync(Replica())


def test_the_last_of_the_list_is_the_outermost() -> None:
    assert required() == 3
    assert required(Doubles(), AddsOne()) == 7
    assert required(AddsOne(), Doubles()) == 8


def test_a_bug_of_the_machine_is_the_innermost_rule() -> None:
    class Fewer(Replication):
        def required_insync(self, known: Replica | Controller) -> int:
            return 1

    assert Fewer(min_insync_replicas=3, extensions=(Doubles(),)).required_insync(Replica()) == 2


def test_a_rule_that_the_machine_does_not_have_is_refused() -> None:
    @attrs.frozen
    class Misspelt(ReplicationExtension):
        def required_in_sync(self, machine: ReplicationRules, inner: Callable[[Replica], int], known: Replica) -> int:
            return 0

    with pytest.raises(TypeError, match="Misspelt wraps required_in_sync, but ReplicationExtension declares no such"):
        Replication(extensions=(Misspelt(),))


def test_a_list_that_lacks_what_an_extension_requires_is_refused() -> None:
    with pytest.raises(ValueError, match="Together requires Reassignment earlier in the list of extensions"):
        Replication(extensions=(Together(),))
    with pytest.raises(ValueError, match="the list of extensions has Retention twice"):
        Replication(extensions=(Retention(), Retention()))


def test_an_extension_is_found_by_its_class() -> None:
    machine = Replication(extensions=everything())
    assert Retention.of(machine).written_by_clock
    with pytest.raises(TypeError, match="Replication has no extension Retention"):
        Retention.of(Replication())


def test_a_composed_machine_is_equal_to_its_copy() -> None:
    machine = Replication(extensions=everything())
    assert pickle.loads(pickle.dumps(machine)) == machine
    assert attrs.evolve(machine, brokers=2).extensions == machine.extensions
    assert Extension.__name__ not in {kind.__name__ for kind in machine.kinds}


@attrs.frozen
class Colour(Part):
    name: str = "white"


@attrs.frozen
class Owner:
    parts: Parts = ()


def test_a_part_at_its_default_is_no_part() -> None:
    owner = with_part(Owner(), Colour("red"))
    assert Colour.of(owner) == Colour("red")
    assert LogStart.of(owner) == LogStart()
    assert with_part(owner, Colour()) == Owner()
    assert Colour.of(Owner()) == Colour()


def test_parts_are_kept_in_one_order() -> None:
    one, other = parts_of(LogStart(1), Colour("red")), parts_of(Colour("red"), LogStart(1))
    assert one == other
    owner = with_part(with_part(Owner(), LogStart(1)), Colour("red"))
    assert owner.parts == one
    assert sorted([(LogStart(2),), (Colour("red"),), (LogStart(1),), ()]) == [
        (),
        (Colour("red"),),
        (LogStart(1),),
        (LogStart(2),),
    ]


def test_parts_are_ordered_by_class_and_then_by_their_fields() -> None:
    parts: list[Part] = [LogStart(1), Colour("white"), LogStart(0), Colour("red")]
    assert sorted(parts) == [Colour("red"), Colour("white"), LogStart(0), LogStart(1)]
    assert max(parts) == LogStart(1)
    with pytest.raises(TypeError, match="'<' not supported between instances of 'Colour' and 'int'"):
        _ = Colour("red") < 1  # type: ignore[operator]


def test_a_machine_that_takes_no_extensions_has_none() -> None:
    assert extensions_of(Replication(extensions=(Retention(),))) == (Retention(),)
    assert extensions_of(Idempotence()) == ()
