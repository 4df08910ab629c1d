"""What a historical bug is in the implementation: the classes with one rule as it once was.

Its title, mechanism, reference and the invariants that it violates are those of its namesake in `spec.bugs`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.registry import REGISTRY

R_co = TypeVar("R_co", covariant=True)


@attrs.frozen
class CoreBug(Generic[R_co]):
    """A bug of the zoo in the implementation of whichever machine."""

    name: str
    roles: R_co
    """The classes that play each part, one of them with the bug. The machine's binding says what roles there are."""
    on_cluster: bool = True
    """Whether it shows beside a cluster too; some need what a cluster's lockstep never lets happen."""
    on_cores: bool = True
    """Whether it is in a core; else a whole broker has it."""
    of_client: bool = False
    """Whether it is one of the native client: simulated members of campaigns are others."""

    @property
    def twin(self) -> Bug[Any]:
        """The same bug in the specification. Raises NotRegisteredError if it has none."""
        return REGISTRY.bug(self.name)
