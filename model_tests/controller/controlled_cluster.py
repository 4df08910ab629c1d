"""A controller with brokers that have registered and caught up, and a topic of one partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tidegauge.impl.controller.config import DEFAULT_CONTROLLER_ID, ControllerConfig
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import Proposal
from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.harness.cores.metadata_log import MemoryMetadataLog

SESSION = 1_000
CONFIG = ControllerConfig(broker_session_timeout_ms=SESSION)
TOPIC = "t"

T = TypeVar("T")


def successor(log: MemoryMetadataLog, *, now_ms: int = 0, node_id: int = DEFAULT_CONTROLLER_ID) -> Controller:
    """A controller that takes over."""
    controller = Controller(node_id, CONFIG)
    log.elect(controller, now_ms)
    return controller


class ControlledCluster:
    """Brokers 0..n-1 are live at time 0 unless `brokers` is 0; `log` is what the next controller would replay."""

    def __init__(
        self, brokers: int = 3, racks: Mapping[int, str] | None = None, config: ControllerConfig = CONFIG
    ) -> None:
        self.log = MemoryMetadataLog()
        self.controller = Controller(DEFAULT_CONTROLLER_ID, config)
        self.log.elect(self.controller, now_ms=0)
        self.epochs: dict[int, int] = {}
        for broker in range(brokers):
            self.join(broker, rack=(racks or {}).get(broker))

    def commit(self, proposal: Proposal[T]) -> T:
        """Commit and apply a proposal; returns its response."""
        return self.log.commit(self.controller, proposal)

    def expire_sessions(self, now_ms: int) -> list[int]:
        """Fence the brokers whose sessions have expired; returns their ids."""
        expired = self.controller.expired_sessions(now_ms)
        return [broker for broker in expired if self.commit(self.controller.members.fence(broker))]

    def join(self, broker: int, *, rack: str | None = None, now_ms: int = 0) -> None:
        """A process of the broker registers and shows that it has caught up."""
        self.register(broker, rack=rack)
        self.heartbeat(broker, now_ms=now_ms)

    def register(self, broker: int, *, rack: str | None = None) -> int:
        self.epochs[broker] = self.commit(
            self.controller.members.register(broker, host=f"b{broker}", port=9092, rack=rack)
        )
        return self.epochs[broker]

    def heartbeat(self, broker: int, *, now_ms: int = 0) -> None:
        self.commit(self.controller.members.heartbeat(broker, self.epochs[broker], self.log.end_offset, now_ms))

    def create(self, *replicas: int, configs: Mapping[str, str] | None = None) -> None:
        created = self.commit(self.controller.topics.create_on(TOPIC, "id", (replicas or (0, 1, 2),), configs))
        assert not created.message, created.message

    @property
    def partition(self) -> PartitionRegistration:
        registration = self.controller.image.partition(TOPIC, 0)
        assert registration is not None
        return registration

    @property
    def standing(self) -> tuple[int, list[int], list[int]]:
        """(leader, ISR, ELR)."""
        return self.partition.leader, sorted(self.partition.isr), sorted(self.partition.elr)

    def proposal(self, *isr: int, **changes: int) -> AlterPartitionRequest:
        """What the present leader would send for this ISR; `changes` make it another request."""
        fields = {
            "broker_id": self.partition.leader,
            "broker_epoch": self.epochs.get(self.partition.leader, 0),
            "leader_epoch": self.partition.leader_epoch,
            "partition_epoch": self.partition.partition_epoch,
            **changes,
        }
        return AlterPartitionRequest(**fields, isr=tuple((broker, self.epochs.get(broker, -1)) for broker in isr))
