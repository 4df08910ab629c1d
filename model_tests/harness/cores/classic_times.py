"""How long a classic group waits, and what operators are told of it, beside each step of `spec.groups.classic`.

The machine has no time. Here each member asks for times of its own, which its subscription says, and time stands still
but for a tick with each step. So a deadline is the one of the state before, or its whole length is still to come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from typing import Protocol as Interface

from tidegauge.impl.coordinators.groups.classic.coordinator import ClassicGroups
from tidegauge.impl.coordinators.groups.classic.messages import Moment, Note, Noted, Outcome
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, InitialDelay, Token
from tidegauge.impl.coordinators.groups.classic.turn import DeadlineKey, Timer
from tidegauge.spec.groups.classic import state as spec
from tidegauge.spec.groups.classic.state import Status
from tidegauge.spec.kernel.changes import Change

GROUP: Final = "group"
LEAST_SESSION_MS: Final = 7_000
LEAST_REBALANCE_MS: Final = 3_500
"""A little more than the first members of a group are waited for, so that this wait ends in each of its ways."""
_SUBSCRIPTIONS: Final = 10


def _number(says: spec.Subscription) -> int:
    return (2 * len(says.topics) + 3 * sum(says.topics) + 5 * len(says.owned) + says.generation) % _SUBSCRIPTIONS


def session_ms(says: spec.Subscription) -> int:
    """The session timeout of a member with this subscription."""
    return LEAST_SESSION_MS + 10 * _number(says)


def rebalance_ms(says: spec.Subscription) -> int:
    """Its rebalance timeout."""
    return LEAST_REBALANCE_MS + 500 * _number(says)


class Beside(Interface):
    """A coordinator beside the machine."""

    @property
    def now(self) -> Moment: ...

    @property
    def classic(self) -> ClassicGroups:
        """Its core."""

    def name_of(self, member_id: int, /) -> str:
        """A member id."""


class Times:
    """What a coordinator waited for in the last state, and until when."""

    def __init__(self) -> None:
        self.state: spec.Group | None = None
        """None if nobody coordinated then, or another one did."""
        self.deadlines: Mapping[DeadlineKey, int] = {}
        self.waited: Mapping[int, tuple[Token, str]] = {}
        """The requests that waited, each with its member."""
        self.entered_ms = 0
        """Since when the group was in its state."""
        self.came_since = 0
        """Members that have joined in the present part of the wait for the first."""

    def forget(self) -> None:
        """Another coordinator begins."""
        self.state, self.deadlines, self.waited, self.came_since = None, {}, {}, 0

    def attempted(self, cores: Beside) -> None:
        """Requests that change nothing else may have begun a session anew."""
        if self.state is not None:
            self._keep(cores.classic, cores.classic.get(GROUP) or ClassicGroup(GROUP))

    def differences(self, cores: Beside, state: spec.State, came: Sequence[Outcome]) -> Iterator[Change]:
        """Where it waits for another time than it should, or tells operators something else."""
        group, known = state.loaded, cores.classic.get(GROUP) or ClassicGroup(GROUP)
        yield from said_differs(group, known, cores)
        if self.state is not None:
            found = deadlines(cores.classic, known)
            yield from lengths_differ(cores, known, self.deadlines, found)
            yield from self._renewals(cores, known, came)
            notes = [note for outcome in came for note in outcome.notes]
            yield from self._notes(group, notes, known, found)
            yield from self._first_wait(cores, known)
            is_other = (group.status, group.generation) != (self.state.status, self.state.generation)
            since_ms = cores.now.wall_ms if is_other else self.entered_ms
            if group.generation and known.state_time != since_ms:
                yield Change("since when the group is in its state", since_ms, known.state_time)
            self._count(known, notes)
            if known.initial is not None and known.has_new_member is not (self.came_since > 0):
                yield Change(
                    "whether a member has come in this part of the wait", self.came_since, known.has_new_member
                )
        self.state, self.entered_ms = group, known.state_time
        self._keep(cores.classic, known)

    def _keep(self, classic: ClassicGroups, known: ClassicGroup) -> None:
        self.deadlines = deadlines(classic, known)
        self.waited = {
            id(token): (token, member.member_id)
            for member in known.members.values()
            for token in (member.joining, member.syncing)
            if token is not None
        }

    def _renewals(self, cores: Beside, known: ClassicGroup, came: Sequence[Outcome]) -> Iterator[Change]:
        """Who has waited and has its response now has its whole session, if one runs, unless its next request waits.

        A static member that takes another one's place has had it since it came.
        """
        responded = {id(token) for outcome in came for token, _ in outcome.responses}
        was_stable = self.state is not None and self.state.status is Status.STABLE
        for number, (_, name) in self.waited.items():
            member = known.members.get(name)
            if number not in responded or member is None or not (member.joining is member.syncing is None):
                continue
            whole = cores.now.timer_ms + member.session_timeout_ms
            had = was_stable and member.instance_id is not None
            if member.session_deadline not in (None, whole) and not had:
                yield Change(f"the session of {name}, which has its response", whole, member.session_deadline)

    def _notes(
        self, group: spec.Group, notes: Sequence[Note], known: ClassicGroup, found: Mapping[DeadlineKey, int]
    ) -> Iterator[Change]:
        """What operators are told is what has become of the group."""
        before = self.state
        assert before is not None, "it was told before"
        told = Counter(note.what for note in notes)
        begun, was_joining = group.generation - before.generation, before.status is Status.PREPARING_REBALANCE
        is_joining = group.status is Status.PREPARING_REBALANCE
        came = {one.member_id for one in group.members} - {one.member_id for one in before.members}
        gone = {*_ids(before)} - {*_ids(group)}
        join = DeadlineKey(GROUP, Timer.JOIN)
        is_stalled = was_joining and is_joining and not begun and not known.initial
        wanted = {
            Noted.STABLE: int(group.status is Status.STABLE is not before.status),
            Noted.EMPTY: int(group.status is Status.EMPTY is not before.status),
            Noted.REBALANCE: int((is_joining or bool(begun)) and not was_joining),
            Noted.STALLED: int(is_stalled and found.get(join) != self.deadlines.get(join)),
            Noted.NOT_WRITTEN: 0,
        }
        wanted[Noted.GENERATION] = begun - wanted[Noted.EMPTY]
        said = {what: told[what] for what in wanted}
        if said != wanted:
            yield Change("what operators are told", wanted, said)
        replaced = sum(1 for one in before.members if one.member_id in gone and group.of_instance(one.instance))
        if told[Noted.REPLACED] < replaced:
            yield Change("how many members operators are told of that are replaced", replaced, told[Noted.REPLACED])
        removed = sum(note.members for note in notes if note.what is Noted.REMOVED)
        said_of = told[Noted.JOINED], told[Noted.LEFT] + told[Noted.EXPIRED] + removed
        if said_of != (moved := (len(came) - replaced, len(gone) - replaced)):
            yield Change("how many members operators are told of that come, and that go", moved, said_of)

    def _first_wait(self, cores: Beside, known: ClassicGroup) -> Iterator[Change]:
        """The wait for the first members takes no longer than the longest of those that have come by then."""
        if known.initial is None or self.state is None or self.state.initial:
            return
        longest = max(member.rebalance_timeout_ms for member in known.members.values())
        at_once = cores.classic.limits.initial_delay_ms
        if known.initial != (wanted := InitialDelay(at_once, max(longest - at_once, 0))):
            yield Change("the wait for the first members", wanted, known.initial)

    def _count(self, known: ClassicGroup, notes: Iterable[Note]) -> None:
        """Members that come in the present part; the wait begins with the first one."""
        if known.initial is None:
            self.came_since = 0
        elif self.state is not None and self.state.initial:
            self.came_since += sum(note.what is Noted.JOINED for note in notes)


def _ids(group: spec.Group) -> Iterator[int]:
    yield from (one.member_id for one in group.members)
    yield from group.pending


def deadlines(classic: ClassicGroups, group: ClassicGroup) -> dict[DeadlineKey, int]:
    """All that run of the group."""
    sessions = (DeadlineKey(GROUP, Timer.SESSION, name) for name in (*group.members, *group.pending))
    keys = (DeadlineKey(GROUP, Timer.JOIN), DeadlineKey(GROUP, Timer.SYNC), *sessions)
    found = {key: classic.deadlines.get(key) for key in keys}
    return {key: deadline for key, deadline in found.items() if deadline is not None}


def said_differs(group: spec.Group, known: ClassicGroup, cores: Beside) -> Iterator[Change]:
    """The times of a member are what it has asked for last; a record of the first version has one for both."""
    for one in group.members:
        member = known.members.get(cores.name_of(one.member_id))
        if member is None:
            continue
        asked = session_ms(one.subscription), rebalance_ms(one.subscription)
        found = member.session_timeout_ms, member.rebalance_timeout_ms
        if found not in (asked, (asked[0], asked[0])):
            yield Change(f"the times of member {one.member_id}", asked, found)


def lengths_differ(
    cores: Beside, group: ClassicGroup, before: Mapping[DeadlineKey, int], after: Mapping[DeadlineKey, int]
) -> Iterator[Change]:
    """A deadline that was not there in the state before has its whole length."""
    for key, deadline in after.items():
        left = deadline - cores.now.timer_ms
        if deadline != before.get(key) and left not in (wanted := _lengths(cores.classic, group, key)):
            yield Change(f"how long {key} runs", wanted, left)


def _lengths(classic: ClassicGroups, group: ClassicGroup, key: DeadlineKey) -> Sequence[int]:
    """How long a deadline may run that is new: of who has not joined yet nobody knows what it has asked for."""
    if key.timer is Timer.JOIN and group.initial is not None:
        return [classic.limits.initial_delay_ms]
    if key.timer is not Timer.SESSION:
        return [max((member.rebalance_timeout_ms for member in group.members.values()), default=0)]
    if (member := group.members.get(key.member_id)) is None:
        return range(LEAST_SESSION_MS, LEAST_SESSION_MS + 10 * _SUBSCRIPTIONS)
    return [classic.limits.new_member_join_ms if member.is_new else member.session_timeout_ms]


def first_wait_differs(copies: tuple[ClassicGroups, ClassicGroups], now: Moment) -> Iterator[Change]:
    """The first members of a group are waited for in parts: one more as long as members come, and there is time.

    As Kafka does, where time that a part has taken is over when the next one ends.
    """
    classic, other = copies
    group, key = classic.groups[GROUP], DeadlineKey(GROUP, Timer.JOIN)
    assert group.initial is not None, "it waits"
    at_once, (delay, left) = classic.limits.initial_delay_ms, group.initial
    other.groups[GROUP].has_new_member = False
    other.timed_out(key, now)
    if other.groups[GROUP].initial is not None:
        yield Change("the wait for the first members when nobody has come", None, other.groups[GROUP].initial)
    while left:
        group.has_new_member = True
        classic.timed_out(key, now)
        delay, left = min(at_once, left), max(left - delay, 0)
        found = group.initial, group.has_new_member, group.join_deadline, classic.deadlines.get(key)
        wanted = InitialDelay(delay, left), False, now.timer_ms + delay, now.timer_ms + delay
        if found != wanted:
            yield Change("the next part of the wait for the first members", wanted, found)
            return
    group.has_new_member = True
    classic.timed_out(key, now)
    if group.initial is not None:
        yield Change("the wait for the first members when all its time is over", None, group.initial)
