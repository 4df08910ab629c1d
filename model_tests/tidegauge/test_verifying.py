"""verify, simulate and replay from the command line: what they print, where they write, how they end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tidegauge import __main__ as command_line
from tidegauge.commands import verifying
from tidegauge.commands.simulating import is_good
from tidegauge.exits import Unusable
from tidegauge.linearizability import files
from tidegauge.model_tests.harness.counterexamples.files import FOLDER
from tidegauge.model_tests.harness.report.model import CampaignRun, Verdict
from tidegauge.model_tests.harness.verification.campaigning import Clients
from tidegauge.model_tests.harness.verification.plan import plan
from tidegauge.model_tests.tidegauge.test_report import report

BUG = "last_replica_standing"
"""The one that all levels find soonest."""


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of one command line."""
    status = command_line.run([str(word) for word in words])
    said = capsys.readouterr()
    return status, said.out, said.err


# --- verify ----------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_the_main_job_holds_and_leaves_a_report_its_tables_and_a_counterexample(tmp_path: Path) -> None:
    out = tmp_path / "report"
    words = ("verify", "--quick", "--seed", "5", "--seeds", "3", "--bug", BUG, "--out", str(out), "--json")
    done = subprocess.run([sys.executable, "-m", "tidegauge", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    stages = {stage["name"]: stage["verdict"] for stage in document["stages"]}
    assert stages == {
        "explore": "holds",
        "lockstep on the cores": "holds",
        "lockstep on the cluster": "holds",
        "break on purpose": "caught",
        "simulate": "holds",
        "simulate transactions": "holds",
        "simulate groups": "holds",
        "check": "holds",
        "check in Spark": "holds",
    }
    assert document["counterexample"].startswith("tidegauge replay ")
    page = (out / "index.html").read_text(encoding="utf-8")
    assert 'class="diagram"' in page
    assert 'class="ownership"' in page
    assert len(set(files.read(out / "histories.parquet").history.tolist())) == 3
    transactional = files.read(out / "transactions" / "histories.parquet")
    assert set(transactional.history.tolist()) == {205}
    assert transactional.transactional is not None
    assert files.read(out / "groups" / "histories.parquet").membership is not None
    assert sorted(path.name for path in out.iterdir()) == [
        ".tidegauge",
        "counterexamples",
        "groups",
        "histories.parquet",
        "index.html",
        "spark",
        "transactions",
    ]


def test_seeds_of_transactions_and_groups_depend_on_no_smaller_number_of_plain_ones() -> None:
    few, many, more = (verifying.seeds_of(plan(seed=5, seeds=seeds)) for seeds in (60, 200, 300))
    assert few[Clients.PLAIN] == range(5, 65)
    assert few[Clients.TRANSACTIONS] == many[Clients.TRANSACTIONS] == range(205, 213)
    assert few[Clients.GROUPS] == many[Clients.GROUPS] == range(213, 219)
    assert more == {
        Clients.PLAIN: range(5, 305),
        Clients.TRANSACTIONS: range(305, 313),
        Clients.GROUPS: range(313, 319),
    }


def test_verify_leaves_a_folder_alone_that_it_did_not_write(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("important")
    status, _, err = run(capsys, "verify", "--quick", "--out", tmp_path)
    assert status == 2
    assert "has files that no verification wrote" in err
    assert (tmp_path / "thesis.tex").read_text() == "important"


def test_verify_refuses_an_unknown_bug_before_it_begins(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, _, err = run(capsys, "verify", "--bug", "kafka_1", "--out", tmp_path / "new")
    assert status == 2
    assert "kafka_1" in err
    assert "choose one of kafka_1211" in err
    assert not (tmp_path / "new").exists()


def test_missing_packages_are_listed_as_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "find_spec", lambda _: None)
    with pytest.raises(Unusable, match="verify needs hypothesis, pyspark and pandas, not installed here"):
        verifying.need("hypothesis", "pyspark", "pandas")
    with pytest.raises(Unusable, match="verify needs pandas, not installed here"):
        verifying.need("pandas")


@pytest.mark.parametrize("bug", ["kafka_1211", "high_watermark_by_majority"])
def test_the_last_line_of_verify_has_a_space_before_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bug: str
) -> None:
    ran = report(seconds=3.0)
    monkeypatch.setattr(verifying, "run", lambda *_: ran)
    words = ("verify", "--no-spark", "--bug", bug, "--out", tmp_path / "new")
    assert run(capsys, *words)[1].splitlines()[-1].split() == [bug, "again:", "tidegauge", "replay", "x.json"]


def test_verify_says_what_is_not_installed_and_keeps_the_old_report(tmp_path: Path) -> None:
    """In an embedder's environment all commands are there; those that need more say so."""
    (tmp_path / ".tidegauge").touch()
    (tmp_path / "index.html").touch()
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = sys.modules['hypothesis'] = sys.modules['pytest'] = None\n"
        "from tidegauge import __main__\n"
        "assert __main__.run(['simulate', '--seed', '3', '--workers', '1', '--json']) == 0\n"
        f"assert __main__.run(['replay', {str(FOLDER / 'minimal_isr.json')!r}, '--json']) == 1\n"
        f"sys.exit(__main__.run(['verify', '--quick', '--out', {str(tmp_path)!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = "tidegauge: verify needs hypothesis and pyspark, not installed here: pip install '.[verify]' in a clone\n"
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines(keepends=True) if not line.startswith("simulating: ")]
    assert said == [told], "progress is shown where a run takes long, and nothing else"
    assert (tmp_path / "index.html").exists()


# --- simulate --------------------------------------------------------------------------------------------------------


def test_a_seed_prints_its_options_first_and_holds(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "simulate", "--seed", 3, "--workers", 1)
    assert status == 0
    assert out.index("brokers=3") < out.index("verdict")


def test_a_bug_shows_with_the_line_that_repeats_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ("simulate", "--seed", 19, "--bug", "kafka_1211", "--out", tmp_path)
    status, out, _ = run(capsys, *words)
    assert status == 1
    assert "again: tidegauge simulate --seed 19 --bug kafka_1211" in out
    status, out, _ = run(capsys, "check", tmp_path / "histories.parquet", "--json")
    assert status == 1
    assert json.loads(out)["verdicts"]["violated"] == 1


def test_a_run_that_fails_is_told_at_once_and_not_only_when_the_campaign_is_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidegauge.commands.simulating.check_twice", stopped)
    words = ("simulate", "--seed", 7, "--seeds", 2, "--workers", 1, "--bug", "kafka_1211")
    status, out, err = run(capsys, *words)
    assert (status, "verdict" in out) == (130, False)
    assert "is no behaviour of the specification (again: tidegauge simulate --seed 7 --bug kafka_1211)\n" in err


def test_a_history_that_an_unclean_election_leaves_undecided_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """A log of this seed loses what was committed: what transactions promise is not claimed of it."""
    status, out, _ = run(capsys, "simulate", "--transactions", "--seed", 111, "--workers", 1)
    assert (status, "undecided: an unclean election is declared" in out) == (0, True)


@pytest.mark.parametrize(
    ("verdict", "undecided", "good"),
    [
        (Verdict.HOLDS, frozenset(), True),
        (Verdict.UNKNOWN, frozenset({7}), True),
        (Verdict.UNKNOWN, frozenset({8}), False),
        (Verdict.VIOLATED, frozenset({7}), False),
    ],
)
def test_only_what_is_declared_excuses_a_run(verdict: Verdict, undecided: frozenset[int], good: bool) -> None:
    assert is_good(CampaignRun(7, {}, {}, 3, 0, 0, verdict, None), undecided) is good


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seeds", 0), "--seeds 0"),
        (("--bug", "none_such"), "none_such"),
        (("--workers", 0), "--workers 0"),
        (("--out", "README.md"), "is a file"),
    ],
)
def test_simulate_refuses_what_it_can_not_do(
    capsys: pytest.CaptureFixture[str], words: tuple[object, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    status, _, err = run(capsys, "simulate", *words)
    assert status == 2
    assert said in err


# --- replay ----------------------------------------------------------------------------------------------------------


def test_a_counterexample_fails_at_every_level_with_its_bug_and_at_none_without(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = FOLDER / "minimal_isr.json"
    status, out, _ = run(capsys, "replay", file, "--out", tmp_path / "figure")
    assert status == 1
    assert "StrongIsr is violated" in out
    assert "\n  committed = [" in out, "in the form in which explore tells it"
    assert out.count("the implementation differs") == 2
    assert 'class="diagram"' in (tmp_path / "figure" / "index.html").read_text(encoding="utf-8")
    status, out, _ = run(capsys, "replay", file, "--without-bug", "--json")
    assert status == 0
    assert [level["failed"] for level in json.loads(out)["levels"]] == [False, False, False]
    run(capsys, "replay", file, "--on", "spec", "--without-bug", "--out", tmp_path / "sound")
    page = (tmp_path / "sound" / "index.html").read_text(encoding="utf-8")
    assert "minimal_isr.json --on spec --without-bug<" in page


def test_replay_says_what_is_wrong_with_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"format": "tidegauge counterexample 2"}')
    status, _, err = run(capsys, "replay", tmp_path / "broken.json")
    assert status == 2
    assert "broken.json" in err
    assert "missing" in err
    assert run(capsys, "replay", tmp_path / "nowhere.json")[0] == 2


# --- explore, by the name of a model ---------------------------------------------------------------------------------


def test_every_model_that_verify_explores_has_a_name_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "explore", "controller", "--json")
    assert status == 0
    assert json.loads(out)["complete"] is True
    assert "tidegauge list" in run(capsys, "explore", "--help")[1]


def test_a_bug_can_be_switched_on_in_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "explore", "crash-and-shrink", "--bug", "kafka_14139", "--json")
    assert status == 1
    assert json.loads(out)["violations"][0]["invariant"] == "StrongIsr"
