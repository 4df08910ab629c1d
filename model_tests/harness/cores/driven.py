"""The cores of a machine: which of the rooms' bindings plays which specification."""

from __future__ import annotations

from typing import Any

from tidegauge.model_tests.harness.cores.governed import GovernedCores
from tidegauge.model_tests.harness.cores.idempotence import IdempotentCores
from tidegauge.model_tests.harness.cores.leaving import LeavingCores
from tidegauge.model_tests.harness.cores.reassigned import ReassignedCores
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.cores.retained import RetainedCores
from tidegauge.model_tests.harness.cores.steps import DrivenCores
from tidegauge.model_tests.harness.lockstep.lockstep import Binding
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown


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
