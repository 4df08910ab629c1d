"""What a historical bug is: the machine with one rule as it once was, and the small model in which it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tidegauge.spec.replication.machine import Replication


@attrs.frozen
class Bug:
    """One entry of the zoo.

    `mechanism` is a sentence on how it goes wrong; `falls` names the invariants of which the shortest counterexample
    breaks one; `constants` are those of a model small enough to explore and large enough to show it.
    """

    name: str
    title: str
    reference: str
    mechanism: str
    falls: tuple[str, ...]
    buggy: type[Replication]
    constants: Mapping[str, Any]

    def machine(self) -> Replication:
        """The machine with the bug."""
        return self.buggy(**self.constants)

    def correct_machine(self) -> Replication:
        """The same model without it."""
        return Replication(**self.constants)
