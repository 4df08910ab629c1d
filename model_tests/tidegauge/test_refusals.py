"""The command line refuses, before it begins, amounts that no run can have and places that cannot be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.linearizability import files, jsonl
from tidegauge.linearizability.arrow import to_arrow
from tidegauge.linearizability.history import History
from tidegauge.model_tests.harness.counterexamples.files import FOLDER
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.simulation.options import draw, with_turns
from tidegauge.model_tests.tidegauge.test_command_line import document, history, run

SMALL = ("explore", "kip320")
REPLAY = ("replay", FOLDER / "minimal_isr.json")
VERIFY = ("verify", "--no-spark", "--out", "new")
OF_REPLICATION = "switches on bugs of replication: kafka_1211, "
MANY = "give at least 1 and at most"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("explore", "replication", "brokers=0"), "brokers=0: a machine has at least 1 and at most 16 brokers\n"),
        (("explore", "replication", "brokers=999999999"), "brokers=999999999: a machine has at least 1 and at most 16"),
        (("explore", "replication", "initial_leader=3"), "initial_leader=3 is not in the initial ISR (0, 1)"),
        ((*SMALL, "replicas=999999999"), "replicas=999999999: "),
        ((*SMALL, "--max-seconds", "nan"), "seconds=nan"),
        ((*SMALL, "--max-seconds=-1"), "--max-seconds=-1"),
        ((*SMALL, "--max-depth", "-1"), "--max-depth=-1 leaves nothing to search"),
        ((*SMALL, "--max-depth", "1.5"), "--max-depth 1.5: give a whole number"),
        ((*SMALL, "--workers=1.e400"), "--workers 1.e400: give a whole number"),
        (("simulate", "--seed", "2.5"), "--seed 2.5: give a whole number"),
        ((*SMALL, "--workers", 0), f"--workers 0: {MANY} 64"),
        ((*SMALL, "--workers", 1_000_000_000), f"--workers 1000000000: {MANY} 64"),
        ((*SMALL, "--engine", "fast", "--workers", 65), f"--workers 65: {MANY} 64"),
        ((*SMALL, "--memory", "-5m"), "--memory -5m: give a number of k, m or g (KiB, MiB, GiB), such as 512m or 2g"),
        ((*SMALL, "--bug", "-x"), "kip320 has no bug '-x': choose one of"),
        ((*SMALL, "--memory", "--symmetry"), "--memory requires an argument"),
        (
            ("simulate", "--turns", "7:1"),
            "--turns 7.0:1: the run of seed 1 lasts 1.05 s, and draws nothing from then on",
        ),
        (("simulate", "--turns", "0.35:1,1.05:2"), ": give times below that"),
        (("simulate", "--turns", "-x"), "--turns -x: give times and whole numbers"),
        (("simulate", "--seed", "-x"), '--seed: unable to convert "-x" into int'),
        ((*SMALL, "--trace", "folder"), "--trace folder is a folder: name a file"),
        ((*SMALL, "--trace", "/proc/x"), "--trace /proc/x cannot be written ("),
        (("simulate", "--seeds", 1_000_000_000), f"--seeds 1000000000: {MANY} 10000"),
        (("simulate", "--seed=-1"), "--seed -1: give a whole number from 0"),
        (("simulate", "--seed", 10**30), f"--seed {10**30}: give a whole number from 0 to 4611686018427387903"),
        (("simulate", "--workers", 100_000), f"--workers 100000: {MANY} 64"),
        (("simulate", "--out", "/proc/x"), "--out /proc/x cannot be written ("),
        ((*VERIFY, "--seeds", 0), f"--seeds 0: {MANY} 10000"),
        ((*VERIFY, "--seeds", 1_000_000_000), f"--seeds 1000000000: {MANY} 10000"),
        ((*VERIFY, "--seed=-1"), "--seed -1: give a whole number from 0"),
        ((*VERIFY, "--seed", 10**30), f"--seed {10**30}: give a whole number from 0"),
        ((*VERIFY, "--bug", "none"), "--bug none: there is no bug 'none': choose one of kafka_1211"),
        (("simulate", "--groups", "--transactions", "--breed"), "--groups --transactions: these runs are drawn from"),
        (("simulate", "--groups", "--breed"), "--groups: these runs are drawn from their seeds alone"),
        (("simulate", "--groups", "--bug", "kafka_9823"), "switches on others: it is one of the client, and simulated"),
        (
            ("simulate", "--bug", "kafka_6119"),
            "kafka_6119 is a bug of transactions; simulate switches on others: simulate --tr",
        ),
        (("simulate", "--bug", "none"), "--bug none: there is no bug 'none': choose one of kafka_1211"),
        ((*VERIFY, "--bug", "kafka_3197"), f"kafka_3197 is a bug of idempotence; verify {OF_REPLICATION}"),
        (
            ("simulate", "--bug", "swaps_at_once"),
            "swaps_at_once is a bug of reassignment; simulate switches on",
        ),
        ((*VERIFY, "--bug", "swaps_at_once"), f"swaps_at_once is a bug of reassignment; verify {OF_REPLICATION}"),
        ((*REPLAY, "--out", "file"), "--out file is a file: name a folder"),
        ((*REPLAY, "--out", "file/x"), "--out file/x cannot be written (Not a directory): name another folder"),
        ((*REPLAY, "--out", "/proc/x"), "--out /proc/x cannot be written ("),
        (("check", "sound.parquet", "--window", 100), "--window 100: it is for --follow"),
        (("check", "sound.parquet", "--out", "/proc/x"), "--out /proc/x cannot be written ("),
    ],
)
def test_it_is_told_in_one_line_before_anything_is_done(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[object, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("important")
    files.write(tmp_path / "sound.parquet", history(1))
    before = sorted(tmp_path.rglob("*"))
    status, out, err = run(capsys, *words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert "bug in tidegauge" not in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("command", [VERIFY, ("simulate",)])
def test_a_bug_that_only_the_specification_has_is_refused_before_anything_is_done(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    known = HARNESS["replication"]
    (specified, *others) = known.bugs
    monkeypatch.setitem(HARNESS._registrations, "replication", attrs.evolve(known, bugs=tuple(others)))
    status, out, err = run(capsys, *command, "--bug", specified.name)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"only the specification has {specified.name}: choose one of {others[0].name}, " in err
    assert not list(tmp_path.iterdir())


def test_brokers_with_too_many_renamings_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, *SMALL, "replicas=9", "--symmetry")
    assert status == 2
    assert "9 interchangeable processes, too many to rename: explore at most 8, or without symmetry" in err


def test_a_search_with_as_many_brokers_as_a_machine_may_have_begins(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "explore", "replication", "brokers=16", "--max-states", 20)[0] == 0


def test_a_run_may_have_the_largest_seed(capsys: pytest.CaptureFixture[str]) -> None:
    status, found = document(capsys, "simulate", "--seed", (1 << 62) - 1, "--workers", 1)
    assert status == 0
    assert [each["seed"] for each in found["runs"]] == [(1 << 62) - 1]


def test_turns_of_a_run_without_faults_are_refused() -> None:
    options = attrs.evolve(draw(1), faults={})
    assert with_turns(options, ()) == options
    with pytest.raises(ValueError, match=r"^turns 0\.1:3: the run of seed 1 has no faults, so none are drawn"):
        with_turns(options, ((0.1, 3),))
    assert with_turns(draw(1), ((0.1, 3),)).turns == ((0.1, 3),)


def test_a_folder_may_have_other_tables_which_are_passed_over_and_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "report"
    tables = folder / "spark" / "anomalies"
    tables.mkdir(parents=True)
    pq.write_table(pa.table({"history": [1], "anomaly": ["x"], "partition": [0]}), tables / "a.parquet")
    status, _, err = run(capsys, "check", folder)
    assert status == 2
    assert err == (
        f"tidegauge: {folder}: there are no histories in the folder, only 1 table without histories, in {tables}; "
        "name one with some\n"
    )
    files.write(folder / "histories.parquet", history(1))
    status, out, _ = run(capsys, "check", folder)
    assert status == 0
    assert f"passed over 1 table without histories, in {tables}\n" in out
    status, found = document(capsys, "check", folder)
    assert (status, found["histories"], found["passed_over"]) == (0, 1, [f"{tables}/a.parquet"])
    status, _, err = run(capsys, "check", tables / "a.parquet")
    assert status == 2
    assert "has no histories, its columns are history, anomaly, partition: name a file or folder of some" in err


def test_a_history_with_a_misspelt_column_is_not_passed_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = to_arrow(history(1))
    names = ["knid" if name == "kind" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), tmp_path / "a.parquet")
    status, _, err = run(capsys, "check", tmp_path)
    assert status == 2
    assert "unknown column 'knid': did you mean 'kind'?" in err


@pytest.mark.parametrize("name", ["none.jsonl", "none.parquet"])
def test_a_file_without_operations_is_told_and_fails_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    empty, sound = tmp_path / name, tmp_path / "sound.parquet"
    files.write(sound, history(1))
    (files.write if name.endswith("parquet") else jsonl.write)(empty, History(1).operations())
    status, _, err = run(capsys, "check", empty, sound)
    assert status == 2
    assert err == f"tidegauge: {empty}: no operations, so nothing is checked: look at what wrote the file\n"
    status, found = document(capsys, "check", empty, sound)
    assert (status, found["histories"]) == (2, 1)
    assert [each["reason"] for each in found["files"]] == ["no operations", None]


def test_a_trace_is_written_whole_or_not_at_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def until_full(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text.encode(encoding)[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(b"of before")
    monkeypatch.setattr(Path, "write_text", until_full)
    status, _, err = run(capsys, "explore", "replication", "--bug", "kafka_1211", "--trace", trace)
    assert status == 2
    assert f"--trace {trace} cannot be written (No space left on device): name another file" in err
    assert [path.name for path in tmp_path.iterdir()] == ["trace.jsonl"]
    assert trace.read_bytes() == b"of before"


def test_a_page_that_finds_no_room_is_named_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def until_full(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text.encode(encoding)[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", until_full)
    status, _, err = run(capsys, *REPLAY, "--on", "spec", "--out", tmp_path / "page")
    assert status == 2
    assert f"{tmp_path / 'page' / 'index.html'}: No space left on device" in err
    assert not list((tmp_path / "page").iterdir())
