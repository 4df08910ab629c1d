"""What coordinators of groups decide about their offsets, held against the rules of `spec.offsets`.

Theory of operation
-------------------
The log of a partition of `__consumer_offsets` is the truth: what coordinators have told to be committed, at its place.
What each of them knows of an offset is a `Store` of the specification, which replays each entry as it is committed; in
a transaction, once its marker is. A coordinator that takes over reads the log: each entry that it reads somebody has
written, and what it knows then is what the log amounts to, whatever the cleaner has left of it.

Whose commit is taken who is no member, what is deleted, what may expire, and what a client is told who asks for an
offset, stable or not, are the specification's rules in that state. Nobody is told of a commit that is not committed.

The machine is about one offset of one group; each is followed by itself, and shares the markers with all others.
Whether a member may commit is said by the machines of groups, which have to have been asked. When the topic of an
offset is deleted the machine does not say; nothing on its way may be taken along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, TypeAlias

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.log_entries import LogEntry, OffsetWritten, TransactionEnded
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset
from tidegauge.impl.coordinators.groups.record_formats import NO_TIME, OffsetKey, OffsetValue
from tidegauge.impl.coordinators.groups.requests import NO_RETENTION
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.server.trace import consumer_groups, events, groups
from tidegauge.impl.server.trace import group_offsets as offsets
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.validation.ways import Wrong
from tidegauge.spec.offsets import state as spec
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import NONE, Kind, Membership, Store

Written: TypeAlias = tuple[tuple[OffsetKey, OffsetValue | None], ...]
OF_THE_REQUEST: Final = (ErrorCode.invalid_group_id, ErrorCode.unsupported_version)
"""Errors of what a request says by itself."""
OF_PARTITIONS: Final = (
    ErrorCode.offset_metadata_too_large,
    ErrorCode.stale_member_epoch,
    ErrorCode.rebalance_in_progress,
)


@cache
def machine_of(retention_ms: int = 0) -> Offsets:
    """The machine, in which an offset expires after so long."""
    return Offsets(retention=retention_ms)


class Numbers(dict[tuple[int, int, str], int]):
    """What clients commit (offset, leader epoch, metadata), and its number."""

    def __missing__(self, value: tuple[int, int, str]) -> int:
        self[value] = number = len(self)
        return number


@attrs.define
class Log:
    """What the log of one partition has."""

    entries: dict[int, LogEntry] = attrs.field(factory=dict)
    """By place: what is committed."""
    written: set[tuple[OffsetKey, OffsetValue | None]] = attrs.field(factory=set)
    """What was ever appended."""
    last_epoch: int = -1
    """The latest in which it was loaded."""
    values: Numbers = attrs.field(factory=Numbers)

    def of_key(self, key: OffsetKey) -> Iterator[spec.Entry]:
        """What it says of an offset, in its order."""
        for place in sorted(self.entries):
            yield from self.entry(self.entries[place], key)

    def entry(self, entry: LogEntry, key: OffsetKey) -> Iterator[spec.Entry]:
        """What an entry says of an offset, if it does."""
        match entry:
            case OffsetWritten(place, _, known, None) if known == key:
                yield spec.Entry(place, Kind.TOMBSTONE)
            case OffsetWritten(place, producer_id, known, value) if known == key and value is not None:
                number, expires_at = self.number(value), None if value.expire_time == NO_TIME else value.expire_time
                yield spec.Entry(place, Kind.OFFSET, producer_id, number, value.commit_time, expires_at=expires_at)
            case TransactionEnded(place, producer_id, is_commit):
                yield spec.Entry(place, Kind.COMMIT if is_commit else Kind.ABORT, producer_id)

    def number(self, value: OffsetValue) -> int:
        return self.values[value.offset, value.leader_epoch, value.metadata]

    def seen(self, found: CommittedOffset) -> spec.Committed:
        value = found.value
        expires_at = None if value.expire_time == NO_TIME else value.expire_time
        return spec.Committed(found.log_offset, self.number(value), value.commit_time, expires_at)

    def stores(self, seen: Iterable[offsets.OffsetsSeen]) -> dict[OffsetKey, Store]:
        """What a coordinator knows, as the specification has it."""
        return {
            one.key: Store(
                None if one.committed is None else self.seen(one.committed),
                tuple((producer, self.seen(found)) for producer, found in one.pending),
            )
            for one in seen
        }


@attrs.define
class Coordinator:
    """One leader epoch of one broker."""

    leader_epoch: int
    stores: dict[OffsetKey, Store] = attrs.field(factory=dict)
    """Of each offset that there is, committed or pending."""
    waiting: list[Written] = attrs.field(factory=list)
    """What is on its way into the log."""
    ruled: groups.ReceiveCommit | consumer_groups.ReceiveCommit | None = None
    """What members' commit was ruled on last."""
    is_gone: bool = False
    """Whether its replica was taken away."""

    def state(
        self, key: OffsetKey, *, members: int | None = None, now_ms: int = 0, empty_since: int = NONE
    ) -> spec.State:
        """What the coordinator knows of an offset."""
        keys = [known for written in self.waiting for known, _ in written]
        in_flight = tuple(spec.Entry(place, Kind.OFFSET) for place in range(keys.count(key)))
        membership = Membership.STABLE if members else Membership.NONE if members is None else Membership.EMPTY
        store = self.stores.get(key, Store())
        return spec.State(store=store, now=now_ms, membership=membership, history=in_flight, empty_since=empty_since)

    def of_group(self, group: str) -> list[OffsetKey]:
        return [key for key in self.stores if key.group == group]


class OffsetCoordinators:
    """The coordinators of the offsets of groups of one cluster."""

    def __init__(self) -> None:
        self.actions: Counter[str] = Counter()
        self._here: dict[tuple[int, int], Coordinator] = {}
        """By broker and partition of the log."""
        self._logs: dict[int, Log] = {}

    def follow(self, event: TraceEvent) -> None:
        """Take in one event. Raises Wrong."""
        match event.decision:
            case events.Crash() | events.Stop():
                self._here = {key: one for key, one in self._here.items() if key[0] != event.node}
            case groups.Resign(log_partition=partition):
                self._here.pop((event.node, partition), None)
            case events.RemoveReplica(topic=topic, partition=partition):
                here = self._here.get((event.node, partition))
                if topic == CONSUMER_OFFSETS and here is not None:
                    here.is_gone = True
            case groups.ReceiveCommit() | consumer_groups.ReceiveCommit() as ruled:
                if (here := self._here.get((event.node, ruled.log_partition))) is not None:
                    here.ruled = ruled
            case offsets.OfOffsets() as decision:
                self.actions[type(decision).__name__] += 1
                log = self._logs.setdefault(decision.log_partition, Log())
                key = event.node, decision.log_partition
                if isinstance(decision, offsets.Load):
                    self._here[key] = _loaded(log, decision)
                    return
                here = self._here.get(key)
                if here is None or here.leader_epoch != decision.leader_epoch:
                    raise Wrong("a coordinator decides that has not loaded its log")
                if here.is_gone:
                    raise Wrong("its replica was taken away, and it goes on")
                _decide(log, here, decision)


def _decide(log: Log, here: Coordinator, decision: offsets.OfOffsets) -> None:
    match decision:
        case offsets.Commit():
            _commit(here, decision)
        case offsets.Delete():
            _delete(here, decision)
        case offsets.FetchStable():
            _fetch(log, here, decision)
        case offsets.Expire():
            _expire(here, decision)
        case offsets.DropTopic(deleted=topic, written=written):
            for key, value in written:
                if value is not None or key.topic != topic or here.state(key).history:
                    raise Wrong(f"of {key} something goes that is not of {topic!r}, or is on its way")
        case offsets.Append(written=written):
            here.waiting.append(written)
            log.written.update(written)
        case offsets.FailAppend(written=written):
            if written not in here.waiting:
                raise Wrong("what failed was not written")
            here.waiting.remove(written)
        case offsets.RespondToCommit(written=written):
            if written in here.waiting:
                raise Wrong("a client is told that it is committed, and it is not")
        case offsets.RespondToMarker():
            _acknowledged(log, here, decision)
        case offsets.Apply():
            _apply(log, here, decision)
        case offsets.EndTransaction(place=place, producer_id=producer_id, commits=commits):
            _replay(log, here, [TransactionEnded(place, producer_id, commits)], decision.after)


# --- the log ---------------------------------------------------------------------------------------------------------


def _loaded(log: Log, decision: offsets.Load) -> Coordinator:
    """What the coordinator has read is in the log, and it knows what that amounts to."""
    for entry in decision.entries:
        known = log.entries.get(entry.log_offset)
        if known is not None and known != entry:
            raise Wrong(f"it reads {entry}, and what is committed there is {known}")
        if known is None and isinstance(entry, OffsetWritten) and (entry.key, entry.value) not in log.written:
            raise Wrong(f"it reads {entry}, which nobody has written")
        log.entries[entry.log_offset] = entry
    log.last_epoch = max(log.last_epoch, decision.leader_epoch)
    keys = dict.fromkeys(one.key for one in log.entries.values() if isinstance(one, OffsetWritten))
    expected = {key: machine_of().loaded(log.of_key(key)) for key in keys}
    here = Coordinator(decision.leader_epoch, log.stores(decision.after))
    _agree(here, expected)
    return here


def _apply(log: Log, here: Coordinator, decision: offsets.Apply) -> None:
    if not here.waiting or here.waiting[0] != decision.written:
        raise Wrong("what is committed is not the first that was written")
    here.waiting.pop(0)
    places = enumerate(decision.written, decision.base_offset)
    entries = [OffsetWritten(place, decision.producer_id, key, value) for place, (key, value) in places]
    _replay(log, here, entries, decision.after)


def _replay(log: Log, here: Coordinator, entries: Sequence[LogEntry], after: Iterable[offsets.OffsetsSeen]) -> None:
    """The coordinator is told of what is committed."""
    touched = {one.key for one in entries if isinstance(one, OffsetWritten)}
    expected = dict(here.stores)
    for key in {*touched, *here.stores}:
        said = [each for one in entries for each in log.entry(one, key)]
        expected[key] = machine_of().replayed(here.stores.get(key, Store()), said)
    here.stores = log.stores(after)
    _agree(here, expected)
    if here.leader_epoch >= log.last_epoch:
        log.entries.update({one.log_offset: one for one in entries})


def _agree(here: Coordinator, expected: Mapping[OffsetKey, Store]) -> None:
    for key in sorted({*here.stores, *expected}):
        found, wanted = here.stores.get(key, Store()), expected.get(key, Store())
        if found != wanted:
            raise Wrong(f"of {key} it knows {found}, and the log says {wanted}")


def _acknowledged(log: Log, here: Coordinator, decision: offsets.RespondToMarker) -> None:
    """A marker that is acknowledged counts: its producer's offsets do, or are forgotten."""
    if decision.place is None:
        raise Wrong("a marker is acknowledged that the coordinator does not know of")
    marker = TransactionEnded(decision.place, decision.producer_id, decision.commits)
    if here.leader_epoch >= log.last_epoch and log.entries.get(decision.place) != marker:
        raise Wrong(f"{marker} is acknowledged, and the log has {log.entries.get(decision.place)}")


# --- requests --------------------------------------------------------------------------------------------------------


def _commit(here: Coordinator, decision: offsets.Commit) -> None:
    asked, error = decision.request, decision.error
    if error in OF_THE_REQUEST:
        return
    if asked.generation < 0 or not decision.members:
        keys = here.of_group(asked.group)
        state = here.state(keys[0] if keys else OffsetKey(asked.group, "", 0), members=decision.members)
        generation = NONE if asked.generation < 0 else asked.generation
        wanted = machine_of().commit_error(state, generation, is_transactional=asked.is_transactional)
        is_known = decision.members is not None and wanted is spec.Error.ILLEGAL_GENERATION
        _check_error(error, spec.Error.UNKNOWN_MEMBER_ID if is_known else wanted)
    if decision.members:
        _check_ruled(here, decision)
    taken = {}
    for new in asked.offsets if error is ErrorCode.none else ():
        if decision.refused.get((new.topic, new.partition), ErrorCode.none) in OF_PARTITIONS:
            continue
        asks = asked.retention_ms != NO_RETENTION and not asked.is_transactional
        expires_at = decision.now_ms + asked.retention_ms if asks else NO_TIME
        value = OffsetValue(new.offset, new.leader_epoch, new.metadata, decision.now_ms, expires_at)
        taken[OffsetKey(asked.group, new.topic, new.partition)] = value
    _check_written(decision.written, taken)


def _check_ruled(here: Coordinator, decision: offsets.Commit) -> None:
    """What the rules of members have said of this very commit is what becomes of it."""
    ruled, here.ruled = here.ruled, None
    if ruled is None or ruled.request != decision.request:
        raise Wrong("a commit is taken of a group with members, and whether its member may has not been asked")
    if ruled.error is not decision.error:
        raise Wrong(f"the response is {decision.error.name.upper()}, the member's {ruled.error.name.upper()}")
    if isinstance(ruled, consumer_groups.ReceiveCommit) and not ruled.refused.keys() <= decision.refused.keys():
        raise Wrong("partitions are taken that the member may not commit")


def _check_error(said: ErrorCode, wanted: spec.Error) -> None:
    """Newer clients are told of a group that is not there by an error of its own."""
    is_illegal = said is ErrorCode.group_id_not_found and wanted is spec.Error.ILLEGAL_GENERATION
    if said.value != wanted.value and not is_illegal:
        raise Wrong(f"the response is {said.name.upper()}, in the specification {wanted.name}")


def _check_written(written: Written, expected: Mapping[OffsetKey, OffsetValue | None]) -> None:
    if dict(written) != dict(expected):
        raise Wrong(f"it writes {dict(written)}, in the specification {dict(expected)}")


def _delete(here: Coordinator, decision: offsets.Delete) -> None:
    """Nobody takes away what members go by; of a group of consumers, what none of them reads."""
    keys = here.of_group(decision.group)
    state = here.state(keys[0] if keys else OffsetKey(decision.group, "", 0), members=decision.members)
    wanted = machine_of().deletion_error(state)
    places = None if decision.places is None else {OffsetKey(decision.group, *place) for place in decision.places}
    if wanted is spec.Error.NON_EMPTY_GROUP and decision.error is ErrorCode.none and places is not None:
        is_read = {(key.topic, key.partition) for key in places} <= decision.refused.keys()
        if not is_read:
            raise Wrong("offsets are deleted that members may go by")
        return
    if wanted is spec.Error.GROUP_ID_NOT_FOUND and decision.members is not None:
        wanted = spec.Error.NONE
    _check_error(decision.error, wanted)
    gone = keys if places is None else [key for key in keys if key in places]
    _check_written(decision.written, dict.fromkeys(gone if decision.error is ErrorCode.none else ()))


def _fetch(log: Log, here: Coordinator, decision: offsets.FetchStable) -> None:
    for (topic, partition), found in decision.found.items():
        state = here.state(OffsetKey(decision.group, topic, partition))
        wanted = machine_of().fetch_error(state) if decision.is_stable else spec.Error.NONE
        if isinstance(found, ErrorCode) or wanted is not spec.Error.NONE:
            said = found if isinstance(found, ErrorCode) else ErrorCode.none
            _check_error(said, wanted)
            continue
        told = None if found is None else log.seen(found)
        if told != state.store.committed:
            raise Wrong(f"{told} is told, in the specification {state.store.committed}")
    committed = {
        (key.topic, key.partition) for key in here.of_group(decision.group) if here.stores[key].committed is not None
    }
    if decision.is_all and not committed <= decision.found.keys():
        raise Wrong(f"nothing is told of {sorted(committed - decision.found.keys())}")


def _expire(here: Coordinator, decision: offsets.Expire) -> None:
    members, since = dict(decision.members), dict(decision.empty_since)
    for key, value in decision.written:
        group = key.group
        state = here.state(key, members=members[group], now_ms=decision.now_ms, empty_since=since[group])
        if value is not None or not machine_of(decision.retention_ms).expires(state):
            raise Wrong(f"{key} expires, and in the specification it does not: {state.store}")
