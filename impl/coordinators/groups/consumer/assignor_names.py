"""The names of the server-side assignors (KIP-848), under Kafka's names.

They stand apart from the assignors, since every broker reads the setting that names them, and few have groups.
"""

from __future__ import annotations

from typing import Final

UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNOR_NAMES: Final = (UNIFORM, RANGE)
