"""Replicas of one partition side by side, with a controller's word made up by the test."""

from __future__ import annotations

from tidegauge.impl.partition.messages import FollowerFetch, PartitionConfig, PartitionFetchResponse
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.model_tests.harness.cores.memory_log import MemoryLog

EVERYTHING = MemoryLog.bytes_of(1_000)
BROKER_EPOCHS = {0: 100, 1: 101, 2: 102}


def registration(
    leader: int = 0,
    *,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    isr: tuple[int, ...] = (0, 1, 2),
    replicas: tuple[int, ...] = (0, 1, 2),
) -> PartitionRegistration:
    return PartitionRegistration(replicas, leader, leader_epoch, partition_epoch, frozenset(isr))


class Partition:
    """Three replicas that know the same registration; messages are passed on by the test."""

    def __init__(self, min_insync_replicas: int = 1, replica_lag_time_max_ms: int = 1_000) -> None:
        config = PartitionConfig(min_insync_replicas, replica_lag_time_max_ms)
        self.logs = [MemoryLog() for _ in range(3)]
        self.replicas = [PartitionReplica(broker, self.logs[broker], config) for broker in range(3)]
        self.registration = registration()
        self.now_ms = 10_000
        self.tell(self.registration)

    def __getitem__(self, broker: int) -> PartitionReplica:
        return self.replicas[broker]

    def tell(self, news: PartitionRegistration, *brokers: int, controller_epoch: int = 0) -> None:
        """These brokers (by default all) learn of the registration."""
        self.registration = news
        for broker in brokers or range(3):
            self.replicas[broker].apply_metadata(news, controller_epoch, self.now_ms)

    def elect(self, leader: int, isr: tuple[int, ...], *brokers: int) -> None:
        """A new leader epoch, of which these brokers (by default all) learn."""
        old = self.registration
        self.tell(
            old._replace(
                leader=leader,
                leader_epoch=old.leader_epoch + 1,
                partition_epoch=old.partition_epoch + 1,
                isr=frozenset(isr),
            ),
            *brokers,
        )

    def append(self, broker: int, *values: int, acks: int = -1) -> object:
        return self.replicas[broker].append(MemoryLog.produced(values), acks, self.now_ms)

    def request(self, follower: int) -> FollowerFetch:
        fetch = self.replicas[follower].fetch_request(BROKER_EPOCHS[follower])
        assert fetch is not None
        return fetch

    def fetch(self, follower: int) -> PartitionFetchResponse:
        """One fetch, to whom the follower believes to lead, and its response applied."""
        fetch = self.request(follower)
        response = self.replicas[self.replicas[follower].leader].receive_fetch(fetch, EVERYTHING, self.now_ms)
        self.replicas[follower].receive_fetch_response(fetch, response, self.now_ms)
        return response

    def values(self, broker: int) -> list[int]:
        return [record.value for record in self.logs[broker].records]

    def high_watermarks(self) -> list[int]:
        return [replica.high_watermark for replica in self.replicas]
