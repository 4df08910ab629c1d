"""Rules of groups that go over, asked beside the specification's in every state, and how long members are waited for.

Which way a group may go, by its size, its type and the policy; who is a classic member of a consumer group, what it
may claim, and whether it joins again; and that nobody has twice what two members of a classic group were assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar
from typing import Protocol as Interface

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import NO_MEMBER, JoinGroup, JoinResponse, Leaving, Moment
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, Protocol
from tidegauge.impl.coordinators.groups.consumer.coordinator import Asked, ConsumerDeadline, ConsumerTimer, Decided
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, ConsumerMember, HeartbeatResponse, Topics
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator
from tidegauge.impl.coordinators.groups.migration.coordinator import Decision, Migration
from tidegauge.impl.coordinators.groups.migration.embedded import NamedPlace, encode_assignment, read_assignment
from tidegauge.impl.coordinators.groups.migration.policy import Policy
from tidegauge.impl.coordinators.groups.migration.rules import MigrationLimits, MigrationRules
from tidegauge.impl.coordinators.groups.record_formats import GroupRecord
from tidegauge.model_tests.harness.cores.classic_beside import copied
from tidegauge.model_tests.harness.cores.consumer_abstraction import GROUP
from tidegauge.model_tests.harness.cores.consumer_asked import another
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer.state import State
from tidegauge.spec.groups.migration import rules as specified
from tidegauge.spec.groups.migration.machine import GroupMigration as Machine
from tidegauge.spec.kernel.changes import Change

R = TypeVar("R")
PROTOCOLS: Final = ("cooperative", "range")
"""That each classic member knows."""
ANOTHER: Final = "another"
NOW: Final = Moment(0, 0)
UP: Final = (Policy.UPGRADE, Policy.BIDIRECTIONAL)
DOWN: Final = (Policy.DOWNGRADE, Policy.BIDIRECTIONAL)


POLICIES: Final = {
    specified.Policy.DISABLED: Policy.DISABLED,
    specified.Policy.UPGRADE: Policy.UPGRADE,
    specified.Policy.DOWNGRADE: Policy.DOWNGRADE,
    specified.Policy.BIDIRECTIONAL: Policy.BIDIRECTIONAL,
}


@attrs.frozen(eq=False)
class Batch:
    """Records that are appended, and what is done when they are committed."""

    records: tuple[GroupRecord, ...]
    commit: Callable[[GroupCoordinator, int], None]


class Beside(Interface):
    """A coordinator beside the machine."""

    machine: Machine

    @property
    def core(self) -> GroupCoordinator:
        """The coordinator, which has loaded its log."""

    def name_of(self, member_id: int, /) -> str:
        """A member id."""


def rules_differ(cores: Beside, state: State, topics: Topics) -> Iterator[Change]:
    """Where the coordinator decides otherwise than the specification about the group as it is."""
    core, rules = cores.core, cores.core.migration.rules
    if (classic := core.classic.get(GROUP)) is not None:
        yield from _upgrades(rules, classic)
        yield from _shared_out(rules, classic, topics)
    elif (group := core.consumers.get(GROUP)) is not None:
        yield from _downgrades(rules, group)
        yield from _supports(rules, group)
        yield from _leaves(core, group, topics)
        for one in state.loaded.members:
            if (member := group.members.get(cores.name_of(one.member_id))) is not None:
                yield from _of_member(cores, state.loaded, one, group, member)


def _with(rules: MigrationRules, limits: MigrationLimits) -> MigrationRules:
    return type(rules)(limits, rules.consumers)


def _upgrades(rules: MigrationRules, group: ClassicGroup) -> Iterator[Change]:
    """One without members goes over whatever the policy; another one if its members are consumers, and not too many."""
    size = len(group.members)
    for policy in Policy:
        for kind in ("consumer", "connect"):
            for most in (size - 1, size, size + 1):
                limits = MigrationLimits(policy, consumer_max_size=most, classic_max_size=0)
                wanted = not size or (policy in UP and kind == "consumer" and most >= size)
                found = _with(rules, limits).upgrades(attrs.evolve(group, protocol_type=kind))
                if found is not wanted:
                    yield Change(f"a {kind} group of {size} goes over, {policy}, of {most} at most", wanted, found)


def _downgrades(rules: MigrationRules, group: ConsumerGroup) -> Iterator[Change]:
    """One whose members are all of the classic protocol, and not too many."""
    size, all_are = len(group.members), all(one.classic is not None for one in group.members.values())
    for policy in Policy:
        for most in (size - 1, size, size + 1):
            limits = MigrationLimits(policy, classic_max_size=most, consumer_max_size=0)
            wanted = policy in DOWN and size > 0 and all_are and most >= size
            if (found := _with(rules, limits).downgrades(group)) is not wanted:
                yield Change(f"a group of {size} goes back, {policy}, of {most} at most", wanted, found)


def _supports(rules: MigrationRules, group: ConsumerGroup) -> Iterator[Change]:
    """Who comes has to know what all classic members know; members of KIP-848 have no protocols."""
    known = [_names(one) for one in group.members.values() if one.classic is not None]
    for names in ((PROTOCOLS[0],), (PROTOCOLS[1], ANOTHER), (ANOTHER,), ()):
        common = set(names).intersection(*known)
        for kind in ("consumer", "connect"):
            wanted = kind == "consumer" and bool(common)
            if (found := rules.supports(group, kind, names)) is not wanted:
                yield Change(f"one of {kind} joins with {names}", wanted, found)


def _leaves(core: GroupCoordinator, group: ConsumerGroup, topics: Topics) -> Iterator[Change]:
    """An operator removes a static member by its instance id alone; who gives another member id as well is fenced."""
    unknown, fenced, none = ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id, ErrorCode.none
    for member in group.members.values():
        said: list[tuple[str, str | None, ErrorCode]] = [(ANOTHER, member.instance_id, fenced)]
        said += [(NO_MEMBER, None, unknown), (NO_MEMBER, ANOTHER, unknown), (NO_MEMBER, member.instance_id, none)]
        for member_id, instance_id, error in said if member.instance_id is not None else ():
            migration = Migration(copied(core.classic), another(core.consumers), core.migration.rules)
            left, made = migration.leave(GROUP, Leaving(member_id, instance_id), topics, NOW)
            after = migration.consumers.get(GROUP)
            is_there = after is not None and member.member_id in after.members
            is_taken = error is none
            if (left.error, made is not None) != (error, is_taken) or (is_taken and is_there):
                yield Change(f"{member.member_id} leaves as {member_id!r}, {instance_id!r}", error, left)


def _names(member: ConsumerMember) -> set[str]:
    assert member.classic is not None, "it speaks the classic protocol"
    return {one.name for one in member.classic.protocols}


def _of_member(
    cores: Beside, loaded: spec.Group, one: spec.Member, group: ConsumerGroup, member: ConsumerMember
) -> Iterator[Change]:
    rules, machine, name = cores.core.migration.rules, cores.machine, member.member_id
    unknown, none = ErrorCode.unknown_member_id, ErrorCode.none
    told = (
        rules.must_rejoin(group, member),
        rules.has_more(group, member),
        rules.may_sync(group, member),
        rules.member_error(group, name, member.instance_id),
        rules.generation_error(group, name, member.instance_id, member.epoch + 1),
        rules.member_error(group, name, ANOTHER),
        rules.member_error(group, ANOTHER, member.instance_id),
    )
    is_one = none if one.classic else unknown
    wanted = (
        machine.must_rejoin(loaded, one),
        machine.has_more(loaded, one),
        machine.may_sync(loaded, one),
        is_one,
        ErrorCode.illegal_generation if one.classic else unknown,
        unknown,
        unknown if member.instance_id is None else ErrorCode.fenced_instance_id,
    )
    if told != wanted:
        yield Change(f"{name}: rejoins, has more, may sync, its errors", wanted, told)
    held = [*member.assigned, *member.revoking]
    others = [place for other in group.members.values() for place in (*other.assigned, *other.revoking)]
    for owned in ([], held, *([place] for place in others if place not in held)):
        error = none if {*owned} <= {*held} else unknown
        if (found := rules.claims_error(member, owned)) is not error:
            yield Change(f"{name} claims {owned}", error.name, found.name)
    for owned, error in (([], none), (held, unknown if held else none)):
        if (found := rules.claims_error(None, owned)) is not error:
            yield Change(f"who is no member claims {owned}", error.name, found.name)


def _shared_out(rules: MigrationRules, classic: ClassicGroup, topics: Topics) -> Iterator[Change]:
    """What a leader has assigned twice one member has alone when the group goes over."""
    everything = {place for one in classic.members.values() for place in read_assignment(one.assignment)}
    if len(classic.members) < 2 or not everything:
        return
    members = {
        name: attrs.evolve(one, assignment=encode_assignment(everything, 1)) for name, one in classic.members.items()
    }
    made = rules.upgraded(attrs.evolve(classic, members=members), None, topics)
    held = [place for one in made.members.values() for place in (*one.assigned, *one.revoking)]
    wanted = {(topics[name].topic_id, index) for name, index in everything if name in topics}
    if len(held) != len({*held}) or not wanted <= {*held}:
        yield Change("what all members of a group were assigned, when it goes over", wanted, held)


def is_as_before(core: GroupCoordinator, ask: Callable[[], Decision | HeartbeatResponse | JoinResponse]) -> None:
    """What is refused leaves the group what it is, of which type it may be."""
    classic, consumers = core.classic.get(GROUP), core.consumers.get(GROUP)
    made = ask()
    assert not isinstance(made, Decision), f"{made} comes of a request with a text that is too long"
    assert made.error is not ErrorCode.none, "a text that is too long is taken"
    now = core.classic.get(GROUP), core.consumers.get(GROUP)
    assert now[0] is classic, "the classic group is another one"
    assert now[1] is consumers, "the consumer group is another one"


def claiming(asked: JoinGroup, says: bytes) -> JoinGroup:
    """A JoinGroup that says something else."""
    return attrs.evolve(asked, protocols=tuple(Protocol(one, says) for one in PROTOCOLS))


def claim_what_is_anothers(
    member: ConsumerMember | None, topics: Topics, ask: Callable[[list[NamedPlace]], Decision | JoinResponse]
) -> None:
    """A dynamic member that says it owns what it has not is no member."""
    held = set() if member is None else {*member.assigned, *member.revoking}
    places = [(one, index) for one, topic in topics.items() for index in range(topic.partitions)]
    others = [(one, index) for one, index in places if (topics[one].topic_id, index) not in held]
    if others:
        made = ask(others)
        is_told = isinstance(made, JoinResponse) and made.error is ErrorCode.unknown_member_id
        assert is_told, f"{made} is told who claims {others}"


def said_aloud(core: GroupCoordinator, ask: Callable[[], ErrorCode]) -> ErrorCode:
    """The error of a classic member's heartbeat, of which who follows the decisions is told."""
    told, before = list[Decided](), core.consumers.watching
    core.consumers.watching = lambda group_id, decided: told.append(decided)
    error = ask()
    core.consumers.watching = before
    assert [one.error for one in told if isinstance(one, Asked)] == [error], f"{told} is told who follows, and {error}"
    return error


def check_version(cores: Beside, name: str, assignment: bytes) -> None:
    """A classic member is told its assignment in the version of its own subscription."""
    side = cores.core.consumers.groups[GROUP].members[name].classic
    assert side is not None, "it speaks the classic protocol"
    wanted, found = (int.from_bytes(one[:2], "big") for one in (side.protocols[0].metadata, assignment))
    assert found == wanted, f"an assignment of version {found} is told a client of version {wanted}"


# --- time ------------------------------------------------------------------------------------------------------------


def with_session(cores: Beside, member_id: str, ask: Callable[[], R], is_taken: Callable[[R], bool]) -> R:
    """What comes of a request of a member some of whose session is over: it has all of it again if it is taken."""
    deadlines, due = cores.core.consumers.deadlines, ConsumerDeadline(GROUP, ConsumerTimer.SESSION, member_id)
    runs = deadlines.get(due)
    if runs is None:
        return ask()
    deadlines.set(due, runs - 1)
    made = ask()
    wanted = runs if is_taken(made) else runs - 1
    assert deadlines.get(due) == wanted, f"the session of {member_id} ends at {deadlines.get(due)}, and not {wanted}"
    deadlines.set(due, runs)
    return made


def check_expected(cores: Beside, member_id: str, **runs: bool) -> None:
    """Whether a classic member is waited for: to join, or to ask for its assignment."""
    consumers = cores.core.consumers
    member = consumers.groups[GROUP].members[member_id]
    for timer, is_expected in runs.items():
        found = consumers.deadlines.get(ConsumerDeadline(GROUP, ConsumerTimer[timer.upper()], member_id))
        wanted = max(0, member.rebalance_timeout_ms) if is_expected else None
        assert found == wanted, f"{member_id} is waited for to {timer} until {found}, and not {wanted}"
