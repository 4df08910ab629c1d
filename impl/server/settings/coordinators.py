"""Settings of coordinators: of the internal topics that they keep their logs in, of groups, and of transactions."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.impl.coordinators.groups.consumer.assignor_names import ASSIGNOR_NAMES
from tidegauge.impl.coordinators.groups.migration.policy import Policy
from tidegauge.impl.metadata.config_types import ConfigType
from tidegauge.impl.server.settings.fields import INT_MAX, Update, flag, names, text, whole
from tidegauge.impl.server.settings.security import SecuritySettings

SHORT_MAX: Final = (1 << 15) - 1


def _assignors(value: tuple[str, ...]) -> None:
    if not value or any(name not in ASSIGNOR_NAMES for name in value):
        raise ValueError(f"it must name at least one of {', '.join(ASSIGNOR_NAMES)}, and no other")


def _policy(value: str) -> None:
    if value.lower() not in (known := [one.value for one in Policy]):
        raise ValueError(f"it must be one of {', '.join(known)}")


@attrs.frozen(eq=False, repr=False)
class CoordinatorSettings(SecuritySettings):
    """Settings of coordinators; times in ms, sizes in bytes."""

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
    offset_metadata_max_bytes: int = whole(
        4_096, least=0, doc="Characters of the metadata that a client may commit with an offset."
    )
    offsets_commit_timeout_ms: int = whole(5_000, doc="How long a commit of offsets waits for its records' commit.")
    offsets_retention_minutes: int = whole(
        10_080, doc="An offset that nobody has committed for this long is forgotten, unless its group has members."
    )
    offsets_retention_check_interval_ms: int = whole(
        600_000, doc="How often offsets are looked for that expire.", kind=ConfigType.LONG
    )

    group_initial_rebalance_delay_ms: int = whole(
        3_000, least=0, doc="How long an empty group waits for more members once the first one has joined."
    )
    group_max_size: int = whole(INT_MAX, least=1, doc="Members that a group may have (GROUP_MAX_SIZE_REACHED).")
    group_min_session_timeout_ms: int = whole(
        6_000, doc="Shortest session.timeout.ms that a member may ask for (INVALID_SESSION_TIMEOUT)."
    )
    group_max_session_timeout_ms: int = whole(1_800_000, doc="Longest session.timeout.ms that a member may ask for.")

    group_consumer_max_size: int = whole(
        INT_MAX, least=1, doc="Members that a consumer group (KIP-848) may have (GROUP_MAX_SIZE_REACHED)."
    )
    group_consumer_assignors: tuple[str, ...] = names(
        ("uniform", "range"),
        "Assignors of consumer groups: uniform, range. The first one is what a group has whose members name none.",
        rule=_assignors,
    )

    group_consumer_regex_refresh_interval_ms: int = whole(
        600_000,
        least=10_000,
        doc="How long what a consumer group's regular expressions of topics match holds at most: rights may have "
        "changed. New topics are looked for every ten seconds.",
    )

    group_consumer_migration_policy: str = text(
        "bidirectional",
        "Which way a group with members goes over to the other protocol, member by member: bidirectional, upgrade "
        "(from the classic one to KIP-848's), downgrade, disabled.",
        rule=_policy,
    )

    transaction_max_timeout_ms: int = whole(
        900_000, doc="Longest transaction.timeout.ms that a producer may ask for (INVALID_TRANSACTION_TIMEOUT)."
    )
    transaction_two_phase_commit_enable: bool = flag(
        False,
        "Whether a transaction may be one that a database decides with its producer: it has no time-out (KIP-939).",
    )
    unstable_api_versions_enable: bool = flag(
        False, "Whether versions of APIs are served that a later release may change: InitProducerId 6 (KIP-939)."
    )
    transactional_id_expiration_ms: int = whole(
        604_800_000, doc="A transactional id without a transaction that is idle for this long is forgotten."
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = whole(
        10_000, doc="How often transactions are looked for that have outlived their time-out."
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = whole(
        3_600_000, doc="How often idle transactional ids are looked for."
    )
    transaction_partition_verification_enable: bool = flag(
        True,
        "Whether a leader asks the coordinator before it appends to a transaction of version 1.",
        update=Update.CLUSTER_WIDE,
    )
    add_partitions_to_txn_retry_backoff_ms: int = whole(
        20, doc="A leader's wait before it adds a partition again while the last transaction is being completed."
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = whole(
        100,
        doc="How long it does so, before the producer is told to try again; "
        "and how long the coordinator lets a client's AddPartitionsToTxn wait for that.",
    )
