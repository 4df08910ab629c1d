"""A group that goes over at its coordinator: what is written, what is undone, and who is too late or cannot be read."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.fields import INT32, encode_string
from tidegauge.impl.coordinators.groups.classic.messages import (
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    Leaving,
    Left,
    Moment,
    Outcome,
    SyncGroup,
)
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicMember, ClassicState, Protocol
from tidegauge.impl.coordinators.groups.classic.subscriptions import MOST_TOPICS
from tidegauge.impl.coordinators.groups.classic.turn import ClassicLimits
from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerLimits
from tidegauge.impl.coordinators.groups.consumer.records import changes, replayed
from tidegauge.impl.coordinators.groups.consumer.state import (
    ClassicSide,
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerMember,
    HeartbeatResponse,
    Topic,
)
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.migration.coordinator import Decision
from tidegauge.impl.coordinators.groups.migration.embedded import (
    MOST_PLACES,
    Subscription,
    encode_assignment,
    read_assignment,
    read_subscription,
    version_of,
    without_owned,
)
from tidegauge.impl.coordinators.groups.migration.policy import Policy
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey, decode_key
from tidegauge.impl.coordinators.groups.requests import Commit, NewOffset
from tidegauge.impl.records.batches import InvalidRecordError, RecordError
from tidegauge.model_tests.harness.cores.known_topics import Known
from tidegauge.model_tests.harness.cores.migration_abstraction import subscription

NONE = ErrorCode.none
GROUP = "g"
TOPIC = "00000000-0000-0000-0000-000000000001"
KNOWN = Known({"t": Topic(TOPIC, 2)})
SESSION_MS = 10_000
REBALANCE_MS = 20_000


def at(ms: int = 0) -> Moment:
    return Moment(ms, 1_000_000 + ms)


class Coordinator:
    """A coordinator whose log takes everything, unless it is told not to."""

    def __init__(self, **limits: Any) -> None:
        self.core = GroupCoordinator(attrs.evolve(Limits(classic=ClassicLimits(initial_delay_ms=0)), **limits))
        self.told: dict[object, Any] = {}
        self.waiting: list[Decision] = []
        """What is decided and neither written nor given up."""
        self.is_writing = True

    def carry_out(self, outcome: Outcome) -> None:
        self.told.update(outcome.responses)
        for write in outcome.writes:
            self.carry_out(self.core.group_written(write, 0, at()))

    def decided(self, made: Any) -> Any:
        """The decision, which is in the log at once; or the refusal."""
        if isinstance(made, Decision):
            self.carry_out(made.outcome)
            self.waiting.append(made)
            if self.is_writing:
                self.write()
        return made

    def write(self) -> None:
        for made in self.waiting:
            self.core.consumers_written(made.write, 0)
        self.waiting.clear()

    def fail(self) -> None:
        made, *_ = self.waiting  # what was decided since is given up with it
        self.waiting.clear()
        self.carry_out(self.core.consumers_failed(made.write, at()))

    def beat(self, member_id: str = "c", epoch: int = 0, ms: int = 0, **fields: Any) -> Any:
        asked = ConsumerHeartbeat(
            GROUP,
            member_id,
            epoch,
            rebalance_timeout_ms=REBALANCE_MS,
            topics=("t",),
            owned=fields.pop("owned", frozenset()),
            **fields,
        )
        return self.decided(self.core.migration.heartbeat(asked, KNOWN, SESSION_MS, at(ms)))

    def join(self, member_id: str, *owned: int, ms: int = 0, **fields: Any) -> Any:
        """A JoinGroup; the token of one that waits, in a classic group."""
        metadata = fields.pop("metadata", subscription(["t"], [("t", one) for one in owned], 0))
        asked = JoinGroup(
            GROUP,
            "consumer",
            (Protocol("p", metadata),),
            member_id,
            client_id=member_id,
            rebalance_timeout_ms=REBALANCE_MS,
            session_timeout_ms=SESSION_MS,
            **fields,
        )
        if self.core.migration.mixed_group(GROUP) is not None:
            return self.decided(self.core.migration.join(asked, KNOWN, at(ms)))
        self.carry_out(self.core.classic.join(asked, token := object(), at(ms)))
        return token

    def stable(self, **fields: Any) -> None:
        """One classic member, `a-`, has everything."""
        metadata = fields.pop("metadata", subscription(["t"], [], 0))
        asked = JoinGroup(
            GROUP,
            "consumer",
            (Protocol("p", metadata),),
            client_id="a",
            rebalance_timeout_ms=REBALANCE_MS,
            session_timeout_ms=SESSION_MS,
            version=3,
            **fields,
        )
        self.carry_out(self.core.classic.join(asked, token := object(), at()))
        while self.core.classic.groups[GROUP].state is ClassicState.PREPARING_REBALANCE:
            for outcome in self.core.classic.time_passed(at()):
                self.carry_out(outcome)
        told = self.told[token]
        given = ((told.member_id, everything()),)
        self.carry_out(self.core.classic.sync(SyncGroup(GROUP, 1, told.member_id, assignments=given), object(), at()))
        assert self.core.classic.groups[GROUP].state is ClassicState.STABLE

    @property
    def group(self) -> ConsumerGroup:
        return self.core.consumers.groups[GROUP]


def everything() -> bytes:
    return encode_assignment([("t", 0), ("t", 1)], 1)


# --- what is written -------------------------------------------------------------------------------------------------


def test_a_group_that_goes_over_is_one_batch_each_way() -> None:
    one = Coordinator()
    one.stable()
    assert one.core.offsets.metadata.keys() == {GROUP}
    made = one.beat()
    assert one.core.offsets.metadata == {}
    assert len(one.core.classic.deadlines) == 0, "the classic group is waited for no more"
    kinds = {key.kind for key in map(decode_key, (it.key for it in made.write.records)) if isinstance(key, ConsumerKey)}
    assert made.write.records[0].value is None, "the classic group's tombstone comes first"
    assert kinds == {3, 5, 6, 7, 8}
    assert (one.group.epoch, one.group.members["a-"].epoch) == (2, 1)
    back = one.beat(epoch=-1)
    assert [record.value is None for record in back.write.records] == [True] * (len(back.write.records) - 1) + [False]
    assert one.core.consumers.groups == one.core.consumers.committed == {}
    written = one.core.offsets.metadata[GROUP]
    assert (written.leader, written.generation) == (None, 2)
    assert read_assignment(written.members[0].assignment) == {("t", 0), ("t", 1)}


def test_a_classic_member_is_in_its_record_as_kafka_writes_it() -> None:
    side = ClassicSide(9, (Protocol("p", b"\1\2"), Protocol("q", b"")))
    group = ConsumerGroup(GROUP, members={"m": ConsumerMember("m", classic=side)})
    records = {decode_key(one.key): one.value for one in changes(None, group, GROUP)}
    value = records[ConsumerKey(5, GROUP, "m")]
    assert value is not None
    assert value.endswith(bytes.fromhex("01 00 11 01 00000009 03 0270 03 0102 00 0271 01 00 00"))
    found = replayed(None, ConsumerKey(5, GROUP, "m"), value)
    assert found is not None
    assert found.members["m"].classic == side


def test_a_classic_record_takes_away_the_consumer_group_that_lay_beneath_and_none_that_came_later() -> None:
    one = Coordinator()
    one.stable()
    (late,) = one.core.classic.leave(LeaveGroup(GROUP, (Leaving("a-"),)), object(), at()).writes
    assert one.core.migration.beneath(GROUP) is None
    one.beat()
    one.beat(epoch=-1)
    one.join("", version=3, unique="x")
    one.carry_out(one.core.group_written(late, 0, at()))
    beneath = one.core.migration.beneath(GROUP)
    assert beneath is one.group, "the next record has its tombstones"
    one.carry_out(one.core.group_written(late, 0, at(), beneath))
    assert one.core.migration.beneath(GROUP) is None
    assert one.core.consumers.committed == {}


def test_a_group_that_is_about_to_go_over_again_is_not_told_of_as_what_lay_beneath_it() -> None:
    one = Coordinator()
    one.beat()
    one.beat(epoch=-1)
    one.join("", version=3, unique="x")
    beneath = one.core.migration.beneath(GROUP)
    assert beneath is not None
    assert one.core.consumers.committed == {GROUP: beneath}
    again = one.core.consumers.groups[GROUP] = attrs.evolve(beneath, epoch=beneath.epoch + 1)
    one.core.migration.landed(beneath)
    assert one.core.consumers.committed == {}, "the tombstones of what lay beneath are in the log"
    assert one.core.consumers.get(GROUP) is again, "what it becomes has yet to be written"


def test_a_group_that_has_gone_back_and_that_nobody_has_led_rebalances_when_it_is_loaded() -> None:
    """What the last member of KIP-848 had is nobody's."""
    one, other = Coordinator(), Coordinator()
    one.stable()
    one.beat()
    one.beat(epoch=-1)
    other.core.classic.load(GROUP, one.core.offsets.metadata[GROUP], at())
    assert other.core.classic.groups[GROUP].state is ClassicState.PREPARING_REBALANCE
    assert other.core.classic.heartbeat(Heartbeat(GROUP, 2, "a-"), at()) is ErrorCode.rebalance_in_progress


# --- who is too late -------------------------------------------------------------------------------------------------


def test_a_classic_member_that_does_not_join_again_in_time_is_out() -> None:
    one = Coordinator(policy=Policy.UPGRADE)
    one.stable()
    one.beat()
    for ms in range(0, REBALANCE_MS, 5_000):
        assert one.core.migration.beat(Heartbeat(GROUP, 1, "a-"), at(ms)) is ErrorCode.rebalance_in_progress
        one.beat(epoch=one.group.members["c"].epoch, ms=ms)
    assert [write.after.members.keys() for write in one.core.consumers.time_passed(REBALANCE_MS) if write.after] == [
        {"c"}
    ]


def test_a_classic_member_that_does_not_ask_for_its_assignment_in_time_is_out() -> None:
    one = Coordinator()
    one.beat()
    assert one.join("b").write.response.member_id == "b"
    for ms in range(0, REBALANCE_MS, 5_000):
        one.beat(epoch=one.group.members["c"].epoch, owned=frozenset({(TOPIC, 0)}), ms=ms)
        one.core.consumers.watch(one.group.members["b"], GROUP, SESSION_MS, ms)
    assert [write.after.members.keys() for write in one.core.consumers.time_passed(REBALANCE_MS) if write.after] == [
        {"c"}
    ]


def test_a_classic_member_that_has_its_assignment_stays() -> None:
    one = Coordinator()
    one.beat()
    one.join("b")
    made = one.core.migration.sync(SyncGroup(GROUP, one.group.members["b"].epoch, "b"), KNOWN.topics, at())
    assert not isinstance(made, ErrorCode)
    assert read_assignment(made[1].assignment) == frozenset(), "the other member has yet to give back"
    for member in one.group.members.values():
        one.core.consumers.watch(member, GROUP, SESSION_MS, REBALANCE_MS)
    assert [*one.core.consumers.time_passed(REBALANCE_MS)] == []


# --- who goes over ---------------------------------------------------------------------------------------------------


def test_what_a_consumer_says_is_read_up_to_so_many_partitions() -> None:
    assert read_assignment(b"") == frozenset()
    assert read_subscription(subscription(["t"], [("t", 1), ("u", 2)], 0)) == Subscription(
        2, frozenset({"t"}), frozenset({("t", 1), ("u", 2)})
    )
    for wrong in (b"", b"\0\1\0", b"\0\1\x7f\xff\xff\xff", b"\0\1" + bytes(8) + b"\0\0\0\1\0\1t\x7f\xff\xff\xff"):
        with pytest.raises(RecordError):
            read_subscription(wrong)


def test_a_group_whose_members_cannot_be_read_stays_a_classic_one() -> None:
    one = Coordinator()
    one.stable(metadata=b"m")
    refused = one.beat()
    assert isinstance(refused, HeartbeatResponse)
    assert refused.error is ErrorCode.group_id_not_found
    assert one.core.classic.groups[GROUP].state is ClassicState.STABLE
    assert one.core.consumers.groups == {}


def test_a_group_that_is_too_large_for_the_other_protocol_stays_what_it_is() -> None:
    one = Coordinator(consumer=ConsumerLimits(max_size=0))
    one.stable()
    assert one.beat().error is ErrorCode.group_id_not_found
    two = Coordinator(classic=ClassicLimits(max_size=1, initial_delay_ms=0))
    two.beat()
    two.join("a")
    two.join("b")
    two.beat(epoch=-1)
    assert {*two.group.members} == {"a", "b"}


def test_a_member_of_a_consumer_group_that_has_gone_back_without_it_is_told_that_it_is_unknown() -> None:
    one = Coordinator()
    one.stable()
    one.beat()
    one.beat(epoch=-1)
    assert one.beat(epoch=2).error is ErrorCode.unknown_member_id
    assert one.beat(epoch=0).write.response.error is NONE


def test_a_static_member_that_comes_back_with_another_subscription_begins_a_generation_as_it_goes_back() -> None:
    one = Coordinator()
    one.beat(instance_id="i")
    epoch = one.group.epoch
    back = one.join("", instance_id="i", unique="x", metadata=subscription(["u"], [], 0))
    assert back.write.classic.generation == epoch + 1


def test_a_static_member_comes_back_by_the_other_protocol_in_its_place() -> None:
    one = Coordinator()
    one.stable(instance_id="i")
    had = {(TOPIC, 0), (TOPIC, 1)}
    made = one.beat(instance_id="i")
    assert made.write.response.assignment == had
    assert {*one.group.members} == {"c"}
    back = one.join("", instance_id="i", unique="x")
    assert back.write.classic is not None, "nobody of KIP-848 is left"
    (member,) = back.write.classic.members
    assert member.member_id == "i-x"
    assert read_assignment(member.assignment) == {("t", 0), ("t", 1)}


def test_who_has_lost_the_place_of_a_static_member_is_fenced_and_who_never_had_it_is_unknown() -> None:
    """In a consumer group, whatever protocol the next process speaks."""
    one = Coordinator()
    one.beat("other")
    former = one.join("", instance_id="i", unique="x").write.response.member_id
    now = one.beat("next", instance_id="i").write.response
    assert {*one.group.members} == {"other", "next"}
    assert one.join(former, instance_id="i").error is ErrorCode.fenced_instance_id
    epoch = now.epoch
    assert one.core.migration.beat(Heartbeat(GROUP, epoch, former, "i"), at()) is ErrorCode.fenced_instance_id
    asked = SyncGroup(GROUP, epoch, former, "i")
    assert one.core.migration.sync(asked, KNOWN.topics, at()) is ErrorCode.fenced_instance_id
    assert one.join("i-y", instance_id="j").error is ErrorCode.unknown_member_id
    assert one.beat("third", instance_id="i").error is ErrorCode.unreleased_instance_id
    assert one.beat("next", epoch=-2, instance_id="i").write.response.error is NONE
    assert one.beat("third", instance_id="i").write.response.assignment == now.assignment


def test_a_member_of_kip_848_whose_place_a_classic_group_has_given_away_is_fenced() -> None:
    """It would take the place back, if it were told that it is unknown."""
    one = Coordinator()
    one.beat("c", instance_id="i")
    assert one.join("", instance_id="i", unique="x").write.classic is not None
    assert one.beat("c", epoch=2, instance_id="i").error is ErrorCode.fenced_instance_id
    assert one.beat("c", epoch=-2, instance_id="i").error is ErrorCode.fenced_instance_id
    assert one.beat("d", epoch=2).error is ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", range(4))
def test_a_group_that_goes_back_forgets_what_its_members_have_said_that_they_own(version: int) -> None:
    says = subscription(["t"], [("t", 1)] if version else [], 7, 5)
    metadata = bytes([0, version]) + (says[2:] if version > 1 else says[2:-4] if version else says[2:-8])
    metadata += encode_string("rack") if version > 2 else b""
    bare = without_owned(metadata)
    assert read_subscription(bare) == Subscription(version, frozenset({"t"}))
    assert bare.endswith((b"", b"", INT32.pack(-1), INT32.pack(-1) + encode_string("rack"))[version])
    assert without_owned(bare) == bare


def test_what_is_no_subscription_stays_as_it_is() -> None:
    assert [*map(without_owned, (b"", b"\0", b"\0\1\0\0\0\7"))] == [b"", b"\0", b"\0\1\0\0\0\7"]


def test_a_transaction_commits_offsets_of_a_consumer_group_by_any_version() -> None:
    one = Coordinator()
    one.beat()
    epoch = one.group.members["c"].epoch
    asked = Commit(GROUP, (NewOffset("t", 0, 3),), epoch, "c", version=3, topic_ids={"t": TOPIC})
    assert one.core.commit(asked, 0).error is ErrorCode.unsupported_version
    assert one.core.commit(attrs.evolve(asked, version=9), 0).error is NONE
    assert one.core.commit(attrs.evolve(asked, is_transactional=True), 0).error is NONE
    assert one.core.commit(attrs.evolve(asked, member_id="x"), 0).error is ErrorCode.unknown_member_id
    one.beat(epoch=-1)
    anybodys = Commit(GROUP, (NewOffset("t", 0, 3),), version=3)
    assert one.core.commit(anybodys, 0).error is NONE, "the group is empty"


def test_a_classic_member_commits_in_its_generation_by_old_versions_too() -> None:
    one = Coordinator()
    one.beat()
    one.join("b")
    new = (NewOffset("t", 0, 3),)

    def commit(generation: int, member_id: str = "b") -> ErrorCode:
        asked = Commit(GROUP, new, generation, member_id, version=3, topic_ids={"t": TOPIC})
        return one.core.commit(asked, 0).error

    epoch = one.group.members["b"].epoch
    assert commit(epoch) is NONE
    assert commit(epoch - 1) is commit(epoch + 1) is ErrorCode.illegal_generation
    assert commit(one.group.members["c"].epoch, "c") is ErrorCode.unsupported_version


def test_an_operator_removes_a_static_member_by_its_instance_id_and_a_classic_one_leaves_by_its_own() -> None:
    one = Coordinator()
    one.beat(instance_id="i")
    one.join("b")
    left, decision = one.core.migration.leave(GROUP, Leaving("b"), KNOWN.topics, at())
    assert left.error is NONE
    one.decided(decision)
    assert one.core.migration.leave(GROUP, Leaving("c"), KNOWN.topics, at())[0].error is ErrorCode.unknown_member_id
    left, decision = one.core.migration.leave(GROUP, Leaving("", "j"), KNOWN.topics, at())
    assert (left.error, decision) == (ErrorCode.unknown_member_id, None)
    left, decision = one.core.migration.leave(GROUP, Leaving("", "i"), KNOWN.topics, at())
    assert (left, decision is None) == (Left("", "i", NONE), False)
    one.decided(decision)
    assert one.group.members == {}


def test_who_leaves_by_its_member_id_is_who_has_its_instance_id() -> None:
    one = Coordinator()
    one.beat()
    member_id = one.join("", instance_id="i", unique="x").write.response.member_id
    for leaving, error in (
        (Leaving("c", "i"), ErrorCode.fenced_instance_id),
        (Leaving(""), ErrorCode.unknown_member_id),
        (Leaving(member_id, "i"), NONE),
    ):
        assert one.core.migration.leave(GROUP, leaving, KNOWN.topics, at())[0].error is error


# --- what classic members are told in a consumer group ---------------------------------------------------------------


def test_a_classic_member_is_told_its_id_its_generation_and_its_best_protocol() -> None:
    one = Coordinator()
    one.beat()
    required = one.join("", version=4, unique="x")
    assert (required.error, required.member_id) == (ErrorCode.member_id_required, "-x")
    told = one.join("", version=3, unique="y").write.response
    protocols = (Protocol("p", b""), Protocol("q", b""))
    asked = JoinGroup(GROUP, "consumer", protocols, "said")
    assert one.core.migration.join_response(asked, told) == JoinResponse(
        member_id="-y", generation=told.epoch, protocol_type="consumer", protocol="p"
    )
    assert one.core.migration.join_response(asked, attrs.evolve(told, member_id=None)).member_id == "said"


def test_a_classic_member_asks_for_its_assignment_by_a_protocol_that_it_has() -> None:
    one = Coordinator()
    one.beat()
    one.join("b")
    epoch = one.group.members["b"].epoch

    def told(**says: Any) -> Any:
        made = one.core.migration.sync(SyncGroup(GROUP, epoch, "b", **says), KNOWN.topics, at())
        return made if isinstance(made, ErrorCode) else (made[1].protocol_type, made[1].protocol)

    assert told() == told(protocol="p") == told(protocol_type="consumer") == ("consumer", "p")
    assert told(protocol="q") is told(protocol_type="connect") is ErrorCode.inconsistent_group_protocol


def test_one_whose_protocols_the_other_classic_members_have_not_is_refused() -> None:
    one = Coordinator()
    one.beat()
    one.join("b")
    says = Protocol("q", subscription(["t"], [], 0))
    asked = JoinGroup(GROUP, "consumer", (says,), "d", session_timeout_ms=SESSION_MS)
    for wrong in (asked, attrs.evolve(asked, protocol_type="connect", protocols=(consumers("p"),))):
        made = one.core.migration.join(wrong, KNOWN, at())
        assert (made.error, made.member_id) == (ErrorCode.inconsistent_group_protocol, "d")  # type: ignore[union-attr]
    both = attrs.evolve(asked, protocols=(says, consumers("p")))
    assert isinstance(one.core.migration.join(both, KNOWN, at()), Decision)


def consumers(name: str) -> Protocol:
    """A protocol with what a consumer says."""
    return Protocol(name, subscription(["t"], [], 0))


def test_a_join_that_no_group_takes_is_refused_in_a_consumer_group_too() -> None:
    one = Coordinator()
    one.beat()
    asked = JoinGroup(GROUP, "consumer", (consumers("p"),), "d", session_timeout_ms=1)
    refused = one.core.migration.join(asked, KNOWN, at())
    assert isinstance(refused, JoinResponse)
    assert refused.error is ErrorCode.invalid_session_timeout


def test_a_classic_member_whose_heartbeats_come_stays_and_is_told_when_there_is_more_for_it() -> None:
    one = Coordinator(policy=Policy.UPGRADE)
    one.beat()
    one.join("b")
    epoch = one.group.members["b"].epoch
    one.core.migration.sync(SyncGroup(GROUP, epoch, "b"), KNOWN.topics, at())
    assert one.core.migration.beat(Heartbeat(GROUP, epoch, "b"), at(SESSION_MS - 1)) is NONE
    one.core.consumers.watch(one.group.members["c"], GROUP, SESSION_MS, SESSION_MS)
    assert [*one.core.consumers.time_passed(SESSION_MS)] == []
    had = frozenset({(TOPIC, 0), (TOPIC, 1)})
    one.beat(epoch=one.group.members["c"].epoch, owned=had, ms=SESSION_MS)
    given_back = frozenset(one.group.members["c"].revoking)
    assert one.core.migration.beat(Heartbeat(GROUP, epoch, "b"), at(SESSION_MS)) is NONE
    one.beat(epoch=one.group.members["c"].epoch, owned=had - given_back, ms=SESSION_MS)
    assert one.core.migration.beat(Heartbeat(GROUP, epoch, "b"), at(SESSION_MS)) is ErrorCode.rebalance_in_progress


# --- the bytes of consumers ------------------------------------------------------------------------------------------


def test_the_version_of_a_subscription_is_that_of_its_assignment_up_to_the_highest() -> None:
    assert [version_of(says) for says in (b"", b"\0", b"\0\2", b"\0\2more")] == [0, 0, 2, 2]
    assert [encode_assignment([], version)[:2] for version in (-1, 0, 2, 9)] == [b"\0\0", b"\0\0", b"\0\2", b"\0\3"]


@pytest.mark.parametrize(
    ("topics", "partitions", "is_too_much"),
    [(1, MOST_PLACES - 1, False), (1, MOST_PLACES, True), (2, MOST_PLACES // 2, True), (2, -1, False)],
)
def test_what_one_member_has_is_read_up_to_so_many_topics_and_partitions(
    topics: int, partitions: int, is_too_much: bool
) -> None:
    """Counted before they are read: a count of -1 is none."""
    indexes = bytes(4 * max(0, partitions))
    data = b"\0\1" + INT32.pack(topics) + (encode_string("t") + INT32.pack(partitions) + indexes) * topics
    if is_too_much:
        with pytest.raises(InvalidRecordError, match=f"more than {MOST_PLACES}"):
            read_assignment(data)
    else:
        assert read_assignment(data) == {("t", 0)} if partitions > 0 else not read_assignment(data)


def test_a_subscription_has_so_many_topics_at_most() -> None:
    def says(count: int) -> bytes:
        return b"\0\0" + INT32.pack(count) + encode_string("t") * count + INT32.pack(-1)

    assert read_subscription(says(MOST_TOPICS)).topics == {"t"}
    with pytest.raises(InvalidRecordError, match="at most"):
        read_subscription(says(MOST_TOPICS + 1))


def test_a_member_that_goes_over_is_taken_at_what_it_has_told_for_the_groups_protocol_or_its_best() -> None:
    rules = GroupCoordinator(Limits()).migration.rules
    best, elected = Protocol("range", b"best"), Protocol("cooperative", b"elected")
    member = ClassicMember("m", None, "", "", 0, 0, (best, elected))
    for protocol, told in (("cooperative", b"elected"), ("range", b"best"), (None, b"best")):
        group = ClassicGroup("g", protocol=protocol, members={"m": member})
        assert rules.metadata_of(group, member) == told
    assert rules.metadata_of(ClassicGroup("g"), attrs.evolve(member, protocols=())) == b""
