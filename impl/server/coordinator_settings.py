"""Settings of coordinators: of the internal topics that they keep their logs in."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.impl.metadata.config_types import ConfigType
from tidegauge.impl.server.settings import whole
from tidegauge.impl.server.transport.security.settings import SecuritySettings

SHORT_MAX: Final = (1 << 15) - 1


@attrs.frozen(eq=False, repr=False)
class CoordinatorSettings(SecuritySettings):
    """Settings of coordinators; sizes in bytes."""

    transaction_state_log_num_partitions: int = whole(50, doc="Partitions of __transaction_state.")
    transaction_state_log_replication_factor: int = whole(
        3, most=SHORT_MAX, kind=ConfigType.SHORT, doc="Replicas of __transaction_state; it needs as many live brokers."
    )
    transaction_state_log_min_isr: int = whole(2, doc="min.insync.replicas of __transaction_state.")
    transaction_state_log_segment_bytes: int = whole(100 << 20, doc="segment.bytes of __transaction_state.")
    transaction_state_log_load_buffer_size: int = whole(
        5 << 20, doc="Bytes that are read at once when a partition of __transaction_state is loaded."
    )
    offsets_topic_num_partitions: int = whole(50, doc="Partitions of __consumer_offsets.")
    offsets_topic_replication_factor: int = whole(
        3, most=SHORT_MAX, kind=ConfigType.SHORT, doc="Replicas of __consumer_offsets; it needs as many live brokers."
    )
    offsets_topic_segment_bytes: int = whole(100 << 20, doc="segment.bytes of __consumer_offsets.")
    offsets_load_buffer_size: int = whole(
        5 << 20, doc="Bytes that are read at once when a partition of __consumer_offsets is loaded."
    )
