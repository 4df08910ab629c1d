"""Groups that go over, in lockstep: the cores of a coordinator beside the machine of `spec.groups.migration`.

Who leads a classic group is the specification's: which of its members does is no matter of a migration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.messages import (
    MEMBER_ID_REQUIRED_FROM,
    GroupWrite,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    Leaving,
    Moment,
    Outcome,
    SyncGroup,
    SyncResponse,
)
from tidegauge.impl.coordinators.groups.classic.state import Protocol
from tidegauge.impl.coordinators.groups.classic.turn import ClassicLimits, DeadlineKey, Timer
from tidegauge.impl.coordinators.groups.consumer.coordinator import (
    Beat,
    ConsumerDeadline,
    ConsumerLimits,
    ConsumerTimer,
    ConsumerWrite,
    Refused,
    WentOver,
)
from tidegauge.impl.coordinators.groups.consumer.records import MEMBER
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup, ConsumerHeartbeat, HeartbeatResponse
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.group_metadata import group_record
from tidegauge.impl.coordinators.groups.migration.coordinator import Decision, tombstones
from tidegauge.impl.coordinators.groups.migration.embedded import encode_assignment, read_assignment
from tidegauge.impl.coordinators.groups.migration.rules import MigrationLimits, MigrationRules
from tidegauge.impl.coordinators.groups.record_formats import ConsumerKey, GroupRecord, decode_key
from tidegauge.impl.coordinators.groups.requests import Ruling
from tidegauge.model_tests.harness.cores.consumer_abstraction import (
    GROUP,
    ConsumerRoles,
    abstract_group,
    abstract_offsets,
    error_as_specified,
    instance_name,
    member_name,
    topic_name,
    with_target_of,
)
from tidegauge.model_tests.harness.cores.consumer_beside import error_of as error_in
from tidegauge.model_tests.harness.cores.consumer_beside import with_one_more
from tidegauge.model_tests.harness.cores.consumer_groups import (
    CLASSIC_SESSION_MS,
    OFTEN,
    REBALANCE_MS,
    SESSION_MS,
    ConsumerCores,
    entries,
    error_of,
)
from tidegauge.model_tests.harness.cores.consumer_values import check_values
from tidegauge.model_tests.harness.cores.embedded_formats import reads_every_version
from tidegauge.model_tests.harness.cores.migration_abstraction import (
    abstract_classic,
    abstract_metadata,
    partitions,
    subscription,
)
from tidegauge.model_tests.harness.cores.migration_beside import (
    POLICIES,
    PROTOCOLS,
    Batch,
    check_expected,
    check_version,
    claim_what_is_anothers,
    claiming,
    is_as_before,
    rules_differ,
    said_aloud,
    with_session,
)
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan, enabled_candidates
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.groups.consumer import processes
from tidegauge.spec.groups.consumer import requests as consumer_requests
from tidegauge.spec.groups.consumer import state as spec
from tidegauge.spec.groups.consumer import timing as consumer_timing
from tidegauge.spec.groups.consumer.state import State
from tidegauge.spec.groups.migration import requests, timing
from tidegauge.spec.groups.migration import rules as specified
from tidegauge.spec.groups.migration.machine import GroupMigration as Machine
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action

NOW: Final = Moment(0, 1_000_000)
PROTOCOL: Final = PROTOCOLS[0]
LANDED: Final = 3
"""So many batches are remembered."""
TOO_LONG: Final = "x" * 40_000


@attrs.frozen
class MigrationRoles:
    """The classes that play each part."""

    rules: type[MigrationRules] = MigrationRules


CORRECT_MIGRATION: Final = MigrationRoles()


def large_migrations(rng: Random) -> Machine:
    """A machine for a walk: it bounds little."""
    bounds = dict.fromkeys(Machine().perturbations, OFTEN)
    bounds["FailOver"] = rng.choice((0, OFTEN))
    bounds |= {name: rng.choice((0, 3)) for name in ("ExpireRebalance", "ExpireRejoin", "ExpireSession", "EndJoining")}
    count = rng.choice((2, 3))
    shapes: tuple[tuple[int, ...], ...] = ((), (), (0,), (0, 1), (0, 0))
    return Machine(
        processes=count,
        instances=rng.choice(shapes),
        classic=tuple(rng.random() < 0.6 for _ in range(count)),
        partitions=rng.choice((1, 2, 3)),
        commits=rng.choice((0, 2)),
        eager=rng.random() < 0.3,
        policy=rng.choice((specified.Policy.BIDIRECTIONAL,) * 3 + (*specified.Policy,)),
        bounds=Bounds(bounds),
        spaces_targets=rng.random() < 0.3,
    )


class MigrationCores(ConsumerCores):
    """One group at its coordinator, in the machine's initial state."""

    machine: Machine

    def __init__(self, machine: Machine, roles: MigrationRoles = CORRECT_MIGRATION) -> None:
        self.migration_roles = roles
        self.sent = 0
        """JoinGroups: no two say the same."""
        self.landed: list[ConsumerWrite] = []
        """The last batches of a consumer group that are committed."""
        self.given: dict[int, str] = {}
        """The member ids that the coordinator has made, for static members."""
        super().__init__(machine, ConsumerRoles())

    def started(self, records: list[GroupRecord]) -> GroupCoordinator:
        consumer = ConsumerLimits(interval_ms=self.numbers.interval_ms)
        coordinator = GroupCoordinator(Limits(classic=ClassicLimits(initial_delay_ms=0), consumer=consumer))
        rules = with_target_of(self.machine, self.roles.rules, self.numbers)
        coordinator.consumers.rules = rules
        coordinator.consumers.watching = lambda group, decided: self.decided.append(decided)
        limits = MigrationLimits(POLICIES[self.machine.policy])
        assert coordinator.migration.rules.limits == MigrationLimits(), "the limits are others"
        self.landed = []
        coordinator.migration.rules = self.migration_roles.rules(limits, rules)
        reads_every_version()
        coordinator.replay(entries(records))
        for group in list(coordinator.offsets.metadata):
            coordinator.take_over(group, NOW)
        for group in coordinator.consumers.committed:
            coordinator.consumers.load(group, SESSION_MS, 0)
        return coordinator

    def perform(self, action: Action, before: State) -> None:
        if type(action) in STEPS:
            STEPS.perform(self, action, before)
        while self.appended and not self.machine.writes_in_two_steps:
            self.commit_first()

    # --- what is appended --------------------------------------------------------------------------------------------

    def carry_out(self, outcome: Outcome) -> None:
        for write in outcome.writes:
            beneath = self.core.migration.beneath(write.group)
            records = (group_record(write.group, write.metadata), *tombstones(beneath))

            self.appended.append(Batch(records, self.when_written(write, beneath)))  # type: ignore[arg-type]

    def when_written(self, write: GroupWrite, beneath: ConsumerGroup | None) -> Callable[[GroupCoordinator, int], None]:
        """What is done once the group's record is committed: the group beneath is no more, unless it is another one."""

        def commit(core: GroupCoordinator, place: int) -> None:
            lay = core.consumers.get(GROUP)
            self.carry_out(core.group_written(write, place, NOW, beneath))
            if beneath is not None:
                assert GROUP not in core.consumers.committed, "the log has a consumer group still"
                left = core.consumers.get(GROUP)
                assert left is (None if lay is beneath else lay), f"{left} is left of {lay}"

        return commit

    def decide(self, decision: Decision) -> None:
        self.carry_out(decision.outcome)
        if (write := decision.write).classic is not None:
            assert any(isinstance(one, WentOver) for one in self.decided), f"{self.decided} is told of going over"
        self.decided.clear()
        check_values(write.records)
        if write.records:
            batch = Batch(write.records, partial(self.land, write))
            self.appended.append(batch)  # type: ignore[arg-type]

    def land(self, write: ConsumerWrite, core: GroupCoordinator, place: int) -> None:
        """A batch is committed; what was before it is, too, unless a group of which the log has nothing has begun."""
        core.consumers_written(write, place)
        self.landed = [*self.landed[-LANDED:], write]
        has_begun = GROUP in core.consumers.groups and GROUP not in core.consumers.committed
        landed = [write] if has_begun else self.landed
        assert all(map(core.consumers.is_committed, landed)), "it is not in the log when it was written"

    def write_with_the_last(self) -> None:
        """Who joins again may say of itself what is new to the record alone, where nobody waits for the response."""
        extra = self.appended.pop()
        assert isinstance(extra, Batch), f"{extra} is written, and changes nothing"
        kinds = {key.kind for key in (decode_key(one.key) for one in extra.records) if isinstance(key, ConsumerKey)}
        assert kinds == {MEMBER}, f"{kinds} is written, and changes nothing"
        if not self.appended:
            self.appended.append(extra)
            self.commit_first()
            return
        last = self.appended.pop()

        def commit(core: GroupCoordinator, place: int) -> None:
            if isinstance(last, Batch):
                last.commit(core, place)
            elif isinstance(last, Ruling):
                core.committed(last, place)
            extra.commit(core, place)

        records = (*(() if last is None else last.records), *extra.records)
        self.appended.append(Batch(records, commit))

    def commit_first(self) -> None:
        first, place = self.appended.pop(0), len(self.log)
        if isinstance(first, Batch):
            self.log += first.records
            first.commit(self.core, place)
        else:
            self.appended.insert(0, first)
            super().commit_first()

    # --- requests ----------------------------------------------------------------------------------------------------

    def name_of(self, member_id: int) -> str:
        """The member id: the coordinator has made that of a static classic member."""
        return self.given.get(member_id, member_name(member_id))

    @property
    def is_mixed(self) -> bool:
        """Whether a classic member is served by the core of consumer groups."""
        return self.core.migration.mixed_group(GROUP) is not None

    def migrate(self, request: spec.HeartbeatRequest, state: State) -> Decision | ErrorCode:
        """A ConsumerGroupHeartbeat, JoinGroup or LeaveGroup; what it decides, or its error."""
        if not request.classic:
            return self.beat_of_both(request, state)
        if request.epoch == spec.LEAVING_EPOCH:
            return self.leave(request, state)
        return self.join(request, state)

    def beat_of_both(self, request: spec.HeartbeatRequest, state: State) -> Decision | ErrorCode:
        says = request.full or request.epoch == spec.JOINING_EPOCH
        asked = ConsumerHeartbeat(
            GROUP,
            self.name_of(request.member_id),
            request.epoch,
            instance_id=instance_name(self.machine, request.process),
            rebalance_timeout_ms=REBALANCE_MS if says else -1,
            topics=tuple(map(topic_name, request.topics)),
            expression="",
            owned=None if request.owned is None else frozenset(map(self.numbers.place, request.owned)),
        )
        ask = partial(self.core.migration.heartbeat, known=self.known(state), session_timeout_ms=SESSION_MS, now=NOW)
        if request.epoch == spec.JOINING_EPOCH:
            is_as_before(self.core, lambda: ask(attrs.evolve(asked, client_id=TOO_LONG)))
        mixed = request.epoch == spec.JOINING_EPOCH and self.core.classic.get(GROUP) is None
        self.decided.clear()
        made = with_one_more(self, asked.member_id, asked.instance_id, partial(ask, asked)) if mixed else ask(asked)
        (decided,) = (one for one in self.decided if isinstance(one, Beat | Refused))
        told = decided.error if isinstance(decided, Refused) else error_in(decided.came)
        assert told is error_in(made), f"{decided} is told, and {made} comes of it"
        return made.error if isinstance(made, HeartbeatResponse) else made

    def join(self, request: spec.HeartbeatRequest, state: State) -> Decision | ErrorCode:
        self.sent += 1
        name, instance_id = self.name_of(request.member_id), instance_name(self.machine, request.process)
        is_unnamed = request.member_id == spec.NONE
        if is_unnamed:
            name = self.given[state.member_ids] = f"{instance_id}-{state.member_ids:03}"
        places = [(topic_name(one % self.machine.topics), one // self.machine.topics) for one in request.owned or ()]
        metadata = subscription(map(topic_name, request.topics), places, self.sent, request.generation)
        asked = JoinGroup(
            GROUP,
            "consumer",
            tuple(Protocol(one, metadata) for one in PROTOCOLS),
            "" if is_unnamed else name,
            instance_id,
            session_timeout_ms=CLASSIC_SESSION_MS,
            client_id=name[:-4],
            unique=name[-3:],
        )
        if self.is_mixed:
            return self.join_mixed(asked, name, state)
        known = self.core.classic.get(GROUP)
        if request.full and not is_unnamed and (known is None or name not in known.members):
            required = self.core.classic.join(attrs.evolve(asked, member_id=""), object(), NOW)
            ((_, told),) = required.responses
            assert (told.error, told.member_id) == (ErrorCode.member_id_required, name)  # type: ignore[union-attr]
        outcome = self.core.classic.join(asked, token := object(), NOW)
        self.carry_out(outcome)
        return dict(outcome.responses).get(token, JoinResponse()).error

    def ask_to_join(self, state: State, asked: JoinGroup) -> Decision | JoinResponse:
        """A JoinGroup in a consumer group; who follows is told of what is refused, but of who has no id yet."""
        self.decided.clear()
        made = self.core.migration.join(asked, self.known(state), NOW)
        if isinstance(made, JoinResponse) and made.error is not ErrorCode.member_id_required:
            (told,) = self.decided
            error = told.error if isinstance(told, Refused) else error_in(told.came) if isinstance(told, Beat) else None
            assert error is made.error, f"{told} is told of {made}"
        return made

    def join_mixed(self, asked: JoinGroup, name: str, state: State) -> Decision | ErrorCode:
        """A JoinGroup in a consumer group. Who has no id is given one, and joins with that; of old clients at once."""
        ask = partial(self.ask_to_join, state)
        for one in (attrs.evolve(asked, client_id=TOO_LONG), attrs.evolve(asked, session_timeout_ms=1)):
            is_as_before(self.core, partial(ask, one))
        members = self.core.consumers.groups[GROUP].members
        if asked.instance_id is None and name not in members:
            unnamed = attrs.evolve(asked, member_id="")
            required = ask(unnamed)
            wanted = JoinResponse(ErrorCode.member_id_required, name)
            assert required == wanted, f"{required} is told who has no id, and not {wanted}"
            for other in (attrs.evolve(asked, protocol_type="connect"), attrs.evolve(asked, protocols=())):
                refused = ask(other)
                wrong = JoinResponse(ErrorCode.inconsistent_group_protocol, name)
                assert refused == wrong, f"{refused} is told whose protocol the group has not"
            if self.sent % 2:
                asked = attrs.evolve(unnamed, version=MEMBER_ID_REQUIRED_FROM - 1)
        if asked.instance_id is None:
            says = partial(subscription, self.known(state).topics, nonce=self.sent)
            topics = self.known(state).topics
            claim_what_is_anothers(members.get(name), topics, lambda owned: ask(claiming(asked, says(owned))))
        made = with_one_more(self, name, asked.instance_id, partial(ask, asked))
        if isinstance(made, JoinResponse):
            return made.error
        if name in self.core.consumers.groups.get(GROUP, ConsumerGroup(GROUP)).members:
            check_expected(self, name, join=False, sync=True)
        told = self.core.migration.join_response(asked, made.write.response)
        epoch = made.write.response.epoch
        wanted = JoinResponse(member_id=name, generation=epoch, protocol_type="consumer", protocol=PROTOCOL)
        assert told == wanted, f"{told} is told, and not {wanted}"
        return made

    def leave(self, request: spec.HeartbeatRequest, state: State) -> Decision | ErrorCode:
        leaving = Leaving(self.name_of(request.member_id), instance_name(self.machine, request.process))
        if self.is_mixed:
            left, decision = self.core.migration.leave(GROUP, leaving, self.known(state).topics, NOW)
            return left.error if decision is None else decision
        outcome = self.core.classic.leave(LeaveGroup(GROUP, (leaving,)), object(), NOW)
        self.carry_out(outcome)
        responses = [one.responses for one in outcome.writes if one.responses]
        _, told = outcome.responses[-1] if outcome.responses and not responses else responses[0][0]
        return told.members[0].error  # type: ignore[union-attr]

    def receive_heartbeat(
        self,
        action: consumer_requests.ReceiveHeartbeat | consumer_requests.ReceiveLeave | consumer_requests.LoseResponse,
        before: State,
    ) -> None:
        if isinstance(action, consumer_requests.LoseResponse):
            request = self.machine.heartbeat_request(before, action.process)
            assert request is not None, "the guard says so"
        else:
            request = action.request
        if before.group is None:
            return
        made = self.migrate(request, before)
        if isinstance(action, requests.ReceiveHeartbeat):
            error, after = action.outcome(self.machine, before)
            found = made if isinstance(made, ErrorCode) else ErrorCode.none
            self.check_error(found, error)
            if isinstance(made, Decision) and not action.late and not self.machine.writes_in_two_steps:
                process = after.processes[request.process]
                assert made.write.response.epoch == process.epoch, "another epoch is told"
        if isinstance(made, Decision):
            self.decide(made)

    def check_error(self, found: ErrorCode, expected: spec.Error) -> None:
        assert self.as_specified(found).value == expected.value, f"{expected.name} is told, and not {found.name}"

    def as_specified(self, error: ErrorCode) -> ErrorCode:
        """A consumer group that is not there has no members; a classic one that stays one is not found."""
        return error if self.core.classic.get(GROUP) is not None else error_as_specified(error)

    def receive_sync(self, action: requests.ReceiveSync, before: State) -> None:
        """While a coordinator is loading the shell has the response, and no core is asked."""
        if before.group is None:
            return
        process = before.processes[action.process]
        expected, _ = action.outcome(self.machine, before)
        name, shares = self.name_of(process.member_id), {}
        if before.classic is not None and before.classic.leader == process.member_id:
            shares = self.machine.shares(before.classic)
        given = {
            self.name_of(one): encode_assignment(
                [(topic_name(p % self.machine.topics), p // self.machine.topics) for p in has], 1
            )
            for one, has in shares.items()
        }
        instance_id = instance_name(self.machine, action.process)
        asked = SyncGroup(GROUP, process.epoch, name, instance_id, "consumer", PROTOCOL, tuple(given.items()))
        if self.is_mixed:
            self.sent += 1
            if self.sent % 2:  # clients of before KIP-559 do not say what they take the group's protocol for
                asked = attrs.evolve(asked, protocol_type=None, protocol=None)
            elif self.sent % 4:
                asked = attrs.evolve(asked, protocol=PROTOCOLS[1])
            ask = partial(self.core.migration.sync, asked, self.known(before).topics, NOW)
            made = with_session(self, name, ask, lambda one: not isinstance(one, ErrorCode))
            if isinstance(made, ErrorCode):
                self.check_error(made, expected)
                if made is ErrorCode.rebalance_in_progress:
                    check_expected(self, name, join=True)
                return
            self.check_error(ErrorCode.none, expected)
            check_expected(self, name, sync=False)
            told_protocol = made[1].error, made[1].protocol_type, made[1].protocol
            wanted_protocol = ErrorCode.none, "consumer", asked.protocol or PROTOCOL
            assert told_protocol == wanted_protocol, f"{told_protocol} is told, and not {wanted_protocol}"
            for other in (attrs.evolve(asked, protocol="another"), attrs.evolve(asked, protocol_type="connect")):
                error = self.core.migration.sync(other, self.known(before).topics, NOW)
                assert error is ErrorCode.inconsistent_group_protocol, f"{error} is told of {other}"
            member = before.loaded.member(process.member_id)
            assert member is not None, "it is known"
            assert partitions(read_assignment(made[1].assignment), self.machine) == spec.partitions_of(member.assigned)
            check_version(self, name, made[1].assignment)
            return
        outcome = self.core.classic.sync(asked, token := object(), NOW)
        self.carry_out(outcome)
        told = dict(outcome.responses).get(token)
        self.check_error(ErrorCode.none if told is None else told.error, expected)
        if isinstance(told, SyncResponse) and told.error is ErrorCode.none and before.classic is not None:
            share = before.classic.member(process.member_id)
            assert share is not None, "it is known"
            assert partitions(read_assignment(told.assignment), self.machine) == share.assigned

    def heartbeat_of(self, action: requests.ReceiveBeat, before: State) -> ErrorCode:
        process = before.processes[action.process]
        instance_id = instance_name(self.machine, action.process)
        name = self.name_of(process.member_id)
        asked = Heartbeat(GROUP, process.epoch, name, instance_id)
        if not self.is_mixed:
            return self.core.classic.heartbeat(asked, NOW)
        taken = ErrorCode.none, ErrorCode.rebalance_in_progress
        beat = partial(said_aloud, self.core, partial(self.core.migration.beat, asked, NOW))
        error = with_session(self, name, beat, taken.__contains__)
        if error is ErrorCode.rebalance_in_progress:
            check_expected(self, name, join=True)
        return error

    def receive_beat(self, action: requests.ReceiveBeat, before: State) -> None:
        self.check_error(self.heartbeat_of(action, before), action.outcome(self.machine, before)[0])

    # --- requests that are refused -----------------------------------------------------------------------------------

    def can_send(self, kind: type[Action]) -> bool:
        return issubclass(kind, SENT)

    def refuse(self, action: Action, before: State) -> ErrorCode | None:
        if self.coordinator is None:
            return None
        if isinstance(action, consumer_requests.ReceiveCommit):
            return self.as_specified(error_of(self.commit(action.request)))
        if isinstance(action, requests.ReceiveBeat):
            return self.as_specified(self.heartbeat_of(action, before))
        assert isinstance(action, requests.ReceiveHeartbeat | requests.ReceiveLeave), "no other action can be sent"
        made = self.migrate(action.request, before)
        if isinstance(made, Decision):
            if made.write.records:
                self.decide(made)
                self.write_with_the_last()
            return ErrorCode.none
        return self.as_specified(made)

    # --- time and the log --------------------------------------------------------------------------------------------

    def expire(self, action: consumer_timing.MemberTimeout, before: State) -> None:
        name = self.name_of(action.member_id)
        if before.classic is not None:
            self.carry_out(self.core.classic.timed_out(DeadlineKey(GROUP, Timer.SESSION, name), NOW))
            return
        write = self.core.consumers.timed_out(ConsumerDeadline(GROUP, TIMERS[type(action)], name))
        assert isinstance(write, ConsumerWrite), "nothing is due"
        self.decide(self.core.migration.decided(write, self.known(before).topics, NOW))

    def end_joining(self, action: timing.EndJoining, before: State) -> None:
        """While members come the first wait is made longer; static members who have not come are waited for again."""
        group = self.core.classic.groups[GROUP]
        self.carry_out(self.core.classic.timed_out(DeadlineKey(GROUP, Timer.JOIN), NOW))
        while group.initial is not None:
            self.carry_out(self.core.classic.timed_out(DeadlineKey(GROUP, Timer.JOIN), NOW))

    # --- what no field shows -----------------------------------------------------------------------------------------

    def differences(self, state: State) -> Iterator[Change]:
        """The same as of a consumer group, and what rules say of it as it is."""
        yield from super().differences(state)
        if self.coordinator is not None:
            yield from rules_differ(self, state, self.known(state).topics)

    # --- as the specification has it ---------------------------------------------------------------------------------

    def abstraction(self, expected: State) -> State:
        """What the coordinator has in memory, the log, and what of it is not committed."""
        if len(self.appended) > len(expected.appended):
            self.write_with_the_last()
        self.appended += [None] * (len(expected.appended) - len(self.appended))
        assert len(self.appended) == len(expected.appended), "something is written that changes nothing"
        new = list(entries(self.log[self.read :]))
        self.read = len(self.log)
        self.reader.replay(new)
        self.offsets = abstract_offsets(new, self.machine, self.offsets)
        committed = abstract_group(self.reader.consumers.committed.get(GROUP), self.numbers, expected.log.group)
        metadata = abstract_metadata(self.reader.offsets.metadata.get(GROUP), self.machine)
        log = spec.Log(committed, self.offsets, metadata)
        if self.coordinator is None:
            return evolve(expected, group=None, classic=None, log=log)
        written, read = (one.offsets.metadata.get(GROUP) for one in (self.coordinator, self.reader))
        assert written == read, f"{written} is known to be committed, and the log has {read}"
        classic = self.coordinator.classic.get(GROUP)
        if classic is None:
            known = expected.group or spec.Group()
            group = abstract_group(self.coordinator.consumers.get(GROUP), self.numbers, known)
            return evolve(expected, group=group, classic=None, log=log)
        beneath = self.coordinator.consumers.get(GROUP)
        assert beneath is None or not beneath.members, "the group is of both types"
        leader = -1 if expected.classic is None else expected.classic.leader
        if self.name_of(leader) in classic.members:
            classic.leader = self.name_of(leader)
        abstract = abstract_classic(classic, self.machine)
        assert abstract is not None, "it is there"
        if -1 not in (abstract.leader, leader):  # one that is out leads until there is another one
            abstract = evolve(abstract, leader=leader)
        return evolve(expected, classic=abstract, log=log)


TIMERS: Final[dict[type[consumer_timing.MemberTimeout], ConsumerTimer]] = {
    timing.ExpireSession: ConsumerTimer.SESSION,
    timing.ExpireRebalance: ConsumerTimer.REBALANCE,
    timing.ExpireRejoin: ConsumerTimer.JOIN,
}
SENT: Final = (requests.ReceiveHeartbeat, consumer_requests.ReceiveCommit, requests.ReceiveLeave, requests.ReceiveBeat)
STEPS: Final = Steps[MigrationCores, [State], None](
    on(requests.ReceiveHeartbeat, MigrationCores.receive_heartbeat),
    on(requests.ReceiveLeave, MigrationCores.receive_heartbeat),
    on(requests.LoseResponse, MigrationCores.receive_heartbeat),
    on(requests.ReceiveSync, MigrationCores.receive_sync),
    on(requests.ReceiveBeat, MigrationCores.receive_beat),
    on(consumer_requests.ReceiveCommit, MigrationCores.receive_commit),
    on(timing.ExpireSession, MigrationCores.expire),
    on(timing.ExpireRebalance, MigrationCores.expire),
    on(timing.ExpireRejoin, MigrationCores.expire),
    on(consumer_timing.EndInterval, MigrationCores.end_interval),
    on(timing.EndJoining, MigrationCores.end_joining),
    on(timing.CommitRecord, MigrationCores.commit_record),
    on(consumer_timing.FailOver, MigrationCores.fail_over),
    on(consumer_timing.Load, MigrationCores.load),
)
"""All others are no coordinator's."""
MIGRATION_WALKS: Final = WalkPlan(
    large_migrations,
    perturbations=frozenset(
        {
            requests.ReceiveLeave,
            timing.StartOver,
            processes.Crash,
            requests.LoseResponse,
            consumer_requests.DelayHeartbeat,
            consumer_requests.DelayCommit,
            timing.ExpireSession,
            timing.ExpireRejoin,
            consumer_timing.FailOver,
        }
    ),
    enabled=enabled_candidates,
    length=80,
)
