"""Subscriptions and assignments are bytes as Kafka's clients have them: kio reads and writes the same ones."""

from __future__ import annotations

import io
import struct
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.consumer_protocol_assignment.v3 import data as assignments
from kio.schema.consumer_protocol_subscription.v0 import data as v0
from kio.schema.consumer_protocol_subscription.v1 import data as v1
from kio.schema.consumer_protocol_subscription.v2 import data as v2
from kio.schema.consumer_protocol_subscription.v3 import data as v3
from kio.serial import entity_reader, entity_writer

from tidegauge.impl.client.assignors.subscription import Partition, Subscription
from tidegauge.impl.client.consumer_protocol import (
    MalformedError,
    assignment_bytes,
    assignment_of,
    subscription_bytes,
    subscription_of,
)
from tidegauge.impl.wire.primitives import i32

OWNED = (("a", 0), ("a", 2), ("b", 1))
SAID = Subscription(("a", "b"), OWNED, 7)
HAD = struct.pack(">ih1s3ih1s2i", 2, 1, b"a", 2, 0, 2, 1, b"b", 1, 1)
"""The same as the sticky assignor's user data."""
few = settings(max_examples=25)
partitions = st.sets(st.tuples(st.text(max_size=4), st.integers(0, 99))).map(lambda each: tuple(sorted(each)))
topics = st.sets(st.text(max_size=4)).map(lambda each: tuple(sorted(each)))


def read(kind: Any, data: bytes) -> Any:
    message, size = entity_reader(kind)(data, 2)
    assert 2 + size == len(data), "nothing is behind it"
    return message


def written(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return struct.pack(">h", message.__version__) + buffer.getvalue()


def listed(told: Any) -> tuple[Partition, ...]:
    return tuple((each.topic, number) for each in told for number in each.partitions)


def of(kind: Any, owned: tuple[Partition, ...]) -> Any:
    names = dict.fromkeys(topic for topic, _ in owned)
    return tuple(
        kind(topic=name, partitions=tuple(number for topic, number in owned if topic == name)) for name in names
    )


@few
@given(st.builds(Subscription, topics, partitions, st.integers(0, 9), rack=st.sampled_from(("", "r", "é"))))
def test_a_subscription_is_what_kio_reads_and_reads_itself(said: Subscription) -> None:
    data = subscription_bytes(said)
    message = read(v3.ConsumerProtocolSubscription, data)
    assert (message.topics, listed(message.owned_partitions), message.generation_id, message.rack_id) == (
        said.topics,
        said.owned,
        said.generation,
        said.rack or None,
    )
    assert subscription_of(data, "i") == attrs.evolve(said, instance_id="i")


@few
@given(partitions)
def test_an_assignment_is_what_kio_reads_and_writes(given_to: tuple[Partition, ...]) -> None:
    message = read(assignments.ConsumerProtocolAssignment, assignment_bytes(given_to))
    assert listed(message.assigned_partitions) == given_to
    told = assignments.ConsumerProtocolAssignment(
        assigned_partitions=of(assignments.TopicPartition, given_to), user_data=None
    )
    assert assignment_of(written(told)) == given_to
    assert assignment_of(b"") == (), "who is given nothing may be told nothing"


def test_what_a_sticky_member_had_is_no_claim_to_own_it() -> None:
    data = subscription_bytes(SAID, in_user_data=True)
    message = read(v3.ConsumerProtocolSubscription, data)
    assert (message.owned_partitions, message.user_data) == ((), HAD + struct.pack(">i", 7))
    assert subscription_of(data) == SAID


def test_subscriptions_of_all_versions_are_read() -> None:
    names, seven = ("a", "b"), struct.pack(">i", 7)
    owned = {version: of(version.TopicPartition, OWNED) for version in (v1, v2, v3)}
    said = [
        v0.ConsumerProtocolSubscription(topics=names, user_data=HAD + seven),
        v1.ConsumerProtocolSubscription(topics=names, user_data=seven, owned_partitions=owned[v1]),
        v1.ConsumerProtocolSubscription(topics=names, user_data=HAD + seven, owned_partitions=owned[v1]),
        v2.ConsumerProtocolSubscription(topics=names, owned_partitions=owned[v2], generation_id=i32(7)),
        v3.ConsumerProtocolSubscription(topics=names, owned_partitions=owned[v3], generation_id=i32(7), rack_id="r"),
    ]
    assert [subscription_of(written(one)) for one in said] == [*[SAID] * 4, attrs.evolve(SAID, rack="r")]
    later = struct.pack(">h", 9) + written(said[-1])[2:] + b"more"
    assert subscription_of(later) == attrs.evolve(SAID, rack="r")
    without = v0.ConsumerProtocolSubscription(topics=names, user_data=HAD)
    assert subscription_of(written(without)) == Subscription(names, OWNED), "the first version of the user data"


@pytest.mark.parametrize("user_data", [None, b"", b"x", HAD[:-1], b"\xff" * 9])
def test_what_others_have_in_their_user_data_is_not_in_the_way(user_data: bytes | None) -> None:
    said = v0.ConsumerProtocolSubscription(topics=("a",), user_data=user_data)
    assert subscription_of(written(said)) == Subscription(("a",))


@few
@given(st.integers(0, 40), st.binary(max_size=12))
def test_what_cannot_be_read_is_refused_and_nothing_else(cut: int, more: bytes) -> None:
    data = subscription_bytes(SAID)[:cut] + more
    for reader in (subscription_of, assignment_of):
        with suppress(MalformedError):
            reader(data)
    with pytest.raises(MalformedError, match="bytes are said to follow"):
        subscription_of(subscription_bytes(SAID)[:-30])
    with pytest.raises(MalformedError, match="version of an assignment is -1"):
        assignment_of(b"\xff\xff\0\0\0\0")
