"""A wrong rule for every rule of replication: what the machine would do without the one thing that the rule is for.

A mutant takes the machine, the right rule, and the rule's arguments. It is found in the smallest model that shows it:
by an invariant, by a step invariant, or by a goal that no behaviour reaches for good.

What the zoo (`spec.bugs`) and the extensions' bugs show is not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import NONE, Error, RemoteReplica, Replica, State

SMALL: Final = Replication(brokers=2, max_records=1, bounds=Bounds())
TWO_RECORDS: Final = attrs.evolve(SMALL, max_records=2)
BOTH_NEEDED: Final = attrs.evolve(SMALL, min_insync_replicas=2)
OUT_OF_SYNC: Final = attrs.evolve(SMALL, initial_isr=(0,))
THREE: Final = attrs.evolve(SMALL, brokers=3)

REJOINS = "a follower that has caught up is in sync"
CATCHES_UP = "a live follower catches up"
TOLD = "the high watermark is the log's end, and told"
COUNTS = "a live broker is registered and not fenced"
LEADS = "a live candidate leads"

Wrong = Callable[..., Any]
"""What is done instead: takes the machine, the right rule, and the rule's arguments."""


@attrs.frozen
class RuleMutant:
    """One wrong rule, the model that shows it, and what is violated first there."""

    name: str
    rule: str
    wrong: Wrong
    model: Replication
    violates: str
    large: bool = False
    """Whether the model takes seconds to explore."""

    @property
    def machine(self) -> Replication:
        """The model with the wrong rule."""
        right, wrong = getattr(Replication, self.rule), self.wrong

        def mutant(machine: Replication, *args: object, **kwargs: object) -> object:
            return wrong(machine, partial(right, machine), *args, **kwargs)

        kind = type(self.name, (Replication,), {self.rule: mutant, "__doc__": self.name})
        machine: Replication = kind(**attrs.asdict(self.model, recurse=False))
        return machine


def _once(model: Replication, *perturbations: str) -> Replication:
    return attrs.evolve(model, bounds=Bounds(dict.fromkeys(perturbations, 1)))


def _evolved(**changes: object) -> Wrong:
    """The right outcome, but for these fields."""
    return lambda machine, right, *args, **kwargs: attrs.evolve(right(*args, **kwargs), **changes)


def _always(outcome: object) -> Wrong:
    return lambda machine, right, *args, **kwargs: outcome


def _commits_with_too_few(machine: Replication, right: Wrong, leader: Replica, broker: int) -> int:
    ends = [leader.remote[member].end_offset for member in leader.maximal_isr if member != broker]
    return max(leader.high_watermark, min([leader.log_end_offset, *ends]))


def _follows_the_least(machine: Replication, right: Wrong, leader: Replica, broker: int) -> int:
    ends = [max(0, leader.remote[member].end_offset) for member in leader.maximal_isr if member != broker]
    return min([leader.log_end_offset, *ends])


def _without_fence(machine: Replication, right: Wrong, controller: Any, broker: int, broker_epoch: int) -> bool:
    return broker < machine.brokers and broker_epoch in (NONE, controller.sessions[broker].broker_epoch)


def _elects_any(machine: Replication, right: Wrong, controller: Any, *, unclean: bool) -> tuple[int, bool]:
    live = [broker for broker in machine.replica_order(controller) if machine.is_active(controller, broker)]
    return (live[0], False) if live else (NONE, False)


def _elects_last_known(machine: Replication, right: Wrong, controller: Any, *, unclean: bool) -> tuple[int, bool]:
    leader, was_unclean = right(controller, unclean=unclean)
    last = controller.last_known_leader
    waits = leader == NONE and last != NONE and not controller.isr
    return (last, True) if waits and machine.is_active(controller, last) else (leader, was_unclean)


def _elected_outside_isr(machine: Replication, right: Wrong, controller: Any, *, unclean: bool = False) -> Any:
    if controller.leader in controller.isr and not controller.sessions[controller.leader].fenced:
        return controller, False
    leader, was_unclean = machine.elect(controller, unclean=unclean or machine.elects_uncleanly(controller))
    return machine.led_by(controller, leader), was_unclean


def _keeps_own_isr(machine: Replication, right: Wrong, state: State, broker: int, replica: Replica, new: Any) -> State:
    applied: State = right(state, broker, replica, attrs.evolve(new, isr=replica.isr or new.isr))
    return applied


def _cut_by(machine: Replication, right: Callable[..., Replica], replica: Replica, offset: int) -> Replica:
    return right(replica, max(0, offset - 1)) if offset < replica.log_end_offset else replica


# fmt: off
MUTANTS: tuple[RuleMutant, ...] = (
    # --- the partition and its settings
    RuleMutant("needs_one_in_sync", "required_insync", _always(1),
               _once(BOTH_NEEDED, "ShrinkIsr"), "AcknowledgedByEnough"),
    RuleMutant("elects_uncleanly_unasked", "elects_uncleanly", _always(True),
               _once(SMALL, "ShrinkIsr", "ExpireSession"), "LossIsAccepted"),
    # --- the leader
    RuleMutant("tells_the_log_start_for_the_divergence", "divergence",
               lambda m, right, leader, request, epoch, end: right(leader, request, epoch, 0),
               _once(TWO_RECORDS, "ExpireSession"), "CommonPrefixKept"),
    RuleMutant("tells_its_log_end_for_the_high_watermark", "served",
               lambda m, right, leader, request, records: attrs.evolve(
                   right(leader, request, records), high_watermark=leader.log_end_offset),
               _once(THREE, "ExpireSession"), "WeakIsr"),
    RuleMutant("tells_no_high_watermark", "served", _evolved(high_watermark=0), SMALL, TOLD),
    RuleMutant("sees_no_divergence", "diverging_epoch", _always(None), _once(SMALL, "ExpireSession"), CATCHES_UP),
    RuleMutant("ends_an_epoch_one_early", "end_offset_for_epoch",
               lambda m, right, log, epoch: (right(log, epoch)[0], max(0, right(log, epoch)[1] - 1)),
               SMALL, "CommonPrefixKept"),
    RuleMutant("commits_with_too_few_in_sync", "next_high_watermark", _commits_with_too_few,
               _once(BOTH_NEEDED, "ShrinkIsr"), "LeaderCandidateCompleteness"),
    RuleMutant("commits_what_it_has", "next_high_watermark",
               lambda m, right, leader, broker: leader.log_end_offset, SMALL, "WeakIsr"),
    RuleMutant("takes_the_high_watermark_back", "next_high_watermark", _follows_the_least,
               _once(SMALL, "Crash"), "HighWatermarkMonotone"),
    RuleMutant("commits_nothing", "next_high_watermark", lambda m, right, leader, broker: leader.high_watermark,
               SMALL, TOLD),
    RuleMutant("lets_everyone_join", "may_join_isr", _always(True), _once(SMALL, "ShrinkIsr"), "StrongIsr"),
    RuleMutant("asks_for_the_epoch_start_alone", "may_join_isr",
               lambda m, right, leader, follower: leader.remote[follower].end_offset >= leader.epoch_start_offset,
               _once(SMALL, "ShrinkIsr"), "StrongIsr"),
    RuleMutant("lets_nobody_join", "may_join_isr", _always(False), _once(SMALL, "ShrinkIsr"), REJOINS),
    RuleMutant("takes_a_follower_for_further", "remote_replica",
               lambda m, right, request: RemoteReplica(request.offset + 1, request.broker_epoch), SMALL, "WeakIsr"),
    RuleMutant("puts_itself_out", "lagging", lambda m, right, leader, broker: (*right(leader, broker), broker),
               _once(SMALL, "ShrinkIsr"), "LeaderInIsr"),
    # --- the follower
    RuleMutant("accepts_every_response", "accepts_fetch_response", _always(True),
               _once(SMALL, "ExpireSession"), "HighWatermarkMonotone"),
    RuleMutant("cuts_before_it_asks", "before_fetch",
               lambda m, right, replica: m.truncated(replica, replica.high_watermark), SMALL, "OnlyDivergenceCuts"),
    RuleMutant("names_an_epoch_that_it_lacks", "fetch_request",
               lambda m, right, follower, broker: attrs.evolve(
                   right(follower, broker), last_fetched_epoch=follower.leader_epoch),
               _once(SMALL, "ExpireSession"), REJOINS),
    RuleMutant("does_not_truncate", "after_response",
               lambda m, right, follower, response: (
                   follower if response.diverging_end_offset != NONE else right(follower, response)),
               _once(SMALL, "ExpireSession"), CATCHES_UP),
    RuleMutant("takes_a_high_watermark_beyond_its_log", "after_response",
               lambda m, right, follower, response: attrs.evolve(
                   right(follower, response),
                   high_watermark=max(right(follower, response).high_watermark, response.high_watermark)),
               _once(TWO_RECORDS, "ExpireSession"), "HighWatermarkWithinLog"),
    RuleMutant("takes_its_log_end_for_the_high_watermark", "after_response",
               lambda m, right, follower, response: attrs.evolve(
                   right(follower, response), high_watermark=right(follower, response).log_end_offset),
               _once(THREE, "ExpireSession"), "WeakIsr"),
    RuleMutant("cuts_one_more", "truncated", _cut_by, _once(TWO_RECORDS, "ExpireSession"), "CommonPrefixKept"),
    RuleMutant("counts_what_it_cut_as_flushed", "truncated",
               lambda m, right, replica, offset: attrs.evolve(right(replica, offset), flushed=replica.flushed),
               _once(SMALL, "Crash"), "FlushedWithinLog"),
    RuleMutant("truncates_all", "truncation_offset", _always(0),
               _once(TWO_RECORDS, "ExpireSession"), "CommonPrefixKept"),
    RuleMutant("notes_the_fetch_of_a_new_process_at_once", "may_update_follower", _always(True),
               _once(OUT_OF_SYNC, "Crash", "Disconnect"), "StrongIsr", large=True),
    # --- a broker's process and disk
    RuleMutant("trusts_its_checkpoint", "restarted",
               lambda m, right, replica: attrs.evolve(replica, running=True, high_watermark=replica.checkpoint),
               _once(SMALL, "Crash"), "HighWatermarkWithinLog"),
    RuleMutant("cuts_to_the_high_watermark_as_it_starts", "restarted",
               lambda m, right, replica: m.truncated(right(replica), right(replica).high_watermark),
               _once(SMALL, "Crash"), "OnlyDivergenceCuts"),
    RuleMutant("keeps_its_former_broker_epoch", "registered",
               lambda m, right, replica, epoch: attrs.evolve(replica, broker_epoch=max(0, epoch - 1)),
               _once(SMALL, "Crash"), COUNTS),
    RuleMutant("keeps_the_isr_that_it_knows", "metadata_applied", _keeps_own_isr,
               _once(SMALL, "ShrinkIsr"), "ReplicationQuorumSuperset"),
    # --- the controller
    RuleMutant("counts_the_fenced_as_live", "is_active", _always(True),
               attrs.evolve(SMALL, bounds=Bounds(ExpireSession=2)), "IsrIsUnfenced"),
    RuleMutant("tells_brokers_a_smaller_isr", "metadata",
               lambda m, right, controller: attrs.evolve(
                   right(controller), isr=() if controller.leader == NONE else (controller.leader,)),
               _once(SMALL, "ShrinkIsr"), "ReplicationQuorumSuperset"),
    RuleMutant("keeps_metadata_and_applies_nothing", "metadata_applied",
               lambda m, right, state, broker, replica, metadata: state.with_replica(broker, replica),
               _once(SMALL, "ShrinkIsr"), "a live broker has the metadata"),
    RuleMutant("forgets_who_left", "with_isr", lambda m, right, controller, isr: attrs.evolve(controller, isr=isr),
               _once(BOTH_NEEDED, "ShrinkIsr"), "EligibleLeadersKept"),
    RuleMutant("leaves_a_new_process_in_sync", "with_registration",
               lambda m, right, controller, replica, broker: controller, _once(SMALL, "Crash"), "IsrIsUnfenced"),
    RuleMutant("unfences_nobody", "not_unfenced", _always("it stays fenced"), _once(SMALL, "ExpireSession"), COUNTS),
    RuleMutant("refuses_every_proposal", "alter_partition_error",
               lambda m, right, controller, request: right(controller, request) or Error.INELIGIBLE_REPLICA,
               _once(SMALL, "ExpireSession"), REJOINS),
    RuleMutant("writes_a_proposal_on_an_older_partition_epoch", "alter_partition_error",
               lambda m, right, controller, request: right(
                   controller, attrs.evolve(request, partition_epoch=controller.partition_epoch)),
               _once(attrs.evolve(THREE, max_records=0), "ShrinkIsr", "ExpireSession"), "ReplicationQuorumSuperset"),
    RuleMutant("takes_the_fenced_into_the_isr", "is_eligible_for_isr", _without_fence,
               _once(SMALL, "ExpireSession"), "IsrIsUnfenced"),
    RuleMutant("trusts_who_lost_its_tail", "without",
               lambda m, right, controller, broker, clean: right(controller, broker, clean=True),
               _once(BOTH_NEEDED, "Crash"), "LeaderCandidateCompleteness"),
    RuleMutant("keeps_the_fenced_in_sync", "without", lambda m, right, controller, broker, clean: controller,
               _once(SMALL, "ExpireSession"), "IsrIsUnfenced"),
    RuleMutant("drops_the_eligible", "elr_after", _always(()),
               _once(BOTH_NEEDED, "ShrinkIsr"), "EligibleLeadersKept"),
    RuleMutant("keeps_the_eligible_for_ever", "elr_after",
               lambda m, right, controller, isr, elr: tuple(b for b in elr if b not in isr),
               _once(SMALL, "ExpireSession"), "ElrBelowMinInsync"),
    RuleMutant("trusts_a_crashed_process", "on_unclean_registration",
               lambda m, right, controller, broker: m.without(controller, broker, clean=True),
               _once(BOTH_NEEDED, "Crash"), "LeaderCandidateCompleteness"),
    RuleMutant("never_elects", "with_leader", lambda m, right, controller, unclean=False: (controller, False),
               _once(SMALL, "ExpireSession"), "LeaderInIsr"),
    RuleMutant("elects_without_an_isr", "with_leader", _elected_outside_isr,
               _once(SMALL, "ShrinkIsr", "ExpireSession"), "LeaderInIsr"),
    RuleMutant("begins_no_epoch", "led_by",
               lambda m, right, controller, leader: attrs.evolve(
                   right(controller, leader), leader_epoch=controller.leader_epoch),
               _once(SMALL, "ExpireSession"), "OneLeaderPerEpoch"),
    RuleMutant("goes_back_an_epoch", "led_by",
               lambda m, right, controller, leader: attrs.evolve(
                   right(controller, leader), leader_epoch=controller.leader_epoch - 1),
               _once(SMALL, "ExpireSession"), "EpochsMonotone"),
    RuleMutant("elects_any_live_one", "elect", _elects_any,
               _once(SMALL, "ShrinkIsr", "ExpireSession"), "StrongIsr"),
    RuleMutant("elects_the_last_known_before_the_eligible", "elect", _elects_last_known,
               _once(attrs.evolve(BOTH_NEEDED, max_records=0), "ExpireSession", "Crash"), "LossIsAccepted"),
    RuleMutant("elects_nobody", "elect", _always((NONE, False)), _once(SMALL, "ExpireSession"), LEADS),
)
# fmt: on
