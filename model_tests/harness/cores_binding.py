"""The deterministic cores as one side of a lockstep: no trio, no disk, no sockets."""

from __future__ import annotations

from model_tests.harness.lockstep import Bind
from model_tests.lockstep.cores import CORRECT, Roles
from model_tests.lockstep.driven import driven_cores


def bind_cores(roles: Roles = CORRECT) -> Bind:
    """What makes the binding for a machine, with the classes that play each part."""
    return lambda machine: driven_cores(machine, roles)
