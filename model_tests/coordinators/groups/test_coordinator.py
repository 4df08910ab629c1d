"""What a coordinator of groups rules on requests of clients without a membership, and of members in a log."""

from __future__ import annotations

import struct
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.fields import LONGEST_STRING, encode_string
from tidegauge.impl.coordinators.groups.classic.messages import JoinGroup, JoinResponse, Moment
from tidegauge.impl.coordinators.groups.classic.state import ClassicState, Protocol
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup
from tidegauge.impl.coordinators.groups.coordinator import RETENTION_MS, GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.group_metadata import GroupMember, GroupMetadata
from tidegauge.impl.coordinators.groups.log_entries import (
    GroupWritten,
    OffsetWritten,
    TransactionEnded,
    log_entries,
)
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset
from tidegauge.impl.coordinators.groups.record_formats import (
    OffsetKey,
    OffsetValue,
    decode_key,
    decode_offset_value,
    group_tombstone,
    offset_record,
)
from tidegauge.impl.coordinators.groups.requests import OFFSETS_AT_ONCE, Commit, NewOffset, Ruling
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch, decode_records

NONE = ErrorCode.none
MANY = 100
A, B = OffsetKey("g", "t", 0), OffsetKey("g", "u", 1)
MEMBER = GroupMember("m", "i", "c", "/h", 1, 1, b"", b"")
STABLE = GroupMetadata("consumer", 4, "range", "m", 50, (MEMBER,))
EMPTY = STABLE._replace(members=(), generation=5)


class Told:
    """A coordinator, and the log that it is told of."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.coordinator = GroupCoordinator(limits or Limits())
        self.end = 0

    def take(self, ruling: Ruling, producer_id: int = -1) -> Ruling:
        """Have the records of a ruling in the log."""
        for key, value in ruling.records:
            known = decode_key(key)
            if isinstance(known, OffsetKey):
                new = None if value is None else decode_offset_value(value)
                self.coordinator.offsets.replay([OffsetWritten(self.end, producer_id, known, new)])
            elif known is not None:
                self.coordinator.offsets.replay([GroupWritten(self.end, known.group, None)])
                self.coordinator.appended(Ruling(ended=(known.group,)))
                self.coordinator.classic.ended([known.group])
            self.end += 1
        return ruling

    def commit(self, *keys: OffsetKey, at: int = 0, producer_id: int = -1, offset: int = 5) -> Ruling:
        """Commit the same offset for each."""
        commit = Commit("g", [NewOffset(key.topic, key.partition, offset) for key in keys])
        commit = attrs.evolve(commit, is_transactional=producer_id >= 0)
        return self.take(self.coordinator.commit(commit, at), producer_id)

    def group(self, metadata: GroupMetadata | None) -> None:
        self.coordinator.offsets.replay([GroupWritten(self.end, "g", metadata)])
        self.coordinator.take_over("g", Moment(0, 0))

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.coordinator.offsets.replay([TransactionEnded(self.end, producer_id, is_commit)])
        self.end += 1

    def fetched(self, key: OffsetKey) -> int | ErrorCode:
        found = self.coordinator.fetch(key, require_stable=True)
        if isinstance(found, CommittedOffset):
            return found.value.offset
        return -1 if found is None else found


# --- commits ---------------------------------------------------------------------------------------------------------


def test_a_commit_is_told_with_its_epoch_metadata_and_time() -> None:
    told = Told()
    commit = Commit("g", [NewOffset("t", 0, 5, 2, "so far")])
    ruling = told.take(told.coordinator.commit(commit, 9))
    assert (ruling.error, ruling.keys, ruling.refused) == (NONE, (A,), {})
    assert told.coordinator.fetch(A, require_stable=False) == CommittedOffset(0, OffsetValue(5, 2, "so far", 9))
    assert told.coordinator.fetch(B, require_stable=False) is None


@pytest.mark.parametrize("metadata", ["x" * 11, "\N{GRINNING FACE}" * 6])
def test_metadata_that_are_too_large_are_refused_alone(metadata: str) -> None:
    """In characters as Java counts them: one beyond the basic plane is two."""
    told = Told(Limits(metadata_max_bytes=10))
    new = [NewOffset("t", 0, 5, metadata=metadata), NewOffset("u", 1, 5, metadata="x" * 10)]
    ruling = told.coordinator.commit(Commit("g", new), 0)
    assert ruling.refused == {("t", 0): ErrorCode.offset_metadata_too_large}
    assert ruling.keys == (B,)
    assert len(ruling.records) == 1


def test_what_no_record_has_room_for_is_refused_whatever_the_settings_say() -> None:
    told = Told(Limits(metadata_max_bytes=1 << 20))
    new = NewOffset("t", 0, 5, metadata="ü" * (1 << 14))
    assert told.coordinator.commit(Commit("g", [new]), 0).refused == {("t", 0): ErrorCode.offset_metadata_too_large}
    assert told.coordinator.commit(Commit("g" * (1 << 15), [NewOffset("t", 0, 5)]), 0) == Ruling(
        ErrorCode.invalid_group_id
    )


def test_the_last_of_two_offsets_for_a_partition_in_one_commit_counts() -> None:
    told = Told()
    told.take(told.coordinator.commit(Commit("g", [NewOffset("t", 0, 5), NewOffset("t", 0, 6)]), 0))
    assert (told.fetched(A), told.end) == (6, 1)


def subscription(*topics: str) -> bytes:
    """What a consumer tells of itself."""
    return b"".join((struct.pack(">hi", 3, len(topics)), *map(encode_string, topics), b"\xff"))


NO_GROUP, SIMPLE, LEFT, JOINED = range(4)


def with_state(state: int) -> Told:
    """A coordinator whose group is not there, is simple, has lost its members, or has one."""
    told = Told()
    if state != NO_GROUP:
        told.commit(A)
    if state in (LEFT, JOINED):
        told.group(EMPTY if state == LEFT else STABLE)
    return told


@pytest.mark.parametrize(
    ("state", "who", "error"),
    [
        (NO_GROUP, {}, NONE),
        (NO_GROUP, {"member_id": "x"}, NONE),
        (NO_GROUP, {"generation": 0}, ErrorCode.group_id_not_found),
        (NO_GROUP, {"generation": 0, "version": 8}, ErrorCode.illegal_generation),
        (NO_GROUP, {"generation": 0, "is_transactional": True}, ErrorCode.illegal_generation),
        (SIMPLE, {}, NONE),
        (SIMPLE, {"member_id": "x"}, NONE),
        (SIMPLE, {"generation": 0}, ErrorCode.unknown_member_id),
        (SIMPLE, {"generation": 0, "member_id": "x", "is_transactional": True}, ErrorCode.unknown_member_id),
        (LEFT, {}, NONE),
        (LEFT, {"generation": 5, "member_id": "m"}, ErrorCode.unknown_member_id),
        (JOINED, {}, ErrorCode.unknown_member_id),
        (JOINED, {"is_transactional": True}, NONE),
        (JOINED, {"generation": 4, "member_id": "m"}, NONE),
        (JOINED, {"generation": 3, "member_id": "m"}, ErrorCode.illegal_generation),
        (JOINED, {"generation": 4, "member_id": "x"}, ErrorCode.unknown_member_id),
        (JOINED, {"generation": -1, "member_id": "m"}, ErrorCode.illegal_generation),
        (JOINED, {"generation": 4, "member_id": "m", "instance_id": "i"}, NONE),
        (JOINED, {"generation": 4, "member_id": "x", "instance_id": "i"}, ErrorCode.fenced_instance_id),
        (JOINED, {"generation": 4, "member_id": "m", "instance_id": "j"}, ErrorCode.unknown_member_id),
    ],
)
def test_who_may_commit(state: int, who: dict[str, Any], error: ErrorCode) -> None:
    commit = Commit("g", [NewOffset("t", 0, 8)], **who)
    ruling = with_state(state).coordinator.commit(commit, 0)
    assert ruling.error is error
    assert bool(ruling.records) == (error is NONE)


def test_a_group_and_metadata_may_be_as_long_as_a_record_has_room_for() -> None:
    told = Told(Limits(metadata_max_bytes=LONGEST_STRING))
    longest = NewOffset("t", 0, 5, metadata="x" * LONGEST_STRING)
    assert told.coordinator.commit(Commit("g" * LONGEST_STRING, [longest]), 0).refused == {}
    assert told.coordinator.commit(Commit("g" * (LONGEST_STRING + 1), [longest]), 0).error is ErrorCode.invalid_group_id


def test_a_large_commit_is_several_in_the_order_of_its_offsets() -> None:
    offsets = tuple(NewOffset("t", number, 5) for number in range(2 * OFFSETS_AT_ONCE + 1))
    parts = [part.offsets for part in Commit("g", offsets).parts()]
    assert [len(part) for part in parts] == [OFFSETS_AT_ONCE, OFFSETS_AT_ONCE, 1]
    assert tuple(one for part in parts for one in part) == offsets


# --- transactions ----------------------------------------------------------------------------------------------------


def test_offsets_of_a_transaction_count_together_when_it_commits_and_never_when_it_aborts() -> None:
    told = Told()
    told.commit(A, offset=1)
    told.commit(A, B, offset=2, producer_id=7)
    told.commit(B, offset=3, producer_id=8)
    assert told.coordinator.fetch(A, require_stable=False) == CommittedOffset(0, OffsetValue(1, commit_time=0))
    assert told.fetched(A) is ErrorCode.unstable_offset_commit
    told.end_transaction(7, is_commit=True)
    assert (told.fetched(A), told.fetched(B)) == (2, ErrorCode.unstable_offset_commit)
    told.end_transaction(8, is_commit=False)
    assert (told.fetched(A), told.fetched(B)) == (2, 2)
    assert not told.coordinator.offsets.pending


def test_all_that_a_group_has_committed_is_told_and_what_is_not_stable_is_said() -> None:
    told = Told()
    told.commit(A, B, offset=1)
    told.commit(B, offset=2, producer_id=7)
    plain = told.coordinator.fetch_all("g", require_stable=False)
    assert list(plain) == [("t", 0), ("u", 1)]
    stable = told.coordinator.fetch_all("g", require_stable=True)
    assert stable == {**plain, ("u", 1): ErrorCode.unstable_offset_commit}
    assert not told.coordinator.fetch_all("other", require_stable=True)


def test_a_group_is_there_while_its_offset_is_pending() -> None:
    told = Told()
    told.commit(A, producer_id=7)
    assert told.coordinator.is_known("g"), "its offset is pending"
    told.end_transaction(7, is_commit=False)
    assert not told.coordinator.is_known("g")


def test_a_tombstone_takes_along_all_that_a_transaction_had_for_it() -> None:
    told = Told()
    told.commit(A, producer_id=7)
    told.take(told.coordinator.delete_offsets("g", [("t", 0)]))
    assert not told.coordinator.offsets.pending
    told.end_transaction(7, is_commit=True)
    assert not told.coordinator.is_known("g")


# --- deletions -------------------------------------------------------------------------------------------------------


def test_a_group_goes_with_its_offsets_pending_ones_too() -> None:
    told = Told()
    told.commit(A)
    told.commit(B, producer_id=7)
    ruling = told.take(told.coordinator.delete_group("g"))
    assert ruling.records == (offset_record(A, None), offset_record(B, None), group_tombstone("g"))
    assert "g" not in told.coordinator.offsets
    told.end_transaction(7, is_commit=True)
    assert (told.fetched(B), told.coordinator.offsets.groups) == (-1, set())
    assert told.coordinator.delete_group("g").error is ErrorCode.group_id_not_found


def test_offsets_that_are_there_are_deleted_and_of_the_others_nothing_is_written() -> None:
    told = Told()
    told.commit(A)
    ruling = told.take(told.coordinator.delete_offsets("g", [("t", 0), ("t", 0), ("u", 1)]))
    assert (ruling.error, ruling.records) == (NONE, (offset_record(A, None),))
    assert told.coordinator.delete_offsets("g", []).error is ErrorCode.group_id_not_found


CONNECT = STABLE._replace(protocol_type="connect")


@pytest.mark.parametrize("metadata", [STABLE, CONNECT, EMPTY])
def test_a_group_with_members_is_not_deleted(metadata: GroupMetadata) -> None:
    told = Told()
    told.group(metadata)
    ruling = told.coordinator.delete_group("g")
    assert ruling == (Ruling(ended=("g",)) if metadata is EMPTY else Ruling(ErrorCode.non_empty_group))


@pytest.mark.parametrize("topic", ["t", "u"])
def test_offsets_that_no_consumer_of_the_group_subscribes_to_may_be_deleted(topic: str) -> None:
    told = Told()
    told.commit(A)
    told.group(STABLE._replace(members=(MEMBER._replace(subscription=subscription(topic)),)))
    ruling = told.coordinator.delete_offsets("g", [("t", 0)])
    refused = {("t", 0): ErrorCode.group_subscribed_to_topic}
    assert ruling == (Ruling(refused=refused) if topic == "t" else Ruling(offsets=((A, None),)))
    told.group(STABLE)
    assert told.coordinator.delete_offsets("g", [("t", 0)]) == Ruling(refused=refused), (
        "what it subscribes to is not known"
    )
    told.group(CONNECT)
    assert told.coordinator.delete_offsets("g", [("t", 0)]) == Ruling(ErrorCode.non_empty_group)


def test_an_offset_that_is_only_pending_may_be_deleted() -> None:
    told = Told()
    told.commit(A, producer_id=7)
    assert told.coordinator.delete_offsets("g", [("t", 0), ("u", 1)]).keys == (A,)


def test_nobody_joins_a_group_whose_tombstone_is_on_its_way() -> None:
    told = Told()
    told.group(EMPTY)
    coordinator, classic = told.coordinator, told.coordinator.classic
    join = JoinGroup("g", "consumer", (Protocol("range", b""),), instance_id="i")
    ruling = coordinator.delete_group("g")
    for end in (coordinator.failed, lambda ruling: coordinator.committed(ruling, 9)):
        coordinator.appended(ruling)
        (response,) = classic.join(join, "asked", Moment(0, 0)).responses
        assert response == ("asked", JoinResponse(ErrorCode.coordinator_not_available))
        assert coordinator.delete_group("g").error is ErrorCode.group_id_not_found
        assert coordinator.commit(Commit("g", []), 0).error is ErrorCode.coordinator_not_available
        end(ruling)
        assert coordinator.is_known("g") is (end == coordinator.failed)
    assert not classic.join(join, "again", Moment(0, 0)).responses, "it is in a group of its own"


def test_a_group_that_has_a_classic_one_in_its_place_is_no_idle_consumer_group() -> None:
    coordinator = GroupCoordinator(Limits())
    coordinator.consumers.groups["g"] = ConsumerGroup("g")
    assert coordinator.idle_consumers() == ["g"]
    coordinator.classic.join(JoinGroup("g", "consumer", (Protocol("range", b""),)), "asked", Moment(0, 0))
    assert coordinator.idle_consumers() == []


def test_the_offsets_of_a_topic_that_is_deleted_go_and_those_of_its_successor_stay() -> None:
    told = Told()
    told.commit(A, B)
    told.commit(OffsetKey("g", "t", 4), producer_id=7)
    assert told.coordinator.topic_deleted("t", told.end, 1).keys == (A,)
    assert told.coordinator.topic_deleted("t", told.end, MANY).keys == (A, OffsetKey("g", "t", 4))
    assert told.coordinator.topic_deleted("t", 1, MANY).keys == (A,)
    assert not told.coordinator.topic_deleted("w", told.end, MANY).records
    told.coordinator.in_flight[A] = 1
    assert told.coordinator.topic_deleted("t", told.end, MANY).keys == (OffsetKey("g", "t", 4),)


def test_what_is_replayed_is_what_the_records_say() -> None:
    ruling = Ruling(offsets=((A, OffsetValue(5, 1, "m", 2)), (B, None)), ended=("g", "h"))
    records = [Record(nth, 0, key, value) for nth, (key, value) in enumerate(ruling.records, 3)]
    batch = build_batch(records, producer=ProducerIdentity(9, 0), transactional=True)
    written = log_entries(BatchHeader.parse(batch), decode_records(batch), None)
    assert list(ruling.entries(3, 9)) == list(written)


# --- expiry ----------------------------------------------------------------------------------------------------------


def test_an_offset_expires_when_nobody_has_committed_it_for_the_retention() -> None:
    told = Told()
    told.commit(A, at=100)
    told.commit(B, at=200)
    assert not told.coordinator.expire(99 + RETENTION_MS, MANY).records
    assert told.take(told.coordinator.expire(100 + RETENTION_MS, MANY)).keys == (A,)
    assert told.coordinator.offsets.groups == {"g"}
    told.commit(A, at=100)
    assert told.coordinator.expire(2 * RETENTION_MS, 1).keys == (B,)


def test_a_client_may_ask_for_a_retention_of_its_own() -> None:
    told = Told()
    commit = Commit("g", [NewOffset("t", 0, 5)], retention_ms=10)
    told.take(told.coordinator.commit(commit, 100))
    assert not told.coordinator.expire(109, MANY).records
    assert told.coordinator.expire(110, MANY).keys == (A,)


def test_offsets_of_a_group_with_members_do_not_expire_and_then_not_before_the_group_was_empty_for_long() -> None:
    told = with_state(JOINED)
    assert not told.coordinator.expire(10 * RETENTION_MS, MANY).records
    told.group(EMPTY._replace(state_time=1_000))
    assert not told.coordinator.expire(999 + RETENTION_MS, MANY).records
    ruling = told.take(told.coordinator.expire(1_000 + RETENTION_MS, MANY))
    assert ruling.records == (offset_record(A, None),)
    ruling = told.take(told.coordinator.expire(1_000 + RETENTION_MS, MANY))
    assert ruling.records == (group_tombstone("g"),)
    assert not told.coordinator.offsets.groups


def test_what_was_committed_after_a_group_became_empty_stays_as_long_as_any_other() -> None:
    told = Told()
    told.group(EMPTY._replace(state_time=1_000))
    told.commit(A, at=RETENTION_MS)
    assert not told.coordinator.expire(1_000 + RETENTION_MS, MANY).records


def test_so_many_expire_at_once_and_groups_in_their_order() -> None:
    told = Told()
    for group in "cab":
        for partition in range(2):
            value = OffsetValue(5, commit_time=0)
            told.coordinator.offsets.replay([OffsetWritten(0, -1, OffsetKey(group, "t", partition), value)])
    expired = {most: told.coordinator.expire(RETENTION_MS, most).keys for most in range(8)}
    assert {most: len(keys) for most, keys in expired.items()} == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 6}
    assert [key.group for key in expired[3]] == ["a", "a", "b"]


def test_empty_groups_end_so_many_at_once_and_none_to_which_somebody_is_about_to_come() -> None:
    told = Told()
    for group in "cab":
        told.coordinator.offsets.replay([GroupWritten(0, group, EMPTY)])
        told.coordinator.take_over(group, Moment(0, 0))
    ended = {most: "".join(told.coordinator.expire(0, most).ended) for most in range(1, 5)}
    assert ended == {1: "a", 2: "ab", 3: "abc", 4: "abc"}
    pending = told.coordinator.classic.get("b")
    assert pending is not None
    pending.pending["new"] = 1_000
    assert told.coordinator.expire(0, MANY).ended == ("a", "c")
    pending.pending.clear()
    pending.state = ClassicState.PREPARING_REBALANCE
    assert told.coordinator.expire(0, MANY).ended == ("a", "c")


def test_a_group_of_which_only_kafka_has_written_that_its_first_member_comes_is_known_and_ends() -> None:
    told = Told()
    told.group(EMPTY._replace(protocol_type="", generation=0, protocol=None, leader=None))
    assert told.coordinator.classic.get("g") is None
    assert told.coordinator.is_known("g")
    told.coordinator.consumers.groups["g"] = ConsumerGroup("g")
    assert not told.coordinator.expire(0, MANY).ended, "it is about to be a consumer group"
    del told.coordinator.consumers.groups["g"]
    told.take(told.coordinator.expire(0, MANY))
    assert not told.coordinator.is_known("g")
    assert not told.coordinator.expire(0, MANY).records


def test_an_offset_of_a_group_that_has_lost_its_members_is_as_old_as_that_and_of_a_simple_one_as_its_commit() -> None:
    told = Told()
    told.commit(A, at=0)
    told.group(STABLE._replace(protocol_type="connect", state_time=1_000))
    group = told.coordinator.classic.get("g")
    assert group is not None
    for state, protocol_type, is_old in (
        (ClassicState.EMPTY, "connect", False),
        (ClassicState.EMPTY, None, True),
        (ClassicState.PREPARING_REBALANCE, "connect", False),
    ):
        group.state, group.protocol_type = state, protocol_type
        assert told.coordinator.is_expired(A, RETENTION_MS) is is_old, (state, protocol_type)
    group.state, group.protocol_type, group.state_time = ClassicState.EMPTY, "connect", 1_000
    assert not told.coordinator.is_expired(A, 999 + RETENTION_MS)
    assert told.coordinator.is_expired(A, 1_000 + RETENTION_MS)


def test_what_is_on_its_way_by_two_commits_is_until_both_have_landed() -> None:
    told = Told()
    told.commit(A)
    ruling = told.coordinator.commit(Commit("g", [NewOffset("t", 0, 6)]), 0)
    for _ in range(2):
        told.coordinator.appended(ruling)
    told.coordinator.committed(ruling, 1)
    assert told.fetched(A) is ErrorCode.unstable_offset_commit
    told.coordinator.failed(ruling)
    assert told.fetched(A) == 6
    assert not told.coordinator.in_flight


def test_an_offset_does_not_expire_beside_another_one_on_its_way() -> None:
    told = Told()
    told.commit(A, B)
    told.commit(A, producer_id=7)
    told.coordinator.in_flight[B] = 1
    assert not told.coordinator.expire(RETENTION_MS, MANY).records
    told.coordinator.in_flight[B] = 0
    told.end_transaction(7, is_commit=False)
    assert set(told.coordinator.expire(RETENTION_MS, MANY).keys) == {A, B}


def test_what_a_consumer_of_a_stable_group_subscribes_to_is_kept_and_the_rest_expires() -> None:
    told = Told()
    told.commit(A, B)
    told.group(STABLE._replace(members=(MEMBER._replace(subscription=subscription("t")),)))
    group = told.coordinator.classic.get("g")
    assert group is not None
    group.state = ClassicState.PREPARING_REBALANCE
    assert not told.coordinator.expire(2 * RETENTION_MS, MANY).records, "the members of the next generation may need it"
    group.state = ClassicState.STABLE
    assert told.coordinator.expire(2 * RETENTION_MS, MANY) == Ruling(offsets=((B, None),))


def test_a_group_of_which_the_log_has_a_record_alone_is_there_until_its_tombstone() -> None:
    coordinator = GroupCoordinator(Limits())
    coordinator.offsets.replay([GroupWritten(0, "g", GroupMetadata("connect", 1, None, None, 0, ()))])
    assert "g" in coordinator.offsets
    assert coordinator.is_known("g")
    assert coordinator.groups == {"g"}
    coordinator.offsets.replay([GroupWritten(1, "g", None)])
    assert "g" not in coordinator.offsets
    assert not coordinator.is_known("g")
