"""The coordinator of groups, for one partition of `__consumer_offsets`: pure rulings on what is asked of their offsets.

A ruling says which records have to be in the log first. The state follows from the log alone (`offsets`): its entries
are replayed when they are committed. What is in the log and not committed yet is *in flight*. Nobody is told of it, but
the coordinator takes account of it in what it decides by itself: an offset does not expire while another one for it is
in flight, or pending in a transaction. Else the tombstone would take the newer one along.

Members of groups have a core of their own beside it (`classic.coordinator`), which says who may commit, and what is
kept for whom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.fields import LONGEST_STRING
from tidegauge.impl.coordinators.groups.classic.coordinator import ClassicGroups
from tidegauge.impl.coordinators.groups.classic.messages import GroupWrite, Moment, Outcome
from tidegauge.impl.coordinators.groups.classic.state import ClassicState
from tidegauge.impl.coordinators.groups.classic.turn import ClassicLimits
from tidegauge.impl.coordinators.groups.consumer.coordinator import ConsumerGroups, ConsumerLimits, ConsumerWrite
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerGroup
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
    GivingUp,
    OffsetDecision,
    OffsetWatch,
    Reading,
    Telling,
)
from tidegauge.impl.coordinators.groups.log_entries import (
    ConsumerGroupWritten,
    GroupWritten,
    LogEntry,
    TransactionEnded,
)
from tidegauge.impl.coordinators.groups.migration.coordinator import Migration
from tidegauge.impl.coordinators.groups.migration.policy import Policy
from tidegauge.impl.coordinators.groups.migration.rules import MigrationLimits, MigrationRules
from tidegauge.impl.coordinators.groups.offsets import CommittedOffset, GroupOffsets
from tidegauge.impl.coordinators.groups.record_formats import NO_TIME, OffsetKey, OffsetValue
from tidegauge.impl.coordinators.groups.requests import (
    GROUP_NOT_FOUND_FROM,
    NO_RETENTION,
    Commit,
    NewOffset,
    Ruling,
)
from tidegauge.impl.records.batches import NO_PRODUCER_ID

METADATA_MAX_BYTES: Final = 4096
"""Kafka's default of `offset.metadata.max.bytes`. Like Kafka it counts Java's characters, whatever the name says."""
RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
"""Kafka's default of `offsets.retention.minutes`."""


@attrs.frozen
class Limits:
    """What the settings say."""

    metadata_max_bytes: int = METADATA_MAX_BYTES
    retention_ms: int = RETENTION_MS
    classic: ClassicLimits = attrs.field(factory=ClassicLimits)
    consumer: ConsumerLimits = attrs.field(factory=ConsumerLimits)
    policy: Policy = Policy.BIDIRECTIONAL
    """`group.consumer.migration.policy`."""


class GroupCoordinator:
    """Decides about the groups of one partition, and knows what its log says of them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.offsets = GroupOffsets()
        self.classic = ClassicGroups(limits.classic)
        """The groups that have or have had members."""
        self.consumers = ConsumerGroups(limits.consumer)
        """Those of KIP-848."""
        migration = MigrationLimits(limits.policy, limits.classic.max_size, limits.consumer.max_size)
        self.migration = Migration(self.classic, self.consumers, MigrationRules(migration, self.consumers.rules))
        """What a group is, and how it goes over: it is of one type at a time."""
        self.in_flight: Counter[OffsetKey] = Counter()
        """What is in the log and not replayed yet, by how many records."""
        self.watching: OffsetWatch | None = None
        """Who follows the decisions about offsets, if anybody does."""

    def _tell(self, decision: OffsetDecision) -> None:
        if self.watching is not None:
            self.watching(decision)

    # --- the log -----------------------------------------------------------------------------------------------------

    def replay(self, entries: Iterable[LogEntry]) -> None:
        """Take in the next entries of a log that is loaded. Raises RecordError."""
        entries = tuple(entries)
        self._tell(Reading(entries))
        for entry in entries:
            if isinstance(entry, ConsumerGroupWritten):
                self.consumers.replay(entry.key, entry.value)
            else:
                self.offsets.replay([entry])

    def take_over(self, group: str, now: Moment) -> Outcome:
        """All of the log was replayed: the members that it tells of have new sessions."""
        metadata = self.offsets.metadata.get(group)
        return Outcome() if metadata is None else self.classic.load(group, metadata, now)

    def appended(self, ruling: Ruling) -> None:
        """What a ruling writes is in the log, or about to be."""
        self.in_flight.update(ruling.keys)
        self.classic.ending(ruling.ended)
        self._tell(Appending(ruling))

    def committed(self, ruling: Ruling, base_offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """What was appended is committed, from this offset on."""
        self._landed(ruling)
        self.offsets.replay(ruling.entries(base_offset, producer_id))
        self.classic.ended(ruling.ended)
        self._tell(Applying(ruling, base_offset, producer_id))

    def acknowledged(self, ruling: Ruling) -> None:
        """Who has asked for it is told that it is in the log."""
        self._tell(Acknowledging(ruling))

    def transaction_ended(self, marker: TransactionEnded) -> None:
        """A marker is committed: what its producer has committed counts, or never did."""
        self.offsets.replay([marker])
        self._tell(Ending(marker))

    def marker_acknowledged(self, producer_id: int, *, is_commit: bool, place: int | None) -> None:
        """Who has asked for a marker is told that it is in the log; `place`: where, if it counts here."""
        self._tell(Confirming(producer_id, is_commit, place))

    def failed(self, ruling: Ruling) -> None:
        """What was about to be in the log never will be."""
        self._landed(ruling)
        self.classic.kept(ruling.ended)
        self._tell(GivingUp(ruling))

    def _landed(self, ruling: Ruling) -> None:
        for key in ruling.keys:
            self.in_flight[key] -= 1
            if self.in_flight[key] <= 0:
                del self.in_flight[key]

    def group_written(
        self, write: GroupWrite, log_offset: int, now: Moment, beneath: ConsumerGroup | None = None
    ) -> Outcome:
        """A group's record is committed, at this offset; `beneath`: the consumer group that it takes away."""
        self.offsets.replay([GroupWritten(log_offset, write.group, write.metadata)])
        if beneath is not None:
            self.migration.landed(beneath)
        return self.classic.written(write, now)

    def consumers_written(self, write: ConsumerWrite, log_offset: int) -> None:
        """The records of a consumer group are committed, from this offset on; it may have gone over by them."""
        self.consumers.written(write)
        if write.is_of_both:
            self.offsets.replay([GroupWritten(log_offset, write.group_id, write.classic)])

    def consumers_failed(self, write: ConsumerWrite, now: Moment) -> Outcome:
        """They never will be in the log."""
        return self.migration.failed(write, now)

    def is_known(self, group: str) -> bool:
        """Whether there is such a group."""
        known = self.classic.get(group) is not None or self.consumers.get(group) is not None
        return known or group in self.offsets

    @property
    def groups(self) -> set[str]:
        """Every group that there is."""
        return self.offsets.groups.union(self.classic.groups, self.consumers.groups)

    # --- OffsetCommit and TxnOffsetCommit ----------------------------------------------------------------------------

    def commit(self, commit: Commit, now_ms: int) -> Ruling:
        """Commit offsets, in a transaction or not.

        Errors: those of `ClassicGroups.commit_error`, GROUP_ID_NOT_FOUND or ILLEGAL_GENERATION for a member of a group
        that is not there, INVALID_GROUP_ID, and OFFSET_METADATA_TOO_LARGE for a partition.
        """
        ruling = self._commit(commit, now_ms)
        self._tell(Committing(commit, ruling, now_ms))
        return ruling

    def _commit(self, commit: Commit, now_ms: int) -> Ruling:
        group = commit.group
        if len(group.encode()) > LONGEST_STRING:
            return Ruling(ErrorCode.invalid_group_id)
        error, stale = self._commit_error(commit)
        if error is not ErrorCode.none:
            return Ruling(error)
        refused: dict[tuple[str, int], ErrorCode] = {}
        taken: dict[OffsetKey, OffsetValue] = {}
        for new in commit.offsets:
            if self._is_too_large(new.metadata):
                refused[new.topic, new.partition] = ErrorCode.offset_metadata_too_large
            elif (new.topic, new.partition) in stale:
                refused[new.topic, new.partition] = stale[new.topic, new.partition]
            else:
                taken[OffsetKey(group, new.topic, new.partition)] = self._value(new, commit, now_ms)
        return Ruling(offsets=tuple(taken.items()), refused=refused)

    def _commit_error(self, commit: Commit) -> tuple[ErrorCode, Mapping[tuple[str, int], ErrorCode]]:
        """Why nothing of it is taken; and which partitions a member of a consumer group may not commit, in an epoch
        that is over.
        """
        if (consumers := self.migration.consumer_group(commit.group)) is not None:
            error, stale = self.consumers.commit_errors(consumers, commit)
            is_old = not commit.is_transactional and commit.version < GROUP_NOT_FOUND_FROM and bool(consumers.members)
            is_old = is_old and not self._is_classic_member(consumers, commit.member_id)
            return (ErrorCode.unsupported_version if error is ErrorCode.none and is_old else error), stale
        return self._commit_error_of_classic(commit), {}

    def _commit_error_of_classic(self, commit: Commit) -> ErrorCode:
        group = self.classic.get(commit.group)
        if group is not None:
            return self.classic.commit_error(group, commit)
        if commit.generation < 0:
            return ErrorCode.none
        if commit.group in self.offsets:
            return ErrorCode.unknown_member_id
        is_told = not commit.is_transactional and commit.version >= GROUP_NOT_FOUND_FROM
        return ErrorCode.group_id_not_found if is_told else ErrorCode.illegal_generation

    def _is_classic_member(self, group: ConsumerGroup, member_id: str) -> bool:
        member = group.members.get(member_id)
        return member is not None and member.classic is not None

    def _is_too_large(self, metadata: str) -> bool:
        units = len(metadata.encode("utf-16-be", "surrogatepass")) // 2
        return units > self.limits.metadata_max_bytes or len(metadata.encode()) > LONGEST_STRING

    def _value(self, new: NewOffset, commit: Commit, now_ms: int) -> OffsetValue:
        expire_time = NO_TIME if commit.retention_ms == NO_RETENTION else now_ms + commit.retention_ms
        return OffsetValue(new.offset, new.leader_epoch, new.metadata, now_ms, expire_time)

    # --- OffsetFetch -------------------------------------------------------------------------------------------------

    def fetch(self, key: OffsetKey, *, require_stable: bool) -> CommittedOffset | ErrorCode | None:
        """The committed offset, None if there is none.

        A stable one is not told while a transaction may yet change it, or what is on its way: UNSTABLE_OFFSET_COMMIT.
        """
        found = self.told(key, require_stable=require_stable)
        if self.watching is not None:
            self.watching(Telling(key.group, {(key.topic, key.partition): found}, require_stable))
        return found

    def told(self, key: OffsetKey, *, require_stable: bool) -> CommittedOffset | ErrorCode | None:
        """What who asks for an offset is told."""
        if require_stable and (self.offsets.is_unstable(key) or self.in_flight[key]):
            return ErrorCode.unstable_offset_commit
        return self.offsets.get(key)

    def fetch_all(self, group: str, *, require_stable: bool) -> Mapping[tuple[str, int], CommittedOffset | ErrorCode]:
        """The same for all that the group has committed, at one instant."""
        found = self.all_told(group, require_stable=require_stable)
        self._tell(Telling(group, found, require_stable, is_all=True))
        return found

    def all_told(self, group: str, *, require_stable: bool) -> Mapping[tuple[str, int], CommittedOffset | ErrorCode]:
        """What is told of each partition of which the group has committed an offset."""
        found: dict[tuple[str, int], CommittedOffset | ErrorCode] = {**self.offsets.of_group(group)}
        if require_stable:
            unstable = (place for place in self.offsets.unstable_of(group) if place in found)
            on_their_way = ((key.topic, key.partition) for key in self.in_flight if key.group == group)
            found.update(dict.fromkeys((*unstable, *on_their_way), ErrorCode.unstable_offset_commit))
        return found

    # --- deletions ---------------------------------------------------------------------------------------------------

    def delete_offsets(self, group: str, places: Iterable[tuple[str, int]]) -> Ruling:
        """OffsetDelete. Errors: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP; of a partition GROUP_SUBSCRIBED_TO_TOPIC.

        Consumers say what they subscribe to: of what none of them does, the offsets may go (KIP-496).
        """
        asked = tuple(places)
        ruling = self._delete_offsets(group, asked)
        self._tell(Deleting(group, asked, ruling))
        return ruling

    def _delete_offsets(self, group: str, places: Iterable[tuple[str, int]]) -> Ruling:
        error = self._deletion_error(group)
        known = self.migration.consumer_group(group) or self.classic.get(group)
        is_consumers = isinstance(known, ConsumerGroup) or (known is not None and known.is_consumers)
        if error is not ErrorCode.none and not (error is ErrorCode.non_empty_group and is_consumers):
            return Ruling(error)
        refused = {
            (topic, partition): ErrorCode.group_subscribed_to_topic
            for topic, partition in places
            if known is not None and known.is_subscribed(topic)
        }
        keys = dict.fromkeys(OffsetKey(group, *place) for place in places if place not in refused)
        return attrs.evolve(self._tombstones(key for key in keys if self._is_there(key)), refused=refused)

    def delete_group(self, group: str) -> Ruling:
        """DeleteGroups: the group and all its offsets. Errors: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.

        A consumer group has records of its own, which go with `ConsumerGroups.delete`.
        """
        ruling = self._delete_group(group)
        self._tell(Deleting(group, None, ruling))
        return ruling

    def _delete_group(self, group: str) -> Ruling:
        if (error := self._deletion_error(group)) is not ErrorCode.none:
            return Ruling(error)
        ended = () if self.migration.consumer_group(group) is not None else (group,)
        return attrs.evolve(self._tombstones(self.offsets.keys_of(group)), ended=ended)

    def _deletion_error(self, group: str) -> ErrorCode:
        if (consumers := self.migration.consumer_group(group)) is not None:
            return ErrorCode.non_empty_group if consumers.members else ErrorCode.none
        known = self.classic.get(group)
        if known is None:
            return ErrorCode.none if group in self.offsets else ErrorCode.group_id_not_found
        if known.state is ClassicState.DEAD:
            return ErrorCode.group_id_not_found
        return ErrorCode.none if known.state is ClassicState.EMPTY else ErrorCode.non_empty_group

    def topic_deleted(self, topic: str, end: int, most: int) -> Ruling:
        """The tombstones of the offsets in a topic that was deleted when the log ended here; at most so many.

        What was written since is for a topic that has the name again.
        """
        keys = (key for key in self.offsets.every_key() if key.topic == topic and not self.in_flight[key])
        gone = (key for key in keys if self.offsets.last_written(key) < end)
        ruling = self._tombstones(islice(gone, most))
        self._tell(Dropping(topic, ruling))
        return ruling

    def _is_there(self, key: OffsetKey) -> bool:
        return self.offsets.get(key) is not None or self.offsets.is_unstable(key)

    # --- expiry ------------------------------------------------------------------------------------------------------

    def expire(self, now_ms: int, most: int) -> Ruling:
        """The tombstones of offsets whose time is over, and of groups that have none left; at most so many."""
        found = list(islice(self._expiring(now_ms), most))
        ended = tuple(one for one in found if isinstance(one, str))
        ruling = attrs.evolve(self._tombstones(one for one in found if isinstance(one, OffsetKey)), ended=ended)
        self._tell(Expiring(now_ms, ruling))
        return ruling

    def _expiring(self, now_ms: int) -> Iterator[OffsetKey | str]:
        """Offsets whose time is over, and classic groups that have none, and nobody in them.

        Kafka writes a record of a group whose first member is about to join: it may be all that there ever was of it.
        """
        for group in sorted(self.groups):
            keys = self.offsets.keys_of(group)
            yield from (key for key in keys if self.is_expired(key, now_ms))
            known = self.classic.get(group)
            is_idle = self.consumers.get(group) is None
            if known is not None:
                is_idle = known.state is ClassicState.EMPTY and not known.pending
            if is_idle and not keys:
                yield group

    def idle_consumers(self) -> list[str]:
        """The consumer groups that have no members and no offsets."""
        groups = (self.migration.consumer_group(one) for one in list(self.consumers.groups))
        idle = (one for one in groups if one is not None and not one.members)
        return [one.group_id for one in idle if not self.offsets.keys_of(one.group_id)]

    def is_expired(self, key: OffsetKey, now_ms: int) -> bool:
        """Whether an offset may go: its time is over, and nothing newer is on its way."""
        known = self.offsets.get(key)
        if known is None or self.offsets.is_unstable(key) or self.in_flight[key]:
            return False
        if known.value.expire_time != NO_TIME:
            is_over = now_ms >= known.value.expire_time
        else:
            is_over = now_ms - self._idle_since(key, known) >= self.limits.retention_ms
        return is_over and not self.is_kept_for_members(key)

    def _idle_since(self, key: OffsetKey, offset: CommittedOffset) -> int:
        return max(offset.value.commit_time, self.empty_since(key.group))

    def empty_since(self, group_id: str) -> int:
        """When a classic group has lost its last member, in ms since 1970; -1 if it has some, or never had any."""
        group = self.classic.get(group_id)
        if group is None or group.protocol_type is None or group.state is not ClassicState.EMPTY:
            return NO_TIME
        return group.state_time

    def is_kept_for_members(self, key: OffsetKey) -> bool:
        """Whether a member may need it: in doubt all that the group has is kept."""
        if (consumers := self.migration.consumer_group(key.group)) is not None:
            return consumers.is_subscribed(key.topic)
        group = self.classic.get(key.group)
        if group is None or group.state is ClassicState.EMPTY:
            return False
        is_told = group.state is ClassicState.STABLE and group.subscriptions() is not None
        return not is_told or group.is_subscribed(key.topic)

    def _tombstones(self, keys: Iterable[OffsetKey]) -> Ruling:
        return Ruling(offsets=tuple((key, None) for key in keys))
