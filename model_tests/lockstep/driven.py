"""The cores of a machine: which of the rooms' bindings plays which specification."""

from __future__ import annotations

from typing import Any

from model_tests.harness.lockstep import Binding
from model_tests.lockstep.cores import CORRECT, Roles
from model_tests.lockstep.governed import GovernedCores
from model_tests.lockstep.idempotence import IdempotentCores
from model_tests.lockstep.leaving import LeavingCores
from model_tests.lockstep.reassigned import ReassignedCores
from model_tests.lockstep.retained import RetainedCores
from model_tests.lockstep.steps import DrivenCores
from spec.controlled_shutdown import ControlledShutdown
from spec.idempotence import Idempotence
from spec.machine import Machine
from spec.reassignment import Reassignment
from spec.retention import Retention
from spec.settings import Settings


def driven_cores(machine: Machine[Any], roles: Roles = CORRECT) -> Binding:
    """The cores that take the machine's actions, with the classes that play each part."""
    match machine:
        case Idempotence():
            return IdempotentCores(machine, roles)
        case Reassignment():
            return ReassignedCores(machine, roles)
        case ControlledShutdown():
            return LeavingCores(machine, roles)
        case Retention():
            return RetainedCores(machine, roles)
        case Settings():
            return GovernedCores(machine, roles)
    return DrivenCores(machine, roles)  # type: ignore[arg-type]
