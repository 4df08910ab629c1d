"""The records of consumer groups (KIP-848) are Kafka's bytes, and amount to the group that they were written for."""

from __future__ import annotations

import attrs
import pytest

from tidegauge.impl.coordinators.groups.consumer.assignors import assign_uniform
from tidegauge.impl.coordinators.groups.consumer.records import changes, replayed
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, ConsumerMember, Resolved, Topic
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey, GroupRecord, decode_key
from tidegauge.impl.records.batches import RecordError

TOPIC = "00000000-0000-0000-0000-000000000001"
OTHER = "00000000-0000-0000-0000-000000000002"
ONE = ConsumerMember(
    "m1",
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    topics=frozenset({"t", "u"}),
    expression="x.*",
    rebalance_timeout_ms=300_000,
    assignor="range",
    epoch=4,
    previous_epoch=3,
    assigned={(TOPIC, 0): 3, (OTHER, 2): 4},
    revoking={(TOPIC, 1): 3},
)
TWO = ConsumerMember("m2", topics=frozenset({"t"}), epoch=5, previous_epoch=0, is_waiting=True)
GROUP = ConsumerGroup(
    "g",
    epoch=5,
    metadata_hash=-7,
    target_epoch=5,
    target_ms=1_800_000_000_000,
    target={"m1": frozenset({(TOPIC, 0), (OTHER, 2)}), "m2": frozenset({(TOPIC, 1)})},
    members={"m1": ONE, "m2": TWO},
    resolved={"x.*": Resolved(frozenset({"xy", "x"}), 7, 9)},
)


def load(records: list[GroupRecord]) -> ConsumerGroup | None:
    group = None
    for record in records:
        key = decode_key(record.key)
        assert isinstance(key, ConsumerKey)
        group = replayed(group, key, record.value)
    return group


def shown(group: ConsumerGroup | None) -> tuple[object, ...]:
    assert group is not None
    members = {one.member_id: (one.subscription, one.current) for one in group.members.values()}
    target = group.target_epoch, group.target, group.target_ms
    return group.epoch, group.metadata_hash, target, members, group.resolved


def test_a_group_is_what_its_records_say() -> None:
    assert shown(load(list(changes(None, GROUP, "g")))) == shown(GROUP)


def test_a_change_is_written_by_the_records_that_it_needs_and_no_others() -> None:
    moved = attrs.evolve(ONE, epoch=5, previous_epoch=4, assigned={(TOPIC, 0): 3}, revoking={})
    after = GROUP.with_member(moved)
    records = list(changes(GROUP, after, "g"))
    assert [decode_key(one.key) for one in records] == [ConsumerKey(8, "g", "m1")]
    assert shown(load([*changes(None, GROUP, "g"), *records])) == shown(after)
    assert not list(changes(GROUP, attrs.evolve(GROUP), "g"))


@pytest.mark.parametrize(
    ("target_ms", "value"),
    [
        (1_800_000_000_000, "0000" + "00000005" + "01" + "00" + "08" + "000001a3185c5000"),
        (0, "0000" + "00000005" + "00"),
    ],
)
def test_when_a_target_was_made_is_in_a_tag_of_its_epochs_record(target_ms: int, value: str) -> None:
    """Version, epoch, and one tag, 0, of eight bytes, which is left out if it says nothing (KIP-1263)."""
    records = list(changes(attrs.evolve(GROUP, target_epoch=4), attrs.evolve(GROUP, target_ms=target_ms), "g"))
    assert [(decode_key(one.key), one.value) for one in records] == [(ConsumerKey(6, "g"), bytes.fromhex(value))]
    assert shown(load([*changes(None, GROUP, "g"), *records])) == shown(attrs.evolve(GROUP, target_ms=target_ms))


def test_a_member_that_is_gone_leaves_tombstones_and_so_does_a_group() -> None:
    before, after = list(changes(None, GROUP, "g")), GROUP.without("m1")
    gone = list(changes(GROUP, after, "g"))
    assert {one.value for one in gone} == {None}
    assert shown(load([*before, *gone])) == shown(after)
    assert load([*before, *changes(GROUP, None, "g")]) is None


def test_a_cleaned_log_amounts_to_the_same_group() -> None:
    """Of the records of one key the last is left, wherever it is (KAFKA-19862)."""
    later = GROUP.with_member(attrs.evolve(ONE, epoch=6, assigned={}, revoking={}))
    later = later.with_member(attrs.evolve(TWO, epoch=6, assigned={(TOPIC, 0): 6}))
    records = [*changes(None, GROUP, "g"), *changes(GROUP, later, "g")]
    last = {record.key: record for record in records}
    cleaned = [record for record in records if last[record.key] is record]
    assert len(cleaned) < len(records)
    assert shown(load(cleaned)) == shown(later)


def test_bytes_are_kafkas() -> None:
    records = {
        key.kind: one for one in changes(None, GROUP, "g") if isinstance(key := decode_key(one.key), ConsumerKey)
    }
    assert records[3].key == bytes.fromhex("0003 0001 67")
    assert records[3].value == bytes.fromhex("0000 00000005 01 00 08 fffffffffffffff9")
    assert records[6].value == bytes.fromhex("0000 00000005 01 00 08 000001a3185c5000")
    assert records[8].key == bytes.fromhex("0008 0001 67 0002 6d32")
    assert records[8].value == bytes.fromhex("0000 00000005 00000000 03 01 01 00")
    assert records[16].key == bytes.fromhex("0010 0001 67 0003") + b"x.*"
    assert records[16].value == bytes.fromhex("0000 03 02 78 03 7879 0000000000000007 0000000000000009 00")
    topic = bytes.fromhex("00000000000000000000000000000001")
    assert records[7].value == b"\0\0\2" + topic + bytes.fromhex("02 00000001 00 00")


def test_who_subscribes_to_no_expression_has_an_empty_one_in_its_record() -> None:
    records = {decode_key(one.key): one.value for one in changes(None, GROUP, "g")}
    value = records[ConsumerKey(5, "g", "m2")]
    assert value == bytes.fromhex("0000" + "00 00 01 01" + "02 0274" + "01" + "ffffffff" + "00" + "00")


def test_what_no_coordinator_has_written_is_refused() -> None:
    two_epochs_of_one_partition = bytes.fromhex("02" + 16 * "00" + "02 00000001" + "01 00 09 03 00000004 00000005")
    wrong = bytes.fromhex("0000 00000005 00000000 01") + two_epochs_of_one_partition
    for value in (b"", b"\0\1", b"\0\0\0", b"\0\0\0\0\0\1", wrong):
        with pytest.raises(RecordError):
            replayed(GROUP, ConsumerKey(8, "g", "m1"), value)


def test_who_keeps_what_it_has_keeps_the_same_set_so_that_only_what_moves_is_looked_at() -> None:
    topics = {"t": Topic(TOPIC, 6)}
    members = {name: ConsumerMember(name, topics=frozenset({"t"})) for name in ("m1", "m2")}
    before = assign_uniform(ConsumerGroup("g", members=members), topics)
    group = ConsumerGroup("g", members=members, target=before)
    assert all(has is before[name] for name, has in assign_uniform(group, topics).items())
    after = assign_uniform(group.without("m2"), {"t": Topic(TOPIC, 3)})
    assert after == {"m1": before["m1"]}
    assert after["m1"] is before["m1"]
