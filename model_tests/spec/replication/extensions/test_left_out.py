"""A rule that an extension of replication wraps matters: where the machine's own rule stands alone, a property fails.

Of wrapped rules that no bug and no other wrong rule overrides, those of which a small model shows it. The others are in
`rule_mutants`, with a wrong rule that is not simply left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.replication.extension import ReplicationExtension
from tidegauge.spec.replication.extensions.damage import Damage
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.extensions.running_damage import RunningDamage
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.models import MODELS
from tidegauge.spec.replication.state import State

CATCHES_UP: Final = "a live follower catches up"
STARTS_FOLLOW: Final = "a live follower's log starts no lower than its leader's"

LEFT_OUT: Final[tuple[tuple[type[ReplicationExtension], str, str, str], ...]] = (
    (Settings, "metadata", "settings-unclean", "a live broker knows min.insync.replicas"),
    (Retention, "remote_replica", "retention-unclean", STARTS_FOLLOW),
    (Retention, "refusal", "retention-unclean", CATCHES_UP),
    (Retention, "fetch_request", "retention-unclean", STARTS_FOLLOW),
    (Retention, "after_response", "retention-unclean", CATCHES_UP),
    (RunningDamage, "has_lost_since", "running-damage", "AcknowledgedByEnough"),
    (Damage, "metadata_applied", "damage", "a damaged replica that follows is repaired"),
)
"""Extension, the rule that it wraps, the model without it, and what fails there."""


def without(machine: Replication, kind: type[ReplicationExtension], rule: str) -> Machine[State]:
    """The machine whose extension leaves a rule as it finds it."""

    def unwrapped(
        extension: ReplicationExtension, machine: Replication, inner: Callable[..., Any], *args: object, **more: object
    ) -> Any:
        return inner(*args, **more)

    found = machine.exchanged(kind, type(f"{kind.__name__}Without", (kind,), {rule: unwrapped, "__doc__": rule}))
    assert isinstance(found, Replication)
    return found


@pytest.mark.parametrize(
    ("kind", "rule", "model", "violated"),
    [
        pytest.param(*row, marks=[pytest.mark.deep] * (row[0] is not RunningDamage), id=f"{row[0].__name__}-{row[1]}")
        for row in LEFT_OUT
    ],
)
def test_without_a_rule_of_an_extension_a_property_fails(
    kind: type[ReplicationExtension], rule: str, model: str, violated: str
) -> None:
    found = explore(without(MODELS[model].machine, kind, rule), converges=True)
    lassos = () if found.convergence is None else found.convergence.lassos
    assert violated in {*(one.invariant for one in found.violations), *(lasso.goal for lasso in lassos)}
