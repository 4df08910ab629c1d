"""One of two log directories fails, then each API is asked: the broker responds, lives, and serves the other one."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID

import pytest
import trio
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.static.primitive import i8

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.ports.failing_disk import SYNCS, WRITES, Operation
from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey, request_class
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.deterministic import run_deterministically
from tidegauge.model_tests.server.asking import asker, consumer_request
from tidegauge.model_tests.wire.sample_messages import sample

CONFIG: Final[dict[str, Any]] = {
    "log.dirs": "one,two",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
}
PARTITIONS: Final = 4
FAILING: Final = 1
"""The partition that is asked for, whose directory fails; it also stands for most bytes, waits and counts."""
OPERATIONS: Final[Mapping[str, Collection[Operation]]] = {
    "all": frozenset(Operation),
    "read": {Operation.READ},
    "write": WRITES,
    "sync": SYNCS,
    "open": {Operation.OPEN, Operation.MAKE_DIRECTORY},
    "rename": {Operation.RENAME, Operation.REMOVE},
}
NUMBERS: Final = (errno.EIO, errno.EACCES, errno.ENOENT, errno.EROFS)
QUICK: Final = {("read", errno.EIO)}
ASKS_LOGS: Final = (
    *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DELETE_RECORDS),
    *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.ALTER_REPLICA_LOG_DIRS),
    *(ApiKey.INIT_PRODUCER_ID, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN, ApiKey.OFFSET_COMMIT),
)
"""What most likely meets the directory; an ordinary run asks these alone."""
ASKED: Final = [*ASKS_LOGS, *(key for key in BROKER_APIS if key in BROKER_HANDLERS and key not in ASKS_LOGS)]
ASKED_OF: Final = ASKED[: amount(len(ASKS_LOGS), deep=len(ASKED))]


async def asked_of_a_failing_broker(key: ApiKey, operations: Collection[Operation], number: int) -> None:
    async with Cluster(brokers=1, seed=1, config=CONFIG) as cluster, cluster.client() as client:
        await cluster.create_topic("t", PARTITIONS)
        for partition in range(PARTITIONS):
            await client.produce("t", b"v", partition=partition)
        peer = await asker(cluster)
        for key_type in (0, 1):  # has the coordinators' topics made
            await peer.ask(FindCoordinatorRequest(key_type=i8(key_type), coordinator_keys=("t",)))
        broker = cluster.broker(0)
        hosted = [broker.replicas.get("t", index) for index in range(PARTITIONS)]
        where = {one.index: one.log.directory for one in hosted if one is not None}
        failing = where[FAILING].rpartition("/")[0]

        def fails(operation: Operation, path: str) -> None:
            if operation in operations and (path == failing or path.startswith(f"{failing}/")):
                raise OSError(number, errno.errorcode[number], path)

        cluster.host.disk(broker_name(0)).watched_by(fails)
        topic_id = UUID(cluster.controller.controller.image.topics["t"].topic_id)
        values: dict[str, Any] = {"string": "t", "uuid": topic_id, "int32": FAILING, "int64": 0, "int8": 0}
        with trio.fail_after(20):
            if key is ApiKey.FETCH:  # the sample is of a session that there is not
                limits = {"leader_epoch": 0, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 100}
                await peer.ask(consumer_request(str(topic_id), FAILING, 0, **limits), 13)
            else:
                await peer.ask(sample(request_class(key, BROKER_APIS[key].highest), values))
        await trio.sleep(2)
        assert broker.halted is None, f"after {key.name}: {broker.halted}"
        if "t" not in cluster.controller.controller.image.topics:
            return
        healthy = next(index for index, directory in where.items() if not directory.startswith(f"{failing}/"))
        with trio.fail_after(20):
            await client.produce("t", b"w", partition=healthy)


@pytest.mark.parametrize(
    ("operations", "number"),
    [
        pytest.param(
            *cell, marks=[] if cell in QUICK else [pytest.mark.deep], id=f"{cell[0]}-{errno.errorcode[cell[1]]}"
        )
        for cell in itertools.product(OPERATIONS, NUMBERS)
    ],
)
def test_no_api_ends_a_broker_whose_other_directory_works(operations: str, number: int) -> None:
    for key in ASKED_OF:
        run_deterministically(asked_of_a_failing_broker, key, OPERATIONS[operations], number, seed=1)
