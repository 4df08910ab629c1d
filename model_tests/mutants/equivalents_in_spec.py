"""The mutants of the specification, but for its groups, that do what it does, each with the reason.

`equivalents` has those of the cores, and says when an entry is stale; `equivalents_of_groups` has those of groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

IN_SPEC: Final[Mapping[str, str]] = {
    "spec/recovery/opening.py Opening.known_end: `state.high_watermark <= (end or 0) + REACH` -> "
    "`state.high_watermark < (end or 0) + REACH`": (
        "no offset of the machine is exactly as far away as a file reaches: either no log has it, or it is near"
    ),
    "spec/recovery/machine.py Recovery.guard: `isinstance(action, (StartAt, Truncate, Meet, Crash)) and (not "
    "_is_there(state, action))` -> `not _is_there(state, action)`": (
        "of the actions of an open log only these name a file, a batch or an offset: all others are there"
    ),
    "spec/idempotence/producer.py ReceiveProduceResponse._taken: "
    "`error is Error.OUT_OF_ORDER_SEQUENCE_NUMBER and machine.refusal_is_temporary(flight)` -> "
    "`machine.refusal_is_temporary(flight)`": (
        "no other error is left: a producer raises its epoch itself, and no response of an older one comes through then"
    ),
    "spec/idempotence/properties.py _matches: `True` -> `False`": (
        "a replica remembers one batch of a producer at least, and here no more than its log has: as many are compared"
    ),
    "spec/authentication/machine.py Authentication.proper: `Authentication.may_renew(self, state) and "
    "state.mechanism is not None` -> `Authentication.may_renew(self, state)`": (
        "whose requests are served has proved who it is by a mechanism: the operand is for the type checker"
    ),
    "spec/authentication/machine.py Authentication._shake: `False` -> `True`": (
        "an unauthenticated client may do what it asks only before its handshake, and this one is behind its proof"
    ),
    "spec/authentication/machine.py Authentication.may_renew: `self.lifetime > 0` -> `self.lifetime >= 0`": (
        "no time passes in a session for ever: its age is 0"
    ),
    "spec/authentication/machine.py Authentication.may_renew: `self.lifetime > 0 and state.age >= 1` -> "
    "`state.age >= 1`": "no time passes in a session for ever: its age is 0",
    "spec/lag/machine.py Lag.sometimes: `True` -> `False`": "of each follower there is one rest, or none",
    "spec/lag/machine.py Lag.sometimes: `True` -> `False` (2)": "of each follower there is one list of fetches",
    "spec/offsets/properties.py only_old_expires: guard `if not any((entry.is_expiry for entry in state.history))` -> "
    "nothing": "it saves looking for what is decided where nothing has expired",
    "spec/offsets/actions.py WriteMarker._is_open: `entry.place > max(ended, default=NONE)` -> "
    "`entry.place >= max(ended, default=NONE)`": "a value and a marker are in different places, none of which is -1",
    "spec/offsets/rules.py OffsetRules.counts_more: `committed.place < value.place` -> "
    "`committed.place <= value.place`": "two values are in different places",
    "spec/compaction/transactional.py returned: `not entry.is_empty and entry.kind is Kind.ABORT` -> "
    "`entry.kind is Kind.ABORT`": (
        "the index names a transaction up to its marker, and no other marker of its producer lies in it"
    ),
    "spec/compaction/transactional.py returned: `one.first <= entry.offset <= one.last` -> "
    "`one.first <= entry.offset < one.last`": "at its end is the marker, or nothing",
    "spec/compaction/transactional.py CleaningRules.cleaned: `entry.is_marker and (not entry.is_empty)` -> "
    "`entry.is_marker`": "a marker loses its record when nothing of its transaction is left: it is not needed",
    "spec/compaction/transactional.py CleaningRules.cleaned: `False` -> `True`": (
        "whether it is needed is asked of markers alone"
    ),
    "spec/membership/succession.py Succession.sometimes: `let_in_early(state) and state.registered is not None and "
    "(state.registered.process.directory_id == OTHER)` -> `let_in_early(state) and "
    "state.registered.process.directory_id == OTHER`": "who is let in is registered: for the type checker",
    "spec/membership/moves.py Moves._no_work: `state.hosted or 0` -> `state.hosted`": "for the type checker",
    "spec/membership/moves.py Moves._is_copied: `own is not None and future is not None and (own.records == "
    "future.records)` -> `future is not None and own.records == future.records`": (
        "a log that is copied is there: for the type checker"
    ),
    "spec/membership/moves.py Moves._adopted: `not is_successor and (not self.may_drop(offline))` -> "
    "`not self.may_drop(offline)`": (
        "what a future log succeeds lies in the other one of two directories: if it is found, none is offline"
    ),
    "spec/published/pull_raft/state.py Server.renamed: `0` -> `1` in `[0]`": "the end of each server is written there",
    "spec/published/pull_raft/actions.py Handle.guard: `response is not None and count_of(state.messages, response) is "
    "not None` -> `count_of(state.messages, response) is not None`": "no message is None: for the type checker",
    "spec/replication/state.py received: `m is not message and m != message` -> `m != message`": (
        "what is the same message is equal: the operand saves comparing"
    ),
    "spec/replication/state.py in_order: `0` -> `1` in `found[0]`": (
        "there are two messages at least, and all are of one class"
    ),
    "spec/replication/properties.py changed_replicas: guard `if new is old` -> nothing": (
        "of replicas that are the same none is another one: the guard saves looking at each"
    ),
    "spec/replication/properties.py epochs_monotone: `new is not old and (new.epoch < old.epoch or "
    "new.leader_epoch < old.leader_epoch or new.partition_epoch < old.partition_epoch)` -> `new.epoch < "
    "old.epoch or new.leader_epoch < old.leader_epoch or new.partition_epoch < old.partition_epoch`": (
        "no epoch is below itself: the operand saves comparing"
    ),
    "spec/replication/properties.py loss_is_accepted: `after.history is before.history or "
    "after.history.superseded_epoch == before.history.superseded_epoch` -> `after.history.superseded_epoch "
    "== before.history.superseded_epoch`": ("the same history has the same epoch: the operand saves comparing"),
    "spec/replication/properties.py acknowledged_by_enough: guard `if after.history is before.history` -> nothing": (
        "in the same history nothing is acknowledged that was not: the guard saves comparing"
    ),
    "spec/transactions/coordinator_rules.py CoordinatorRules.init_ruling: `request.epoch != NONE and "
    "self.is_init_repeated(metadata, request)` -> `self.is_init_repeated(metadata, request)`": (
        "a request without an epoch repeats none: the operand saves asking"
    ),
    "spec/transactions/actions.py marked: `one.cached is None or partition not in "
    "machine.unmarked(one.cached)` -> `one.cached is None`": (
        "who waits for no marker of the partition is as before: the operand saves the request"
    ),
    "spec/transactions/properties.py epochs_rise: `kept is new or len(new.log) <= len(kept.log)` -> "
    "`len(new.log) <= len(kept.log)`": ("the same log is as long: the operand saves comparing"),
    "spec/transactions/properties.py stable_offset_is_monotone: `old is new or machine.last_stable_offset(old) <= "
    "machine.last_stable_offset(new)` -> `machine.last_stable_offset(old) <= machine.last_stable_offset(new)`": (
        "of the same partition it is the same: the operand saves looking for it"
    ),
    "spec/transactions/properties.py goals: `each.producer < number` -> `each.producer <= number`": (
        "who is ready has neither crashed nor been fenced, so it is another one"
    ),
    "spec/transactions/reading.py FinishRead.effect: `one.first <= offset <= one.last` -> "
    "`one.first <= offset < one.last`": "the last offset of a transaction is that of its marker, which is no record",
    "spec/transactions/reading.py CommittedReads.sometimes: `isinstance(state, ReadingState) and bool(state.consumed) "
    "and bool(state.partitions[0].memory.aborted)` -> `bool(state.consumed) and "
    "bool(state.partitions[0].memory.aborted)`": (
        "every state of the machine is one with readers: the operand is for the type checker"
    ),
    "spec/replication/actions.py advance_high_watermark: `acknowledged <= set(history.acknowledged)` -> "
    "`acknowledged < set(history.acknowledged)`": (
        "where all is acknowledged that was before and no more, the union is the same"
    ),
    "spec/replication/composed.py log_start_monotone: `new is not old and (not is_deleted(new)) and (not (known := "
    "listed(new)) or broker in known)` -> `not is_deleted(new) and (not (known := listed(new)) or broker in known)`": (
        "of the same replica the log starts where it did: the operand saves looking"
    ),
    "spec/replication/machine.py Replication.exchanged: `False` -> `True`": (
        "no field of an extension is of a class of attrs"
    ),
    "spec/replication/properties.py replication_quorum_superset: `is_true_leader(state, broker, replica) and "
    "replica.isr != isr and (not set(isr) <= set(replica.maximal_isr))` -> `is_true_leader(state, broker, replica) and "
    "(not set(isr) <= set(replica.maximal_isr))`": "of the same ISR nobody is missing: the operand saves two sets",
    "spec/replication/properties.py eligible_leaders_kept: guard `if new is old` -> nothing": (
        "of the same controller nobody is lost: the guard saves looking"
    ),
    "spec/replication/rules.py ReplicationRules.truncated: guard `if offset >= replica.log_end_offset` -> nothing": (
        "a cut at the end of a log, or behind it, cuts nothing off: the guard saves the copy"
    ),
    "spec/replication/rules.py ReplicationRules.truncated: `offset >= replica.log_end_offset` -> `offset > "
    "replica.log_end_offset`": "a cut at the end of a log cuts nothing off",
    "spec/replication/state.py Controller.registration: `True` -> `False` in `getattr(part, 'is_of_partition', "
    "True)`": ("every part of the controller says whether it is of the partition (`ControllerPart`)"),
    "spec/replication/extensions/deletion.py FetchOfFormer.effect: `1` -> `2` in `fetched(machine, state, "
    "self.request, 1)`": "what the leader records does not depend on how much it responds with",
    "spec/replication/extensions/directories.py failed_keeps_its_log: `new is not old and old.running and new.running "
    "and (left := log_that_failed(old))` -> `old.running and new.running and (left := log_that_failed(old))`": (
        "the same replica has the same log: the operand saves comparing"
    ),
    "spec/replication/extensions/reads.py Consumers.changed: `1` -> `2` in `number + 1`": (
        "consumers at the end that know nothing are taken off again"
    ),
    "spec/replication/extensions/reassignment.py Reassignment.target_lists: `1` -> `2` in `machine.brokers + 1`": (
        "there is no list of more brokers than there are"
    ),
    "spec/replication/extensions/retention.py Retention.truncated: guard `if kept is replica` -> nothing": (
        "no log starts behind its end, so that a cut that takes nothing leaves the log start"
    ),
    "spec/replication/extensions/retention.py Retention.restarted: `start > started.high_watermark` -> `start >= "
    "started.high_watermark`": "where both are the same the high watermark stays what it is",
    "spec/replication/extensions/retention.py Retention.diverging_epoch: guard `if request.offset == 0` -> nothing": (
        "who has no record names no epoch; of a log that starts later it is told before that it is out of range"
    ),
    "spec/replication/extensions/retention.py Retention.known_end_offset: `end_offset == start > 0` -> `end_offset == "
    "start >= 0`": "up to offset 0 there is no epoch: both say (-1, 0)",
    "spec/replication/extensions/retention.py Retention.after_response: guard `if (high_watermark, offset) == "
    "(follower.high_watermark, start.offset)` -> nothing": "nothing is another one: the guard saves the copy",
    "spec/replication/extensions/retention.py no_holes: `has_hole(r.log) and has_hole(r.log[log_start_of(r):])` -> "
    "`has_hole(r.log[log_start_of(r):])`": "a log without a hole has none in a part of it: the operand saves the copy",
    "spec/replication/extensions/retention.py log_start_monotone: `new is not old and (not starts_over(action, old))` "
    "-> `not starts_over(action, old)`": "of the same replica the log starts where it did: the operand saves looking",
    "spec/replication/extensions/settings.py ChangeSettings.effect: `controller.leader == NONE and "
    "self.elects_uncleanly and (not old.elects_uncleanly)` -> `self.elects_uncleanly and (not old.elects_uncleanly)`": (
        "who leads is in sync and not fenced, and so leads on"
    ),
    "spec/replication/actions.py advance_high_watermark: `len(shown) > len(history.committed) and "
    "shown[:len(history.committed)] == history.committed` -> "
    "`shown[:len(history.committed)] == history.committed`": (
        "what is no longer and goes on from what is committed is the same: the operand saves the copy"
    ),
    "spec/replication/actions.py advance_high_watermark: `len(shown) > len(history.committed)` -> "
    "`len(shown) >= len(history.committed)`": "what is as long and goes on from what is committed is the same",
    "spec/replication/actions.py HoldFetch.guard: `1` -> `2` in `fetched(machine, state, self.request, 1)`": (
        "whether there are records to respond with is asked, and not how many"
    ),
    "spec/replication/actions.py HoldFetch.effect: `1` -> `2` in `fetched(machine, state, self.request, 1)`": (
        "what the leader records does not depend on how much it responds with"
    ),
    "spec/replication/actions.py HoldFetch.guard: `response.error or response.records or "
    "response.diverging_end_offset != NONE` -> `response.records or response.diverging_end_offset != NONE`": (
        "of a fetch that is refused the leader records nothing, which forbids the action as well"
    ),
    "spec/replication/actions.py HoldFetch.guard: `response.error or response.records or "
    "response.diverging_end_offset != NONE` -> `response.error or response.records`": (
        "of a fetch from a log that diverges the leader records nothing, which forbids the action as well"
    ),
    "spec/replication/extensions/damage.py RepairLog.guard: guard `if replica.leader not in (NONE, self.broker)` -> "
    "nothing": (
        "a damaged replica follows nobody: it applies no metadata with another leader, and a process begins with none"
    ),
    "spec/recovery/elsewhere.py left_out: `0` -> `1` in `state.following(segment) or 0`": (
        "behind a file of which a cleaner leaves something out there is another one: the operand is for the type "
        "checker"
    ),
    "spec/recovery/opening.py Opening.take_in_read: `1` -> `2` in `:1`": (
        "of the batches that are believed the first one begins before all others, and the least is taken"
    ),
    "spec/recovery/epoch_lies.py lie_guard: `1` -> `2` in `:1`": (
        "where a later file begins no later than the epoch, the first one does too"
    ),
    "spec/recovery/opening.py Opening.later_files: `segment.base > taken.end and (is_empty or "
    "self.read(segment).believed)` -> `is_empty or self.read(segment).believed`": (
        "who asks looks for one beyond the end: the operand saves reading"
    ),
    "spec/recovery/opening.py Opening.taken_in: `known_end > taken.end` -> `known_end >= taken.end`": (
        "a gap that ends where it begins is none"
    ),
    "spec/recovery/properties.py Properties.end_is_within_reach: `not isinstance(action, Open) or after.end <= "
    "before.end + REACH` -> `after.end <= before.end + REACH`": ("no other action has a log end so far away"),
    "spec/administration/properties.py both: `True` -> `False`": "as many names are there before a step as after it",
    "spec/administration/properties.py changed: `old is not new and old is not None and (new is not None) and "
    "(old.number == new.number)` -> `old is not None and new is not None and (old.number == new.number)`": (
        "what is the same topic has not changed: the operand saves looking at its partitions"
    ),
    "spec/administration/settings.py changed: `change.value or ''` -> `change.value`": (
        "an operation without a value is refused before: for the type checker"
    ),
    "spec/administration/settings.py changed: `change.value or ''` -> `change.value` (2)": (
        "an operation without a value is refused before: for the type checker"
    ),
    "spec/administration/altering.py ReplaceSettings.settings: `value or ''` -> `value`": (
        "a setting without a value is refused before: for the type checker"
    ),
    "spec/administration/altering.py CheckSettings.candidates: `1` -> `2` in `LONGEST + 1`": "it is too long as well",
    "spec/administration/replicas.py Reassign.candidates: `False` -> `True` in `(False,)`": (
        "a target with a broker that nobody knows is refused for that, whether the factor is kept or not"
    ),
    "spec/administration/topics.py CheckTopic.candidates: `1` -> `2` in `(0, 1)`": (
        "no partitions at all are refused whatever the factor"
    ),
    "spec/administration/replicas.py CancelReassignment.error: `topic is None or partition is None` -> "
    "`partition is None`": "without a topic there is no partition: for the type checker",
    "spec/administration/brokers.py standing: `topic is not None and broker in old.replicas` -> "
    "`broker in old.replicas`": "without a topic there are no partitions: for the type checker",
}
"""Name of a mutant -> why it is equivalent."""
