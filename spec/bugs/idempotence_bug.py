"""What a historical bug of idempotent producing is: the machine with one rule as it once was, and a small model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tidegauge.spec.idempotence.machine import Idempotence


@attrs.frozen
class IdempotenceBug:
    """As `spec.bugs.bug.Bug`, of the other machine."""

    name: str
    title: str
    reference: str
    mechanism: str
    falls: tuple[str, ...]
    buggy: type[Idempotence]
    constants: Mapping[str, Any]

    def machine(self) -> Idempotence:
        """The machine with the bug."""
        return self.buggy(**self.constants)

    def correct_machine(self) -> Idempotence:
        """The same model without it."""
        return Idempotence(**self.constants)
