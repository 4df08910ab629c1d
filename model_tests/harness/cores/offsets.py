"""The coordinator of groups in lockstep: its core beside the machine of `spec.offsets`.

The harness is the shell: it keeps the log, of record batches as they lie on a disk, and replays what is committed. What
the cleaner leaves of the log is copied from the specification, which has a lockstep of its own for that
(`spec.compaction`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import Final, TypeAlias, TypeVar

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.fields import INT16, INT32, LONGEST_STRING, encode_string
from tidegauge.impl.coordinators.groups.classic.messages import Moment
from tidegauge.impl.coordinators.groups.classic.state import ClassicGroup, ClassicState, from_log
from tidegauge.impl.coordinators.groups.classic.subscriptions import CONSUMER
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.decisions import (
    Acknowledging,
    Appending,
    Applying,
    Committing,
    Confirming,
    Deleting,
    Dropping,
    Ending,
    Expiring,
    Found,
    GivingUp,
    OffsetDecision,
    Reading,
    Telling,
)
from tidegauge.impl.coordinators.groups.group_metadata import GroupMember, GroupMetadata
from tidegauge.impl.coordinators.groups.log_entries import (
    GroupWritten,
    LogEntry,
    OffsetWritten,
    TransactionEnded,
    log_entries,
)
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset, GroupOffsets
from tidegauge.impl.coordinators.groups.record_formats import NO_TIME, OffsetKey, OffsetValue, decode_offset_value
from tidegauge.impl.coordinators.groups.requests import NO_RETENTION, Commit, NewOffset, Ruling
from tidegauge.impl.records.batches import NO_PRODUCER_ID, BatchHeader
from tidegauge.impl.records.markers import MarkerRecord, TransactionMarker, build_marker, marker_record
from tidegauge.impl.records.payload import NO_PRODUCER, ProducerIdentity, Record, build_batch, decode_records
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog
from tidegauge.model_tests.harness.cores.group_records import WITH_EXPIRY, offset_value, refuses_other_versions
from tidegauge.model_tests.harness.cores.offset_abstraction import KEY, abstract_entry, abstract_store
from tidegauge.model_tests.harness.cores.offsets_beside import (
    expire_in_parts,
    leaves_out_what_is_not_known,
    with_another,
)
from tidegauge.model_tests.harness.performing import Steps, on
from tidegauge.spec.kernel.changes import Change
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action
from tidegauge.spec.offsets import actions
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import NONE, Membership, State

R = TypeVar("R")
ANOTHERS: Final = OffsetKey("other group", "topic", 3)
"""An offset that is no part of the machine: it is committed, and another one is always on its way."""
NEVER: Final = 1 << 40
WITHOUT_EXPIRY: Final = (3, 4, 0, 2)
"""The versions of values in the log, one after the other."""
MEMBER: Final = GroupMember("member", None, "client", "host", 0, 0, b"", b"")


Read: TypeAlias = Callable[[BatchHeader, Iterable[Record], MarkerRecord | None], Iterator[LogEntry]]


@attrs.frozen
class OffsetRoles:
    """The classes that play each part."""

    coordinator: type[GroupCoordinator] = GroupCoordinator
    offsets: type[GroupOffsets] = GroupOffsets
    read: Read = log_entries
    """How a batch of the log is read."""
    log: type[CoordinatorLog[GroupCoordinator]] = CoordinatorLog
    """A broker's: no core has one."""


CORRECT_OFFSETS: Final = OffsetRoles()


def large_offsets(rng: Random) -> Offsets:
    """A machine for a walk."""
    return Offsets(
        producers=rng.choice((1, 2, 3)),
        max_entries=rng.choice((6, 16)),
        retention=rng.choice((1, 2)),
        max_time=6,
        max_failures=5,
        max_rebalances=rng.choice((0, 0, 3)),
        applies_later=rng.choice((False, False, True)),
        asked=rng.choice(((), (0, 3))),
        is_old_format=rng.choice((False, True)),
    )


def tell_group(coordinator: GroupCoordinator, membership: Membership, since_ms: int) -> None:
    """The coordinator takes the group over as its record has it, which says since when it is so."""
    coordinator.offsets.replay([_group_written(membership, since_ms)])
    coordinator.classic.unload()
    coordinator.take_over(KEY.group, Moment(0, 0))


def _elsewhere(since: int) -> GroupMetadata:
    """A consumer that subscribes to a topic of which there is no offset."""
    subscribes = INT16.pack(0) + INT32.pack(1) + encode_string("another topic")
    member = MEMBER._replace(subscription=subscribes)
    return GroupMetadata(CONSUMER, 1, "range", member.member_id, since, (member,))


def _group_of(protocol_type: str, since: int) -> ClassicGroup:
    """A group whose member does not tell what it subscribes to."""
    return from_log(KEY.group, GroupMetadata(protocol_type, 1, "range", MEMBER.member_id, since, (MEMBER,)))


def empty_since(coordinator: GroupCoordinator) -> int:
    """Since when the group has no members any more, on the coordinator's clock; NONE if it has some, or had none."""
    group = coordinator.classic.get(KEY.group)
    return NONE if group is None or group.state is not ClassicState.EMPTY else group.state_time


def _group_written(membership: Membership, since_ms: int) -> GroupWritten:
    """What the group's record says of its members, which tell nobody what they read.

    The machine has no place for it in the log.
    """
    if membership is Membership.NONE:
        return GroupWritten(NONE, KEY.group, None)
    protocol = "range" if membership is Membership.STABLE else None
    members = () if membership is Membership.EMPTY else (MEMBER,)
    return GroupWritten(NONE, KEY.group, GroupMetadata("connect", 1, protocol, None, since_ms, members))


def stored(value: bytes | None, *, is_old_format: bool, version: int | None = None) -> bytes | None:
    """A value as the log has it: of brokers before 2.1 each is of version 1, without a leader epoch.

    `version`: that of a value without a time of its client's; None: as it was written.
    """
    if value is None:
        return None
    offset = decode_offset_value(value)
    if is_old_format:
        return offset_value(offset, WITH_EXPIRY)
    return value if version is None or offset.expire_time != NO_TIME else offset_value(offset, version)


class OffsetCores:
    """One partition of `__consumer_offsets` with its coordinator, in the machine's initial state."""

    def __init__(self, machine: Offsets, roles: OffsetRoles = CORRECT_OFFSETS) -> None:
        self.machine = machine
        self.roles = roles
        self.now_ms = 0
        self.log: dict[int, bytes] = {}
        """Batches of one record by their place."""
        self.appended: dict[int, LogEntry] = {}
        """Those that the coordinator was not told of yet: it is told, whatever the cleaner takes."""
        self.end = 0
        self.high_watermark = 0
        self.applied = 0
        self.membership, self.member_since = Membership.NONE, NONE
        self.failures = 0
        self.acknowledged = 0
        self.rebalances = 0
        self.rulings: list[Ruling] = []
        """Those whose records are in flight: of one record each here."""
        self.decided: list[OffsetDecision] = []
        """What the coordinator has told who follows its decisions."""
        self.coordinator = self.started()

    def close(self) -> None:
        """There is nothing to stop."""

    def started(self) -> GroupCoordinator:
        """A coordinator that has loaded what is committed."""
        coordinator = self.roles.coordinator(Limits(retention_ms=self.machine.retention))
        coordinator.offsets = self.roles.offsets()
        coordinator.offsets.replay([OffsetWritten(NONE, NO_PRODUCER_ID, ANOTHERS, OffsetValue(1, commit_time=NEVER))])
        coordinator.in_flight[ANOTHERS] = 1
        coordinator.watching = self.decided.append
        refuses_other_versions()
        leaves_out_what_is_not_known()
        self.told_of(Reading, lambda: coordinator.replay(self.entries(range(self.high_watermark))))
        tell_group(coordinator, self.membership, self.member_since)
        for length, error in ((LONGEST_STRING, ErrorCode.none), (LONGEST_STRING + 1, ErrorCode.invalid_group_id)):
            found = coordinator.commit(Commit("g" * length, ()), self.now_ms).error
            assert found is error, f"{found.name} is told of a group whose name has {length} bytes"
        return coordinator

    def perform(self, action: Action, before: State) -> None:
        """Do what the action says; it is enabled in the specification."""
        STEPS.perform(self, action, before)

    # --- the log -----------------------------------------------------------------------------------------------------

    def told_of(self, kind: type[OffsetDecision], ask: Callable[[], R]) -> R:
        """Ask for a decision; who follows the coordinator is told of it."""
        self.decided.clear()
        decided = ask()
        assert [type(one) for one in self.decided] == [kind], f"{self.decided} is told, and not {kind.__name__}"
        return decided

    def append(self, ruling: Ruling, producer: ProducerIdentity = NO_PRODUCER) -> None:
        """Append what a ruling wants to have in the log; it fails at first, which changes nothing."""
        assert ruling.error is ErrorCode.none, ruling.error
        self.told_of(Appending, lambda: self.coordinator.appended(ruling))
        self.told_of(GivingUp, lambda: self.coordinator.failed(ruling))
        self.told_of(Appending, lambda: self.coordinator.appended(ruling))
        self.rulings.append(ruling)
        for key, value in ruling.records:
            version = WITHOUT_EXPIRY[self.end % len(WITHOUT_EXPIRY)]
            as_stored = stored(value, is_old_format=self.machine.is_old_format, version=version)
            record = Record(self.end, self.now_ms, key, as_stored)
            batch = build_batch([record], producer=producer, transactional=producer is not NO_PRODUCER)
            self._write(batch)

    def _write(self, batch: bytes) -> None:
        self.log[self.end] = batch
        (self.appended[self.end],) = self.entries([self.end])
        self.end += 1

    def entries(self, places: Iterable[int], read: Read | None = None) -> Iterator[LogEntry]:
        """What the log has at these places, as the coordinator reads it, unless it is said how."""
        for place in places:
            if (batch := self.log.get(place)) is not None:
                header = BatchHeader.parse(batch)
                records = () if header.is_control else decode_records(batch)
                for entry in (read or self.roles.read)(
                    header, records, marker_record(batch) if header.is_control else None
                ):
                    yield entry._replace(log_offset=place)

    def replicate(self, action: actions.Replicate, before: State) -> None:
        """Commit the log to its end."""
        self.high_watermark = self.end
        if not self.machine.applies_later:
            self.apply()

    def apply(self, action: actions.Apply | None = None, before: State | None = None) -> None:
        """The coordinator is told of what is committed."""
        for place in range(self.applied, self.high_watermark):
            entry = self.appended.pop(place)
            if isinstance(entry, OffsetWritten):
                self._apply(self.rulings.pop(0), entry)
            elif isinstance(entry, TransactionEnded):
                self.told_of(Ending, partial(self.coordinator.transaction_ended, entry))
        self.applied = self.high_watermark

    def _apply(self, ruling: Ruling, entry: OffsetWritten) -> None:
        place, producer_id = entry.log_offset, entry.producer_id
        self.told_of(Applying, lambda: self.coordinator.committed(ruling, place, producer_id))
        self.told_of(Acknowledging, lambda: self.coordinator.acknowledged(ruling))

    def acknowledge(self, action: actions.Acknowledge, before: State) -> None:
        """The shell tells the transactions' coordinators what the coordinator of groups has been told."""
        self.acknowledged = self.applied
        confirm = partial(self.coordinator.marker_acknowledged, 1, is_commit=True, place=self.applied)
        self.told_of(Confirming, confirm)
        assert self.decided == [Confirming(1, True, self.applied)], f"{self.decided} is told of a marker"

    def join(self, action: actions.Join, before: State) -> None:
        self.rebalances += 1
        self._write_group(Membership.REBALANCING)

    def assign(self, action: actions.Assign, before: State) -> None:
        self._write_group(Membership.STABLE)

    def leave(self, action: actions.Leave, before: State) -> None:
        self._write_group(Membership.EMPTY)

    def _write_group(self, membership: Membership) -> None:
        self.membership, self.member_since = membership, self.now_ms
        tell_group(self.coordinator, membership, self.now_ms)

    def fail_over(self, action: actions.FailOver, before: State) -> None:
        """A coordinator that knows nothing but the log."""
        self.log = {place: batch for place, batch in self.log.items() if place < action.end}
        self.end = self.high_watermark = self.applied = action.end
        self.appended.clear()
        self.failures += 1
        self.rulings.clear()
        self.coordinator = self.started()

    def clean(self, action: actions.Clean, before: State) -> None:
        """The log as the specification's cleaner leaves it."""
        kept = {entry.place for entry in self.machine.cleaned(before, action.end)}
        self.log = {place: batch for place, batch in self.log.items() if place in kept}

    def write_marker(self, action: actions.WriteMarker, before: State) -> None:
        """What the transaction's coordinator sends."""
        self._write(build_marker(TransactionMarker(action.producer, 0, action.commits, 0), self.now_ms))

    def tick(self, action: actions.Tick, before: State) -> None:
        self.now_ms += 1

    # --- requests ----------------------------------------------------------------------------------------------------

    def commit(self, action: actions.Commit | actions.CommitInTransaction, before: State) -> None:
        producer = NO_PRODUCER
        if isinstance(action, actions.CommitInTransaction):
            producer = ProducerIdentity(action.producer, 0)
        self.append(self._ruling(action), producer)

    def _ruling(self, action: actions.Commit | actions.CommitInTransaction) -> Ruling:
        is_transactional = isinstance(action, actions.CommitInTransaction)
        new = NewOffset(KEY.topic, KEY.partition, self.end)
        commit = Commit(
            KEY.group,
            (new,),
            generation=action.generation,
            is_transactional=is_transactional,
            retention_ms=action.retention if isinstance(action, actions.Commit) else NO_RETENTION,
            version=8,
        )
        (part,) = commit.parts()  # as the shell asks
        return self.told_of(Committing, lambda: self.coordinator.commit(part, self.now_ms))

    def delete(self, action: actions.Delete, before: State) -> None:
        self.append(self._deletion())

    def _deletion(self) -> Ruling:
        places = [(KEY.topic, KEY.partition)]
        return self.told_of(Deleting, lambda: self.coordinator.delete_offsets(KEY.group, places))

    def expire(self, action: actions.Expire, before: State) -> None:
        self.append(self.expiry())

    def expiry(self, most: int = 1) -> Ruling:
        return self.told_of(Expiring, lambda: self.coordinator.expire(self.now_ms, most))

    def fetched(self, *, require_stable: bool) -> Found:
        return self.told_of(Telling, lambda: self.coordinator.fetch(KEY, require_stable=require_stable))

    def can_send(self, kind: type[Action]) -> bool:
        return kind in (actions.Commit, actions.CommitInTransaction, actions.Delete, actions.FetchStable)

    def refuse(self, action: Action, before: State) -> ErrorCode | None:
        """Send what is refused; returns the error."""
        match action:
            case actions.Commit() | actions.CommitInTransaction():
                return self._ruling(action).error
            case actions.Delete():
                return self._deletion().error
            case actions.FetchStable():
                found = self.fetched(require_stable=True)
                return found if isinstance(found, ErrorCode) else ErrorCode.none
        return None

    # --- what is compared --------------------------------------------------------------------------------------------

    def differences(self, state: State) -> Iterable[Change]:
        """Whether the coordinator would let the offset expire, and what it tells who asks, for a stable one too.

        And what another one would load.
        """
        expires, is_over = bool(self.expiry().offsets), self.coordinator.is_expired(KEY, self.now_ms)
        if (expires, is_over) != (self.machine.expires(state),) * 2:
            yield Change("expires", self.machine.expires(state), (expires, is_over))
        stable = self.fetched(require_stable=True)
        if isinstance(stable, ErrorCode) is not bool(self.machine.fetch_error(state)):
            yield Change("stable", self.machine.fetch_error(state), stable)
        told = self.fetched(require_stable=False)
        yield from self.all_told(state, stable, told)
        value = told.value.offset if isinstance(told, CommittedOffset) else NONE
        expected = NONE if state.store.committed is None else state.store.committed.value
        if value != expected:
            yield Change("told", expected, value)
        loaded = self.roles.offsets()
        loaded.replay(self.entries(range(self.high_watermark)))
        known = self.machine.loaded(entry for entry in state.log if entry.place < state.high_watermark)
        if (found := abstract_store(loaded)) != known:
            yield Change("loaded", known, found)
        former, read = dict(self.coordinator.offsets.pending), dict(loaded.pending)
        if self.applied == self.high_watermark and former != read:
            yield Change("what waits for a marker", read, former)
        yield from with_another(self.machine, state, self.roles.offsets, self.entries(range(self.high_watermark)))
        yield from expire_in_parts(self.machine, state, self.coordinator)

    def all_told(self, state: State, stable: Found, told: Found) -> Iterator[Change]:
        """Who asks for all that the group has is told the same, of this offset alone; and whether there is the group.

        Of an offset that is only pending nothing is told.
        """
        places = [(KEY.topic, KEY.partition)]
        is_committed, is_on_its_way = state.store.committed is not None, self.machine.is_in_flight(state)
        for require_stable, found in ((True, stable), (False, told)):
            is_told = is_committed or (isinstance(found, ErrorCode) and is_on_its_way)
            expected = dict.fromkeys(places if is_told else (), found)
            ask = partial(self.coordinator.fetch_all, KEY.group, require_stable=require_stable)
            if (everything := self.told_of(Telling, ask)) != expected:
                yield Change("all", expected, everything)
            assert self.decided[-1] == Telling(KEY.group, everything, require_stable, is_all=True), "another is told"
        is_there = self.machine.is_there(state)
        known = self.coordinator.is_known(KEY.group), KEY.group in self.coordinator.groups
        if known != (is_there, is_there):
            yield Change("the group is known", is_there, known)
        deletion = self.told_of(Deleting, partial(self.coordinator.delete_group, KEY.group))
        gone = (KEY,) * (is_committed or self.machine.is_pending(state))
        expected_error = self.machine.deletion_error(state)
        if deletion.error.value != expected_error.value:
            yield Change("deletion of the group", expected_error.name, deletion.error.name)
        elif not expected_error and (deletion.keys, deletion.ended) != (gone, (KEY.group,)):
            yield Change("what a deletion writes", gone, (deletion.keys, deletion.ended))

        yield from self.topic_gone(state)
        yield from self.emptied(state)

    def emptied(self, state: State) -> Iterator[Change]:
        """When the offset would expire, and the group end, had its members left at some time, or subscribed to else.

        Its time begins when the group came to be empty (KIP-211), but for what was committed later. Members that
        subscribe to another topic keep nothing here, those that do not say to what keep all. A group that nobody has
        been in has no such time.
        """
        has_any = bool(self.coordinator.offsets.keys_of(KEY.group))
        nobody = evolve(state, membership=Membership.NONE, empty_since=NONE)
        at_work = evolve(state, membership=Membership.STABLE, empty_since=NONE)
        former, groups = self.coordinator.classic.get(KEY.group), self.coordinator.classic.groups
        for since in range(state.now + 1):
            later = evolve(state, membership=Membership.EMPTY, empty_since=since)
            joining = ClassicGroup(KEY.group, state_time=since, pending={"given": 1})
            left = ClassicGroup(KEY.group, generation=1, protocol_type=CONSUMER, state_time=since)
            elsewhere = from_log(KEY.group, _elsewhere(since))
            silent = (_group_of(kind, since) for kind in ("connect", CONSUMER))
            for group, as_if, ends in (
                (left, later, not has_any),
                (joining, nobody, False),
                (elsewhere, nobody, False),
                *((one, at_work, False) for one in silent),
            ):
                groups[KEY.group] = group
                found = self.expiry(10)
                expected = (KEY,) * self.machine.expires(as_if), (KEY.group,) * ends
                if (found.keys, found.ended) != expected:
                    yield Change(f"what expires of {group}", expected, (found.keys, found.ended))
        groups.pop(KEY.group, None)
        if former is not None:
            groups[KEY.group] = former

    def topic_gone(self, state: State) -> Iterator[Change]:
        """What goes with a topic: what was written before it was deleted, and nothing beside what is on its way."""
        store = state.store
        committed = () if store.committed is None else (store.committed,)
        places = [one.place for one in (*committed, *(waiting for _, waiting in store.pending))]
        last = max(places, default=NONE)
        is_stale = bool(places) and not self.machine.is_in_flight(state)
        for end, expected in ((last + 1, (KEY,) * is_stale), (last, ())):
            gone = self.told_of(Dropping, partial(self.coordinator.topic_deleted, KEY.topic, end, 1)).keys
            if gone != expected:
                yield Change(f"what goes with a topic that is deleted at {end}", expected, gone)
        if other := self.coordinator.topic_deleted("another", last + 1, 1).keys:
            yield Change("what goes with another topic", (), other)

    def abstraction(self, state: State) -> State:
        expiries = {entry.place: entry for entry in state.history if entry.is_expiry}
        log = tuple(abstract_entry(batch, entry, expiries) for batch, entry in self._decoded())
        return State(
            log,
            self.end,
            self.high_watermark,
            self.applied,
            self.acknowledged,
            abstract_store(self.coordinator.offsets),
            self.now_ms,
            self.failures,
            self.membership,
            self.rebalances,
            history=state.history,
            empty_since=empty_since(self.coordinator),
        )

    def _decoded(self) -> Iterator[tuple[bytes, LogEntry]]:
        for place in sorted(self.log):
            (entry,) = self.entries([place], log_entries)
            yield self.log[place], entry


STEPS: Final = Steps(
    on(actions.Commit, OffsetCores.commit),
    on(actions.CommitInTransaction, OffsetCores.commit),
    on(actions.WriteMarker, OffsetCores.write_marker),
    on(actions.Replicate, OffsetCores.replicate),
    on(actions.FailOver, OffsetCores.fail_over),
    on(actions.Delete, OffsetCores.delete),
    on(actions.Expire, OffsetCores.expire),
    on(actions.Clean, OffsetCores.clean),
    on(actions.Tick, OffsetCores.tick),
    on(actions.Apply, OffsetCores.apply),
    on(actions.Acknowledge, OffsetCores.acknowledge),
    on(actions.Join, OffsetCores.join),
    on(actions.Assign, OffsetCores.assign),
    on(actions.Leave, OffsetCores.leave),
)
