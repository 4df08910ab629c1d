"""The bugs of reads that take their time, in a broker: a consumer of committed records sees what it may not."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tidegauge.impl.client.partition_reader import PartitionReader
from tidegauge.impl.client.transactional import TransactionalProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.partition.messages import PartitionFetchResponse
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.records.lazy import in_memory
from tidegauge.model_tests.simulated import simulated
from tidegauge.spec.bugs.reading import READING_BUGS
from tidegauge.spec.kernel.explorer import explore


class TellsOfNoAbort(PartitionReplica):
    """KAFKA-5376: who has waited is told of no aborted transaction."""

    has_waited = False

    def read(self, offset: int, max_bytes: int, leader_epoch: int | None = None, **how: Any) -> PartitionFetchResponse:
        response = super().read(offset, max_bytes, leader_epoch, **how)
        if not how.get("read_committed"):
            return response
        has_found = bool(in_memory(response.records))
        was_waiting, self.has_waited = self.has_waited, not has_found
        return response._replace(aborted=[]) if was_waiting and has_found else response


class LooksTwice(PartitionReplica):
    """KAFKA-9807: where a read ends was looked up when it came, but for the high watermark."""

    first_undecided: int | None = None

    def read(self, offset: int, max_bytes: int, leader_epoch: int | None = None, **how: Any) -> PartitionFetchResponse:
        response = super().read(offset, max_bytes, leader_epoch, **how)
        self.first_undecided = self.log.producers.transactions.first_undecided_offset(self.high_watermark)
        return response

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark if self.first_undecided is None else min(self.first_undecided, self.high_watermark)


async def read_while_aborting(replica: type[PartitionReplica]) -> list[bytes | None]:
    """What a consumer of committed records, which waits, is given of an aborted transaction and one that commits."""
    few = {"transaction.state.log.num.partitions": 1}
    values: list[bytes | None] = []
    async with Cluster(brokers=1, seed=1, config=few, replica_class=replica) as cluster, cluster.client() as client:
        await cluster.create_topic("t", replication_factor=1)
        producer = TransactionalProducer(client, "tx")
        await producer.begin()

        async def read() -> None:
            async with PartitionReader(client, "t", read_committed=True) as consumer:
                while b"kept" not in values:
                    values.extend([record.value for record in await consumer.poll()])

        async def change_mind() -> None:
            async with producer.transaction() as transaction:
                await transaction.produce("t", b"aborted")
                await trio.sleep(0.1)
                raise RuntimeError("mine")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await trio.sleep(0.1)
            with pytest.raises(RuntimeError, match="mine"):
                await change_mind()
            async with producer.transaction() as transaction:
                await transaction.produce("t", b"kept")
    return values


@simulated
async def test_a_fetch_that_waits_is_served_with_what_is_committed_by_then() -> None:
    assert await read_while_aborting(PartitionReplica) == [b"kept"]


@simulated
async def test_a_fetch_that_is_told_of_no_abort_is_noticed() -> None:
    assert await read_while_aborting(TellsOfNoAbort) == [b"aborted", b"kept"]


@simulated
async def test_a_read_bounded_by_two_moments_is_noticed() -> None:
    assert b"aborted" in await read_while_aborting(LooksTwice)


@pytest.mark.parametrize("name", READING_BUGS)
def test_the_explorer_finds_the_bug(name: str) -> None:
    bug = READING_BUGS[name]
    (violation,) = explore(bug.machine()).violations
    assert violation.invariant in bug.violates


def test_reads_of_committed_records_hold() -> None:
    found = explore(next(iter(READING_BUGS.values())).correct_machine(), converges=True)
    assert found.holds, found.violations or found.convergence
