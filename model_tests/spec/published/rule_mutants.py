"""A wrong rule for those rules of the published models, but of KIP-320, that no variant has one for.

Some are noticed by a property; others leave the protocol as safe and live as it was and change what it does, which
shows in how many states TLC has found at each level (`COUNTED`, by the name of its run).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from tidegauge.model_tests.spec.published.searches import SEARCHES
from tidegauge.model_tests.spec.rule_mutant import RuleMutant, Wrong, always
from tidegauge.spec.published.kip848.machine import FirstKip848, Kip848
from tidegauge.spec.published.kraft.machine import Kraft
from tidegauge.spec.published.pull_raft.machine import PullRaft
from tidegauge.spec.published.replication35.machine import Replication35
from tidegauge.spec.published.replication35.state import NOBODY, EpochEnd, Error
from tidegauge.spec.published.transactions_diary.machine import TransactionsDiary

ONE: Final = Kip848(clients=1)
FIRST: Final = FirstKip848(clients=1)
TWO: Final = FirstKip848()
CONVERGED: Final = "the group has converged"
SECOND: Final = "v2_t1p1_x0"
PERTURBED: Final = "v2_t1p1_x1_cap12"
FIRST_SEARCH: Final = "v1_t1p1_x0"
DIARY_SEARCH: Final = "txn02_cfg"
DIARY: Final = TransactionsDiary(max_elections=0)
SERVERS: Final = Kraft(servers=2)
ELECTIONS: Final = "k_2s_e2r0"
PULLERS: Final = PullRaft(servers=2)
PULLS: Final = "p_2s_e2r0"
SECOND_PULLS: Final = "p2_2s_e2r0"
PARTED: Final = Replication35(brokers=2, replication_factor=2, min_isr=1, values=2, max_unclean_shutdowns=0)
FETCHES: Final = "repl35_f0u0"
BROKERS: Final = "repl35_cfg_cap9"
VOTERS: Final = "kip853_2s_e2"
PRE_VOTES: Final = "kip996_2s_unatt_cap12"
DISRUPTED: Final = "kip996_3s_d1_cap9"


def _given_back(place: int) -> Wrong:
    """What was given, as it was."""
    return lambda machine, right, *args: args[place]


# fmt: off
MUTANTS: Final[tuple[RuleMutant, ...]] = (
    RuleMutant("loses_every_message", "put", _given_back(0), ONE, CONVERGED),
    RuleMutant("brings_every_message_for_ever", "taken", _given_back(0), ONE, "ValidMemberEpoch"),
    RuleMutant("loses_every_request", "sent", _given_back(0), ONE, CONVERGED),
    RuleMutant("loses_every_response", "responded",
               lambda m, r, state, request, response: attrs.evolve(
                   r(state, request, response), responses=state.network.responses), ONE, CONVERGED),
    RuleMutant("sends_nothing", "subscriptions", always(()), ONE, CONVERGED),
    RuleMutant("owns_what_it_had", "reconciled", _given_back(0), ONE, CONVERGED),
    RuleMutant("never_reconciles", "reconciling", _given_back(0), ONE, CONVERGED),
    RuleMutant("knows_nobody", "is_unknown", always(True), ONE, CONVERGED),
    RuleMutant("subscribes_to_nothing", "described",
               lambda m, r, group, request: attrs.evolve(r(group, request), subscribed=()), ONE, CONVERGED),
    RuleMutant("has_every_partition_free", "is_free", always(True), ONE, "ValidPartitionEpoch"),
    RuleMutant("calls_everybody_settled", "is_settled", always(True), ONE, "ValidStableGroupState"),
    RuleMutant("goes_nowhere", "advanced", _given_back(1), ONE, CONVERGED),
    # --- version 1
    RuleMutant("loses_every_message", "put", _given_back(0), FIRST, CONVERGED),
    RuleMutant("brings_every_message_for_ever", "taken", _given_back(0), FIRST, "ValidMemberEpoch"),
    RuleMutant("sends_nothing", "subscriptions", always(()), FIRST, CONVERGED),
    RuleMutant("never_tells_what_it_owns", "tells_partitions", always(False), FIRST, CONVERGED),
    RuleMutant("owns_what_it_had", "reconciled", _given_back(0), FIRST, CONVERGED),
    RuleMutant("subscribes_to_nothing", "described",
               lambda m, r, group, request: attrs.evolve(r(group, request), subscribed=()), FIRST, CONVERGED),
    RuleMutant("calls_everybody_settled", "is_settled", always(True), FIRST, "ValidStableGroupState"),
    RuleMutant("goes_nowhere", "advanced", _given_back(1), FIRST, CONVERGED),
    RuleMutant("never_tells_what_is_assigned", "tells_assignment", always(False), FIRST, CONVERGED),
    RuleMutant("notes_no_epochs", "partition_epochs",
               lambda m, r, group, before, after: group.partition_epochs, TWO, "NoDoubleClientAssignment"),
    # --- transactions' diary
    RuleMutant("knows_no_former_state", "former", always(()), DIARY, "TypeOK"),
    RuleMutant("fences_in_a_former_epoch", "fencing_epoch",
               lambda m, r, metadata: metadata.pepoch - 1, DIARY, "TypeOK"),
    RuleMutant("finds_no_coordinator", "may_ask", always(False), DIARY, "a client has added a partition"),
    RuleMutant("commits_no_entry", "may_commit", always(False), DIARY, "a client has added a partition"),
    # --- KRaft
    RuleMutant("votes_for_nobody", "grants", always(False), SERVERS, "a server leads"),
    RuleMutant("takes_all_for_no_majority", "is_majority", always(False), SERVERS, "a server leads"),
    RuleMutant("gives_no_entry", "fetched", always(()), SERVERS, "a value is acknowledged"),
    RuleMutant("notes_no_ends", "with_end", _given_back(0), SERVERS, "a value is acknowledged"),
    RuleMutant("commits_nothing", "high_watermark", always(0), SERVERS, "a value is acknowledged"),
    RuleMutant("follows_nobody", "transitioned", _given_back(1), SERVERS, "a value is acknowledged"),
    RuleMutant("refuses_every_fetch", "is_valid", always(False), SERVERS, "a value is acknowledged"),
    # --- PullRaft
    RuleMutant("votes_for_nobody", "grants", always(False), PULLERS, "a server leads"),
    RuleMutant("takes_all_for_no_majority", "is_majority", always(False), PULLERS, "a server leads"),
    RuleMutant("refuses_every_pull", "is_valid", always(False), PULLERS, "a server has pulled a value"),
    RuleMutant("notes_no_ends", "with_end", _given_back(0), PULLERS, "a value is acknowledged"),
    RuleMutant("commits_nothing", "commit_index", always(0), PULLERS, "a value is acknowledged"),
    RuleMutant("takes_nothing_for_replicated", "is_replicated", always(False), PULLERS, "a value is acknowledged"),
    RuleMutant("takes_all_for_of_another_epoch", "may_commit", always(False), PULLERS, "a value is acknowledged"),
    # --- replication 3.5
    RuleMutant("knows_no_epochs", "end_of_epoch", lambda m, r, replica, epoch: EpochEnd(epoch, replica.end),
               PARTED, "LogMatchingProperty"),
    RuleMutant("truncates_nothing", "truncation_offset", lambda m, r, replica, diverging: replica.end,
               PARTED, "every write is acknowledged or refused", states=10_000),
)


def _counted(name: str, rule: str, wrong: Wrong, search: str) -> RuleMutant:
    machine: Any = SEARCHES[search].machine
    return RuleMutant(name, rule, wrong, machine, search)


COUNTED: Final[tuple[tuple[RuleMutant, int], ...]] = (
    (_counted("reads_a_response_for_ever", "received", _given_back(0), SECOND), 5),
    (_counted("never_tells_what_it_owns", "tells_partitions", always(False), SECOND), 7),
    (_counted("is_never_reconciled", "is_reconciled", always(False), SECOND), 12),
    (_counted("begins_again_what_it_has", "assignment_unsaid",
              lambda m, r, before, client: m.reconciling(client), SECOND), 9),
    (_counted("fences_everybody", "is_fenced", always(True), SECOND), 4),
    (_counted("never_tells_what_is_assigned", "tells_assignment", always(False), SECOND), 4),
    (_counted("remembers_no_message", "noted", always(()), SECOND), 3),
    (_counted("lets_nobody_leave", "is_leaving", always(False), PERTURBED), 7),
    (_counted("keeps_what_the_departed_had", "without_member",
              lambda m, r, group, member: attrs.evolve(r(group, member), partition_epochs=group.partition_epochs),
              PERTURBED), 7),
    (_counted("is_never_perturbed", "may_perturb", always(False), PERTURBED), 3),
    # --- version 1
    (_counted("is_never_reconciled", "is_reconciled", always(False), FIRST_SEARCH), 11),
    (_counted("begins_again_what_it_has", "assignment_unsaid",
              lambda m, r, before, client: m.reconciling(client), FIRST_SEARCH), 9),
    (_counted("remembers_a_message", "noted", lambda m, r, message: (message,), FIRST_SEARCH), 3),
    # --- transactions' diary
    (_counted("fences_nobody", "is_fenced", always(False), DIARY_SEARCH), 12),
    (_counted("keeps_no_coordinator", "with_pid", lambda m, r, client, broker: client, DIARY_SEARCH), 8),
    # --- KRaft
    (_counted("votes_for_shorter_logs", "is_not_behind", always(True), ELECTIONS), 10),
    (_counted("counts_stale_votes", "is_stale", always(False), ELECTIONS), 4),
    (_counted("commits_what_others_wrote", "may_commit", always(True), ELECTIONS), 19),
    (_counted("uses_no_response", "responded", lambda m, r, number, server, message: (server, False), ELECTIONS), 4),
    # --- PullRaft
    (_counted("votes_for_all", "is_free_for", always(True), PULLS), 5),
    (_counted("votes_for_shorter_logs", "is_not_behind", always(True), PULLS), 10),
    (_counted("votes_for_all", "is_free_for", always(True), SECOND_PULLS), 5),
    # --- replication 3.5
    (_counted("elects_nobody", "leaders", always((NOBODY,)), BROKERS), 2),
    (_counted("lets_who_is_fenced_lead", "leaders_once_fenced",
              lambda m, r, state, broker: (state.partition.leader,), BROKERS), 2),
    (_counted("keeps_who_is_fenced", "isr_once_fenced", lambda m, r, state, broker: state.partition.isr, BROKERS), 2),
    (_counted("elects_nobody_who_is_back", "leaders_once_unfenced",
              lambda m, r, state, broker: (state.partition.leader,), BROKERS), 4),
    (_counted("takes_every_proposal", "error_of", always(Error.NONE), FETCHES), 6),
    (_counted("finds_all_eligible", "is_eligible", always(True), FETCHES), 6),
    (_counted("changes_no_isr", "proposed", lambda m, r, state, isr: state.partition, FETCHES), 6),
    (_counted("proposes_all", "caught_up", lambda m, r, number, replica, late: replica.metadata.replicas, FETCHES), 1),
    (_counted("finds_all_caught_up", "is_caught_up", always(True), FETCHES), 1),
    (_counted("commits_nothing", "committed", always(0), FETCHES), 4),
    (_counted("never_advances", "advanced", _given_back(0), FETCHES), 4),
    (_counted("never_advances_by_the_isr", "advanced_by_isr", _given_back(0), FETCHES), 6),
    (_counted("tells_no_producer", "told", _given_back(0), BROKERS), 8),
    (_counted("gives_nothing_up", "given_up", _given_back(0), BROKERS), 7),
    (_counted("serves_every_fetch", "fetch_error", always(Error.NONE), BROKERS), 6),
    (_counted("sees_no_divergence", "is_diverging", always(False), BROKERS), 7),
    (_counted("fetches_for_ever", "needs_fetch", always(True), FETCHES), 4),
    (_counted("learns_of_everything", "reasons_to_update", always(1), FETCHES), 1),
    (_counted("has_no_metadata", "metadata_log", always(()), BROKERS), 5),
    # --- KIP-853
    (_counted("votes_for_nobody", "grants", always(False), VOTERS), 4),
    (_counted("votes_for_shorter_logs", "is_not_behind", always(True), VOTERS), 5),
    (_counted("gives_no_entry", "fetched", always(()), VOTERS), 3),
    (_counted("notes_no_ends", "with_end", _given_back(0), VOTERS), 13),
    (_counted("commits_nothing", "high_watermark", always(0), VOTERS), 10),
    (_counted("commits_what_others_wrote", "may_commit", always(True), VOTERS), 14),
    (_counted("uses_no_response", "responded", lambda m, r, number, server, message: (server, False), VOTERS), 6),
    (_counted("learns_of_no_leader", "is_news", always(False), VOTERS), 6),
    (_counted("never_resigns", "resigned", _given_back(1), VOTERS), 1),
    (_counted("notes_no_election", "elected",
              lambda m, r, number, server: attrs.evolve(r(number, server), log=server.log), VOTERS), 8),
    # --- KIP-996
    (_counted("votes_for_nobody", "grants", always(False), PRE_VOTES), 5),
    (_counted("votes_though_a_leader_is_at_work", "would_vote", always(True), DISRUPTED), 3),
    (_counted("learns_of_no_leader", "is_news", always(False), PRE_VOTES), 10),
    (_counted("never_resigns", "resigned", _given_back(1), DISRUPTED), 3),
)
"""A wrong rule, by the run of TLC's that differs, and the first level that does."""
# fmt: on
_ASKED: Final = "no run of TLC's comes to where it matters: a test asks it"
_BOUND: Final = "a bound of the model: which subscriptions count as perturbations"
NOT_MUTATED: Final[Mapping[tuple[str, str], str]] = {
    ("Kip848Rules", "is_perturbed"): _BOUND,
    ("FirstRules", "is_perturbed"): _BOUND,
    ("KraftRules", "truncated"): "only three servers with two elections come to it: a long search of TLC's counts that",
    ("PullRaftRules", "last_common"): "as truncated of KRaft",
    ("PullRaftRules", "truncated"): "as truncated of KRaft",
    ("PullRaft2Rules", "told"): "as truncated of KRaft; a test tells a follower whose log diverges",
    **dict.fromkeys(
        (
            *(("Kip853Rules", rule) for rule in ("truncated", "may_have_led", "is_all")),
            *(("Kip853Rules", rule) for rule in ("may_reconfigure", "reconfigured", "leaves", "without_leader")),
            *(("Kip996Rules", rule) for rule in ("is_free_for", "may_have_led", "is_all", "elected", "without_leader")),
        ),
        _ASKED,
    ),
    ("Kip320", "type_ok"): "a property, which a test asks of walks: as an invariant it would double each search",
}
"""Why a rule has no wrong one."""
