"""What proves an anomaly: the operations, and the reason."""

from __future__ import annotations

import attrs

from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.history import Operation


@attrs.frozen
class Finding:
    """One occurrence of an anomaly."""

    name: Name
    operations: tuple[Operation, ...]
    witness: str


def finding(name: Name, reason: str, *operations: Operation) -> Finding:
    """A finding whose witness has the reason, and shows the operations in the order given, each once."""
    operations = tuple(dict.fromkeys(operations))
    shown = "; ".join(str(row) for row in operations)
    return Finding(name, operations, f"{reason}. {shown}")
