"""The parts of the main job: what they come to when all is well, and that each can say that it isn't."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
import pytest

from tidegauge.linearizability import files
from tidegauge.linearizability.check import check
from tidegauge.linearizability.history import History, Kind, Operations, concatenate
from tidegauge.model_tests.harness.report.model import CampaignRun, Catch, Coverage, Explored, Verdict
from tidegauge.model_tests.harness.simulation.options import draw
from tidegauge.model_tests.harness.verification import campaigning, parts
from tidegauge.model_tests.harness.verification.campaigning import SEEDS_TO_SEE, Campaign, Clients, campaign
from tidegauge.model_tests.harness.verification.comparison import compared
from tidegauge.model_tests.harness.verification.plan import plan
from tidegauge.model_tests.harness.verification.pool import Task, run
from tidegauge.model_tests.harness.verification.run import (
    break_stage,
    check_twice,
    driven_stage,
    explore_stage,
    shares,
    with_verdicts,
)
from tidegauge.spec.bugs import BUGS

BUG = "last_replica_standing"
"""The one that all levels find soonest."""
ROW = CampaignRun(1, {}, {}, 10, 0, 0, Verdict.HOLDS, None, ())


def history(number: int, *, lost: bool = False) -> Operations:
    """A record that is acknowledged and, unless `lost`, read back; else another is in its place."""
    found = History(number)
    produce = found.invoke(kind=Kind.PRODUCE, process=0, call=0, values=[1], acks=-1)
    found.ok(produce, returned=5, offset=0)
    other = found.invoke(kind=Kind.PRODUCE, process=1, call=6, values=[2], acks=-1)
    found.ok(other, returned=8, offset=0 if lost else 1)
    fetch = found.invoke(kind=Kind.FETCH, process=2, call=10, position=0)
    found.ok(fetch, returned=15, values=[2] if lost else [1, 2])
    return found.operations()


@pytest.fixture
def checked_twice(tmp_path: Path) -> Path:
    """Tables as the Spark job writes them, of a valid history and a violated one."""
    verdicts = check(concatenate([history(1), history(2, lost=True)]))
    for name, table in (("verdicts", verdicts.table()), ("anomalies", verdicts.anomaly_table())):
        (tmp_path / name).mkdir()
        pq.write_table(table, tmp_path / name / "unit.parquet")
    return tmp_path


# --- the plan and the pool ----------------------------------------------------------------------------------------


def test_the_quick_plan_is_a_part_of_the_full_one() -> None:
    quick, full = plan(quick=True), plan()
    assert set(quick.models) < set(full.models)
    assert (quick.walks, quick.examples, quick.seeds) < (full.walks, full.examples, full.seeds)


def test_the_command_of_a_plan_names_what_is_not_as_usual() -> None:
    assert plan().command == "tidegauge verify --seed 1"
    larger = plan(seed=3, quick=True, bug="minimal_isr", walks=2000, examples=400, seeds=200)
    told = "tidegauge verify --seed 3 --quick --walks 2000 --examples 400 --seeds 200 --bug minimal_isr"
    assert larger.command == told
    assert (larger.walks, larger.examples, larger.seeds) == (2000, 400, 200)


def test_a_campaign_by_itself_may_fail_for_what_it_has_not_seen() -> None:
    assert plan().seeds >= SEEDS_TO_SEE


@pytest.mark.parametrize("name", ["walks", "examples", "seeds"])
def test_a_part_that_would_look_at_nothing_is_refused(name: str) -> None:
    amounts: Any = {name: 0}
    with pytest.raises(ValueError, match=f"{name} 0: give at least 1"):
        plan(**amounts)


def test_an_unknown_bug_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no bug 'kafka_1': choose one of kafka_1211"):
        plan(bug="kafka_1")


def test_an_amount_is_cut_into_shares_with_a_seed_each() -> None:
    assert shares(7, 60, 25) == [(7000, 25), (7001, 25), (7002, 10)]


def test_every_task_is_done_once_and_says_which_it_was() -> None:
    tasks = [Task("powers", pow, (2, n)) for n in range(5)]
    assert dict(run(tasks, workers=2)) == {n: 2**n for n in range(5)}


def test_a_task_that_raises_raises_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(run([Task("division", divmod, (1, 0))], workers=2))


def test_workers_are_forks_of_a_server_that_imports_once_for_all_runs() -> None:
    parents = {parent for _ in range(2) for _, parent in run([Task("parent", os.getppid, ())] * 2, workers=2)}
    assert len(parents) == 1
    assert os.getpid() not in parents, "this process has threads"


# --- each stage can say that it does not hold ---------------------------------------------------------------------


def explored(*unreached: str) -> parts.ModelExplored:
    coverage = (Coverage("Append", 1, 1, 1),)
    shown = Explored("isr", {}, 10, 20, 5, True, 100.0, ("WeakIsr",), coverage, unreached=unreached)
    return parts.ModelExplored(shown, None, 1.0)


def test_exploring_fails_by_a_violation_or_by_a_goal_that_was_not_reached() -> None:
    assert explore_stage([explored()]).verdict is Verdict.HOLDS
    violated = attrs.evolve(explored(), violation="WeakIsr is violated")
    assert "isr: WeakIsr is violated" in explore_stage([explored(), violated]).result
    assert explore_stage([violated]).verdict is Verdict.VIOLATED
    assert explore_stage([explored("a record is committed")]).verdict is Verdict.VIOLATED


def test_a_lockstep_fails_by_a_difference_and_says_how_to_replay_it() -> None:
    sound = parts.Driven(10, Counter(Append=5), None, 1.0)
    differs = attrs.evolve(sound, difference="high_watermark differs", replay="tidegauge replay x.json")
    assert driven_stage("lockstep", "walks", [sound]).verdict is Verdict.HOLDS
    stage = driven_stage("lockstep", "walks", [sound, differs])
    assert stage.verdict is Verdict.VIOLATED
    assert "tidegauge replay x.json" in stage.result


@pytest.fixture(scope="module")
def bug(tmp_path_factory: pytest.TempPathFactory) -> parts.Demonstrated:
    return parts.demonstrated(BUG, 1, tmp_path_factory.mktemp("counterexamples"))


def test_a_bug_that_one_level_misses_is_missed(bug: parts.Demonstrated) -> None:
    assert break_stage(bug).verdict is Verdict.CAUGHT
    missed = attrs.evolve(bug, catches=(*bug.catches, Catch("another level", Verdict.MISSED, "")))
    assert break_stage(missed).verdict is Verdict.MISSED


# --- the parts themselves -----------------------------------------------------------------------------------------


def test_a_bug_is_caught_at_every_level_and_its_counterexample_saved(bug: parts.Demonstrated) -> None:
    assert [each.level for each in bug.catches if each.verdict is not Verdict.CAUGHT] == []
    assert bug.figure.invariant in BUGS[BUG].violates
    assert len(bug.figure.steps) == bug.actions + 1
    assert Path(bug.replay.removeprefix("tidegauge replay ")).exists()


def test_correct_cores_and_a_correct_cluster_show_no_difference(tmp_path: Path) -> None:
    assert parts.walked(3, 20).difference is None
    driven = parts.driven(3, 3, tmp_path)
    assert driven.difference is None
    assert driven.steps > 0


@pytest.mark.parametrize(("seeds", "bug", "fails"), [(60, None, True), (59, None, False), (60, "kafka_1211", False)])
def test_a_goal_that_a_large_campaign_never_saw_fails_it_with_the_line_that_repeats_it(
    seeds: int, bug: str | None, fails: bool
) -> None:
    seen = {"the ISR shrank": 0, "the ISR grew": 7}
    runs = tuple(attrs.evolve(ROW, seed=seed) for seed in range(3, 3 + seeds))
    ran = Campaign(runs, Path("nowhere"), seen, (), 0, 0.0, bug)
    told = "not seen in 60 seeds: the ISR shrank (again: tidegauge simulate --seed 3 --seeds 60)"
    assert ran.unmet == ((told,) if fails else ())
    assert ran.stage.verdict is (Verdict.VIOLATED if fails else Verdict.HOLDS)
    assert "the ISR shrank" in ran.stage.result
    assert "the ISR grew" not in ran.stage.result
    for again in ("tidegauge simulate --seed 3 --seeds 60 --breed", ""):
        bred = attrs.evolve(ran, bred=again)
        told = "not seen in 60 runs: the ISR shrank" + (f" (again: {again})" if again else "")
        assert bred.unmet == ((told,) if fails else ())


def test_a_campaign_is_the_same_for_any_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigning, "SEEDS_A_TASK", 1)  # else one worker would do both
    one = campaign(range(11, 13), tmp_path / "one", lambda *_: None, workers=1)
    two = campaign(range(11, 13), tmp_path / "two", lambda *_: None, workers=2)
    for each in one.runs:  # `tidegauge simulate --seed` runs what is drawn
        assert each.options.items() <= draw(each.seed).described().items()
        assert each.options["dense"] == "True"
    assert one.runs == two.runs
    assert sorted(set(files.read(one.histories).history.tolist())) == [11, 12]
    assert one.histories.read_bytes() == two.histories.read_bytes()
    assert one.stage.verdict is Verdict.HOLDS


def test_a_campaign_of_groups_keeps_what_members_saw(tmp_path: Path) -> None:
    ran = campaign(range(7, 9), tmp_path, lambda *_: None, workers=1, clients=Clients.GROUPS)
    assert ran.stage.name == "simulate groups"
    assert ran.stage.verdict is Verdict.HOLDS
    kept = files.read(ran.histories)
    assert [int((kept.history == run.seed).sum()) for run in ran.runs] == [run.operations for run in ran.runs]
    assert check(kept).valid
    assert [run.options["members"] for run in ran.runs] == ["2 dynamic, 0 static", "3 dynamic, 0 static"]
    assert ran.reproduced[7] == "tidegauge simulate --seed 7 --groups"


# --- checked twice -------------------------------------------------------------------------------------------------


def test_two_results_that_are_the_same_agree(checked_twice: Path) -> None:
    twice = compared(check(concatenate([history(1), history(2, lost=True)])), checked_twice)
    assert twice.agree
    assert [str(twice.spark_verdict(n)) for n in (1, 2, 3)] == [str(twice.here.of(1)), str(twice.here.of(2)), "None"]


def test_every_row_on_which_they_differ_is_told(checked_twice: Path) -> None:
    twice = compared(check(concatenate([history(1), history(2)])), checked_twice)
    assert not twice.agree
    assert any(row.startswith("verdict only here: [2,") for row in twice.differing)
    assert any(row.startswith("anomaly only in Spark: [2,") for row in twice.differing)


def test_a_history_that_spark_left_out_is_a_difference(checked_twice: Path) -> None:
    twice = compared(check(concatenate([history(n) for n in (1, 3)])), checked_twice)
    assert any(row.startswith("verdict only here: [3,") for row in twice.differing)


def in_transaction(number: int, *, elected: bool, reused: bool = False) -> Operations:
    """One transaction that commits; perhaps an unclean election is declared, or a value is sent twice."""
    found = History(number)
    found.ok(found.invoke(kind=Kind.BEGIN, process=0, call=0, transaction=1), returned=1)
    for offset in range(2):
        sent = found.invoke(kind=Kind.PRODUCE, process=0, call=2, values=[1 if reused else offset], transaction=1)
        found.ok(sent, returned=5, offset=offset)
    if elected:
        found.election(offset=0, call=6)
    found.ok(found.invoke(kind=Kind.COMMIT, process=0, call=7, transaction=1), returned=9)
    return found.operations()


def test_what_an_unclean_election_leaves_undecided_is_told_and_is_no_violation(tmp_path: Path) -> None:
    file = tmp_path / "histories.parquet"
    files.write(file, concatenate([in_transaction(1, elected=False), in_transaction(2, elected=True)]))
    _, (stage, _) = check_twice([file], tmp_path / "spark", None)
    assert stage.verdict is Verdict.HOLDS
    assert stage.result == "all others valid; 1 undecided: an unclean election is declared"


@pytest.mark.parametrize("elected", [False, True])
def test_what_is_unknown_for_another_reason_is_not_valid(tmp_path: Path, elected: bool) -> None:
    file = tmp_path / "histories.parquet"
    files.write(file, in_transaction(1, elected=elected, reused=True))
    _, (stage, _) = check_twice([file], tmp_path / "spark", None)
    assert (stage.verdict, stage.result) == (Verdict.VIOLATED, "1 not valid")


def test_a_violated_history_marks_its_run_with_the_witness(tmp_path: Path) -> None:
    files.write(tmp_path / "histories.parquet", concatenate([history(1), history(2, lost=True)]))
    twice, stages = check_twice([tmp_path / "histories.parquet"], tmp_path / "spark", None)
    assert [stage.verdict for stage in stages] == [Verdict.VIOLATED, Verdict.SKIPPED]
    runs = [CampaignRun(n, {}, {}, 3, 0, 0, Verdict.HOLDS, None) for n in (1, 2)]
    good, bad = with_verdicts(runs, twice)
    assert (good.verdict, good.anomalies) == (Verdict.HOLDS, ())
    assert bad.verdict is Verdict.VIOLATED
    assert "lost-write" in {anomaly.kind for anomaly in bad.anomalies}
