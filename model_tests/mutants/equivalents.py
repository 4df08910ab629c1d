"""The mutants that do what the code does, each with the reason: no test can kill them.

An entry whose mutant is gone, or is killed, is stale, and an error: the score would count too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tidegauge.model_tests.mutants.equivalents_in_spec import IN_SPEC
from tidegauge.model_tests.mutants.equivalents_of_groups import OF_GROUPS

EQUIVALENT: Final[Mapping[str, str]] = {
    **IN_SPEC,
    **OF_GROUPS,
    "impl/partition/follower.py Follower.follow_log_start: "
    "`log_start_offset > self.log.log_start_offset` -> `log_start_offset >= self.log.log_start_offset`": (
        "records below the log start are gone: to delete up to the log start deletes nothing"
    ),
    "impl/partition/leader.py Leader._records: "
    "`offset >= end_offset or not (at_least_one or max_bytes > 0)` -> `offset >= end_offset`": (
        "a first batch that has no room is read and then dropped: the operand only saves the reading"
    ),
    "impl/partition/leader.py Leader.last_stable_offset: "
    "`undecided >= self.high_watermark` -> `undecided > self.high_watermark`": (
        "a transaction that begins at the high watermark ends the stable records there, and no log starts behind it"
    ),
    "impl/partition/leader.py Leader.admit: "
    "`header.attributes & TRANSACTIONAL_FLAG` -> `header.attributes | TRANSACTIONAL_FLAG`": (
        "it saves looking for transactional batches where there are none"
    ),
    "impl/partition/follower.py Follower.truncate: "
    "`offset < self.log_end_offset` -> `offset <= self.log_end_offset`": "a cut at the end of a log cuts nothing off",
    "impl/partition/isr.py InSyncReplicas.receive_alter_partition_response: "
    "`response.error is ErrorCode.none and response.registration is not None` -> `response.error is ErrorCode.none`": (
        "who commits a proposal says what is registered now: the operand is for the type checker"
    ),
    "impl/partition/state.py ReplicaState.__init__: `self.verifications = Verifications()` -> nothing": (
        "only a leader asks for verifications, and its epoch began with none"
    ),
    "impl/partition/leader.py Leader._records: `0` -> `1` in `max_bytes > 0`": "no batch has room in one byte",
    "impl/partition/producer_state.py ProducerStates.admit: "
    "guard `if len(headers) == 1 and headers[0].producer_id < 0` -> nothing": (
        "it only saves the loop, which passes over a batch that is of no producer"
    ),
    "impl/controller/membership.py Membership.heartbeat: "
    "guard `if not asks and (renewal := self.renewal(broker_id, broker_epoch, metadata_offset, now_ms)) is not None` "
    "-> nothing": (
        "it saves the decision of nearly every heartbeat, which would come to the same response and deadline"
    ),
    "impl/controller/configs.py Configs._apply: `as_text(new) or ''` -> `as_text(new)`": (
        "a list as text is a text, an empty one too: the operand is for the type checker"
    ),
    "impl/controller/configs.py Configs._write_configs: `now_unclean and (not unclean)` -> `now_unclean`": (
        "where any live replica may lead already, one does (WhoMayLeadsAtOnce): to elect again changes nothing"
    ),
    "impl/controller/configs.py Configs._write_configs: `now_unclean and (not unclean)` -> `not unclean`": (
        "without the setting one leads where one may (WhoMayLeadsAtOnce): to elect again changes nothing"
    ),
    "impl/controller/configs.py Configs._write_configs: `now_unclean and (not unclean)` -> "
    "`now_unclean or not unclean`": (
        "without the setting too one leads where one may (WhoMayLeadsAtOnce), and a lower number changes no empty ISR"
    ),
    "impl/controller/elections.py ElectionRules.with_leader: "
    "`registration.leader in registration.isr and image.is_unfenced(registration.leader)` -> "
    "`registration.leader in registration.isr`": (
        "a broker leaves every ISR in the decision that fences it, and joins none before it is unfenced"
    ),
    "impl/controller/elections.py ElectionRules.elect: "
    "`not registration.isr and (not registration.elr) and ((best := self.best_left(registration)) in live)` -> "
    "`not registration.elr and (best := self.best_left(registration)) in live`": (
        "a member of the ISR is unfenced and online (IsrIsUnfenced), so it was elected before"
    ),
    "impl/controller/decision.py removes_replicas: "
    "`new.replicas != old.replicas and (not set(old.replicas) <= set(new.replicas))` -> "
    "`not set(old.replicas) <= set(new.replicas)`": "of equal lists none lacks a replica: the operand saves two sets",
    "impl/controller/decision.py Decision.propose: `sessions or NO_SESSIONS` -> `sessions`": (
        "who applies a proposal asks whether it has sessions, and None has none either"
    ),
    "impl/controller/requested_elections.py RequestedElections.elect_preferred: "
    "`preferred not in old.isr or not self._image.is_active(preferred)` -> `preferred not in old.isr`": (
        "nobody fenced is in an ISR (IsrIsUnfenced), and who is about to stop stays in one as its last member and leads"
    ),
    "impl/controller/directories.py Directories._set_lost: "
    "guard `if lost == (broker_id in old.lost_replicas)` -> nothing": (
        "to report a replica lost that is so changes nothing, and what changes nothing is not written"
    ),
    "impl/controller/membership.py Membership._unfence: "
    "`not broker.fenced or broker.in_controlled_shutdown` -> `broker.in_controlled_shutdown`": (
        "the session of an unfenced broker that has caught up was renewed before"
    ),
    "impl/controller/replica_lists.py ReplicaListRules.completed: "
    "guard `if not registration.is_reassigned` -> nothing": (
        "the target of a partition that is not reassigned is its replica list: to be only on that changes nothing"
    ),
    "impl/coordinators/groups/classic/rebalances.py RebalanceRules.session_timed_out: "
    "`group.state is ClassicState.PREPARING_REBALANCE and group.has_all_joined` -> `group.has_all_joined` (2)": (
        "a group with members that is in no generation prepares one"
    ),
    "impl/coordinators/groups/offsets.py GroupOffsets._end_transaction: "
    "`known.log_offset < offset.log_offset` -> `known.log_offset <= offset.log_offset`": (
        "no two commits that are in a log have the same offset in it"
    ),
    "impl/coordinators/transactions/coordinator.py TransactionCoordinator._given: "
    "`ruling.error is not ErrorCode.none or metadata is None` -> `ruling.error is not ErrorCode.none`": (
        "what is ruled without an error has metadata: the operand is for the type checker"
    ),
    "impl/coordinators/transactions/rules.py TransactionRules.verification: "
    "`is_open and partition in metadata.partitions` -> `partition in metadata.partitions`": (
        "of what is not open only a prepared transaction has partitions, and there the request has an error"
    ),
    "impl/controller/acls.py Acls.create: `True` -> `False`": "there is one refusal for each ACL",
    "impl/controller/placement.py place: `0` -> `1` in `max(0, first - 1)`": (
        "1 is none of the rounds of two brokers either, and one broker has no followers to move"
    ),
    "impl/controller/placement.py place: "
    "`any((rack is not None for rack in racks.values()))` -> `all((rack is not None for rack in racks.values()))`": (
        "all brokers have a rack or none has, by placement_error"
    ),
    "impl/controller/placement.py alternating: `rack or ''` -> `rack`": (
        "whose brokers have no rack is not placed over racks: the operand is for the type checker"
    ),
    "impl/controller/placement.py alternating: `0` -> `1`": "without a column there is no row either",
    "impl/controller/directories.py Directories._set_offline: "
    "guard `if offline == (broker_id in old.offline_replicas)` -> nothing": (
        "to make a replica offline that is so changes nothing, and what changes nothing is not written"
    ),
    "impl/controller/replica_lists.py ReplicaListRules.without_stopping: `not stopping or not "
    "self.may_leave(registration, stopping)` -> `not self.may_leave(registration, stopping)`": (
        "where nobody stops nobody is taken out: the operand saves asking"
    ),
    "impl/controller/replica_lists.py ReplicaListRules.without_stopping: `image.is_shutting_down(b) and "
    "image.is_unfenced(b)` -> `image.is_shutting_down(b)`": (
        "a broker leaves every ISR in the decision that fences it, and joins none before it is unfenced"
    ),
    "impl/controller/topics.py Topics._colliding: guard `if '.' not in name and '_' not in name` -> nothing": (
        "such a name collides with itself only, and a topic that is there is refused before: the guard saves the search"
    ),
    "impl/partition/leader.py Leader.fetch_error: "
    "`not self.is_leader or remote is None or fetch.broker_epoch < remote.broker_epoch` -> "
    "`remote is None or fetch.broker_epoch < remote.broker_epoch`": (
        "only a leader has remote replicas: who does not lead knows of none"
    ),
    "impl/storage/surviving_logs.py _end_offset: `1` -> `2` in `1 << 62`": "no log ends beyond either",
    "impl/storage/surviving_logs.py _end_offset: `62` -> `63` in `1 << 62`": "no log ends beyond either",
    "impl/storage/surviving_logs.py _noted: `checkpoints.read_text(disk, directory, CLEAN_SHUTDOWN) or ''` -> "
    "`checkpoints.read_text(disk, directory, CLEAN_SHUTDOWN)`": (
        "no note says no epoch, as an empty one does: the operand is for the type checker"
    ),
    "impl/storage/surviving_logs.py _position: `position < len(content)` -> `position <= len(content)`": (
        "at the end of the content there is no header, and so the same end"
    ),
    "impl/storage/interrupted_replacements.py _put_in_place: `0` -> `1` in "
    "`Segment(disk, directory, base, index_interval_bytes, 0)`": (
        "it is the time at which a segment began that is removed in the same line"
    ),
    "impl/storage/interrupted_replacements.py _put_in_place: `0` -> `1` in "
    "`Segment(disk, directory, base_offset, index_interval_bytes, 0, suffix=SWAP_SUFFIX)`": (
        "it is the time at which a segment began that is closed before anybody asks for it"
    ),
    "impl/storage/neighbours.py last_batch: `1` -> `2` in `segment.next_offset - 1`": (
        "of the batches from there on the last one is taken, whether or not one more comes before it"
    ),
    "impl/storage/survey.py _Reader._is_plausible: `False` -> `True`": (
        "so near to the end of the file no batch is intact: the place is looked at, and what follows is damaged as well"
    ),
    "impl/storage/survey.py _behind: `position + HEADER_SIZE <= reader.size` -> "
    "`position + HEADER_SIZE < reader.size`": "what is left is one header: nothing is behind it, wherever it leads",
    "impl/storage/survey.py _behind: `size >= HEADER_SIZE` -> `size > HEADER_SIZE`": (
        "a batch that is a header alone has no bytes in which another one could begin: the search finds the next one"
    ),
    "impl/storage/survey.py _leaps_over_next: `expected <= after.base_offset < header.next_offset` -> "
    "`expected < after.base_offset < header.next_offset`": (
        "the batch between has an offset at least, so the one behind it begins beyond the end of the one before"
    ),
    "impl/storage/survey.py _Reader.__init__: `0` -> `1`": "the window is empty: what is looked at first is read",
    "impl/storage/recovery.py _Recovering._is_made_up: `2` -> `3` in `islice(segment.headers_from(base), 2)`": (
        "it matters whether there is one or more"
    ),
    "impl/storage/recovery.py _Recovering._borne_out: `point <= self._known.log_start_offset` -> "
    "`point < self._known.log_start_offset`": (
        "a log start at the recovery point tells by itself how far the log went (`_known_end`)"
    ),
    "impl/storage/recovery.py _Recovering._pass_over: `start != limit and self._left_out.is_in_doubt(self._directory, "
    "start, limit)` -> `self._left_out.is_in_doubt(self._directory, start, limit)`": (
        "between two offsets that are the same no snapshot is named after one: the operand saves looking at them"
    ),
    "impl/storage/recovery.py _Recovering._restore_epochs: `epoch > self._epochs.latest_epoch` -> "
    "`epoch >= self._epochs.latest_epoch`": "an epoch that is known keeps its start, which is the earlier one",
    "impl/storage/epoch_recovery.py contradiction: `segment.base_offset <= start_offset < segment.next_offset` -> "
    "`segment.base_offset <= start_offset <= segment.next_offset`": "no batch of a segment reaches to where it ends",
    "impl/storage/recovery.py _Recovering._end_behind: `limit <= self._flushed` -> `limit < self._flushed`": (
        "the log is known to go up to where it was flushed, if a file begins there (`_known_end`)"
    ),
    "impl/storage/recovery.py _Recovering._is_made_up: `False` -> `True` (3)": (
        "the file has just been read, and what is damaged in it is walked over: no header raises"
    ),
    "impl/storage/noted_epochs.py NotedEpochs._look_up: `0` -> `1` in `self._starts[number - 1] if number else 0`": (
        "before the first entry nothing is noted of any offset: of offset 0 that is looked up again"
    ),
    "impl/storage/noted_epochs.py NotedEpochs.is_odd: `start <= offset < end` -> `start < offset < end`": (
        "what was looked up last is looked up again"
    ),
    "impl/coordinators/transactions/coordinator.py TransactionCoordinator._append: `1` -> `2`": (
        "numbers of records are compared with each other, and no two are the same"
    ),
    "impl/coordinators/transactions/coordinator.py TransactionCoordinator.__init__: `0` -> `1`": (
        "the number before the first record: numbers are compared with each other"
    ),
    "impl/coordinators/transactions/coordinator.py TransactionCoordinator._pending: "
    "`partition is None or partition.leader_epoch != append.leader_epoch` -> `partition is None`": (
        "no record of another leader epoch has the number of one that is pending"
    ),
    "impl/coordinators/transactions/coordinator.py TransactionCoordinator.outstanding_of: `found is None or "
    "metadata is None or metadata.status not in PREPARED or (found.pending is not None)` -> `metadata is None or "
    "metadata.status not in PREPARED or found.pending is not None`": (
        "what is not found has no metadata: the operand is for the type checker"
    ),
    "impl/coordinators/transactions/rules.py TransactionRules.init_ruling: "
    "`request.epoch != NO_EPOCH and self.is_init_repeated(metadata, request)` -> "
    "`self.is_init_repeated(metadata, request)`": "a request without an epoch repeats none: the operand saves asking",
    "impl/coordinators/transactions/rules.py TransactionRules.is_init_repeated: "
    "`last_epoch == NO_EPOCH or request.epoch != last_epoch` -> `request.epoch != last_epoch`": (
        "it is asked of requests that name an epoch: none is NO_EPOCH"
    ),
    "impl/coordinators/transactions/rules.py TransactionRules.is_init_repeated: "
    "`metadata.previous_producer_id == request.producer_id and self.is_exhausted(request.epoch)` -> "
    "`metadata.previous_producer_id == request.producer_id`": (
        "where the producer id before is another one, the epoch before is the last that a producer has (`last_epoch`)"
    ),
    "impl/coordinators/transactions/rules.py TransactionRules.is_end_repeated: "
    "`metadata.previous_producer_id == request.producer_id and self.is_exhausted(request.epoch)` -> "
    "`metadata.previous_producer_id == request.producer_id`": (
        "where the producer id before is another one, the epoch before is the last that a producer has (`last_epoch`)"
    ),
    "impl/coordinators/transactions/rules.py TransactionRules.is_end_repeated: `rotated and metadata.epoch == 0` -> "
    "`rotated`": (
        "a producer id that follows another one is at epoch 0 until it is itself the one before (`with_next_epoch`), "
        "or none is (`fenced`)"
    ),
    "impl/coordinators/transactions/rules.py TransactionRules.request_error: "
    "`metadata.status is TransactionStatus.ONGOING and metadata.is_taken_over` -> `metadata.is_taken_over`": (
        "a prepared transaction is told of before, and a complete one is taken over no more"
    ),
    "impl/coordinators/groups/classic/state.py from_log: `metadata.protocol or ''` -> `metadata.protocol`": (
        "a record that has members has a protocol: the operand is for the type checker"
    ),
    "impl/coordinators/groups/classic/rebalances.py RebalanceRules.joining_timed_out: "
    "`group.join_deadline = None` -> nothing": (
        "the deadline runs while members join only: a generation begins then, or there is another deadline"
    ),
    "impl/coordinators/transactions/listing.py listed: `1` -> `2` in `(yield 1)`": (
        "units of work say when others have their turn: what is told is the same"
    ),
    "impl/coordinators/groups/classic/state.py ClassicGroup.subscriptions: `0` -> `1` in `self.read[0]`": (
        "topics are no generation, so they are read each time: to keep them saves that"
    ),
    "impl/coordinators/groups/consumer/rules.py ConsumerRules.fetch_error: `member_id or ''` -> `member_id`": (
        "no member has no id: it is not among the members either way"
    ),
    "impl/coordinators/groups/consumer/state.py ConsumerGroup.without: guard `if self.resolved.keys() <= "
    "group.expressions` -> nothing": "the same group with an equal mapping: the guard saves a copy",
    "impl/coordinators/groups/consumer/state.py ConsumerGroup.subscriptions: guard `if not self.resolved` -> nothing": (
        "where nothing is resolved members want what they name: the guard saves asking each of them"
    ),
    "impl/coordinators/groups/consumer/rules.py ConsumerRules.still_resolved: `group.resolved.keys() <= "
    "group.expressions` -> `group.resolved.keys() < group.expressions`": (
        "of equal keys nothing is left out: the same group with an equal mapping"
    ),
    "impl/coordinators/groups/consumer/rules.py ConsumerRules.giving_up: guard `if not gone` -> nothing": (
        "an equal member, which is not written: the guard saves the copy"
    ),
    "impl/coordinators/groups/consumer/rules.py ConsumerRules.tells_assignment: `request.is_full or before is None or "
    "before.assigned.keys() != after.assigned.keys()` -> `request.is_full or before.assigned.keys() != "
    "after.assigned.keys()`": "who joins says all (`is_full`): the operand is for the type checker",
    "impl/coordinators/groups/consumer/rules.py ConsumerRules.is_behind: `request.epoch == member.previous_epoch < "
    "member.epoch` -> `request.epoch == member.previous_epoch <= member.epoch`": (
        "who is in its own epoch is taken whether or not it is behind (`epoch_error`)"
    ),
    "impl/coordinators/groups/consumer/assignors.py _takers: guard `if len(subscriptions) == 1` -> nothing": (
        "where all want the same each of them wants each topic: the guard saves asking"
    ),
    "impl/coordinators/groups/consumer/coordinator.py ConsumerGroups._is_full: `request.instance_id or ''` -> "
    "`request.instance_id`": "nobody without an instance id is among the static members either way",
    "impl/coordinators/groups/consumer/coordinator.py ConsumerGroups.timed_out: `group is None or member is None or "
    "(due.timer is ConsumerTimer.REBALANCE and (not member.revoking))` -> `member is None or (due.timer is "
    "ConsumerTimer.REBALANCE and (not member.revoking))`": (
        "without a group there is no member: the operand is for the type checker"
    ),
    "impl/coordinators/groups/migration/coordinator.py Migration.decided: `after is None or "
    "not self.rules.downgrades(after)` -> `not self.rules.downgrades(after)`": (
        "no group is deleted by what is asked or by time: the operand is for the type checker"
    ),
    "impl/coordinators/groups/consumer/coordinator.py ConsumerGroups._write: `1` -> `2`": (
        "the number of the next revision: revisions are compared with each other, and no two are the same"
    ),
    "impl/coordinators/groups/consumer/coordinator.py ConsumerGroups._write: `before is not None and (after is None or "
    "before.members is not after.members)` -> `before is not None`": (
        "where the members are the same nobody has gone: the operand saves looking at each of them"
    ),
    "impl/coordinators/groups/consumer/records.py _read_partitions: `True` -> `False` (4)": (
        "as many epochs as partitions are zipped: where there are not as many, that is refused before"
    ),
    "impl/coordinators/groups/consumer/rules.py ConsumerRules.still_resolved: guard "
    "`if group.resolved.keys() <= group.expressions` -> nothing": (
        "without it the group has an equal mapping, and another hash is made of the same topics: it saves that"
    ),
    "impl/coordinators/groups/consumer/state.py ConsumerGroup.without: `self.resolved.keys() <= group.expressions` -> "
    "`self.resolved.keys() < group.expressions`": "the same group with an equal mapping: the comparison saves a copy",
    "impl/coordinators/groups/classic/members.py ClassicRules.replacement_failed: `replacement.old_leader or ''` -> "
    "`replacement.old_leader`": "a stable group that has members has a leader: the operand is for the type checker",
    "impl/coordinators/groups/classic/rebalances.py RebalanceRules.joining_timed_out: "
    "guard `if group.state is not ClassicState.PREPARING_REBALANCE` -> nothing": (
        "the deadline is cancelled when a generation begins"
    ),
    "impl/coordinators/groups/classic/rebalances.py RebalanceRules.session_timed_out: guard `if member is None` -> "
    "nothing": "who takes a member out of the group cancels its deadline: the guard is for the type checker",
    "impl/coordinators/groups/classic/rebalances.py RebalanceRules.generation_told: `group.leader or ''` -> "
    "`group.leader`": "a generation that has members has a leader: the operand is for the type checker",
    "impl/coordinators/groups/classic/rebalances.py RebalanceRules.elect_leader: `group.leader or ''` -> "
    "`group.leader`": "no member has no id: it is not among the members either way",
    "impl/coordinators/groups/classic/members.py ClassicRules.join_static: `request.instance_id or ''` -> "
    "`request.instance_id`": "who comes here has an instance id: the operand is for the type checker",
    "impl/coordinators/groups/classic/members.py ClassicRules.replaced: `replacement.old_leader or ''` -> "
    "`replacement.old_leader`": "a stable group that has members has a leader: the operand is for the type checker",
    "impl/coordinators/groups/classic/rebalances.py RebalanceRules.finish_joining: `group.state is "
    "ClassicState.PREPARING_REBALANCE and group.initial is None and group.has_all_joined` -> "
    "`group.initial is None and group.has_all_joined`": (
        "in a generation only who replaces a static member has a JoinGroup that waits, and that found room: "
        "where one more is refused, not all wait so"
    ),
    "impl/coordinators/groups/classic/members.py ClassicRules.leave_one: `member_id == NO_MEMBER and "
    "leaving.instance_id is not None` -> `member_id == NO_MEMBER`": (
        "who has no instance id is no static member that is known: the operand is for the type checker"
    ),
    "impl/coordinators/groups/migration/coordinator.py Migration.leave: `member_id == NO_MEMBER and "
    "leaving.instance_id is not None` -> `member_id == NO_MEMBER`": (
        "no member has no instance id that is known, and who has neither id is unknown either way"
    ),
    "impl/coordinators/groups/consumer/coordinator.py ConsumerGroups.__init__: `0` -> `1`": (
        "the number of the first revision: revisions are compared with each other"
    ),
    "impl/coordinators/groups/consumer/coordinator.py _updated: `value is not None and getattr(member, name) != value` "
    "-> `value is not None`": "a copy of a member that says the same is not written: the condition saves the copy",
    "impl/storage/survey.py _Reader.window: `self.size - position` -> `self.size + position` in "
    "`min(max(size, _SCAN_BYTES), self.size - position)`": (
        "what is behind the end of the file is zeroes, and who looks asks first whether the file reaches so far"
    ),
}
"""Name of a mutant -> why it is equivalent."""


class StaleError(Exception):
    """An entry here is not true any more."""


def refuse_gone(names: Iterable[str], equivalent: Mapping[str, str] = EQUIVALENT) -> None:
    """Raise StaleError for an entry whose mutant is not among all these."""
    gone = sorted(set(equivalent) - set(names))
    if gone:
        raise StaleError(f"there is no such mutant any more, take it out of equivalents.py: {gone[0]}")


def refuse_killed(name: str, part: str, equivalent: Mapping[str, str] = EQUIVALENT) -> None:
    """Raise StaleError if a mutant that was killed is said to be equivalent."""
    if name in equivalent:
        raise StaleError(f"{part} kills it, so it is not equivalent, take it out of equivalents.py: {name}")
