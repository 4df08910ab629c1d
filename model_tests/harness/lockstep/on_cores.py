"""A lockstep of a registered machine and its cores."""

from __future__ import annotations

from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep
from tidegauge.model_tests.harness.lockstep.lockstep import M
from tidegauge.model_tests.harness.registry import HARNESS, Side


class CoresLockstep(CheckedLockstep[M]):
    """The machine beside its cores, with the classes in `roles` or those of production.

    Raises NotRegisteredError for a machine that `harness.registry` binds to no cores.
    """

    def __init__(self, machine: M, roles: object = None) -> None:
        super().__init__(machine, HARNESS.of(machine).bind(Side.CORES, roles)(machine))
