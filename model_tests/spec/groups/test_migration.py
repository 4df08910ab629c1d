"""The machine of groups that go over from one protocol to the other: explored, walked, and what it is told apart by."""

from __future__ import annotations

import pytest

from tidegauge.model_tests.spec.counts import COUNTS, counted
from tidegauge.spec.groups.migration.machine import GroupMigration
from tidegauge.spec.groups.migration.models import MIGRATION_MODELS, NIGHTLY_MIGRATIONS, QUICK_MIGRATIONS
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.simulation import simulate


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.deep] * (name not in QUICK_MIGRATIONS))
        for name in MIGRATION_MODELS
        if name not in NIGHTLY_MIGRATIONS
    ],
)
def test_every_reachable_state_satisfies_every_invariant_and_goals_are_reached(name: str) -> None:
    exploration = explore(MIGRATION_MODELS[name].machine, converges=True)
    assert exploration.holds, exploration.violations or exploration.convergence
    assert not exploration.unreached
    assert name not in COUNTS or counted(exploration) == COUNTS[name]


def test_the_models_together_turn_every_perturbation_on() -> None:
    turned_on = {name for model in MIGRATION_MODELS.values() for name in model.machine.bounds}
    assert turned_on == set(GroupMigration().perturbations)


def test_walks_of_large_machines_keep_every_invariant() -> None:
    """Four processes of both protocols, and everything goes wrong: more than can be explored."""
    machine = GroupMigration(
        processes=4,
        classic=(True, False, True),
        partitions=3,
        commits=3,
        bounds=Bounds(dict.fromkeys(GroupMigration().perturbations, 2)),
        spaces_targets=True,
    )
    found = simulate(machine, 3, 20, length=120)
    assert found.holds, found.violations
    taken = {row.action for row in found.coverage if row.taken}
    assert taken == {kind.__name__ for kind in GroupMigration.action_types}
