"""The client retries what is safe, and says clearly when it cannot know what became of a request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId

from tidegauge.impl.client.client import LATEST, Client, ClientConfig
from tidegauge.impl.client.committed_offsets import GroupOffsets
from tidegauge.impl.client.consumer import Consumer
from tidegauge.impl.client.consumer_config import ConsumerConfig
from tidegauge.impl.client.coordinators import GROUP, Coordinator
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.observer import Operation
from tidegauge.impl.client.requests import Fetched, ListedOffset
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.ports.network import Address
from tidegauge.model_tests.simulated import simulated

IMPATIENT = ClientConfig(request_timeout_ms=500, default_api_timeout_ms=900)


class Recorder:
    """What a client did, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def invoked(self, operation: Operation) -> int:
        self.events.append(("invoke", operation))
        return len(self.events)

    def returned(self, token: int, result: Any) -> None:
        self.events.append((f"return {token}", result))

    def failed(self, token: int, error: BaseException) -> None:
        self.events.append((f"fail {token}", error))


@simulated
async def test_a_client_finds_the_new_leader_by_itself() -> None:
    async with Cluster(brokers=3, seed=1) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1, 2]])
        async with cluster.client() as client:
            await client.produce("t", b"a")
            await cluster.expire_session(0)
            await cluster.settle_metadata()
            assert await client.produce("t", b"b") == 1
            assert (await client.fetch("t", 0)).values == (b"a", b"b")
            assert cluster.leader("t") == 1


@simulated
async def test_a_client_waits_for_a_leader_to_appear() -> None:
    async with Cluster(brokers=2, seed=1) as cluster:
        await cluster.create_topic("t", assignments=[[0]])
        async with cluster.client() as client, trio.open_nursery() as nursery:
            await client.produce("t", b"a")
            await cluster.crash(0, lose_unsynced=False)

            async def restart_later() -> None:
                await trio.sleep(3)
                await cluster.restart(0)

            nursery.start_soon(restart_later)
            assert await client.produce("t", b"b", timeout_ms=30_000) == 1


@simulated
async def test_a_produce_that_was_never_sent_was_not_done() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client(config=IMPATIENT) as client:
            await cluster.crash(0)
            with pytest.raises(KafkaError) as refused:
                await client.produce("t", b"a")
            assert not refused.value.maybe_done


@simulated
async def test_a_produce_without_a_response_may_have_been_done_and_is_not_repeated() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client("me", config=IMPATIENT) as client:
            await client.produce("t", b"a")
            cluster.drop(source=0, destination="me")
            with pytest.raises(KafkaError) as failed:
                await client.produce("t", b"b")
            assert failed.value.maybe_done
            assert "it may have been carried out" in str(failed.value)
            assert cluster.replica(0, "t").log_end_offset == 2
            cluster.clear_faults()
            assert (await client.fetch("t", 0)).values == (b"a", b"b")


@simulated
async def test_a_produce_whose_connection_breaks_is_not_sent_again() -> None:
    async with Cluster(brokers=2, seed=1, config={"replica.socket.timeout.ms": 500}) as cluster:
        await cluster.create_topic("t", assignments=[[0, 1]])
        cluster.drop(source=1, destination=0)
        async with cluster.client("me") as client, trio.open_nursery() as nursery:

            async def break_it() -> None:
                await trio.sleep(0.2)
                cluster.reset_connections("me", 0)
                cluster.clear_faults()

            nursery.start_soon(break_it)
            with pytest.raises(KafkaError) as failed:
                await client.produce("t", b"a")
            assert failed.value.maybe_done
            assert await client.produce("t", b"b") == 1


@simulated
async def test_a_fetch_without_a_response_is_repeated() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client("me", config=ClientConfig(request_timeout_ms=500)) as client:
            await client.produce("t", b"a")
            cluster.drop(source=0, destination="me")
            async with trio.open_nursery() as nursery:

                async def heal_later() -> None:
                    await trio.sleep(2)
                    cluster.clear_faults()

                nursery.start_soon(heal_later)
                assert (await client.fetch("t", 0)).values == (b"a",)


@simulated
async def test_a_fetch_inside_a_batch_begins_where_it_was_asked_to() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", b"a", b"b", b"c")
            fetched = await client.fetch("t", 1)
            assert [(record.offset, record.value) for record in fetched.records] == [(1, b"b"), (2, b"c")]


@simulated
async def test_bytes_that_rot_under_a_running_broker_are_never_taken_for_records() -> None:
    """The client refuses them first; asked for the same offset again, the broker looks, and refuses them itself."""
    async with Cluster(1, seed=1) as cluster:
        medium = cluster.host.simulated("rot").medium(broker_name(0))
        async with cluster.client("c") as client:
            for nth, position in enumerate((16, 21, 40, 61, -1)):  # magic, attributes, a timestamp, records
                topic = f"t{nth}"
                await cluster.create_topic(topic)
                await client.produce(topic, b"intact", b"intact too")
                assert len((await client.fetch(topic, 1)).records) == 1
                log = f"data/{topic}-0/00000000000000000000.log"
                medium.flip_bit(log, position % medium.size(log))
                for refusal in ("what was fetched", "nothing can be fetched"):
                    with pytest.raises(KafkaError, match=f"CORRUPT_MESSAGE: {refusal} from offset 0") as refused:
                        await client.fetch(topic, 0)
                    assert refused.value.code is ErrorCode.corrupt_message


@simulated
async def test_everything_a_client_does_can_be_observed() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        recorder = Recorder()
        async with cluster.client("me", config=IMPATIENT, observer=recorder) as client:
            await client.produce("t", b"a", b"b")
            await client.fetch("t", 1)
            await client.list_offsets("t")
            with pytest.raises(KafkaError):
                await client.fetch("t", 99)
            with trio.move_on_after(0.1):
                await client.fetch("t", 2, max_wait_ms=5_000)
        produce, fetch, listing = (
            Operation("me", "produce", "t", 0, (b"a", b"b")),
            Operation("me", "fetch", "t", 0, offset=1),
            Operation("me", "list_offsets", "t", 0, offset=-1),
        )
        events = recorder.events
        assert events[:2] == [("invoke", produce), ("return 1", 0)]
        assert events[2] == ("invoke", fetch)
        assert isinstance(events[3][1], Fetched)
        assert events[3][1].values == (b"b",)
        assert events[4:6] == [("invoke", listing), ("return 5", ListedOffset(2, -1, 0))]
        assert events[7][0] == "fail 7"
        assert events[7][1].code is ErrorCode.offset_out_of_range
        assert isinstance(events[9][1], trio.Cancelled)


@simulated
async def test_metadata_come_from_any_broker_that_responds() -> None:
    async with Cluster(brokers=3, seed=1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client(config=IMPATIENT) as client:
            await cluster.crash(0)
            cluster.pause(1)
            response = await client.metadata("t", timeout_ms=5_000)
            assert response.topics[0].name == "t"


@simulated
async def test_mistakes_of_the_caller_are_named() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        async with cluster.client(config=IMPATIENT) as client:
            with pytest.raises(ValueError, match="acks is 2: use 0, 1 or -1"):
                await client.produce("t", b"a", acks=2)
            with pytest.raises(ValueError, match="give at least one"):
                await client.produce("t")
            with pytest.raises(KafkaError) as unknown:
                await client.produce("nothing", b"a")
            assert unknown.value.code is ErrorCode.unknown_topic_or_partition
            assert not unknown.value.maybe_done
        with pytest.raises(RuntimeError, match="async with client"):
            await cluster.client().fetch("t", 0)
        with pytest.raises(ValueError, match="bootstrap is empty"):
            Client(cluster.network.host("me"), [], SimulatedClock())


@simulated
async def test_a_cluster_that_cannot_be_reached_is_an_error_in_time() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        nowhere = Client(cluster.network.host("me"), [Address("nowhere", 1)], SimulatedClock(), config=IMPATIENT)
        async with nowhere as client:
            begun = trio.current_time()
            with pytest.raises(KafkaError) as unreachable:
                await client.fetch("t", 0)
            assert "nowhere:1 cannot be reached" in str(unreachable.value)
            assert trio.current_time() - begun < 1


@pytest.mark.parametrize("brokers", [1, 3])
@simulated
async def test_who_says_how_long_waits_no_longer_for_a_broker_that_hangs(brokers: int) -> None:
    async with Cluster(brokers=brokers, seed=1, config={"offsets.topic.num.partitions": 1}) as cluster:
        await cluster.create_topic("t", assignments=[list(range(brokers))])
        async with cluster.client() as client, Consumer(client, ConsumerConfig(group_id="g")) as consumer:
            await client.produce("t", b"x")
            await consumer.assign([("t", 0)])
            await consumer.commit({("t", 0): 1})
            group = GroupOffsets(client, "g")
            for broker in range(brokers):
                cluster.pause(broker)
            calls: list[Callable[[], Awaitable[object]]] = [
                lambda: client.fetch("t", 0, timeout_ms=300),
                lambda: client.list_offsets("t", timeout_ms=300),
                lambda: client.metadata(timeout_ms=300),
                lambda: consumer.offset_at(("t", 0), LATEST, timeout_ms=300),
                lambda: consumer.commit({("t", 0): 1}, timeout_ms=300),
                lambda: consumer.committed(("t", 0), timeout_ms=300),
                lambda: group.committed("t", timeout_ms=300),
            ]
            for call in calls:
                began = trio.current_time()
                with pytest.raises(KafkaError, match=r"REQUEST_TIMED_OUT: no response within [0-9]+ ms"):
                    await call()
                assert trio.current_time() - began == pytest.approx(0.3)
            for broker in range(brokers):
                cluster.resume(broker)
            assert await consumer.committed(("t", 0)) == {("t", 0): 1}
            assert (await client.fetch("t", 0)).values == (b"x",)


@simulated
async def test_who_gives_no_time_has_one_attempt() -> None:
    """It takes as long as it takes."""
    async with Cluster(brokers=1, seed=1, config={"offsets.topic.num.partitions": 1}) as cluster:
        await cluster.create_topic("t", assignments=[[0]])
        async with cluster.client() as client:
            assert (await client.list_offsets("t", timeout_ms=0)).offset == 0
            assert (await client.metadata(timeout_ms=0)).topics[0].name == "t"
            assert await GroupOffsets(client, "g").committed("t") is None
            coordinator = Coordinator(client, GROUP, "g")
            request = DescribeGroupsRequest(groups=(GroupId("g"),), include_authorized_operations=False)
            for is_bounded in (False, True):
                await coordinator.ask(request, lambda _: ErrorCode.none, 0, is_bounded=is_bounded)


@simulated
async def test_who_waits_little_finds_the_broker_that_responds() -> None:
    async with Cluster(brokers=3, seed=1) as cluster, cluster.client() as client:
        for broker in (0, 1):
            cluster.pause(broker)
        tries = 0
        with trio.fail_after(2):
            while True:
                tries += 1
                with suppress(KafkaError):
                    found = await client.metadata(timeout_ms=200)
                    break
        assert (len(found.brokers), tries) == (3, 3)


@simulated
async def test_a_batch_larger_than_the_limit_was_not_done_and_never_sent() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            for value in (bytes(200_000_000), bytes(1_048_588)):
                with pytest.raises(KafkaError, match="is 1048588; send less, or raise it") as refused:
                    await client.produce("t", value)
                assert refused.value.code is ErrorCode.message_too_large
                assert not refused.value.maybe_done
            assert await client.produce("t", bytes(1_048_500)) == 0


@simulated
async def test_a_client_sends_as_much_as_its_cluster_takes() -> None:
    async with Cluster(brokers=1, seed=1, config={"message.max.bytes": 3_000_000}) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            assert await client.produce("t", bytes(2_000_000)) == 0
        async with cluster.client(config=ClientConfig(message_max_bytes=1000)) as client:
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE: a batch of at least 1000000 bytes"):
                await client.produce("t", bytes(1_000_000))


@simulated
async def test_names_that_are_no_text_are_refused_before_anything_is_sent() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        odd: Any = 7
        with pytest.raises(ValueError, match="a topic's name is 7: give text"):
            await cluster.create_topic(odd)
        with pytest.raises(ValueError, match="partitions is '1': give a whole number of 32 bits"):
            await cluster.create_topic("t", "1")  # type: ignore[arg-type]
        async with cluster.client() as client:
            for mistake in (
                client.produce(odd, b"a"),
                client.fetch(odd, 0),
                client.list_offsets(odd),
                client.metadata(odd),
                client.elect_leaders(odd),
            ):
                with pytest.raises(ValueError, match="a topic's name is 7: give text"):
                    await mistake
            with pytest.raises(ValueError, match="partition is '0': give a whole number of 32 bits"):
                await client.produce("t", b"a", partition="0")  # type: ignore[arg-type]


@simulated
async def test_what_is_no_record_and_no_offset_is_refused_before_anything_is_sent() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        recorder = Recorder()
        async with cluster.client(observer=recorder) as client:
            with pytest.raises(ValueError, match="a value is 'text': give bytes"):
                await client.produce("t", "text")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match=r"a value is \[b'a'\]: give bytes"):
                await client.produce("t", [b"a"])  # type: ignore[arg-type]
            for offset in (1 << 63, "0", 1.5, None):
                with pytest.raises(ValueError, match=r"offset is .*: give a whole number of 64 bits"):
                    await client.fetch("t", offset)  # type: ignore[arg-type]
                with pytest.raises(ValueError, match=r"timestamp is .*: give a whole number of 64 bits"):
                    await client.list_offsets("t", offset)  # type: ignore[arg-type]
        assert not recorder.events


@simulated
async def test_a_client_that_is_closed_says_so() -> None:
    async with Cluster(brokers=1, seed=1) as cluster:
        await cluster.create_topic("t")
        async with cluster.client() as client:
            await client.produce("t", b"a")
        with pytest.raises(RuntimeError, match="the client is not running"):
            await client.produce("t", b"b")
