"""The seed by which a campaign finds each bug of replication and of idempotence: `tidegauge simulate --seed N --bug X`.

The same table is in docs/extending.md, with what each is found by.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FOUND_BY: Final[Mapping[str, int]] = {
    "kafka_1211": 1,
    "kafka_6361": 94,
    "kafka_6880": 1,
    "kafka_7128": 4,
    "kafka_18991": 3,
    "kafka_13916": 1,
    "kafka_14139": 1,
    "minimal_isr": 1,
    "last_replica_standing": 1,
    "high_watermark_by_majority": 1,
    "isr_write_without_epoch_fence": 3,
    "kafka_3197": 1,
    "kafka_5494": 1,
    "kafka_6003": 1,
    "kafka_6683": 1,
    "kafka_7692": 4,
    "kafka_15591": 3,
    "librdkafka_4953": 1,
}
