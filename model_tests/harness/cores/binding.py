"""The deterministic cores as one side of a lockstep: no trio, no disk, no sockets."""

from __future__ import annotations

from tidegauge.model_tests.harness.cores.driven import driven_cores
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.lockstep.lockstep import Bind


def bind_cores(roles: Roles = CORRECT) -> Bind:
    """What makes the binding for a machine, with the classes that play each part."""
    return lambda machine: driven_cores(machine, roles)
