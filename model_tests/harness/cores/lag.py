"""A leader's core beside the machine of lag: its followers' fetches come when the machine says, and so does the time.

The harness is the shell, which notes when a fetch at rest was last asked for, and the controller, which lets followers
leave and nobody join.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import (
    UNKNOWN_BROKER_EPOCH,
    AlterPartitionResponse,
    FollowerFetch,
    PartitionConfig,
    SendAlterPartition,
)
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.model_tests.harness.cores.memory_log import MemoryLog
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.lockstep.field_by_field import FieldByField
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.kernel.near_misses import with_epochs_around
from tidegauge.spec.lag import machine as spec
from tidegauge.spec.lag.state import Follower, Request, Rest, State

LEADER: Final = 0
ANOTHER: Final = 1
"""A broker that leads instead: the first follower's."""
TICK_MS: Final = 1_000
ACKS_LEADER: Final = 1


class LagCores(FieldByField[State]):
    """One replica, which leads at first; follower n of the machine is broker n + 1."""

    not_compared = frozenset({"witness"})

    def __init__(self, machine: spec.Lag, roles: Roles = CORRECT) -> None:
        self.machine = machine
        self.now = 0
        self.rests: list[Rest | None] = [None] * machine.count
        self.processes = [0] * machine.count
        self.log = MemoryLog()
        config = PartitionConfig(1, replica_lag_time_max_ms=machine.limit * TICK_MS)
        self.replica = roles.replica(LEADER, self.log, config)
        everybody = tuple(range(machine.count + 1))
        self.registration = PartitionRegistration(everybody, LEADER, 0, 0, frozenset(everybody))
        self.begin_epoch()

    @property
    def now_ms(self) -> int:
        return self.now * TICK_MS

    def begin_epoch(self) -> None:
        self.replica.apply_metadata(self.registration, 0, self.now_ms)
        self.replica.take_effects()

    # --- as the specification has it -----------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        return self.replica.is_leader

    @property
    def epoch(self) -> int:
        return self.replica.leader_epoch

    @property
    def start(self) -> int:
        return self.log.log_start_offset

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    @property
    def followers(self) -> tuple[Follower, ...]:
        return tuple(map(self._follower, range(1, self.machine.count + 1)))

    def _follower(self, broker: int) -> Follower:
        in_sync, known = broker in self.replica.isr, self.replica.remote_replicas.get(broker)
        if known is None:
            return Follower(in_sync)
        return Follower(
            in_sync,
            known.log_end_offset,
            known.broker_epoch,
            known.log_start_offset,
            tick(known.last_caught_up_ms),
            tick(known.last_fetch_ms),
            known.leader_end_offset_at_last_fetch,
        )

    def differences(self, state: State) -> Iterator[Change]:
        """Who would be dropped otherwise, what DeleteRecords would respond, and which fetches would be at rest."""
        every = range(self.machine.count)
        if self.replica.is_leader:
            lagging = {broker - 1 for broker in self.replica.lagging_replicas(self.now_ms)}
            if lagging != self.machine.lagging(state):
                yield Change("lagging", self.machine.lagging(state), lagging)
            for live in map(set, chain.from_iterable(combinations(every, count) for count in range(len(every) + 1))):
                low_watermark = self.replica.low_watermark({number + 1 for number in live})
                if low_watermark != state.low_watermark(live):
                    words = f"the low watermark where {sorted(live)} live"
                    yield Change(words, state.low_watermark(live), low_watermark)
        for follower in range(self.machine.count):
            request = self.machine.last_request(state, follower)
            for near in with_epochs_around(request, "epoch", "process", "offset", "start"):
                wanted = self.machine.is_at_rest(state, follower, near)
                if self.replica.is_at_rest(self.fetch_of(follower, near)) != wanted:
                    yield Change(f"whether follower {follower} is at rest with {near}", wanted, not wanted)

    # --- what is done to it --------------------------------------------------------------------------------------

    def perform(self, action: Action, before: State) -> None:
        """Do what the action says; it is enabled in the specification."""
        STEPS.perform(self, action)

    def can_send(self, kind: type[Action]) -> bool:
        return kind is spec.Shrink

    def refuse(self, action: Action, before: State) -> ErrorCode:
        """Nobody lags, and nothing is proposed."""
        assert not self.replica.shrink_isr(self.now_ms), "somebody is dropped"
        return ErrorCode.none

    def fetch_of(self, follower: int, request: Request) -> FollowerFetch:
        """The fetch as the implementation has it; the follower's records are the leader's."""
        before = self.log.records[: max(0, request.offset)]
        return FollowerFetch(
            replica_id=follower + 1,
            broker_epoch=request.process,
            leader_epoch=request.epoch,
            fetch_offset=request.offset,
            last_fetched_epoch=before[-1].epoch if before else -1,
            log_start_offset=request.start,
        )

    def decide(self) -> None:
        """The controller lets followers leave, and nobody join."""
        for effect in self.replica.take_effects():
            if isinstance(effect, SendAlterPartition):
                proposal = self.replica.alter_partition_request(UNKNOWN_BROKER_EPOCH)
                assert proposal is not None
                error = ErrorCode.none if proposal.members < self.registration.isr else ErrorCode.ineligible_replica
                if error is ErrorCode.none:
                    self.registration = self.registration._replace(
                        isr=proposal.members, partition_epoch=self.registration.partition_epoch + 1
                    )
                response = AlterPartitionResponse(error, 0, self.registration)
                self.replica.receive_alter_partition_response(proposal, response)


def tick(time_ms: int) -> int:
    """A time in ticks: it is never between two of them."""
    assert time_ms % TICK_MS == 0, f"{time_ms} ms is no time of this clock"
    return time_ms // TICK_MS


# --- one action of the specification = one function ------------------------------------------------------------------


def append(cores: LagCores, action: spec.Append) -> None:
    cores.replica.append(cores.log.produced([cores.end]), ACKS_LEADER, cores.now_ms)


def delete(cores: LagCores, action: spec.Delete) -> None:
    in_sync = [follower.end for follower in cores.followers if follower.in_sync]
    cores.log.delete_records_before(min(in_sync, default=cores.end))


def fetch(cores: LagCores, action: spec.Fetch) -> None:
    request = Request(cores.epoch, cores.processes[action.follower], action.offset, action.start)
    response = cores.replica.receive_fetch(cores.fetch_of(action.follower, request), 0, cores.now_ms)
    assert response.error is ErrorCode.none, response.error.name
    assert response.diverging_epoch is None, response.diverging_epoch
    cores.decide()


def begin_rest(cores: LagCores, action: spec.BeginRest) -> None:
    known = cores.followers[action.follower]
    request = Request(cores.epoch, known.process, known.end, known.start)
    cores.rests[action.follower] = Rest(request, known.fetched_at)


def ask_again(cores: LagCores, action: spec.AskAgain) -> None:
    rest = cores.rests[action.follower]
    assert rest is not None
    cores.rests[action.follower] = Rest(rest.request, cores.now)


def wake(cores: LagCores, action: spec.Wake) -> None:
    rest, cores.rests[action.follower] = cores.rests[action.follower], None
    assert rest is not None
    fetch = cores.fetch_of(action.follower, rest.request)
    of_no_replica = fetch._replace(replica_id=cores.machine.count + 1)
    former = fetch._replace(leader_epoch=cores.epoch - 1)
    for counts_not in (of_no_replica, former):
        cores.replica.was_at_rest(counts_not, cores.now_ms)
    cores.replica.was_at_rest(fetch, rest.asked_at * TICK_MS)


def restart(cores: LagCores, action: spec.Restart) -> None:
    cores.processes[action.follower] += 1


def shrink(cores: LagCores, action: spec.Shrink) -> None:
    assert cores.replica.shrink_isr(cores.now_ms), "nobody is dropped"
    cores.decide()


def follow(cores: LagCores, action: spec.Follow) -> None:
    led_by(cores, ANOTHER)


def lead(cores: LagCores, action: spec.Lead) -> None:
    isr = {LEADER, *(number + 1 for number, in_sync in enumerate(action.in_sync) if in_sync)}
    cores.registration = cores.registration._replace(isr=frozenset(isr))
    led_by(cores, LEADER)


def led_by(cores: LagCores, leader: int) -> None:
    cores.registration = cores.registration._replace(
        leader=leader,
        leader_epoch=cores.registration.leader_epoch + 1,
        partition_epoch=cores.registration.partition_epoch + 1,
    )
    cores.begin_epoch()


def pass_time(cores: LagCores, action: spec.Tick) -> None:
    cores.now += 1


STEPS: Final = Steps[LagCores, [], None](
    on(spec.Append, append),
    on(spec.Delete, delete),
    on(spec.Fetch, fetch),
    on(spec.BeginRest, begin_rest),
    on(spec.AskAgain, ask_again),
    on(spec.Wake, wake),
    on(spec.Restart, restart),
    on(spec.Shrink, shrink),
    on(spec.Follow, follow),
    on(spec.Lead, lead),
    on(spec.Tick, pass_time),
)
