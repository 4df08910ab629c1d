"""What one replica knows; every part of the core reads and writes it here and nowhere else."""

from __future__ import annotations

import attrs

from tidegauge.impl.partition.log import ReplicaLog
from tidegauge.impl.partition.messages import UNKNOWN_BROKER_EPOCH, UNKNOWN_OFFSET, Effect, PartitionConfig
from tidegauge.impl.partition.producer_state import ProducerStates
from tidegauge.impl.partition.registration import NO_LEADER
from tidegauge.impl.partition.verification import Verifications


@attrs.define
class RemoteReplica:
    """What a leader knows of a follower, from its fetches in this leader epoch only."""

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    last_caught_up_ms: int = 0
    """When the follower last held all that the leader held, in ms of a clock that never steps (`Clock.steady_ms`)."""
    last_fetch_ms: int = 0
    leader_end_offset_at_last_fetch: int = 0


class ReplicaState:
    """The fields of a replica, and the effects that wait to be carried out."""

    def __init__(self, broker_id: int, log: ReplicaLog, config: PartitionConfig, high_watermark: int = 0) -> None:
        """`high_watermark` is the checkpointed one; a log that is shorter caps it."""
        self.broker_id = broker_id
        self.log = log
        self.config = config
        self.high_watermark = max(log.log_start_offset, min(high_watermark, log.log_end_offset))
        self.replicas: tuple[int, ...] = ()
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.controller_epoch = -1
        self.isr: frozenset[int] = frozenset()
        self.pending_isr: frozenset[int] | None = None
        self.epoch_start_offset = UNKNOWN_OFFSET
        self.remote_replicas: dict[int, RemoteReplica] = {}
        self.verifications = Verifications()
        self._effects: list[Effect] = []

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def producers(self) -> ProducerStates:
        """What this replica remembers of idempotent producers; the log keeps it."""
        return self.log.producers

    @property
    def is_leader(self) -> bool:
        """Whether this replica believes that it leads; the controller may already have chosen another."""
        return self.leader == self.broker_id

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Every replica that is in the ISR or may be, as far as this leader knows (KIP-497)."""
        return self.isr if self.pending_isr is None else self.isr | self.pending_isr

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the ISR is smaller than min.insync.replicas, or than all replicas if there are fewer than that."""
        members = len(self.isr)
        return members < self.config.min_insync_replicas and members < len(self.replicas)

    def take_effects(self) -> list[Effect]:
        """What is to be done now, in order; each effect is handed out once."""
        effects, self._effects = self._effects, []
        return effects
