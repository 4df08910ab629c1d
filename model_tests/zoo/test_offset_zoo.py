"""Every bug of the offsets of groups is caught where it is switched on: in the coordinator's core, or in its log.

That a cluster shows each is in `test_shortest_counterexamples`.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.transactional import TransactionalProducer
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.server.broker.appends import PartitionMarker
from tidegauge.impl.server.broker.coordinator_log import Apply, CoordinatorLog, Led
from tidegauge.impl.server.broker.groups import Groups
from tidegauge.model_tests.bugs.offsets import OFFSET_BUGS, WITHOUT_A_CORE, CoreBug
from tidegauge.model_tests.harness.cores.offsets import OffsetRoles
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.simulated import simulated
from tidegauge.model_tests.zoo.switched_on import assert_walks_differ, assert_wrong_alike
from tidegauge.spec.bugs.offsets import OFFSET_BUGS as SPEC_BUGS

SEED = 1
LIMIT = 150
HARNESSED = HARNESS["offsets"]
FIRST = {"kafka_5247": 22, "kafka_13636": 9}
"""The walk that shows it, where it is not one of the first: the search begins there."""
OF_CORES = {name: bug for name, bug in OFFSET_BUGS.items() if bug.on_cores}
every_bug = pytest.mark.parametrize("bug", OF_CORES.values(), ids=OF_CORES)


def test_the_two_zoos_hold_the_same_bugs_and_two_are_of_no_core() -> None:
    assert list(OFFSET_BUGS) == list(SPEC_BUGS)
    assert OFFSET_BUGS.keys() - OF_CORES.keys() == WITHOUT_A_CORE.keys()


@every_bug
def test_walks_show_the_difference_from_the_correct_specification(bug: CoreBug[OffsetRoles]) -> None:
    assert_walks_differ(HARNESSED, bug, SEED, LIMIT, FIRST.get(bug.name, 0))


@every_bug
def test_specification_and_cores_that_are_wrong_alike_violate_the_invariant_together(
    bug: CoreBug[OffsetRoles],
) -> None:
    assert_wrong_alike(bug)


# --- KAFKA-17507, in a broker ----------------------------------------------------------------------------------------


class AcknowledgesWhatIsCommitted(CoordinatorLog[Any]):
    """Who waits for a marker waits for its commit; the coordinator knows of it in its own time."""

    async def append_marker(
        self, led: Led[Any], marker: PartitionMarker, apply: Apply, *, timeout_ms: float
    ) -> ErrorCode:
        async def know_of_it(base_offset: int) -> None:
            await trio.sleep(0.01)
            apply(base_offset)

        def postpone(base_offset: int) -> None:
            self._tasks.start_soon(know_of_it, base_offset)

        return await super().append_marker(led, marker, postpone, timeout_ms=timeout_ms)


async def pending_when_told(log: type[CoordinatorLog[Any]]) -> list[bool]:
    """Whether an offset is pending whose transaction's marker was just acknowledged, of three transactions."""
    found: list[bool] = []
    acknowledge = Groups.append_marker

    async def noted(groups: Groups, marker: PartitionMarker, timeout_ms: float) -> ErrorCode:
        error = await acknowledge(groups, marker, timeout_ms)
        led = groups.log.led(marker.partition)
        assert error is ErrorCode.none
        assert not isinstance(led, ErrorCode)
        found.append(marker.marker.producer_id in led.state.offsets.pending)
        return error

    few = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
    with (
        patch("tidegauge.impl.server.broker.groups.CoordinatorLog", log),
        patch.object(Groups, "append_marker", noted),
    ):
        async with Cluster(brokers=1, seed=1, config=few) as cluster, cluster.client() as client:
            await cluster.create_topic("t", replication_factor=1)
            producer = TransactionalProducer(client, "tx")
            for offset in range(3):
                async with producer.transaction() as transaction:
                    await transaction.commit_offsets("g", {("t", 0): offset})
            await producer.begin()  # once the last one is complete
    return found


@simulated
async def test_a_marker_is_acknowledged_once_the_coordinator_of_the_group_knows_of_it() -> None:
    assert await pending_when_told(CoordinatorLog) == [False] * 3


@simulated
async def test_a_log_that_tells_of_markers_when_they_are_committed_is_noticed() -> None:
    assert any(await pending_when_told(AcknowledgesWhatIsCommitted))
