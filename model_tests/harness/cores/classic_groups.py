"""Classic groups in lockstep: the cores of coordinator and members beside the machine of `spec.groups.classic`.

The harness is the shell: it has the log, in records as they are on a disk, it knows which process a waiting request is
of, and it lets deadlines pass when the machine says so. The members are in `group_clients`.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.classic.coordinator import ClassicGroups as ClassicCore
from tidegauge.impl.coordinators.groups.classic.members import ClassicRules
from tidegauge.impl.coordinators.groups.classic.messages import (
    GroupWrite,
    Heartbeat,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    Leaving,
    Moment,
    Outcome,
    Response,
    SyncGroup,
)
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, Protocol, Token
from tidegauge.impl.coordinators.groups.classic.turn import DeadlineKey, Timer
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.log_entries import LogEntry, log_entries
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset
from tidegauge.impl.coordinators.groups.record_formats import OffsetKey
from tidegauge.impl.coordinators.groups.requests import Commit, NewOffset, Ruling
from tidegauge.impl.records.batches import BatchHeader
from tidegauge.impl.records.payload import Record, build_batch, decode_records
from tidegauge.model_tests.harness.cores.classic_beside import (
    TOPIC,
    ask_where_it_is_full,
    load_where_it_is_too_large,
    refuses_what_is_no_group,
    told_otherwise,
)
from tidegauge.model_tests.harness.cores.classic_commits import commits_differ
from tidegauge.model_tests.harness.cores.classic_copies import copies_differ
from tidegauge.model_tests.harness.cores.classic_times import GROUP, Times, rebalance_ms, session_ms
from tidegauge.model_tests.harness.cores.group_abstraction import (
    abstract_entry,
    abstract_group,
    abstract_log,
    abstract_response,
    listed,
    said,
)
from tidegauge.model_tests.harness.cores.group_clients import CORRECT_CLIENTS, ClientRoles, GroupClients
from tidegauge.model_tests.harness.cores.group_records import group_as_stored
from tidegauge.model_tests.harness.lockstep.walks import WalkPlan, enabled_candidates
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.groups.classic import actions, processes, requests, timing
from tidegauge.spec.groups.classic import state as spec
from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.groups.classic.state import NONE, Phase, State
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action

CLIENT: Final = "client"
OFTEN: Final = 1_000


@attrs.frozen
class GroupRoles:
    """The classes that play each part."""

    coordinator: type[GroupCoordinator] = GroupCoordinator
    rules: type[ClassicRules] = ClassicRules
    clients: ClientRoles = CORRECT_CLIENTS


CORRECT_GROUPS: Final = GroupRoles()


def large_groups(rng: Random) -> ClassicGroups:
    """A machine for a walk: it bounds little."""
    count = rng.choice((1, 2, 3, 4))
    shapes: tuple[tuple[int, ...], ...] = ((), (0,), (0, 1), (0, 0), (NONE, 0, 0))
    fitting = [shape for shape in shapes if len(shape) <= count]
    bounds = dict.fromkeys(ClassicGroups().perturbations, OFTEN)
    bounds |= {"AddPartition": 2, "FailOver": rng.choice((0, OFTEN)), "ExpireSession": rng.choice((0, 3, OFTEN))}
    bounds |= {name: rng.choice((0, 3)) for name in ("Hang", "ExpireRebalance", "ExpireSync")}
    protocols = rng.choice(((), (), ((0,), (1, 0)), ((0, 1), (1, 0), (1,))))
    return ClassicGroups(
        processes=count,
        instances=rng.choice(fitting),
        protocols=protocols[:count],
        cooperative=rng.choice((False, True)),
        requires_id=rng.choice((False, True)),
        partitions=rng.choice((1, 2, 3)),
        topics=rng.choice((1, 2)),
        commits=rng.choice((0, 2, 5)),
        bounds=Bounds(bounds),
    )


@attrs.define(eq=False)
class Request:
    """A JoinGroup or SyncGroup: the process that will have its response, and the response if there is one."""

    process: int
    error: ErrorCode | None = None
    member_id: str = ""
    """The one that a JoinGroup is told."""


class GroupCores:
    """One group at its coordinator, in the machine's initial state."""

    def __init__(self, machine: ClassicGroups, roles: GroupRoles = CORRECT_GROUPS) -> None:
        self.machine = machine
        self.roles = roles
        self.log: list[bytes] = []
        """Batches of one record: what is committed."""
        self.appended: list[GroupWrite | Ruling] = []
        """What is not."""
        self.responses: dict[int, spec.Response] = {}
        """What is on its way to a process."""
        self.waiting: list[Request] = []
        self.names: dict[int, str] = {}
        """The member ids that were given, by their numbers."""
        self.clients = GroupClients(machine, roles.clients)
        self.ticks = 0
        self.subscribed: tuple[int, frozenset[int]] = (NONE, frozenset())
        """A generation, and the topics that its members subscribe to."""
        self.came: list[Outcome] = []
        self.followed_by: list[Outcome | ErrorCode] = []
        """What has come of calls since the last state, and of what who follows the decisions was told."""
        self.times = Times()
        self.asking = Random(0)
        """Draws what a copy is asked in each state."""
        self.leaving: list[Request] = []
        """Those who leave, and have no response."""
        self.coordinator: GroupCoordinator | None = self.started()

    def close(self) -> None:
        """There is nothing to stop."""

    @property
    def now(self) -> Moment:
        """Another time for each action; no session ends by it."""
        return Moment(1_000 + self.ticks, 1_000_000 + self.ticks)

    def started(self) -> GroupCoordinator:
        """A coordinator that has loaded the log."""
        coordinator = self.roles.coordinator(Limits())
        coordinator.classic.rules = self.roles.rules()
        coordinator.classic.watch = lambda asked, group, came, token: self.followed_by.append(came)
        self.subscribed = (NONE, frozenset())
        coordinator.offsets.replay(self.entries())
        self.take(coordinator.take_over(GROUP, self.now))
        return coordinator

    @property
    def classic(self) -> ClassicCore:
        """The core of classic groups."""
        return self.core.classic

    @property
    def core(self) -> GroupCoordinator:
        assert self.coordinator is not None, "it is loading"
        return self.coordinator

    def perform(self, action: Action, before: State) -> None:
        """Do what the action says; it is enabled in the specification."""
        self.ticks += 1
        STEPS.perform(self, action, before)
        while self.appended and not self.machine.writes_in_two_steps:
            self.commit_first()
        self.leaving = [one for one in self.leaving if one.error is None]
        assert self.appended or not self.leaving, "who has left has no response, and nothing is on its way into the log"

    # --- the log -----------------------------------------------------------------------------------------------------

    def entries(self) -> Iterator[LogEntry]:
        """What the log says."""
        for place, batch in enumerate(self.log):
            for entry in log_entries(BatchHeader.parse(batch), decode_records(batch), None):
                yield entry._replace(log_offset=place)

    def store(self, appended: GroupWrite | Ruling) -> None:
        """A record is in the log."""
        nth = self.ticks
        records = appended.records if isinstance(appended, Ruling) else [group_as_stored(GROUP, appended.metadata, nth)]
        for key, value in records:
            self.log.append(build_batch([Record(0, self.now.wall_ms, key, value)]))

    def commit_first(self) -> None:
        """The first record that is not committed is now."""
        first, place = self.appended.pop(0), len(self.log)
        self.store(first)
        if isinstance(first, GroupWrite):
            self.take(self.core.group_written(first, place, self.now))
        else:
            self.core.committed(first, place)

    def commit_record(self, action: timing.CommitRecord, before: State) -> None:
        self.commit_first()

    def fail_over(self, action: timing.FailOver, before: State) -> None:
        for one in self.appended[: action.kept]:
            self.store(one)
        self.appended.clear()
        self.take(self.core.classic.unload())
        assert self.core.classic.next_deadline() is None, "somebody is waited for at who coordinates no more"
        left = [one for one in self.waiting if one not in self.leaving]
        assert not left, f"{left} have no response, and their coordinator has resigned"
        self.waiting.clear()
        self.leaving.clear()
        self.coordinator = None

    def load(self, action: timing.Load, before: State) -> None:
        self.coordinator = self.started()
        load_where_it_is_too_large(self)
        refuses_what_is_no_group(self)

    # --- responses ---------------------------------------------------------------------------------------------------

    def take(self, outcome: Outcome, own: Request | None = None) -> None:
        """Do what a call of the core says; `own` is the request that it was called with."""
        self.came.append(outcome)
        self.appended += outcome.writes
        for token, response in outcome.responses:
            assert isinstance(token, Request), "no other request waits"
            token.error = response.error
            token.member_id = response.member_id if isinstance(response, JoinResponse) else ""
            if token in self.waiting:
                self.waiting.remove(token)
            if token.process != NONE and (token is not own or response.error is ErrorCode.none):
                self.responses[token.process] = abstract_response(response)

    def asked(self, process: int) -> Request:
        """A request that may have to wait."""
        request = Request(process)
        self.waiting.append(request)
        return request

    def process_of(self, token: Token) -> int:
        """The process that will have a response."""
        return token.process if isinstance(token, Request) else NONE

    def disconnect(self, process: int) -> None:
        """Nobody has what a process was to have."""
        self.responses.pop(process, None)
        for request in self.waiting:
            if request.process == process:
                request.process = NONE

    # --- requests that are built -------------------------------------------------------------------------------------

    def name_of(self, member_id: int) -> str:
        """A member id, as the coordinator has given it, or would have."""
        return self.names.get(member_id, f"{CLIENT}-{member_id}")

    def instance_of(self, request: spec.JoinRequest | actions.Copied | spec.LeaveRequest) -> str | None:
        instance = self.machine.instance_of(request.process)
        return None if instance == NONE else f"i{instance}"

    def join(self, request: spec.JoinRequest, token: Request, given: int) -> Outcome:
        return self.core.classic.join(self.join_group(request, given), token, self.now)

    def join_group(self, request: spec.JoinRequest, given: int) -> JoinGroup:
        if request.member_id == NONE:
            instance = self.instance_of(request)
            self.names[given] = f"{instance or CLIENT}-{given}"
        return JoinGroup(
            GROUP,
            "consumer",
            tuple(Protocol(str(each), said(request)) for each in self.machine.protocols_of(request.process)),
            "" if request.member_id == NONE else self.name_of(request.member_id),
            self.instance_of(request),
            session_timeout_ms=session_ms(request.subscription),
            rebalance_timeout_ms=rebalance_ms(request.subscription),
            client_id=CLIENT,
            version=9 if self.instance_of(request) else 3 + self.machine.requires_id,  # from 4 on an id is required
            unique=str(given),
        )

    def sync(self, request: spec.SyncRequest, token: Request) -> Outcome:
        given = [(self.name_of(share.member_id), listed(share.partitions).encode()) for share in request.shares]
        return self.core.classic.sync(
            SyncGroup(
                GROUP,
                request.generation,
                self.name_of(request.member_id),
                self.instance_of(request),
                "consumer",
                str(request.protocol),
                tuple(given),
            ),
            token,
            self.now,
        )

    def heartbeat(self, request: spec.HeartbeatRequest) -> ErrorCode:
        member_id = self.name_of(request.member_id)
        beat = Heartbeat(GROUP, request.generation, member_id, self.instance_of(request))
        return self.error_told(self.core.classic.heartbeat(beat, self.now))

    def error_told(self, error: ErrorCode) -> ErrorCode:
        """Who follows the decisions of a group that there is is told of an error as well, and of none."""
        if self.core.classic.get(GROUP) is not None:
            assert self.followed_by, f"{error} is decided, and nobody is told who follows"
            assert self.followed_by.pop() is error, "another one is told"
        return error

    def leave(self, request: spec.LeaveRequest, token: Request) -> Outcome:
        leaving = Leaving(self.name_of(request.member_id), self.instance_of(request))
        return self.core.classic.leave(LeaveGroup(GROUP, (leaving,)), token, self.now)

    def commit(self, request: spec.CommitRequest) -> Ruling:
        by = f"{request.member_id}/{request.generation}"
        commit = Commit(
            GROUP,
            (NewOffset(TOPIC, request.partition, request.offset, metadata=by),),
            generation=request.generation,
            member_id=self.name_of(request.member_id),
            instance_id=self.instance_of(request),
            version=8,
        )
        return self.core.commit(commit, self.now.wall_ms)

    # --- requests that are sent --------------------------------------------------------------------------------------

    def receive_join(self, action: requests.ReceiveJoin, before: State) -> None:
        if before.group is not None:
            process = action.request.process
            ask_where_it_is_full(self, before, action.request)
            token = self.asked(NONE if action.late else process)
            if not action.late:
                self.clients.join(action.request)
            self.take(self.join(action.request, token, before.member_ids), token)
            self.check(action, before, token.error)
            if not action.late and token.error not in (None, ErrorCode.none):
                self.clients.refused_to_join(process, token.error, token.member_id)

    def receive_sync(self, action: requests.ReceiveSync, before: State) -> None:
        process, error = action.request.process, ErrorCode.rebalance_in_progress
        if not action.late:
            self.clients.sync(action.request)
        if before.group is not None:
            token = self.asked(NONE if action.late else process)
            self.take(self.sync(action.request, token), token)
            self.check(action, before, token.error)
            error = token.error or ErrorCode.none
        if not action.late and error is not ErrorCode.none:
            self.clients.of[process].failed(error)

    def receive_heartbeat(self, action: requests.ReceiveHeartbeat, before: State) -> None:
        error = ErrorCode.none if self.coordinator is None else self.heartbeat(action.request)
        self.check(action, before, error)
        if self.coordinator is not None and error in (ErrorCode.none, ErrorCode.rebalance_in_progress):
            self.check_session(action.request.member_id)
        self.clients.told(action.request, self.name_of(action.request.member_id), error)

    def receive_commit(self, action: requests.ReceiveCommit, before: State) -> None:
        if before.group is not None:
            if not action.late:
                self.clients.may_commit(action.request)
            ruling = self.commit(action.request)
            self.check(action, before, ruling.error)
            if not action.late:
                self.clients.told(action.request, self.name_of(action.request.member_id), ruling.error)
            if ruling.error is ErrorCode.none:
                self.core.appended(ruling)
                self.core.classic.committed_by(GROUP, self.name_of(action.request.member_id), self.now)
                self.check_session(action.request.member_id)
                self.appended.append(ruling)

    def receive_leave(self, action: requests.ReceiveLeave, before: State) -> None:
        self.disconnect(action.request.process)
        self.clients.of[action.request.process].leave()
        self.clients.stop(action.request.process)
        if self.coordinator is not None:
            self.leaving.append(token := self.asked(NONE))
            self.take(self.leave(action.request, token))

    def check_session(self, member_id: int) -> None:
        """A member that sends something has all of its session from now on."""
        ends = self.core.classic.deadlines.get(DeadlineKey(GROUP, Timer.SESSION, self.name_of(member_id)))
        whole = self.group.members[self.name_of(member_id)].session_timeout_ms
        assert ends == self.now.timer_ms + whole, f"the session of {member_id} ends at {ends}"

    def check(self, action: requests.Received, before: State, error: ErrorCode | None) -> None:
        """The response has the error that the specification says; none as long as it waits."""
        expected, _ = action.outcome(self.machine, before)
        found = 0 if error is None else error.value
        assert found == expected.value, f"{expected.name} is told, and not {error}"

    def can_send(self, kind: type[Action]) -> bool:
        return issubclass(kind, requests.SENT)

    def refuse(self, action: Action, before: State) -> ErrorCode | None:
        """Send what is refused, or changes nothing; returns the error."""
        if self.coordinator is None:
            return None
        error = self._refuse(action, before)
        self.times.attempted(self)
        return error

    def _refuse(self, action: Action, before: State) -> ErrorCode | None:
        match action:
            case requests.ReceiveJoin(request=join):
                return self.refused(self.join(join, token := Request(NONE), before.member_ids), token)
            case requests.ReceiveSync(request=sync):
                return self.refused(self.sync(sync, token := Request(NONE)), token)
            case requests.ReceiveHeartbeat(request=heartbeat):
                return self.clients.told(heartbeat, self.name_of(heartbeat.member_id), self.heartbeat(heartbeat))
            case requests.ReceiveCommit(request=commit):
                return self.commit(commit).error
            case requests.ReceiveLeave(request=leave):
                (left,) = self.leave(leave, Request(NONE)).responses
                return left[1].members[0].error  # type: ignore[union-attr]
        return None

    def refused(self, outcome: Outcome, token: Request) -> ErrorCode:
        """The error of a request; it may also wait in the place of one that nobody has sent either."""
        assert not outcome.writes, "nothing is written"
        self.waiting.append(token)
        for responded, response in outcome.responses:
            assert isinstance(responded, Request)
            assert responded.process == NONE, "nobody else is told"
            responded.error = response.error
            self.waiting.remove(responded)
        return token.error or ErrorCode.none

    # --- processes, and what the coordinator does unasked ------------------------------------------------------------

    def receive_response(self, action: processes.ReceiveResponse, before: State) -> None:
        response = self.responses.pop(action.process)
        self.clients.receive(action.process, response, self.name_of, before.partitions)

    def start(self, action: processes.Start, before: State) -> None:
        self.clients.start(action.process)

    def lose(self, action: processes.LoseConnection, before: State) -> None:
        self.disconnect(action.process)
        self.clients.lose_connection(action.process)

    def crash(self, action: processes.Crash, before: State) -> None:
        self.disconnect(action.process)
        self.clients.stop(action.process)

    def resubscribe(self, action: processes.Resubscribe, before: State) -> None:
        self.clients.resubscribe(action.process)

    def notice(self, action: processes.NoticePartitions, before: State) -> None:
        self.clients.notice(action.process, before.partitions)

    def fetch_offsets(self, action: processes.FetchOffsets, before: State) -> None:
        """Where to go on: what the coordinator tells is what the log says."""
        for partition, offset in enumerate(before.log.offsets):
            found = self.core.fetch(OffsetKey(GROUP, TOPIC, partition), require_stable=True)
            value = found.value.offset if isinstance(found, CommittedOffset) else 0
            assert value == offset.value, f"partition {partition} is at {offset.value}, and not at {value}"

    def nothing(self, action: Action, before: State) -> None:
        """What neither the coordinator nor a member's core knows of."""

    def end(self, timer: Timer, member_id: str = "") -> None:
        """A deadline is reached."""
        key = DeadlineKey(GROUP, timer, member_id)
        self.core.classic.deadlines.cancel(key)
        self.take(self.core.classic.timed_out(key, self.now))

    def end_joining(self, action: timing.EndInitialDelay | timing.ExpireRebalance, before: State) -> None:
        """The wait for the first members is put off while more come: it ends in the end."""
        self.end(Timer.JOIN)
        while isinstance(action, timing.EndInitialDelay) and self.group.initial is not None:
            self.end(Timer.JOIN)

    def end_syncing(self, action: timing.ExpireSync, before: State) -> None:
        self.end(Timer.SYNC)

    def end_session(self, action: timing.ExpireSession, before: State) -> None:
        self.end(Timer.SESSION, self.name_of(action.member_id))

    @property
    def group(self) -> ClassicGroup:
        """What the coordinator knows of the group; an empty one where that is nothing."""
        return self.core.classic.get(GROUP) or ClassicGroup(GROUP)

    # --- what is compared --------------------------------------------------------------------------------------------

    def differences(self, state: State) -> Iterator[Change]:
        """What no field shows."""
        if self.coordinator is None:
            self.times.forget()
        else:
            yield from self.times.differences(self, state, self.came)
        yield from told_otherwise(self, state)
        yield from self.followed()
        yield from copies_differ(self, state, self.asking)
        yield from commits_differ(self, state)
        self.followed_by.clear()

    def ask(self, action: requests.ReceiveJoin | requests.ReceiveSync | requests.ReceiveLeave, given: int) -> Outcome:
        """What comes of a request whose response nobody waits for."""
        token = Request(NONE)
        match action.request:
            case spec.JoinRequest():
                return self.join(action.request, token, given)
            case spec.SyncRequest():
                return self.sync(action.request, token)
            case spec.LeaveRequest():
                return self.leave(action.request, token)

    def told(self, response: Response) -> spec.Response:
        """A response as the specification has it."""
        return abstract_response(response)

    def followed(self) -> Iterator[Change]:
        """Who follows the decisions is told of each that has come of a request, of a record or of time."""
        told, self.followed_by = self.followed_by, []
        came, self.came = self.came, []
        known = [one for one in came if any(one is other for other in told)]
        if len(known) != len(came) and self.coordinator is not None and self.core.classic.get(GROUP) is not None:
            yield Change("decisions that are told who follows", len(came), len(known))

    def abstraction(self, state: State) -> State:
        """The coordinator, the log, the members, and the responses that are on their way to them."""
        for number, process in enumerate(state.processes):
            if process.phase not in (Phase.JOINING, Phase.SYNCING):
                self.responses.pop(number, None)
        return evolve(
            state,
            processes=tuple(
                evolve(self.clients.abstraction(number, one), response=self.responses.get(number))
                for number, one in enumerate(state.processes)
            ),
            group=None if self.coordinator is None else abstract_group(self.group, self.process_of),
            log=abstract_log(self.entries(), len(state.log.offsets)),
            appended=tuple(map(abstract_entry, self.appended)),
        )


STEPS: Final = Steps(
    on(requests.ReceiveJoin, GroupCores.receive_join),
    on(requests.ReceiveSync, GroupCores.receive_sync),
    on(requests.ReceiveHeartbeat, GroupCores.receive_heartbeat),
    on(requests.ReceiveCommit, GroupCores.receive_commit),
    on(requests.ReceiveLeave, GroupCores.receive_leave),
    on(processes.Start, GroupCores.start),
    on(processes.Hang, GroupCores.nothing),
    on(processes.Resubscribe, GroupCores.resubscribe),
    on(processes.AddPartition, GroupCores.nothing),
    on(processes.NoticePartitions, GroupCores.notice),
    *(on(kind, GroupCores.nothing) for kind in actions.DELAYS),
    on(processes.ReceiveResponse, GroupCores.receive_response),
    on(processes.LoseConnection, GroupCores.lose),
    on(processes.Crash, GroupCores.crash),
    on(processes.FetchOffsets, GroupCores.fetch_offsets),
    on(timing.EndInitialDelay, GroupCores.end_joining),
    on(timing.ExpireRebalance, GroupCores.end_joining),
    on(timing.ExpireSync, GroupCores.end_syncing),
    on(timing.ExpireSession, GroupCores.end_session),
    on(timing.CommitRecord, GroupCores.commit_record),
    on(timing.FailOver, GroupCores.fail_over),
    on(timing.Load, GroupCores.load),
)

GROUP_WALKS: Final = WalkPlan(
    large_groups,
    perturbations=frozenset(
        {
            requests.ReceiveLeave,
            processes.Crash,
            processes.Hang,
            processes.LoseConnection,
            processes.Resubscribe,
            processes.AddPartition,
            timing.FailOver,
            *actions.DELAYS,
        }
    ),
    enabled=enabled_candidates,
    length=80,
)
