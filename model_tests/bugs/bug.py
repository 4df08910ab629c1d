"""What a bug of the zoo is in the implementation: the class with one rule as it once was.

Its name, mechanism, reference and the invariants that fall are its twin's, in `spec.bugs`; a test holds the two
together.
"""

from __future__ import annotations

import attrs

from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.spec.bugs import BUGS as SPEC_BUGS
from tidegauge.spec.bugs import Bug as SpecBug
from tidegauge.spec.replication.machine import Replication


@attrs.frozen
class CoreBug:
    """One entry of the zoo: `roles` are the core classes with the bug in them."""

    name: str
    roles: Roles

    @property
    def twin(self) -> SpecBug[Replication]:
        """The same bug in the specification."""
        return SPEC_BUGS[self.name]
