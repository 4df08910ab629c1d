"""The core of consumer groups (KIP-848) goes beside its specification, walk by walk, refusals and failovers included.

After every action of the machine the group in memory and the one that is committed are compared, member by member; a
new coordinator loads the bytes of all records that were committed, or of the last one of each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.consumer import assignors
from tidegauge.impl.coordinators.groups.consumer.coordinator import (
    ConsumerDeadline,
    ConsumerGroups,
    ConsumerTimer,
    ConsumerWrite,
)
from tidegauge.impl.coordinators.groups.consumer.rules import ConsumerRules
from tidegauge.impl.coordinators.groups.consumer.state import (
    ConsumerGroup,
    ConsumerHeartbeat,
    ConsumerMember,
    HeartbeatResponse,
    Topic,
    Topics,
)
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey, GroupRecord, decode_key
from tidegauge.impl.coordinators.groups.requests import Commit
from tidegauge.model_tests.coordinators.groups.known_topics import Known
from tidegauge.model_tests.spec.walked import OFTEN
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer.machine import ConsumerGroups as Machine
from tidegauge.spec.groups.consumer.processes import AddPartition, CreateTopic, DeleteTopic
from tidegauge.spec.groups.consumer.requests import LoseResponse, ReceiveCommit, ReceiveHeartbeat, ReceiveLeave
from tidegauge.spec.groups.consumer.timing import CommitRecord, ExpireRebalance, ExpireSession, FailOver, Load
from tidegauge.spec.kernel.bounds import Bounds

GROUP = "group"
SESSION_MS = 1_000
TOPIC_IDS = tuple(f"00000000-0000-0000-0000-00000000000{number}" for number in range(3))


def member_name(member_id: int) -> str:
    return f"member-{member_id:03}"


@attrs.define
class Beside:
    """The core beside a state of the machine."""

    machine: Machine
    rules: ConsumerRules
    core: ConsumerGroups = attrs.field(init=False)
    log: list[GroupRecord] = attrs.field(factory=list)
    waiting: list[ConsumerWrite | None] = attrs.field(factory=list)
    """As many as the machine has batches that are not committed; None is one without a record of the group."""
    partitions: int = 0
    created: int = 0
    deleted: list[int] = attrs.field(factory=list)
    version: int = 0

    def __attrs_post_init__(self) -> None:
        self.core = ConsumerGroups(rules=self.rules)
        self.partitions = self.machine.partitions
        self.created = self.machine.first_topics

    @property
    def topics(self) -> Topics:
        count, topics = self.partitions, self.machine.topics
        there = [t for t in range(self.created) if t not in self.deleted]
        return {f"topic-{t}": Topic(TOPIC_IDS[t], len(range(t, count, topics))) for t in there}

    @property
    def known(self) -> Known:
        return Known(self.topics, self.version)

    def expression(self, number: int) -> str:
        return "" if number == spec.NONE else f"topic-[{''.join(map(str, self.machine.matches[number]))}]"

    def place(self, partition: int) -> tuple[str, int]:
        return TOPIC_IDS[partition % self.machine.topics], partition // self.machine.topics

    def number(self, place: tuple[str, int]) -> int:
        return place[1] * self.machine.topics + TOPIC_IDS.index(place[0])

    def asked(self, request: spec.HeartbeatRequest) -> ConsumerHeartbeat:
        instance = self.machine.instance_of(request.process)
        owned = None if request.owned is None else frozenset(map(self.place, request.owned))
        says = request.full or request.epoch == spec.JOINING_EPOCH
        return ConsumerHeartbeat(
            GROUP,
            member_name(request.member_id),
            request.epoch,
            instance_id=None if instance == spec.NONE else f"instance-{instance}",
            rebalance_timeout_ms=500 if says else -1,
            topics=tuple(f"topic-{topic}" for topic in request.topics),
            expression=self.expression(request.expression),
            owned=owned,
        )

    def beat(self, request: spec.HeartbeatRequest) -> ConsumerWrite | HeartbeatResponse:
        made = self.core.heartbeat(self.asked(request), self.known, SESSION_MS, 0)
        if isinstance(made, ConsumerWrite) and made.records:
            self.append(made)
        return made

    def append(self, write: ConsumerWrite) -> None:
        self.waiting.append(write)
        if not self.machine.writes_in_two_steps:
            self.commit()

    def commit(self) -> None:
        write = self.waiting.pop(0)
        if write is not None:
            self.log += write.records
            self.core.written(write)

    def fail_over(self, kept: int, *, compacted: bool) -> None:
        for _ in range(kept):
            self.commit()
        self.waiting.clear()
        self.core = ConsumerGroups(rules=self.rules)
        records = list({record.key: record for record in self.log}.values()) if compacted else self.log
        for record in records:
            key = decode_key(record.key)
            assert isinstance(key, ConsumerKey)
            self.core.replay(key, record.value)

    def commit_error(self, request: spec.CommitRequest) -> ErrorCode:
        group = self.core.get(GROUP)
        if group is None:
            return ErrorCode.unknown_member_id
        commit = Commit(GROUP, (), generation=request.epoch, member_id=member_name(request.member_id))
        error = self.rules.commit_error(group, commit)
        return (
            error
            if error is not ErrorCode.none
            else self.rules.place_error(group, commit, self.place(request.partition))
        )

    def expire(self, timer: ConsumerTimer, member_id: int) -> None:
        write = self.core.timed_out(ConsumerDeadline(GROUP, timer, member_name(member_id)))
        assert write is not None, "nothing is due"
        self.append(write)

    # --- the abstraction -----------------------------------------------------------------------------------------

    def shown(self, group: ConsumerGroup | None) -> dict[str, Any]:
        group = group or ConsumerGroup(GROUP)
        return {
            "epoch": group.epoch,
            "target epoch": group.target_epoch,
            "target": {one: sorted(map(self.number, has)) for one, has in group.target.items()},
            "members": {one.member_id: self.shown_member(one) for one in group.members.values()},
            "resolved": {one: sorted(found.topics) for one, found in group.resolved.items()},
        }

    def shown_member(self, member: ConsumerMember) -> dict[str, Any]:
        return {
            "instance": member.instance_id,
            "topics": sorted(member.topics),
            "expression": member.expression,
            "epoch": member.epoch,
            "assigned": {self.number(place): since for place, since in member.assigned.items()},
            "revoking": {self.number(place): since for place, since in member.revoking.items()},
        }

    def wanted(self, group: spec.Group) -> dict[str, Any]:
        return {
            "epoch": group.epoch,
            "target epoch": group.target_epoch,
            "target": {member_name(one): sorted(has) for one, has in group.target},
            "members": {
                member_name(one.member_id): {
                    "instance": None if one.instance == spec.NONE else f"instance-{one.instance}",
                    "topics": [f"topic-{topic}" for topic in one.topics],
                    "expression": self.expression(one.expression),
                    "epoch": one.epoch,
                    "assigned": dict(one.assigned),
                    "revoking": dict(one.revoking),
                }
                for one in group.members
            },
            "resolved": {self.expression(one): [f"topic-{t}" for t in found] for one, found in group.resolved},
        }


def same_target(machine: Machine) -> Any:
    """The core's rules, with the machine's assignor: which of two fair targets is made is no matter of the protocol."""

    class Rules(ConsumerRules):
        beside: Beside

        def target(self, group: ConsumerGroup, topics: Topics, known: Any) -> Mapping[str, frozenset[tuple[str, int]]]:
            numbers = {name: int(name[-3:]) for name in group.members}
            members = tuple(
                spec.Member(numbers[name], topics=tuple(sorted(int(topic[-1]) for topic in group.wants(one))))
                for name, one in sorted(group.members.items())
            )
            had = tuple(
                (int(one[-3:]), tuple(sorted(map(self.beside.number, has)))) for one, has in group.target.items()
            )
            wanted = {f"topic-{topic}" for one in members for topic in one.topics} & topics.keys()
            places = [(topics[name].topic_id, n) for name in wanted for n in range(topics[name].partitions)]
            target = machine.target(spec.Group(members=members, target=had), sorted(map(self.beside.number, places)))
            return {member_name(one): frozenset(map(self.beside.place, has)) for one, has in target.items()}

    return Rules


def perform(beside: Beside, action: Any, state: spec.State, rng: Random) -> None:
    """Let the core do what the machine is about to do."""
    match action:
        case ReceiveHeartbeat(request, _) | ReceiveLeave(request, _):
            made = beside.beat(request)
            error = made.error if isinstance(made, HeartbeatResponse) else ErrorCode.none
            if isinstance(action, ReceiveHeartbeat):
                check_error(error, action.outcome(beside.machine, state)[0])
        case LoseResponse(process):
            lost = beside.machine.heartbeat_request(state, process)
            if lost is not None and state.group is not None:
                beside.beat(lost)
        case ReceiveCommit(request, _):
            check_error(beside.commit_error(request), action.outcome(beside.machine, state)[0])
            beside.waiting.append(None)
            if not beside.machine.writes_in_two_steps:
                beside.commit()
        case ExpireSession(member_id):
            beside.expire(ConsumerTimer.SESSION, member_id)
        case ExpireRebalance(member_id):
            beside.expire(ConsumerTimer.REBALANCE, member_id)
        case CommitRecord():
            beside.commit()
        case FailOver(kept):
            beside.fail_over(kept, compacted=rng.random() < 0.5)
        case Load():
            for group in beside.core.committed:
                beside.core.load(group, SESSION_MS, 0)
        case AddPartition():
            beside.partitions += 1
            beside.version += 1
        case CreateTopic():
            beside.created += 1
            beside.version += 1
        case DeleteTopic(topic):
            beside.deleted.append(topic)
            beside.version += 1


def check_error(error: ErrorCode, wanted: spec.Error) -> None:
    """A group that is not there yet has no members: GROUP_ID_NOT_FOUND says so."""
    known = ErrorCode.unknown_member_id if error is ErrorCode.group_id_not_found else error
    assert known.value == wanted.value, (error, wanted)


def check_refused(beside: Beside, state: spec.State) -> set[str]:
    """What the machine refuses the core refuses with the same error, and nothing changes."""
    found = set[str]()
    if state.group is None:
        return found
    for kind in (ReceiveHeartbeat, ReceiveCommit, ReceiveLeave):
        for action, reason in beside.machine.refused(state, kind):
            request, before = action.request, beside.core.get(GROUP)  # type: ignore[attr-defined]
            if kind is ReceiveCommit:
                error = beside.commit_error(request)
            elif reason.error.value:
                made = beside.core.heartbeat(beside.asked(request), beside.known, SESSION_MS, 0)
                error = made.error if isinstance(made, HeartbeatResponse) else ErrorCode.none
            else:
                continue
            check_error(error, spec.Error(reason.error))
            assert beside.core.get(GROUP) is before
            found.add(f"{kind.__name__} {reason.error.name}")
    return found


def walk(seed: int, rules: Any = None, length: int = 80) -> tuple[set[str], set[str]]:
    """One walk; the classes of action that were taken, and what was refused."""
    rng = Random(seed)
    bounds = dict.fromkeys(Machine().perturbations, OFTEN)
    if seed % 2:
        del bounds["FailOver"]
    bounds["CreateTopic"] = 1
    machine = Machine(
        processes=3,
        instances=((), (0, 0))[seed % 3 == 0],
        partitions=3,
        topics=3,
        matches=((0, 2), (1, 2)),
        expressions=(0, spec.NONE, 1)[: seed % 4],
        commits=2,
        bounds=Bounds(bounds),
    )
    kind = same_target(machine)
    if rules is not None:
        kind = type("Mutant", (rules, kind), {})
    made = kind()
    beside = made.beside = Beside(machine, made)
    (state,) = machine.initial()
    taken, refused = set[str](), set[str]()
    for step in range(length):
        if step % 4 == 0:
            refused |= check_refused(beside, state)
        actions = list(machine.actions(state))
        if not actions:
            break
        action = rng.choice(actions)
        perform(beside, action, state, rng)
        state = machine.step(state, action)
        if len(beside.waiting) < len(state.appended):
            beside.waiting.append(None)  # a response that waits for what was decided before it
        taken.add(action.name)
        if state.group is not None:
            assert beside.shown(beside.core.get(GROUP)) == beside.wanted(state.group), action
        assert beside.shown(beside.core.committed.get(GROUP)) == beside.wanted(state.log.group), action
    return taken, refused


def test_walks_find_no_difference_and_take_every_action_and_refusal() -> None:
    taken, refused = set[str](), set[str]()
    for seed in range(24):
        on_walk = walk(seed)
        taken |= on_walk[0]
        refused |= on_walk[1]
    assert taken == {kind.__name__ for kind in Machine.action_types}
    assert refused >= {
        "ReceiveHeartbeat UNKNOWN_MEMBER_ID",
        "ReceiveHeartbeat FENCED_INSTANCE_ID",
        "ReceiveHeartbeat FENCED_MEMBER_EPOCH",
        "ReceiveHeartbeat UNRELEASED_INSTANCE_ID",
        "ReceiveCommit UNKNOWN_MEMBER_ID",
        "ReceiveCommit STALE_MEMBER_EPOCH",
        "ReceiveLeave UNKNOWN_MEMBER_ID",
        "ReceiveLeave FENCED_INSTANCE_ID",
    }


# --- the core with a rule that is wrong ------------------------------------------------------------------------------


class AcceptsAnyEpoch(ConsumerRules):
    def epoch_error(self, member: Any, request: Any) -> ErrorCode:
        return ErrorCode.none


class FencesWhoJoinsAgain(ConsumerRules):
    """KAFKA-19233."""

    def joining_error(self, group: Any, instance_id: Any, member_id: str) -> ErrorCode:
        known = group.members.get(member_id)
        return ErrorCode.fenced_member_epoch if known else super().joining_error(group, instance_id, member_id)


class GivesWhatIsNotGivenBack(ConsumerRules):
    """As KAFKA-16147: what a member has yet to give back counts for nobody's."""

    def is_free(self, group: Any, place: Any, member_id: str) -> bool:
        return not any(place in one.assigned for one in group.members.values() if one.member_id != member_id)


class CommitsOfTheEpochOnly(ConsumerRules):
    """Before KIP-1251."""

    def place_error(self, group: Any, commit: Any, place: Any) -> ErrorCode:
        member = group.members.get(commit.member_id)
        is_behind = member is not None and commit.generation != member.epoch
        return ErrorCode.stale_member_epoch if is_behind else ErrorCode.none


class LeavesTheTargetBehind(ConsumerRules):
    """KAFKA-20442."""

    def removed(self, group: Any, member_id: str) -> Any:
        return attrs.evolve(super().removed(group, member_id), target_epoch=group.target_epoch)


class StaysWhereItWas(ConsumerRules):
    def epoch_after_revoking(self, member: Any) -> int:
        return int(member.epoch)


class ForgivesWhatIsOwned(ConsumerRules):
    def is_behind(self, member: Any, request: Any) -> bool:
        return bool(request.epoch == member.previous_epoch < member.epoch)


MUTANTS = (
    AcceptsAnyEpoch,
    FencesWhoJoinsAgain,
    GivesWhatIsNotGivenBack,
    CommitsOfTheEpochOnly,
    LeavesTheTargetBehind,
    StaysWhereItWas,
    ForgivesWhatIsOwned,
)


SLOW = (StaysWhereItWas, CommitsOfTheEpochOnly)
"""Found on many walks only."""


@pytest.mark.parametrize("mutant", [pytest.param(one, marks=[pytest.mark.deep] * (one in SLOW)) for one in MUTANTS])
def test_walks_find_a_rule_that_is_wrong(mutant: Any) -> None:
    for seed in range(400):
        try:
            walk(seed, mutant)
        except AssertionError:
            return
    pytest.fail("no walk has found a difference")


# --- assignors -------------------------------------------------------------------------------------------------------


def group_of(rng: Random, members: int, topics: int) -> tuple[ConsumerGroup, Topics]:
    known = {f"topic-{t}": Topic(TOPIC_IDS[t], rng.randint(0, 7)) for t in range(topics)}
    subscribed = [frozenset(rng.sample(sorted(known), rng.randint(1, topics))) for _ in range(members)]
    if rng.random() < 0.5:
        subscribed = [frozenset(known)] * members
    return ConsumerGroup(
        GROUP, members={member_name(n): ConsumerMember(member_name(n), topics=subscribed[n]) for n in range(members)}
    ), known


@pytest.mark.parametrize("name", assignors.ASSIGNORS)
def test_an_assignor_gives_each_partition_once_to_who_wants_it(name: str) -> None:
    rng = Random(name)
    for _ in range(300):
        group, topics = group_of(rng, rng.randint(1, 5), rng.randint(1, 3))
        target = assignors.ASSIGNORS[name](group, topics)
        given = [place for has in target.values() for place in has]
        wanted = {
            (topics[topic].topic_id, index)
            for member in group.members.values()
            for topic in member.topics
            for index in range(topics[topic].partitions)
        }
        assert len(given) == len(set(given))
        assert set(given) == wanted
        assert target.keys() == group.members.keys()
        ids = {topics[topic].topic_id: topic for topic in topics}
        assert all(ids[p[0]] in group.members[one].topics for one, has in target.items() for p in has)


def test_the_uniform_assignor_is_even_and_moves_no_more_than_it_has_to() -> None:
    rng = Random(1)
    for _ in range(200):
        members = rng.randint(2, 6)
        topics = {f"topic-{t}": Topic(TOPIC_IDS[t], rng.randint(0, 9)) for t in range(3)}
        every = {member_name(n): ConsumerMember(member_name(n), topics=frozenset(topics)) for n in range(members)}
        before = assignors.assign_uniform(ConsumerGroup(GROUP, members=every), topics)
        loads = [len(has) for has in before.values()]
        assert max(loads) - min(loads) <= 1
        again = assignors.assign_uniform(ConsumerGroup(GROUP, members=every, target=before), topics)
        assert again == before
        more = {**every, "new": ConsumerMember("new", topics=frozenset(topics))}
        after = assignors.assign_uniform(ConsumerGroup(GROUP, members=more, target=before), topics)
        assert max(map(len, after.values())) - min(map(len, after.values())) <= 1
        assert all(after[one] <= before[one] for one in every), "only the new one is given something"
