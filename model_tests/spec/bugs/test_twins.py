"""The correct twin of every bug is explored: the model in which the bug shows, without the bug, holds to its end.

`TWINS` says how many states each has. Small ones are explored with every run, the rest with the deep tests, those that
are larger than `BOUND` up to that many states. Bugs that show in one model have one twin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.kernel.progress import Limits
from tidegauge.spec.registry import REGISTRY

SMALL: Final = 2_000
"""States that every run can afford."""
BOUND: Final = 400_000

# fmt: off
TWINS: Final[Mapping[str, int]] = {
    # replication
    "kafka_1211": 168_315, "kafka_6361": BOUND, "kafka_6880": BOUND, "kafka_7128": BOUND, "kafka_18991": 107_335,
    "kafka_13916": 1_830, "kafka_14139": 43_678, "minimal_isr": 434, "last_replica_standing": BOUND,
    "high_watermark_by_majority": 177, "isr_write_without_epoch_fence": BOUND,
    # KIP-320: the variants that show in the smaller model, then those that need the larger one
    "TruncateToHighWatermark": 39_619, "Kip101": 39_619, "Kip279": 39_619, "HighWatermarkByMajority": 39_619,
    "ExpandWithoutHighWatermark": 39_619, "ExpandWithoutEpochStart": 39_619, "IsrWriteWithoutEpoch": 39_619,
    "WithoutTruncation": 39_619, "FencedTruncateToHighWatermark": 39_619,
    "Kip320FirstTry": BOUND, "WithoutTruncationFence": BOUND, "WithoutFetchFence": BOUND,
    "WithoutEpochInHighWatermark": BOUND, "ExpandWithoutEpoch": BOUND, "UncleanElection": BOUND, "FencedKip101": BOUND,
    # replication 3.5
    "CountsTheRecordFetched": 11_278, "ElectsOutsideTheIsr": BOUND, "LosesTheLastReplica": BOUND,
    # KIP-848, its second version and its first
    "AssignBeforeRevoke": 4_009, "RevokeWithoutAcknowledgement": 4_009, "FencedKeepsAssignment": BOUND,
    "FirstAssignBeforeRevoke": 3_759, "FirstRevokeWithoutAcknowledgement": 3_759, "FirstFencedKeepsAssignment": BOUND,
    # transactions' diary
    "KeepsEpoch": 448, "TransitionsAtOnce": 448, "KeepsCoordinatorEpoch": BOUND,
    # KRaft
    "VotesForAll": BOUND, "LeadsWithoutMajority": 1_230, "CommitsWithoutMajority": 10_468, "CommitsOnSending": 10_468,
    # KIP-853 and KIP-996
    "Kip853VotesForAll": BOUND, "Kip853CommitsWithoutMajority": BOUND, "Kip996LeadsWithoutMajority": BOUND,
    # PullRaft
    "PullCommitsWithoutMajority": BOUND,
    # extensions of replication
    "swaps_at_once": 536, "counts_the_deleted_replica": 4_592, "cancels_for_an_old_replica": BOUND,
    "empties_the_isr": BOUND, "trusts_every_restart": BOUND,
    "deletes_beyond_high_watermark": 34, "keeps_records_below_gap": 5_489, "tells_before_it_is_written": 330_205,
    "elects_the_offline": 27_433, "notes_all_the_same": BOUND, "keeps_the_note": 12_025, "believes_the_sync": 11_829,
    "says_nothing": BOUND, "elects_the_lost": BOUND, "in_sync_and_lost": BOUND,
    "counts_every_process": 27_641, "unfenced_by_the_dead": 27_641,
    "shows_the_whole_log": 934, "tells_too_soon": 934, "asks_for_no_epoch": 6_324, "followers_tell": 934,
    "takes_all_for_committed": 934,
    "raises_no_epoch": 7_988, "keeps_the_eligible": 34_516, "stays_in_sync": 2_127, "stays_eligible": 2_127,
    "reads_brokers_files": 1_591, "repairs_in_the_same_epoch": 6_991, "cuts_the_eligible": 6_991,
    "log_by_name": 25, "fetch_by_name": 25, "proposal_by_name": 106, "keeps_its_log": 81, "stays_led": 81,
    "still_moves": 824,
    # idempotence
    "kafka_3197": 126, "kafka_5494": 788, "kafka_6003": 45, "kafka_6683": 18_712, "kafka_7692": 116, "kafka_15591": 80,
    "librdkafka_4953": 15,
    # reads of committed records
    "kafka_5376": 142, "kafka_9807": 142,
    # unclean elections under transactions
    "kafka_7408": 77,
    # the cleaner under transactions
    "kafka_14055": 1_251,
    # workers
    "lock_outlives_partition": 10_061,
    # loading groups
    "kafka_17306": 12, "kafka_19862": 1_147,
    # offsets of groups
    "kafka_5247": 390, "kafka_8069": 142, "kafka_8587_told": 71, "kafka_9235": 142, "kafka_13636": 1_529,
    "kafka_17507": 378, "kafka_19163": 13_133,
    # classic groups
    "kafka_5600": 645, "kafka_8715": 92, "kafka_9752": 85, "kafka_9801": 3_034, "kafka_9823": 83, "kafka_10284": 764,
    "kafka_12890": 1_602, "kafka_12984": 646, "kafka_13419": 5_311, "kafka_14422": 183,
    # consumer groups
    "kafka_16147": 99, "kafka_19233": 473, "kafka_19974": 12_539, "kafka_20442": 10,
    # transactions
    "kafka_5231": 8_401, "kafka_6119": 347, "kafka_8587": 1_222, "kafka_8803": 316, "kafka_14402": 597,
    "fenced_while_completing": 140, "kafka_9144": 976, "kafka_9600": 41, "kafka_9777": 2_516, "kafka_12153": 117,
    "librdkafka_3575": 716,
    "kafka_14884": 597, "kafka_16352": 7_704, "kafka_17754": 323,
    "kafka_18227": 967, "kafka_18464": 140, "kafka_18575": 47, "kafka_18660": 111, "kafka_19367": 107,
    "kafka_19999": 303,
}
# fmt: on


def once() -> dict[str, Bug[Any]]:
    """One bug of each twin."""
    return {bug.name: bug for bug in reversed({bug.model: bug for bug in reversed(REGISTRY.bugs.values())}.values())}


def test_every_bug_has_a_twin_that_is_explored() -> None:
    assert TWINS.keys() == REGISTRY.bugs.keys(), "count the states of a new bug's correct machine, and add them here"
    states = {bug.model: TWINS[bug.name] for bug in once().values()}
    assert {name: states[bug.model] for name, bug in REGISTRY.bugs.items()} == TWINS


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep] * (TWINS.get(name, 0) > SMALL)) for name in once()]
)
def test_the_correct_twin_of_a_bug_holds(name: str) -> None:
    found = explore(once()[name].correct_machine(), limits=Limits(states=BOUND))
    assert found.holds, str(found.violations[0])
    assert found.distinct == TWINS[name]
    assert found.complete == (TWINS[name] < BOUND)
