"""What coordinators of consumer groups (KIP-848) decide, held against the actions of `spec.groups.consumer`.

Theory of operation
-------------------
Each broker that leads a partition of `__consumer_offsets` is followed by itself: what it knows of a group is a `Group`
of the specification. A decision is taken for an action of the machine, in a state in which nobody waits for the
response (`late`): its error has to be that of the response, what the response says what the machine's says, and the
group after it, member by member, what the coordinator has. So who is fenced, which epoch begins, who is given what, and
whose commit is taken are the specification's.

What coordinators call by texts has numbers there (`consumer_names`). Of two fair targets either may be made: the
machine's is what the coordinator has made, and has to cover each partition once. Topics, what expressions match, and
the racks of replicas are what the coordinator says of the metadata when a heartbeat comes, or expressions are resolved.

The log is the truth. A coordinator that loads a group knows it as it was committed last, or as it was written later.
What may not be lost is what was committed before; and nobody is told of what is not.

When a target was made, the coordinator says, and has to keep to: the next one comes when the interval since then has
passed, by the time that it says when a heartbeat comes. A `Group` here has no newness of its own (`at_time`).

What a coordinator makes of an append that failed is the group as it was before: the machine has no such step. Groups
that have had a member of the classic protocol are left out: they are those of `spec.groups.migration`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, NamedTuple

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.server.trace import consumer_groups as groups
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.groups import Loaded, OfGroup, OfGroups, Resign
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.validation.consumer_names import ConsumerNames
from tidegauge.model_tests.harness.validation.coordinated import Committed, GroupAt, Logged
from tidegauge.model_tests.harness.validation.ways import Wrong
from tidegauge.spec.groups.consumer import properties, requests, timing
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer.actions import removed
from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.changes import plain
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action

GroupKey = tuple[int, str]
"""(partition of the log, group)."""
OF_THE_REQUEST: Final = (
    ErrorCode.invalid_request,
    ErrorCode.invalid_regular_expression,
    ErrorCode.group_max_size_reached,
)
"""Errors of what a request says by itself, and of the size of the group: the machine has neither."""
JUDGED: Final = ("OneMemberHasIt", "TargetCovers", "GivenBackBeforeTheEpoch", "EpochsAreOfTheGroup")
"""The invariants that a target has to satisfy, which is not the machine's."""


class Written(NamedTuple):
    """A group that is on its way into the log."""

    before: spec.Group
    after: Any
    """The group; or its record, if it is a classic one by that."""
    revision: int
    failed: bool = False
    """Its coordinator has given it up."""


@attrs.define
class Known:
    """A group at one coordinator."""

    group: spec.Group = attrs.field(factory=spec.Group)
    written: list[Written] = attrs.field(factory=list)
    committed_revision: int = 0
    target_ms: int = 0
    """When its target was made."""
    resolving: tuple[str, ...] | None = None
    """The regular expressions that it resolves."""


@attrs.define
class Coordinator:
    """One leader epoch of one broker."""

    leader_epoch: int
    known: dict[str, Known] = attrs.field(factory=dict)


class ConsumerCoordinators:
    """The coordinators of consumer groups of one cluster."""

    names: ClassVar[Callable[[], ConsumerNames]] = ConsumerNames

    def __init__(self) -> None:
        self.actions: Counter[str] = Counter()
        self._here: dict[tuple[int, int], Coordinator] = {}
        """By broker and partition of the log."""
        self._resigned: dict[tuple[int, int], Coordinator] = {}
        """What one knew that has resigned: whose write was committed by then is told so yet."""
        self._logs: dict[GroupKey, Logged[spec.Group]] = {}
        self._names: dict[GroupKey, ConsumerNames] = {}
        self._mixed: set[GroupKey] = set()
        """Groups that have had a member of the classic protocol."""
        self._last_epoch: Counter[int] = Counter()
        """Of each partition, the latest epoch in which it was loaded."""

    def follow(self, event: TraceEvent) -> None:
        """Take in one event. Raises Wrong."""
        match event.decision:
            case events.Crash() | events.Stop():
                self._here = {key: one for key, one in self._here.items() if key[0] != event.node}
            case Resign(log_partition=partition):
                if (left := self._here.pop((event.node, partition), None)) is not None:
                    self._resigned[event.node, partition] = left
            case Loaded() as decision:
                self._loaded(self.coordinator(event.node, decision), decision)
            case OfGroup() as decision:
                self._mixed.add((decision.log_partition, decision.group))
            case groups.OfConsumerGroup() as decision:
                self.actions[type(decision).__name__] += 1
                self._of_group(self.coordinator(event.node, decision), decision)

    def is_left_out(self, key: GroupKey, decision: groups.OfConsumerGroup) -> bool:
        """Whether the group is not followed here: it has to do with the classic protocol."""
        if is_mixed(decision):
            self._mixed.add(key)
        return key in self._mixed

    def coordinator(self, node: int, decision: OfGroups) -> Coordinator:
        key = node, decision.log_partition
        here, left = self._here.get(key), self._resigned.get(key)
        if here is not None and here.leader_epoch == decision.leader_epoch:
            return here
        is_told = isinstance(decision, groups.RespondToHeartbeat)
        if is_told and left is not None and left.leader_epoch == decision.leader_epoch:
            return left
        here = self._here[key] = Coordinator(decision.leader_epoch)
        return here

    def _of_group(self, here: Coordinator, decision: groups.OfConsumerGroup) -> None:
        key = decision.log_partition, decision.group
        if self.is_left_out(key, decision):
            return
        names = self._names.setdefault(key, type(self).names())
        logged = self._logs.setdefault(key, Logged())
        if isinstance(decision, groups.LoadGroup):
            self._load(here, names, logged, decision)
            return
        known = here.known.setdefault(decision.group, Known())
        is_of_now = self._last_epoch[decision.log_partition] <= decision.leader_epoch
        match decision:
            case groups.CommitRecord():
                self.commit(known, names, logged if is_of_now else Logged(), decision)
            case groups.FailRecord():
                self.fail(known, names, logged, decision)
            case groups.RespondToHeartbeat(revision=revision):
                if revision > known.committed_revision:
                    raise Wrong(f"{decision.member_id} is told of what is not committed")
            case _:
                self.decide(known, names, logged, decision)

    # --- for who looks on --------------------------------------------------------------------------------------------

    def at_coordinators(self, group: str) -> Iterator[GroupAt]:
        """The group at every coordinator that has it."""
        for (node, partition), here in self._here.items():
            if group in here.known and (partition, group) not in self._mixed:
                yield self.group_at(node, here.leader_epoch, here.known[group], self._names[partition, group])

    def group_at(self, node: int, leader_epoch: int, known: Known, names: ConsumerNames) -> GroupAt:
        """A group that a coordinator knows."""
        return GroupAt(node, leader_epoch, known.group, names, lambda group: possible(names, group))

    def committed(self, group: str) -> Committed | None:
        """The group that is committed."""
        for key, logged in self._logs.items():
            if key[1] == group and key not in self._mixed and logged.committed is not None:
                return Committed(logged.committed, self._names[key])
        return None

    # --- the log -----------------------------------------------------------------------------------------------------

    def _loaded(self, here: Coordinator, decision: Loaded) -> None:
        """Every group of which the log says something is known."""
        partition = decision.log_partition
        self._last_epoch[partition] = max(self._last_epoch[partition], decision.leader_epoch)
        for key, logged in self._logs.items():
            if key[0] != partition or key in self._mixed or key[1] in here.known:
                continue
            if spec.Group() in logged.later:
                logged.commit(spec.Group())  # its deletion was on its way, and is in the log
            if not logged.may_be_gone and logged.committed != spec.Group():
                raise Wrong(f"of {key[1]!r} it has loaded nothing, and the log has {plain(logged.committed)}")

    def _load(
        self, here: Coordinator, names: ConsumerNames, logged: Logged[spec.Group], decision: groups.LoadGroup
    ) -> None:
        """The coordinator knows the group as the log has it."""
        assert decision.after is not None, "it is loaded"
        for member in decision.after.members:
            if member.member_id not in names.members:
                raise Wrong(f"it loads {member.member_id!r}, a member that nobody has let in")
        which = [one for one in logged.candidates if names.seen(decision.after, one) == one]
        if not which:
            found = plain(names.seen(decision.after, logged.committed or spec.Group()))
            expected = plain(logged.committed) if logged.committed else "nothing"
            raise Wrong(f"it loads {found}; committed is {expected}, and {len(logged.later)} may be")
        logged.commit(which[-1])
        _check_hash(names, which[-1], decision.after)
        _check_time(names, which[-1], decision.after)
        self.check_timers(decision.after)
        here.known[decision.group] = Known(which[-1], target_ms=decision.after.target_ms)

    def step(self, names: ConsumerNames, group: spec.Group, decision: groups.OfConsumerGroup) -> ConsumerStep:
        """A decision, as an action in the state before it."""
        return ConsumerStep(names, group, decision)

    # --- decisions ---------------------------------------------------------------------------------------------------

    def is_as_written(self, names: ConsumerNames, seen: groups.GroupSeen | None, written: Written) -> bool:
        """Whether this is what was on its way into the log."""
        return bool(names.group(seen, written.after) == written.after)

    def commit(
        self, known: Known, names: ConsumerNames, logged: Logged[spec.Group], decision: groups.CommitRecord
    ) -> None:
        """The first group that was written is so in the log."""
        while known.written and known.written[0].failed:
            known.written.pop(0)
        if not known.written:
            raise Wrong("what is committed was not written")
        first = known.written.pop(0)
        if not self.is_as_written(names, decision.written, first):
            seen = names.group(decision.written, first.after)
            raise Wrong(f"what is committed is not the first that was written: {_difference(names, first.after, seen)}")
        _check_time(names, first.after, decision.written)
        known.committed_revision = max(known.committed_revision, first.revision)
        logged.commit(first.after)

    def fail(self, known: Known, names: ConsumerNames, logged: Logged[spec.Group], decision: groups.FailRecord) -> None:
        """The group is what it was before, and nothing that was decided since will be in the log."""
        places = [at for at, one in enumerate(known.written) if self.is_as_written(names, decision.written, one)]
        if not places:
            raise Wrong("what failed was not written")
        at = places[0]
        before = known.written[at].before
        seen = names.group(decision.after, before)
        if seen != before:
            raise Wrong(f"after a write that failed {_difference(names, before, seen)}")
        if decision.after is not None:
            self.check_timers(decision.after)
        _check_time(names, before, decision.after)
        known.group, known.target_ms = before, made_at(decision.after)
        del known.written[at:]

    def decide(
        self, known: Known, names: ConsumerNames, logged: Logged[spec.Group], decision: groups.OfConsumerGroup
    ) -> None:
        """The group is another one by it, which is written, or it is the same."""
        before = known.group
        step = self.step(names, at_time(before, known.target_ms, decision), decision)
        after = step.taken().with_old_target()
        found = names.group(decision.after, after)
        if found != after:
            raise Wrong(_difference(names, after, found))
        known.target_ms = target_ms_after(before, known.target_ms, after, decision)
        names.made_at.setdefault(after, set()).add(known.target_ms)
        known.resolving = resolving_after(known.resolving, names, after, decision)
        if decision.after is not None:
            _check_hash(names, after, decision.after)
            self.check_timers(decision.after)
        known.group = after
        if after != before and not step.is_written:
            raise Wrong("the group is another one, and nothing is written")
        if step.is_written:
            revision = 0 if decision.after is None else decision.after.revision
            known.written.append(Written(before, after, revision))
            logged.write(after)

    def check_timers(self, seen: groups.GroupSeen) -> None:
        """Nobody is waited for without an end."""
        for member in seen.members:
            if not member.has_session:
                raise Wrong(f"the session of {member.member_id} has no end")
            if bool(member.revoking) != member.has_to_give_back_in_time:
                raise Wrong(
                    f"the time of {member.member_id} to give back has {'no end' if member.revoking else 'not ended'}"
                )


def resolving_after(
    before: tuple[str, ...] | None, names: ConsumerNames, after: spec.Group, decision: groups.OfConsumerGroup
) -> tuple[str, ...] | None:
    """The expressions that are resolved after a decision; a group that has new ones begins. Raises Wrong."""
    match decision:
        case groups.EndResolution(expressions=expressions):
            if expressions != before:
                raise Wrong(f"{expressions} are resolved, and begun were {before or 'none'}")
            return None
        case groups.ReceiveHeartbeat(resolves=None, error=ErrorCode.none):
            if before is None and after.expressions and not after.resolved:
                raise Wrong("nothing is resolved, nor begun")
        case groups.ReceiveHeartbeat(resolves=tuple() as begun):
            if before is not None:
                raise Wrong(f"{begun} are begun, and {before} have not ended")
            if tuple(sorted(map(names.expression, begun))) != after.expressions:
                raise Wrong(f"{begun} are begun, and these are not the group's expressions")
            return begun
        case groups.DeleteGroup():
            return None
    return before


def made_at(seen: groups.GroupSeen | None) -> int:
    """When the target was made that a group has."""
    return 0 if seen is None else seen.target_ms


def at_time(group: spec.Group, target_ms: int, decision: groups.OfConsumerGroup) -> spec.Group:
    """The group when a heartbeat comes: whether its target is new then."""
    if not isinstance(decision, groups.ReceiveHeartbeat) or not target_ms or not decision.interval_ms:
        return group
    return evolve(group, target_is_new=target_ms <= decision.time_ms < target_ms + decision.interval_ms)


def target_ms_after(before: spec.Group, target_ms: int, after: spec.Group, decision: groups.OfConsumerGroup) -> int:
    """When the group's target was made, which is what the coordinator says. Raises Wrong."""
    if not after.members and after != before:
        target_ms = 0
    elif after.target_epoch != before.target_epoch and isinstance(decision, groups.ReceiveHeartbeat):
        target_ms = decision.time_ms
    if made_at(decision.after) != target_ms:
        raise Wrong(f"its target was made at {made_at(decision.after)}, in the specification at {target_ms}")
    return target_ms


def _check_time(names: ConsumerNames, group: spec.Group, seen: groups.GroupSeen | None) -> None:
    """When a target was made is in the log with it."""
    times = names.made_at.get(group, {0})
    if made_at(seen) not in times:
        raise Wrong(f"its target was made at {made_at(seen)}, and not at one of {sorted(times)}")


def is_mixed(decision: groups.OfConsumerGroup) -> bool:
    """Whether the group has to do with the classic protocol."""
    if isinstance(decision, groups.GoOver | groups.ExpireRejoin | groups.RefuseJoin):
        return True
    return decision.after is not None and any(member.is_classic for member in decision.after.members)


def _check_hash(names: ConsumerNames, group: spec.Group, seen: groups.GroupSeen) -> None:
    """The hash of a group's topics stands for them, and for the racks of their replicas."""
    of = group.known, group.racks
    if names.hashes.setdefault(of, seen.metadata_hash) != seen.metadata_hash:
        raise Wrong(f"the hash of its topics is {seen.metadata_hash}, and was {names.hashes[of]} for the same ones")


def possible(names: ConsumerNames, group: spec.Group) -> list[tuple[Action, spec.Group]]:
    """Time-outs and departures that may come to a group, each with the group after it."""
    machine = names.machine()
    kinds = [kind for kind in machine.action_types if issubclass(kind, timing.MemberTimeout)]
    machine = evolve(machine, bounds=Bounds({kind.bounded_as: 1 for kind in kinds}))
    state = spec.State((spec.Process(),), group)
    timeouts = [one for kind in kinds if kind.is_possible(machine) for one in kind.candidates(machine, state)]
    found: list[tuple[Action, spec.State]] = [
        (one, one.effect(machine, state)) for one in timeouts if not one.guard(machine, state)
    ]
    for member in group.members:
        if member.classic:
            continue
        leave = requests.ReceiveLeave(spec.HeartbeatRequest(0, member.member_id, spec.LEAVING_EPOCH))
        if leave.error(names.machine(member.instance), state) is spec.Error.NONE:
            found.append((leave, leave.effect(machine, state)))
    return [(action, after.loaded) for action, after in found if after.group != group]


class ConsumerStep:
    """A decision, as an action in a state."""

    judged: ClassVar[tuple[str, ...]] = JUDGED

    def __init__(self, names: ConsumerNames, group: spec.Group, decision: groups.OfConsumerGroup) -> None:
        self.names = names
        self.decision = decision
        self.is_written = True
        self.state = spec.State((spec.Process(),), group)

    def taken(self) -> spec.Group:
        """The group after it. Raises Wrong."""
        group, machine = self.state.loaded, self.names.machine()
        match self.decision:
            case groups.ReceiveHeartbeat() as beat:
                self.is_written = beat.is_written
                return self.beats(beat)
            case groups.EndResolution() as end:
                self.is_written = end.is_written
                return self._ends(end)
            case groups.ReceiveCommit() as commit:
                self.is_written = False
                self._commits(commit)
                return group
            case groups.ExpireSession(member_id=member_id):
                return self.times_out(timing.ExpireSession(self.names.member(member_id)))
            case groups.ExpireRebalance(member_id=member_id):
                return self.times_out(timing.ExpireRebalance(self.names.member(member_id)))
            case groups.RemoveMember(member_id=member_id):
                return removed(machine, self.state, self.names.member(member_id)).loaded
            case groups.DeleteGroup():
                if group.members:
                    raise Wrong("a group that has members is deleted")
                return spec.Group()
        raise Wrong("no action of the specification has that name")

    def times_out(self, action: timing.MemberTimeout) -> spec.Group:
        machine = self.names.machine()
        member = self.state.loaded.member(action.member_id)
        if member is None:
            raise Wrong("who is not there is removed")
        if missing := action.missing(machine, member):
            raise Wrong(f"a member is removed, and in the specification {missing}")
        return action.effect(machine, self.state).loaded

    # --- ConsumerGroupHeartbeat --------------------------------------------------------------------------------------

    def beats(self, beat: groups.ReceiveHeartbeat) -> spec.Group:
        if beat.error in OF_THE_REQUEST:
            return self.state.loaded
        machine = self.names.machine_at(beat)
        self.state = evolve(self.state, partitions=self.names.width)
        request = self.names.request(beat.request, self.state.loaded)
        if request.epoch < spec.JOINING_EPOCH:
            leave = requests.ReceiveLeave(request)
            self.agree(leave.error(machine, self.state), beat.error)
            return self.state.loaded if beat.error is not ErrorCode.none else leave.effect(machine, self.state).loaded
        error, after = requests.ReceiveHeartbeat(request, True).outcome(machine, self.state)
        self.agree(error, beat.error)
        if error is not spec.Error.NONE:
            return after.loaded
        told = requests.advanced(machine, self.state, request)[1]
        self.check_told(told, beat)
        self.judge(machine, after)
        return after.loaded

    def _ends(self, end: groups.EndResolution) -> spec.Group:
        """What expressions match is the group's, and begins an epoch if that is new."""
        machine = self.names.machine_resolving(end)
        self.state = evolve(self.state, partitions=self.names.width)
        after = timing.after_resolution(machine, self.state, tuple(map(self.names.expression, end.expressions)))
        self.judge(machine, evolve(self.state, group=after))
        return after

    def check_told(self, told: spec.Response, beat: groups.ReceiveHeartbeat) -> None:
        """The member is told what it is in the specification. Raises Wrong."""
        assignment = None if beat.assignment is None else self.names.partitions(beat.assignment)
        if (beat.epoch, assignment) != (told.epoch, told.assignment):
            raise Wrong(
                f"the response is {plain(spec.Response(beat.epoch, assignment))}, in the specification {plain(told)}"
            )

    def agree(self, error: spec.Error, said: ErrorCode) -> None:
        """A group that is not there has no members: the specification does not tell the two apart."""
        said = ErrorCode.unknown_member_id if said is ErrorCode.group_id_not_found else said
        if said.value != error.value:
            raise Wrong(f"the response is {said.name.upper()}, in the specification {error.name}")

    def judge(self, machine: ConsumerGroups, after: spec.State) -> None:
        invariants = properties.invariants(machine)
        for name in self.judged:
            if not invariants[name](evolve(after, appended=())):
                raise Wrong(f"{name} is violated by {plain(after.loaded)}")

    # --- OffsetCommit ------------------------------------------------------------------------------------------------

    def _commits(self, decision: groups.ReceiveCommit) -> None:
        """Each partition is taken from who has it; an empty group takes offsets of who is no member."""
        asked, group, names = decision.request, self.state.loaded, self.names
        for new in asked.offsets:
            said = decision.refused.get((new.topic, new.partition), decision.error)
            is_of_nobody = asked.is_of_group_alone or (asked.generation < 0 and not group.members)
            place = asked.topic_ids.get(new.topic, ""), new.partition
            request = spec.CommitRequest(0, names.member(asked.member_id), asked.generation, names.partition(place), 0)
            self.agree(spec.Error.NONE if is_of_nobody else names.machine().commit_error(group, request), said)


def _difference(names: ConsumerNames, expected: spec.Group, found: spec.Group) -> str:
    """What of a group is not as in the specification."""
    return "; ".join(_differences(names, expected, found)) or "it is another one"


def _differences(names: ConsumerNames, expected: spec.Group, found: spec.Group) -> Iterator[str]:
    told = {number: name for name, number in names.members.items()}
    for field in ("epoch", "target_epoch", "target", "resolved"):
        if getattr(found, field) != getattr(expected, field):
            said, wanted = plain(getattr(found, field)), plain(getattr(expected, field))
            yield f"its {field.replace('_', ' ')} is {said}, in the specification {wanted}"
    of_found, of_expected = ({one.member_id: one for one in group.members} for group in (found, expected))
    for member_id in sorted({*of_found, *of_expected}):
        here, there = (of.get(member_id) for of in (of_found, of_expected))
        if here != there:
            name = told.get(member_id, str(member_id))
            yield f"member {name} is {_plain(here)}, in the specification {_plain(there)}"


def _plain(member: spec.Member | None) -> str:
    return "none" if member is None else plain(member)
