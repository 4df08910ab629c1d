"""Idempotent producers in lockstep: cores of producers and partition beside the machine of `spec.idempotence`.

The harness is the shell: it holds every request and response until the action that delivers it, it is the controller,
and it decides what fills up, expires, crashes or is deleted. What the specification keeps of deleted batches, and for
its invariants, is copied from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.partition.messages import Appended, PartitionConfig, SendAlterPartition
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.records.batches import RecordError
from tidegauge.model_tests.harness.cores.asked_producers import admitted_otherwise, forgotten_otherwise
from tidegauge.model_tests.harness.cores.producer_clients import (
    PRODUCING,
    ProducerClients,
    known_ends,
    remembered,
    snapshots_of,
)
from tidegauge.model_tests.harness.cores.producer_log import ProducerLog, produced
from tidegauge.model_tests.harness.cores.replication import CORRECT, Roles
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.idempotence import partition
from tidegauge.spec.idempotence import state as spec
from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.machine import Action

ACKS_ALL: Final = -1
EXPIRATION_MS: Final = 1_000


@attrs.define
class BrokerProcess:
    """One broker: its log, its replica, and the producers' attempts that wait for the high watermark."""

    log: ProducerLog
    replica: PartitionReplica
    waiting: list[tuple[spec.Waiting, Appended]] = attrs.field(factory=list)


class IdempotentCores(ProducerClients):
    """Producers, brokers and the messages between them, in the machine's initial state."""

    def __init__(self, machine: Idempotence, roles: Roles = CORRECT) -> None:
        super().__init__(machine, roles)
        self.roles = roles
        self.now_ms = 0
        everybody = tuple(range(machine.brokers))
        self.registration = PartitionRegistration(everybody, 0, 0, 0, frozenset(everybody))
        self.brokers = [self.start(number, ProducerLog(self.states)) for number in everybody]

    @property
    def leader(self) -> int:
        return self.registration.leader

    def start(self, number: int, log: ProducerLog) -> BrokerProcess:
        process = BrokerProcess(log, self.roles.replica(number, log, PartitionConfig()))
        process.replica.apply_metadata(self.registration, 0, self.now_ms)
        process.replica.take_effects()
        return process

    def perform(self, action: Action, before: spec.State) -> None:
        """Do what the action says; it is enabled in the specification."""
        self.now_ms += 1
        STEPS.perform(self, action, before)

    def can_send(self, kind: type[Action]) -> bool:
        return kind is partition.ReceiveProduce

    def refuse(self, action: Action, before: spec.State) -> ErrorCode | None:
        """Send a batch that is refused, or known; returns the error."""
        if not isinstance(action, partition.ReceiveProduce):
            return None
        batch = produced(action.request.batch, self.now_ms)
        try:
            appended = self.brokers[action.request.broker].replica.append(batch, ACKS_ALL, self.now_ms)
        except RecordError as refused:
            return refused.error_code
        return appended if isinstance(appended, ErrorCode) else ErrorCode.none

    def differences(self, state: spec.State) -> Iterator[Change]:
        """What a producer would do otherwise; what a replica, each in its turn, would say or know otherwise."""
        yield from super().differences(state)
        if not self.now_ms:
            return  # before anything has happened a walk has nothing to blame
        number = self.now_ms % len(self.brokers)
        name, expected, states = f"replicas[{number}]", state.replicas[number], self.brokers[number].log.producers
        yield from self._reopened_otherwise(name, expected, number)
        turn = self.now_ms // len(self.brokers)
        if turn % 2:
            yield from admitted_otherwise(self.machine, name, expected, states, turn // 2)
        else:
            yield from forgotten_otherwise(name, states, EXPIRATION_MS)
        if states.end_offset != expected.log_end:
            yield Change(f"{name}: producers' memory is of", expected.log_end, states.end_offset)
        takes, wanted = states.accepts_unknown(), self.machine.accepts_unknown(expected)
        if takes != wanted:
            yield Change(f"{name}: whether an unknown producer may have a past", wanted, takes)

    def _reopened_otherwise(self, name: str, expected: spec.Replica, number: int) -> Iterator[Change]:
        """What would be remembered after a restart otherwise, and behind it where the log starts anew: nothing."""
        log = self.brokers[number].log
        opened, reloaded = log.opened_apart(), partition.reloaded(self.machine, expected)
        reloaded = attrs.evolve(reloaded, forgot=False)
        wanted = reloaded.producers, self.machine.accepts_unknown(reloaded), log.producers.oldest_timestamp
        found = known_after_opening(opened)
        if found != wanted:
            yield Change(f"{name}: producers, whether others may have a past, and the oldest time", wanted, found)
        start = opened.log_end_offset + 1
        opened.truncate_fully_and_start_at(start)
        wanted = (), self.machine.accepts_unknown(attrs.evolve(reloaded, log_start=start)), None
        found = known_after_opening(opened)
        if found != wanted:
            yield Change(f"{name}: the same where the log starts anew", wanted, found)
        opened.abandon()

    def close(self) -> None:
        """Cores have no resources."""

    # --- the partition -----------------------------------------------------------------------------------------

    def settle(self, number: int) -> None:
        """Look again at the attempts that wait on a broker, and commit its ISR proposal."""
        process = self.brokers[number]
        for effect in process.replica.take_effects():
            if isinstance(effect, SendAlterPartition):
                request = process.replica.alter_partition_request(0)
                assert request is not None
                self.commit(self.registration._replace(isr=request.members))
        for waiting, appended in list(process.waiting):
            outcome = process.replica.append_outcome(appended)
            if outcome is None:
                continue
            process.waiting.remove((waiting, appended))
            offset = appended.base_offset if outcome is ErrorCode.none else -1
            self.respond(waiting.request, outcome, offset, appended.repeated and outcome is ErrorCode.none)

    def commit(self, registration: PartitionRegistration, but: int | None = None) -> None:
        """The controller's decision, which all brokers apply at once, but for one."""
        self.registration = registration._replace(partition_epoch=self.registration.partition_epoch + 1)
        for number, process in enumerate(self.brokers):
            if number != but:
                process.replica.apply_metadata(self.registration, 0, self.now_ms)
        for number in range(len(self.brokers)):
            if number != but:
                self.settle(number)

    def led_by(self, leader: int) -> PartitionRegistration:
        return self.registration._replace(leader=leader, leader_epoch=self.registration.leader_epoch + 1)

    # --- the world as the specification sees it ----------------------------------------------------------------

    def abstraction(self, expected: spec.State) -> spec.State:
        return spec.State(
            producers=self.abstract_producers(),
            replicas=tuple(map(self._replica, range(len(self.brokers)), expected.replicas)),
            leader=self.registration.leader,
            leader_epoch=self.registration.leader_epoch,
            in_sync=tuple(sorted(self.registration.isr)),
            requests=tuple(self.requests),
            responses=tuple(sorted(self.responses)),
            acknowledged=tuple(sorted(self.acknowledged)),
            spent=expected.spent,
        )

    def _replica(self, number: int, expected: spec.Replica) -> spec.Replica:
        process = self.brokers[number]
        replica, log = process.replica, process.log
        return spec.Replica(
            log=with_deleted(log.batches, log.log_start_offset, expected.log),
            log_start=log.log_start_offset,
            high_watermark=replica.high_watermark,
            producers=remembered(log.producers),
            snapshots=snapshots_of(log.snapshots),
            segment_full=log.segment_full,
            forgot=log.producers.forgot,
            stuck=expected.stuck,
            epoch_start=replica.epoch_start_offset,
            known_ends=known_ends(replica, len(self.brokers)),
            waiting=tuple(waiting for waiting, _ in process.waiting),
        )


def known_after_opening(log: ProducerLog) -> tuple[spec.Producers, bool, int | None]:
    """The producers, whether others may have a past, and the time of the log's first batch."""
    return remembered(log.producers), log.producers.accepts_unknown(), log.producers.oldest_timestamp


def with_deleted(batches: spec.Log, log_start: int, expected: spec.Log) -> spec.Log:
    """A log's batches, with what is copied from the specification: the deleted batches, and `on_trust`."""
    known = {(b.base_offset, b.batch): b.on_trust for b in expected}
    deleted = tuple(b for b in expected if b.base_offset < log_start)
    return deleted + tuple(attrs.evolve(b, on_trust=known.get((b.base_offset, b.batch), False)) for b in batches)


# --- one action of the specification = one function ----------------------------------------------------------------


def receive_produce(cores: IdempotentCores, action: partition.ReceiveProduce, before: spec.State) -> None:
    request = action.request
    if not action.duplicate:
        cores.requests.remove(request)
    process = cores.brokers[request.broker]
    try:
        result = process.replica.append(produced(request.batch, cores.now_ms), ACKS_ALL, cores.now_ms)
    except RecordError as refused:
        cores.respond(request, refused.error_code)
        return
    if not isinstance(result, Appended):
        cores.respond(request, result)
        return
    waiting = spec.Waiting(request, result.base_offset, result.repeated)
    if waiting not in [known for known, _ in process.waiting]:
        process.waiting.append((waiting, result))
    cores.settle(request.broker)


def fetch(cores: IdempotentCores, action: partition.Fetch, before: spec.State) -> None:
    follower, leader = cores.brokers[action.broker].replica, cores.brokers[cores.registration.leader].replica
    common = cores.machine.truncation_offset(before.replicas[action.broker], before.replicas[before.leader])
    diverged = follower.log_end_offset > common
    for _ in range(len(before.replicas[action.broker].log) + 1):
        request = follower.fetch_request(0)
        assert request is not None
        response = leader.receive_fetch(request, 1, cores.now_ms)
        # In this machine a replica's log start follows no other.
        follower.receive_fetch_response(request, response._replace(log_start_offset=-1), cores.now_ms)
        if not diverged or follower.log_end_offset <= common:
            break
    cores.settle(cores.registration.leader)
    cores.settle(action.broker)


def elect(cores: IdempotentCores, action: partition.Elect, before: spec.State) -> None:
    cores.commit(cores.led_by(action.broker))


def fill_segment(cores: IdempotentCores, action: partition.FillSegment, before: spec.State) -> None:
    cores.brokers[action.broker].log.segment_full = True


def crash(cores: IdempotentCores, action: partition.Crash, before: spec.State) -> None:
    dead, log = action.broker, before.replicas[action.broker].log
    cores.disconnect(dead)
    others = sorted(cores.registration.isr - {dead})
    registration = cores.led_by(others[0]) if cores.registration.leader == dead else cores.registration
    cores.brokers[dead].waiting.clear()
    cores.commit(registration._replace(isr=frozenset(others)), but=dead)
    found = cores.brokers[dead].log.after_crash(log[action.kept - 1].end_offset if action.kept else 0)
    cores.brokers[dead] = cores.start(dead, found)


def delete_records(cores: IdempotentCores, action: partition.DeleteRecords, before: spec.State) -> None:
    cores.brokers[action.broker].log.delete_records_before(action.offset)


def expire(cores: IdempotentCores, action: partition.Expire, before: spec.State) -> None:
    """The harness decides which producer has been idle for too long: this one, and no other."""
    states = cores.brokers[action.broker].log.producers
    for producer_id, entry in states.entries.items():
        entry.last_timestamp = cores.now_ms - (EXPIRATION_MS if producer_id == action.producer else 0)
    states.expire(cores.now_ms, EXPIRATION_MS)


STEPS: Final = Steps[IdempotentCores, [spec.State], None](
    on(partition.ReceiveProduce, receive_produce),
    on(partition.Fetch, fetch),
    on(partition.Elect, elect),
    on(partition.FillSegment, fill_segment),
    on(partition.Crash, crash),
    on(partition.DeleteRecords, delete_records),
    on(partition.Expire, expire),
    over=PRODUCING,
)
