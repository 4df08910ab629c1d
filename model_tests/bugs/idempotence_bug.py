"""What a bug of idempotent producing is in the implementation: the classes with one rule as it once was."""

from __future__ import annotations

import attrs

from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.spec.bugs import Bug
from tidegauge.spec.bugs.idempotence import IDEMPOTENCE_BUGS as SPEC_BUGS
from tidegauge.spec.idempotence.machine import Idempotence


@attrs.frozen
class IdempotenceCoreBug:
    """As `model_tests.bugs.bug.CoreBug`, of the other machine."""

    name: str
    roles: Roles

    @property
    def twin(self) -> Bug[Idempotence]:
        """The same bug in the specification."""
        return SPEC_BUGS[self.name]
