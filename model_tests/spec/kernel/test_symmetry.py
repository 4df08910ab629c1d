"""Symmetry keeps one state per orbit, loses nothing, and is itself checked by counting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from tidegauge.model_tests.spec.kernel.toys import Ceremony, DieHard, Fill, Table
from tidegauge.spec.kernel.explorer import AsymmetryError, check_symmetry, explore
from tidegauge.spec.kernel.machine import Action, Machine
from tidegauge.spec.kernel.progress import Limits, Stop
from tidegauge.spec.kernel.traces import replay
from tidegauge.spec.published.kip320.machine import Kip320
from tidegauge.spec.published.kip320.variants import HighWatermarkByMajority
from tidegauge.spec.registry import REGISTRY


def test_orbit_sizes_sum_to_the_unreduced_count() -> None:
    machine = DieHard((3, 3, 5))
    with pytest.raises(AsymmetryError, match=r"its \d+ orbits hold"):
        check_symmetry(machine)  # the third jug is another size: renaming it leads outside the machine's states
    assert check_symmetry(DieHard((3, 3))) == explore(DieHard((3, 3)), stop=Stop.NEVER).distinct


def test_equal_jugs_are_explored_once() -> None:
    reduced = explore(DieHard((2, 2, 2)), stop=Stop.NEVER, symmetry=True)
    assert reduced.orbits == explore(DieHard((2, 2, 2)), stop=Stop.NEVER).distinct == 8  # each full or empty
    assert reduced.distinct == 4  # none, one, two or three full


def test_a_favourite_among_the_brokers_is_found_out() -> None:
    @attrs.frozen
    class FirstOnly(DieHard):
        def actions(self, state: Table) -> Iterator[Action]:
            return (action for action in super().actions(state) if action != Fill(1))

    with pytest.raises(AsymmetryError, match="treats processes unlike"):
        check_symmetry(FirstOnly((3, 3)))


def test_a_trace_found_under_symmetry_is_a_real_behaviour() -> None:
    machine = HighWatermarkByMajority()
    (violation,) = explore(machine, symmetry=True).violations
    again = replay(machine, violation.trace.actions)
    assert again.violation == violation
    assert not again.skipped
    assert len(violation.trace) == len(explore(machine).violations[0].trace)


def test_kip320_treats_its_replicas_alike() -> None:
    assert check_symmetry(Kip320(replicas=2, max_leader_epoch=2)) > 1000


def test_only_a_limit_on_depth_compares() -> None:
    limits = Limits(depth=8)
    assert check_symmetry(Kip320(), limits=limits) == explore(Kip320(), limits=limits).distinct
    with pytest.raises(ValueError, match="only a limit on depth"):
        check_symmetry(Kip320(), limits=Limits(states=10))


def test_symmetry_must_be_declared() -> None:
    with pytest.raises(ValueError, match="Ceremony declares no interchangeable processes"):
        explore(Ceremony(), symmetry=True)
    with pytest.raises(NotImplementedError, match="Ceremony declares no symmetry"):
        Ceremony().permute(next(iter(Ceremony().initial())), (1, 0))


class Unnamed(Ceremony):
    """Says how many are alike, and does not rename them."""

    interchangeable = 2


class Alone(DieHard):
    """Renames jugs, and says of none that it is like another one."""

    interchangeable = 0


@pytest.mark.parametrize(
    ("machine", "told"),
    [
        (
            Ceremony(),
            "Ceremony declares no interchangeable processes, since it has no `interchangeable` and ",
        ),
        (Unnamed(), "Unnamed declares 2 interchangeable processes, but has no `permute` that renames them: write it, "),
        (Alone(), "Alone declares no interchangeable processes, since its `interchangeable` is 0: "),
        (DieHard((3,)), "DieHard declares no interchangeable processes, since its `interchangeable` is 1: "),
        (REGISTRY.machine("transactions"), "since only partitions for data are, and it has one of them "),
        (REGISTRY.machine("transactions-group"), "since only partitions for data are, and it has one of them "),
        (REGISTRY.machine("committed-reads"), "since what it adds to the state has no renaming of partitions: "),
        (REGISTRY.machine("unclean-transactions"), "since what it adds to the state has no renaming of partitions: "),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_machine_without_symmetry_is_refused_with_the_reason(machine: Machine[Any], told: str, workers: int) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        explore(machine, symmetry=True, workers=workers)


def test_too_many_renamings_are_refused() -> None:
    with pytest.raises(ValueError, match="DieHard has 9 interchangeable processes, too many to rename"):
        explore(DieHard((1,) * 9), symmetry=True)
