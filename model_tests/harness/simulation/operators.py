"""What operators do to a cluster that is in use: they move and add partitions, delete records, change settings, and
remove brokers.

Each operation draws from the injector's random numbers and sends its request once. A refusal is no problem: under
faults the cluster may be unable to do it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import trio
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.types import BrokerId
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.metadata.config_resources import AlterOperation, ConfigResourceType
from tidegauge.impl.partition.registration import NO_LEADER
from tidegauge.impl.wire.primitives import TopicName, i8, i32, i64, millis
from tidegauge.model_tests.harness.simulation.disks import BadDisk
from tidegauge.model_tests.harness.simulation.options import Options
from tidegauge.model_tests.harness.simulation.workload import CLIENT, TOPIC

TO_HIGH_WATERMARK = -1
PATIENCE_MS = 2_000


class Operators:
    """The operators of one run."""

    def __init__(self, cluster: Cluster, options: Options, rng: Random, disk: BadDisk) -> None:
        """While `disk` is suspect no replica is taken from a broker, which may have the last good copy."""
        self._disk = disk
        self.cluster = cluster
        self.options = options
        self._rng = rng
        self._asked = 0

    async def reassign(self) -> None:
        """A partition is to have more replicas, fewer, others, or the same in another order."""
        cluster, partition = self.cluster, self._partition()
        listed = list(cluster.replicas(TOPIC, partition))
        absent = [broker for broker in range(self.options.brokers) if broker not in listed]
        kind = self._rng.choice(("grow", "shrink", "replace", "replace", "reorder"))
        if kind == "grow" and absent:
            listed.append(self._rng.choice(absent))
        elif kind == "shrink" and len(listed) > 2:
            listed.remove(self._rng.choice(listed))
        elif kind == "replace" and absent:
            listed[self._rng.randrange(len(listed))] = self._rng.choice(absent)
        else:
            self._rng.shuffle(listed)
        await self._move(listed, partition)

    async def cancel(self) -> None:
        """A move is taken back: one that is under way, else one that begins now."""
        for partition in range(self.options.partitions):
            if self.cluster.is_reassigned(TOPIC, partition):
                return await self._move(None, partition)
        partition = self._partition()
        listed = self.cluster.replicas(TOPIC, partition)
        absent = [broker for broker in range(self.options.brokers) if broker not in listed]
        if absent:
            await self._move([self._rng.choice(absent), *listed[1:]], partition)
            await trio.sleep(self._rng.choice((0.0, 0.02, 0.1, 0.4)))
            await self._move(None, partition)
        return None

    async def _move(self, brokers: Sequence[int] | None, partition: int) -> None:
        """Ask for it, unless a broker that is to get a replica has a log directory offline.

        A replica that goes while its directory is offline, and is made anew elsewhere, leaves no word of that in the
        trace. Its broker knows which log counts when the directory is back (`model_tests/cluster/test_former_logs.py`).
        """
        if self._disk.is_suspect() or any(self._has_failed_directory(broker) for broker in brokers or ()):
            return
        with suppress(KafkaError):
            await self.cluster.reassign(TOPIC, brokers, partition, wait=False)

    def _has_failed_directory(self, broker: int) -> bool:
        return bool(self.cluster.broker(broker).replicas.directories.offline)

    async def delete_records(self) -> None:
        """Records go at the front of a log: all that are committed, or some."""
        partition = self._partition()
        with suppress(KafkaError):
            async with self._client() as client:
                offset = TO_HIGH_WATERMARK
                if self._rng.random() < 0.7:
                    end = await client.list_offsets(TOPIC, partition=partition)
                    offset = self._rng.randint(0, max(0, end.offset))
                await client.ask_leader(TOPIC, partition, deletion(partition, offset))

    async def change_settings(self) -> None:
        """min.insync.replicas is another, or unclean.leader.election.enable is."""
        if self._rng.random() < 0.7 or not self.options.changes_unclean:
            at_least = 2 if self.options.damaging else 1
            settings: Mapping[str, str] = {"min.insync.replicas": str(max(at_least, self._rng.choice((1, 2, 3))))}
        else:
            settings = {"unclean.leader.election.enable": self._rng.choice(("true", "false"))}
        with suppress(KafkaError):
            async with self._client() as client:
                await client.ask_once(alteration(settings))

    async def grow(self) -> None:
        """The topic gets another partition, up to twice as many as it began with; nobody writes to the new ones."""
        present = len(self.cluster.controller.controller.image.topics[TOPIC].partitions)
        if present < 2 * self.options.partitions:
            with suppress(KafkaError):
                await self.cluster.create_partitions(TOPIC, present + 1)

    async def unregister(self) -> None:
        """A broker is removed: often one that is down, else one that runs, and comes back by itself."""
        brokers = [broker for broker in range(self.options.brokers) if not self._disk.spares(broker)]
        down = [broker for broker in brokers if not self.cluster.is_alive(broker)]
        if down and self._rng.random() < 0.7:
            brokers = down
        if brokers:
            with suppress(KafkaError):
                async with self._client() as client:
                    await client.ask_once(UnregisterBrokerRequest(broker_id=BrokerId(self._rng.choice(brokers))))

    async def elect(self, *, unclean: bool) -> None:
        """A partition's preferred leader, or any live one: that of a partition without a leader, if there is one."""
        partition = self._partition()
        image = self.cluster.controller.controller.image
        found = (image.partition(TOPIC, number) for number in range(self.options.partitions))
        lost = [number for number, one in enumerate(found) if one is not None and one.leader == NO_LEADER]
        with suppress(KafkaError):
            await self.cluster.elect(TOPIC, lost[0] if unclean and lost else partition, unclean=unclean)

    def _partition(self) -> int:
        return self._rng.randrange(self.options.partitions)

    def _client(self) -> Any:
        self._asked += 1
        return self.cluster.client(f"operator-{self._asked}", config=CLIENT)


def deletion(partition: int, offset: int, topic: str = TOPIC) -> DeleteRecordsRequest:
    """To delete the records before an offset; -1 is the high watermark."""
    asked = DeleteRecordsPartition(partition_index=i32(partition), offset=i64(offset))
    wanted = DeleteRecordsTopic(name=TopicName(topic), partitions=(asked,))
    return DeleteRecordsRequest(topics=(wanted,), timeout=millis(PATIENCE_MS))


def alteration(settings: Mapping[str, str]) -> IncrementalAlterConfigsRequest:
    """To set these settings of the topic."""
    configs = tuple(
        AlterableConfig(name=name, config_operation=i8(AlterOperation.SET), value=value)
        for name, value in settings.items()
    )
    resource = AlterConfigsResource(resource_type=i8(ConfigResourceType.TOPIC), resource_name=TOPIC, configs=configs)
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
