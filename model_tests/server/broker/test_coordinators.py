"""When a broker makes its coordinators: when it leads a partition of one's topic, and not before."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.server.broker.coordinators import Coordinators
from tidegauge.model_tests.simulated import simulated

KINDS = [
    pytest.param(CONSUMER_OFFSETS, "groups", id="groups"),
    pytest.param(TRANSACTION_STATE, "transactions", id="transactions"),
]
OTHER = {"groups": "transactions", "transactions": "groups"}


def made(cluster: Cluster, broker_id: int) -> set[str]:
    """The coordinators that a broker has made."""
    coordinators = cluster.broker(broker_id).coordinators
    return {kind for kind in OTHER if getattr(coordinators, f"_{kind}") is not None}


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - virtual time
            await trio.sleep(0.1)


def is_led(coordinators: Coordinators, kind: str, index: int) -> bool:
    return not isinstance(getattr(coordinators, kind).log.led(index), ErrorCode)


@pytest.mark.parametrize(("topic", "kind"), KINDS)
@simulated
async def test_a_coordinator_is_made_by_the_broker_that_leads_and_by_no_follower(topic: str, kind: str) -> None:
    async with Cluster(brokers=3, seed=1) as cluster:
        await cluster.create_topic("orders")
        assert [made(cluster, broker) for broker in range(3)] == [set(), set(), set()]
        await cluster.create_topic(topic, assignments=[[1, 0, 2]])
        await until(lambda: is_led(cluster.broker(1).coordinators, kind, 0))
        assert [made(cluster, broker) for broker in range(3)] == [set(), {kind}, set()]
        await cluster.crash(1)
        await until(lambda: any(made(cluster, broker) for broker in (0, 2)))
        (leader,) = (broker for broker in (0, 2) if made(cluster, broker))
        await until(lambda: is_led(cluster.broker(leader).coordinators, kind, 0))


@pytest.mark.parametrize(("topic", "kind"), KINDS)
@simulated
async def test_a_coordinator_that_no_descriptor_is_left_to_import_is_made_when_there_is_one(
    topic: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        coordinators = cluster.broker(0).coordinators
        attempts, make = list[int](), getattr(coordinators, f"_make_{kind}")

        def refuse_thrice() -> Any:
            attempts.append(len(attempts))
            if len(attempts) <= 4:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "module.py")
            return make()

        setattr(coordinators, f"_make_{kind}", refuse_thrice)
        await cluster.create_topic(topic, assignments=[[0], [0]])
        await until(lambda: all(made(cluster, 0) and is_led(coordinators, kind, index) for index in (0, 1)))
        assert not coordinators._untold
        told = [record.getMessage() for record in caplog.records if "coordinator not loaded" in record.getMessage()]
        assert len(told) == 1
        assert f"partition={topic}-0" in told[0]
        assert "EMFILE (Too many open files): module.py" in told[0]


@simulated
async def test_of_what_waits_for_its_coordinator_the_latest_is_told_and_what_is_led_no_more_is_not() -> None:
    async with Cluster(brokers=2, seed=1) as cluster:
        coordinators = cluster.broker(0).coordinators
        make = coordinators._make_groups

        def refuse() -> Any:
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

        coordinators._make_groups = refuse
        await cluster.create_topic(CONSUMER_OFFSETS, assignments=[[0, 1], [0, 1]])
        await until(lambda: len(coordinators._untold) == 2)
        await cluster.delete_topic(CONSUMER_OFFSETS)
        await until(lambda: not coordinators._untold)
        await cluster.create_topic(CONSUMER_OFFSETS, assignments=[[0, 1]])
        await until(lambda: len(coordinators._untold) == 1)
        coordinators._make_groups = make
        await until(lambda: not coordinators._untold and is_led(coordinators, "groups", 0))
        assert cluster.broker(0).groups.hosted(next(iter(cluster.broker(0).groups.log))) is not None


@simulated
async def test_a_program_whose_files_cannot_be_read_is_no_disk_that_fails() -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(ImportError, match="a file of this program: EIO"), flatten_subgroups=True):
        async with Cluster(brokers=1, seed=1) as cluster:

            def refuse() -> Any:
                raise OSError(errno.EIO, os.strerror(errno.EIO), "module.py")

            cluster.broker(0).coordinators._make_groups = refuse
            await cluster.create_topic(CONSUMER_OFFSETS, assignments=[[0]])
            await trio.sleep(10)
