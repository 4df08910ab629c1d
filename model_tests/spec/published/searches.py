"""Our searches of the published models, each with the runs of TLC's that it is held against.

The machines of KIP-320 are not among them: TLC was run on them by themselves (`found_by_tlc`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.model_tests.spec.published.tlc import Search, search
from tidegauge.spec.published.kip848 import variants as groups
from tidegauge.spec.published.kip848.machine import FirstKip848, Kip848
from tidegauge.spec.published.kip853 import variants as voters
from tidegauge.spec.published.kip996 import variants as pre_votes
from tidegauge.spec.published.kraft import variants as kraft
from tidegauge.spec.published.kraft.variants import CountedAsByTlc
from tidegauge.spec.published.pull_raft import variants as pulls
from tidegauge.spec.published.pull_raft.machine import PullRaft
from tidegauge.spec.published.pull_raft_2.machine import PullRaft2
from tidegauge.spec.published.replication35 import variants as replication
from tidegauge.spec.published.replication35.machine import Replication35
from tidegauge.spec.published.transactions_diary import variants as diary
from tidegauge.spec.published.transactions_diary.machine import FirstDiary, TransactionsDiary

KIP848: Final = (
    search(FirstKip848(), "v1_t1p1_x0", converges=True),
    search(FirstKip848(partitions_per_topic=2), "v1_t1p2_x0", "v1_probe", converges=True),
    search(FirstKip848(max_perturbations=1), "v1_t1p1_x1_cap14", deep=True),
    search(Kip848(), "v2_t1p1_x0", converges=True),
    search(Kip848(partitions_per_topic=2), "v2_t1p2_x0", converges=True),
    search(Kip848(topics=2), "v2_t2p1_x0", "v2_probe", converges=True),
    search(Kip848(topics=2, max_perturbations=1), "v2_cfg_cap9"),
    search(Kip848(max_perturbations=1), "v2_t1p1_x1_cap12", deep=True),
    search(groups.FirstAssignBeforeRevoke(), "V1B1_assign_before_revoke"),
    search(groups.FirstRevokeWithoutAcknowledgement(), "V1B2_revoke_without_ack"),
    search(groups.FirstFencedKeepsAssignment(max_perturbations=1), "V1B4_fenced_keeps", deep=True),
    search(groups.AssignBeforeRevoke(), "VB1_assign_before_revoke"),
    search(groups.RevokeWithoutAcknowledgement(), "VB2_revoke_without_ack"),
    search(groups.FencedKeepsAssignment(max_perturbations=1), "VB4_fenced_keeps"),
)
KRAFT: Final = (
    search(CountedAsByTlc(servers=2), "t1"),
    search(CountedAsByTlc(servers=2, max_elections=2), "k_2s_e2r0"),
    search(CountedAsByTlc(), "t2"),
    search(CountedAsByTlc(servers=2, max_elections=2, values=2), "k_2s_e2r0_2v", deep=True),
    search(CountedAsByTlc(servers=2, max_elections=2, max_restarts=1), "k_2s_e2r1", deep=True),
    search(CountedAsByTlc(), "k_3s_e1r0", deep=True),
    search(CountedAsByTlc(servers=2, max_elections=3), "k_2s_e3r0", deep=True),
    search(CountedAsByTlc(values=2), "k_3s_e1r0_2v_sym", deep=True),
    search(CountedAsByTlc(max_restarts=1), "k_3s_e1r1_sym", deep=True),
    search(CountedAsByTlc(max_elections=2), "k_3s_e2r0_sym_cap17", deep=True),
    search(kraft.WithIllegalRestarts(servers=2, max_restarts=1), "k_2s_e1r1"),
    search(kraft.LeadsWithoutMajority(max_elections=2), "KB7_noquorum"),
    search(kraft.VotesForAll(max_elections=2), "KB1_doublevote"),
    search(kraft.CommitsWithoutMajority(), "KB3_hw_no_quorum"),
    search(kraft.CommitsOnSending(), "KB6_hw_on_send"),
    search(kraft.CountsStaleVotes(max_elections=3), "KB9_stale_vote_counted"),
    search(kraft.VotesForShorterLogs(max_elections=2), "KB2_shortlog", deep=True),
)
PULL_RAFT: Final = (
    search(PullRaft(servers=2, values=1, max_elections=2), "p_2s_e2r0"),
    search(PullRaft(values=1), "p_3s_e1r0"),
    search(PullRaft(values=1, max_restarts=1), "p_3s_e1r1", deep=True),
    search(PullRaft(), "p_3s_e1r0_2v", deep=True),
    search(PullRaft(values=1, max_elections=2), "p_3s_e2r0_sym_cap14", deep=True),
    search(PullRaft(values=1, max_elections=2), "p_3s_e2r0_sym", deep=True),
    search(PullRaft2(servers=2, values=1, max_elections=2), "p2_2s_e2r0"),
    search(PullRaft2(values=1), "p2_3s_e1r0"),
    search(PullRaft2(values=1, max_elections=2), "p2_3s_e2r0_sym", deep=True),
    search(pulls.PullVotesForAll(values=1, max_elections=2), "PB1_doublevote", deep=True),
    search(pulls.PullVotesForShorterLogs(values=1, max_elections=2), "PB2_shortlog", deep=True),
    search(pulls.PullCommitsWithoutMajority(values=1, max_elections=2), "PB3_hw_no_quorum"),
    search(pulls.PullVotesForShorterLogs(max_elections=2), "PB2_shortlog_2v", deep=True),
)
REPLICATION: Final = (
    search(
        replication.CountedAsByTlc(
            brokers=2, replication_factor=2, min_isr=1, initial_isr=1, max_fences=0, max_unclean_shutdowns=0
        ),
        "repl35_f0u0",
        converges=True,
    ),
    search(replication.CountedAsByTlc(), "repl35_cfg_cap9"),
    search(Replication35(avoids_last_replica_standing=False), "S3_35_LRS"),
    search(replication.CountsTheRecordFetched(), "S4_35_hw_offbyone"),
    search(replication.ElectsOutsideTheIsr(), "S5_35_leader_outside_isr"),
)
_THREE: Final = {"servers": 3, "max_servers": 3, "hosts": 3, "max_voters": 3}
KIP853: Final = (
    search(voters.CountedAsByTlc(**_THREE, max_epoch=1), "kip853_e1"),
    search(voters.CountedAsByTlc(hosts=3), "kip853_2s_e2"),
    search(voters.CountedAsByTlc(max_servers=3, max_voters=3, max_epoch=1), "kip853_2s_1obs_cap10"),
    search(voters.Kip853VotesForAll(**_THREE), "R1_853_doublevote"),
    search(voters.Kip853VotesForShorterLogs(**_THREE), "R2_853_shortlog"),
    search(voters.Kip853CommitsWithoutMajority(**_THREE), "R3_853_hw_no_quorum"),
)
KIP996: Final = (
    search(pre_votes.CountedAsByTlc(**_THREE), "kip996_d0"),
    search(pre_votes.CountedAsByTlc(**_THREE, max_disruptions=1), "kip996_3s_d1_cap9"),
    search(pre_votes.Unattached(values_per_epoch=0), "kip996_2s_unatt_cap12"),
    search(pre_votes.UnattachedLeadsWithoutMajority(values_per_epoch=0), "Q1_996_2s_unatt_noquorum"),
)
TRANSACTIONS: Final = (
    search(FirstDiary(clients=1), "txn01_cfg", converges=True),
    search(FirstDiary(), "txn01_2c", converges=True),
    search(TransactionsDiary(max_elections=0), "txn02_e0", converges=True),
    search(TransactionsDiary(), "txn02_cfg", converges=True),
    search(diary.EmptiesNothing(), "TB8_txn01_badprev"),
    search(diary.KeepsEpoch(max_elections=0), "TB1_noepochbump"),
    search(diary.TransitionsAtOnce(max_elections=0), "TB3_noconcurrent"),
    search(diary.KeepsCoordinatorEpoch(), "TB4_nocepochbump"),
    search(diary.FencesInSameEpoch(max_elections=0), "TB5_nofencebump"),
    search(diary.CommitsWhenDeposed(), "TB6_deposedTCcommits"),
    search(diary.FencesNobody(), "TB7_no_producer_fence"),
)
SEARCHES: Final[Mapping[str, Search]] = {
    name: one
    for one in (*KIP848, *KRAFT, *PULL_RAFT, *KIP853, *KIP996, *REPLICATION, *TRANSACTIONS)
    for name in one.names
}
"""By the name of TLC's run."""
_STATE: Final = "it begins in a state of its own, which was not kept"
NOT_SEARCHED: Final[Mapping[str, str]] = {
    "KB4_fig8": _STATE,
    "KB5_novalidpos_fig8init": _STATE,
    "k_view_2s_e2r1": "of states that the model's view makes one, TLC goes on from the one that it finds first",
}
"""Why a run of TLC's is held by no test."""
