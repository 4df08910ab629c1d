"""The command line: exit statuses, one JSON document, one line for whatever can't be done."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge import __main__ as command_line
from tidegauge.linearizability import jsonl
from tidegauge.linearizability.files import write
from tidegauge.linearizability.history import History, Kind, Operations, concatenate
from tidegauge.screen import Screen

COUNTEREXAMPLES = Path(__file__).resolve().parents[1] / "counterexamples"
SMALL = ("explore", "kip320", "replicas=2", "max_leader_epoch=0")


def history(number: int, *, lose: bool = False) -> Operations:
    """Two appends, then a read of the whole log; with `lose`, the read does not see the first."""
    found = History(number)
    for offset in (0, 1):
        produce = found.invoke(kind=Kind.PRODUCE, process=0, call=10 * offset, values=[100 + offset], acks=-1)
        found.ok(produce, returned=10 * offset + 5, offset=offset)
    fetch = found.invoke(kind=Kind.FETCH, process=1, call=100, position=0)
    seen = [101] if lose else [100, 101]
    found.ok(fetch, returned=105, values=seen, offsets=[1] if lose else [0, 1])
    return found.operations()


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    write(tmp_path / "sound.parquet", concatenate([history(1), history(2)]))
    return tmp_path / "sound.parquet"


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    write(tmp_path / "lossy.parquet", concatenate([history(1), history(2, lose=True)]))
    return tmp_path / "lossy.parquet"


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    status = command_line.run([str(word) for word in words])
    out, err = capsys.readouterr()
    return status, out, err


def document(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    """Standard output is one JSON document and nothing else."""
    status, out, _ = run(capsys, *words, "--json")
    found = json.loads(out)
    assert found["status"] == status
    return status, found


def test_explore_that_holds_exits_with_0_and_prints_options_first(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *SMALL)
    lines = out.splitlines()
    assert status == 0
    assert lines[0].startswith("tidegauge ")
    assert "replicas=2" in lines[1]
    assert "hold: WeakIsr, StrongIsr" in out


def test_replay_says_where_it_did_not_replay(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "replay", COUNTEREXAMPLES / "kafka_18227.json")
    assert status == 1
    assert "not replayed on the cores and the cluster: no implementation has the bug kafka_18227" in out


def test_explore_that_finds_a_violation_exits_with_1_and_tells_the_trace(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("explore", "unregistering", "--bug", "stays_in_sync")
    status, out, _ = run(capsys, *words, "--trace", tmp_path / "trace.jsonl")
    assert status == 1
    assert "is violated, in a trace of" in out
    held = next(line for line in out.splitlines() if line.startswith("hold: "))
    assert {"LogMatching", "EpochsMonotone"} <= set(held.removeprefix("hold: ").split(", ")), "of states and of steps"
    header = json.loads((tmp_path / "trace.jsonl").read_text().splitlines()[0])
    status, found = document(capsys, *words)
    assert status == 1
    assert [violation["invariant"] for violation in found["violations"]] == [header["violates"]]


def test_explore_as_json_gives_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    status, found = document(capsys, *SMALL)
    assert (status, found["complete"], found["cut"]) == (0, True, None)
    assert found["distinct"] == sum(found["levels"])
    assert found["options"]["replicas"] == 2


def test_explore_by_workers_finds_the_same_and_says_how_many_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    bounded = (*SMALL, "--max-states", 60)
    (_, one), (_, two) = document(capsys, *bounded), document(capsys, *bounded, "--workers", 2)
    assert (one["workers"], two["workers"]) == (1, 2)
    for name in ("levels", "coverage", "cut", "reached"):
        assert two[name] == one[name]
    status, out, _ = run(capsys, *bounded, "--workers", 2)
    assert (status, "(stopped by: states, plain engine, 2 workers)" in out) == (0, True)


def test_workers_of_the_fast_engine_find_the_same_too(capsys: pytest.CaptureFixture[str]) -> None:
    (_, one), (status, two) = document(capsys, *SMALL), document(capsys, *SMALL, "--workers", 2, "--engine", "fast")
    assert (status, two["engine"], two["workers"]) == (0, "fast", 2)
    for name in ("levels", "coverage", "cut", "reached"):
        assert two[name] == one[name]


def test_explore_without_liveness_says_so_and_keeps_no_steps(capsys: pytest.CaptureFixture[str]) -> None:
    few = ("explore", "replication", "brokers=2", "max_records=1", "ExpireSession=0")
    (_, whole), (status, found) = document(capsys, *few), document(capsys, *few, "--no-liveness")
    assert (status, found["levels"], found["coverage"]) == (0, whole["levels"], whole["coverage"])
    assert (whole["convergence"] is None, found["convergence"], found["options"]["liveness"]) == (False, None, False)
    assert "not looked for: what is reached for good" in run(capsys, *few, "--no-liveness")[1]


def test_explore_stopped_by_a_limit_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    status, found = document(capsys, "explore", "kip320", "--max-states", 100)
    assert (status, found["complete"], found["cut"]) == (0, False, "states")


def test_check_of_sound_histories_exits_with_0(capsys: pytest.CaptureFixture[str], sound: Path) -> None:
    status, found = document(capsys, "check", sound)
    assert (status, found["histories"], found["operations"]) == (0, 2, 6)
    assert found["verdicts"] == {"valid": 2, "violated": 0, "unknown": 0}


def test_check_of_a_lost_record_exits_with_1_with_a_witness(
    capsys: pytest.CaptureFixture[str], lossy: Path, tmp_path: Path
) -> None:
    status, out, _ = run(capsys, "check", lossy, "--out", tmp_path / "verdicts")
    assert status == 1
    assert "history 2" in out
    assert "\n1 anomaly:\n" in out
    assert sorted(path.name for path in (tmp_path / "verdicts").iterdir()) == ["anomalies.parquet", "verdicts.parquet"]
    _, found = document(capsys, "check", lossy)
    assert {anomaly["history"] for anomaly in found["files"][0]["anomalies"]} == {2}


def test_check_draws_what_it_finds(capsys: pytest.CaptureFixture[str], lossy: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    status, out, _ = run(capsys, "check", lossy, "--html", page)
    assert status == 1
    assert f"the page is at {page}" in out
    text = page.read_text(encoding="utf-8")
    assert f"tidegauge check {lossy} --history 2 --html history-2.html" in text
    assert "The log at that moment" in text
    assert "not shown" not in text
    run(capsys, "check", lossy, "--html", page, "--limit", 0)
    assert "1 of 1 anomaly is not shown here" in page.read_text(encoding="utf-8")
    assert "name a file" in run(capsys, "check", lossy, "--html", tmp_path)[2]


@pytest.mark.parametrize(("number", "expected"), [(1, 0), (2, 1), (3, 2)])
def test_one_history_of_a_file_is_checked_alone(
    capsys: pytest.CaptureFixture[str], lossy: Path, number: int, expected: int
) -> None:
    """3 is not there, so nothing was checked."""
    lines = lossy.with_suffix(".jsonl")
    jsonl.write(lines, concatenate([history(1), history(2, lose=True)]))
    for path in (lossy, lines):
        status, found = document(capsys, "check", path, "--history", number)
        assert status == expected
        assert found["histories"] == int(number < 3)


def test_check_reads_json_lines_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    jsonl.write(tmp_path / "lossy.jsonl", history(1, lose=True))
    status, found = document(capsys, "check", tmp_path)
    assert (status, found["verdicts"]["violated"]) == (1, 1)


def test_a_damaged_line_is_told_by_its_number_and_column(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "damaged.jsonl"
    jsonl.write(path, history(1))
    first, *others = path.read_text(encoding="utf-8").splitlines()
    for damaged, why in (
        ('{"history": 2 "kind": "fetch"}', "column 15 is not JSON: Expecting ',' delimiter"),
        ('{"history": 2, "kind": "fetch"', "column 31 is not JSON: Expecting ',' delimiter"),
    ):
        path.write_text("\n".join([first, damaged, *others]) + "\n", encoding="utf-8")
        status, out, _ = run(capsys, "check", path)
        assert status == 2
        assert f"\n1 malformed row:\n  {path}, line 2: {why}\n" in out


INTERLEAVED = """
{:type :invoke, :f :txn, :value [[:send 0 1] [:send 1 2]], :process 0, :time 0}
{:type :invoke, :f :txn, :value [[:send 0 3] [:send 1 4]], :process 1, :time 0}
{:type :ok, :f :txn, :value [[:send 0 [0 1]] [:send 1 [1 2]]], :process 0, :time 9}
{:type :%s, :f :txn, :value [[:send 0 [1 3]] [:send 1 [0 4]]], :process 1, :time 9}
{:type :invoke, :f :poll, :value [[:poll]], :process 2, :time 10}
{:type :ok, :f :poll, :value [[:poll {0 [[0 1] [1 3]], 1 [[0 4] [1 2]]}]], :process 2, :time 19}
"""


def test_check_of_transactions_tells_what_kafka_allows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(INTERLEAVED % "ok")
    status, out, _ = run(capsys, "check", path)
    assert status == 0
    assert "G0: transaction" in out
    assert "checked: 3 transactions; not checked: whether" in out
    assert run(capsys, "check", path, "--level", "strict")[0] == 1
    path.write_text(INTERLEAVED % "fail")
    status, found = document(capsys, "check", path)
    assert (status, set(found["anomalies_by_name"])) == (1, {"aborted-read"})


def test_the_store_of_jepsen_is_a_folder_with_a_history_in_each_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for run_of in ("1", "2"):
        (tmp_path / "queue" / run_of).mkdir(parents=True)
        (tmp_path / "queue" / run_of / "history.edn").write_text(INTERLEAVED % "ok")
        (tmp_path / "queue" / run_of / "results.edn").write_text("{:valid? true}")
    (tmp_path / "latest").symlink_to(tmp_path / "queue" / "2")
    status, found = document(capsys, "check", tmp_path)
    assert status == 0
    assert [Path(file["file"]).parent.name for file in found["files"]] == ["1", "2"]


def test_a_bad_line_costs_its_own_history_and_no_other(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mixed.jsonl"
    jsonl.write(path, concatenate([history(1), history(2, lose=True), history(3)]))
    lines = path.read_text().splitlines()
    lines[4] = lines[4].replace('"fetch"', '"fetched"').replace('"produce"', '"produced"')
    path.write_text("\n".join([*lines, lines[0][:30]]) + "\n")
    status, out, err = run(capsys, "check", path)
    assert status == 2
    assert f"{path}, line 5 (history 2): kind is 'produced'" in out
    assert f"{path}, line 10: " in out
    lacks = "some of which name no history: operations may be missing from any history of the file: "
    assert f"{path}: 2 malformed rows, {lacks}" in err
    _, found = document(capsys, "check", path)
    assert found["verdicts"] == {"valid": 2, "violated": 0, "unknown": 0}
    assert [(line["number"], line["history"]) for line in found["files"][0]["malformed"]] == [(5, 2), (10, None)]


def test_a_line_that_cannot_be_checked_is_named_by_its_number(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Events stand in the order in which they came, operations in that of their histories."""
    path = tmp_path / "events.jsonl"
    events = [
        {"type": "invoke", "f": "fetch", "process": 0, "time": 1, "history": 2, "topic": "t", "offset": 0},
        {"type": "invoke", "f": "produce", "process": 0, "time": 1, "history": 1, "topic": "t", "values": []},
        {"type": "ok", "process": 0, "time": 2, "history": 2, "values": []},
    ]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    status, out, err = run(capsys, "check", path)
    assert status == 2
    assert f"{path}, line 2 (history 1): a produce without values" in out
    assert err == f"tidegauge: {path}: 1 malformed row, whose histories are not checked: look at what wrote them\n"


@pytest.mark.parametrize("level", ["kafka", "strict"])
def test_a_valid_history_says_which_losses_no_read_would_show(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, level: str
) -> None:
    for read in range(4):
        ended = History(1)
        for partition in (0, 1):
            sent = ended.invoke(kind=Kind.PRODUCE, process=0, call=1, values=[1], partition=partition)
            ended.ok(sent, returned=2, offset=0)
        for partition in (0, 1) if read else ():
            ended.settled(call=10, partition=partition)
        for partition in range(read - 1):
            fetch = ended.invoke(kind=Kind.FETCH, process=1, call=11, position=0, partition=partition)
            ended.ok(fetch, returned=12, values=[1])
        write(tmp_path / "h.parquet", ended.operations())
        status, out, _ = run(capsys, "check", tmp_path / "h.parquet", "--level", level)
        assert status == 0
        _, found = document(capsys, "check", tmp_path / "h.parquet", "--level", level)
        coverage = found["files"][0]["coverage"]
        lost = (2, 2, 1, 0)[read]
        assert [coverage[name] for name in ("records", "unconfirmed", "open_ends", "partitions")] == [2] + [lost] * 3
        assert [gap["partition"] for gap in coverage["first"]] == [[0, 1], [0, 1], [1], []][read]
        if not lost:
            assert "\nchecked: 2 records that must not be lost; each was read after its partition had settled\n" in out
            continue
        why = "nobody read it since it settled" if read else "nobody declared it settled"
        first = coverage["first"][0]["partition"]
        assert f"\nnot checked: whether {lost} of 2 records that must not be lost are still there; " in out
        assert f"topic-{first} of history 1: 1 of 1 records, the first at offset 0, and its end, for {why}" in out


def test_rows_that_cannot_be_checked_are_told_and_fail_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    operations = concatenate([history(1), history(2)])
    spoiled = attrs.evolve(operations, acks=np.array([-1, -1, -1, 7, -1, -1], np.int8))
    write(tmp_path / "spoiled.parquet", spoiled)
    status, found = document(capsys, "check", tmp_path / "spoiled.parquet")
    assert status == 2
    assert (found["histories"], len(found["files"][0]["malformed"])) == (1, 1)
    assert "acks is 7" in found["files"][0]["malformed"][0]["reason"]


def test_of_several_files_what_is_found_says_in_which_it_is(
    capsys: pytest.CaptureFixture[str], sound: Path, lossy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file numbers its histories for itself."""
    monkeypatch.chdir(lossy.parent)
    _, alone, _ = run(capsys, "check", lossy.name)
    _, both, _ = run(capsys, "check", sound.name, lossy.name)
    found = [line.strip() for line in alone.splitlines() if line.startswith("  history ")]
    assert found
    for line in found:
        assert f"{lossy.name}: {line}" in both
    assert "of history" in alone
    assert lossy.name not in alone.rpartition("not checked: ")[2]
    assert f" of {lossy.name}" in both.rpartition("not checked: ")[2]


def test_check_of_a_folder_takes_every_file(capsys: pytest.CaptureFixture[str], sound: Path, lossy: Path) -> None:
    status, found = document(capsys, "check", sound.parent)
    assert (status, found["histories"]) == (1, 4)


UNUSABLE = (
    (("explor",), "explore"),
    (("explore",), "spec"),
    (("explore", "quorum"), "'quorum': choose one of replication, kip320, replication-3.5, "),
    (("explore", "raft"), "'raft': choose one of kraft, pull-raft ("),
    (("explore", "kip320", "--bug", "x"), "no bug 'x'"),
    (("explore", "kip320", "brokers=2"), "'brokers=2' is not a constant"),
    (("explore", "kip320", "replicas"), "NAME=VALUE"),
    (("explore", "kip320", "replicas=2", "replicas=3"), "replicas=3: replicas is given twice; leave one out"),
    (("explore", "kip320", "log_size=-2"), "'-2' is not a whole number"),
    (("explore", "replication", "long_polls=maybe"), "neither true nor false"),
    (("explore", "replication", "brokers=0"), "brokers=0"),
    (("explore", "kip320", "--max-states", "0"), "states=0"),
    (("explore", "kip320", "--max-states", "many"), "many"),
    (("explore", "kip320", "--trace", "no/such/folder/x"), "no folder"),
    (("explore", "kip320", "--wat"), "--wat"),
    (("check",), "no histories"),
    (("check", "no-such-file"), "no-such-file: there is no such file"),
    (("check", "."), "no .parquet or .jsonl or .ndjson file"),
    (("check", "text.parquet"), "not a readable Parquet file"),
    (("check", "text.json"), "write it again, or call it .jsonl or .ndjson if it has JSON lines"),
    (("check", "text.parquet", "--limit=-1"), "--limit -1: give how many anomalies to print, from 0"),
    (("check", "text.parquet", "--out", "text.parquet"), "is a file"),
    (("check", "text.parquet", "--level", "x"), "x"),
)


@pytest.mark.parametrize(
    ("words", "told"), UNUSABLE, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_what_cannot_be_used_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    told: str,
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.parquet").write_text("not a table")
    (tmp_path / "text.json").write_text("{}")
    monkeypatch.chdir(tmp_path / "empty" if words == ("check", ".") else tmp_path)
    status, _, err = run(capsys, *words)
    assert status == 2
    assert err.startswith("tidegauge: ")
    assert err.count("\n") == 1
    assert told in err
    assert "Traceback" not in err
    assert "bug in tidegauge" not in err
    status, found = document(capsys, *words)
    assert (status, found["command"]) == (2, words[0])
    assert told in found["error"]


def test_a_bug_of_ours_is_told_in_one_line_unless_the_traceback_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(screen: Screen, options: object) -> None:
        raise RuntimeError("it broke")

    monkeypatch.setattr(Screen, "header", broken)
    monkeypatch.delenv(command_line.TRACEBACK, raising=False)
    status, _, err = run(capsys, *SMALL)
    assert status == 2
    assert "bug in tidegauge: RuntimeError: it broke" in err
    monkeypatch.setenv(command_line.TRACEBACK, "1")
    with pytest.raises(RuntimeError, match="it broke"):
        run(capsys, *SMALL)


def test_an_interrupt_ends_a_run_quietly_with_130() -> None:
    # A shell that starts jobs in the background makes them ignore interrupts; this one must not.
    code = (
        "import runpy, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "runpy.run_module('tidegauge', run_name='__main__')\n"
    )
    words = [sys.executable, "-c", code, "explore", "replication", "brokers=3", "max_records=2"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()  # the header is printed: it has begun
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "tidegauge: interrupted\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "tidegauge", *SMALL]
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(words, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")


def in_a_shell(script: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """`script` with $1… the words; standard output is buffered, as users have it."""
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    line = ["sh", "-c", script.replace("tidegauge", f"{sys.executable} -m tidegauge"), "sh", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, check=False, env=buffered | environment)


@pytest.mark.parametrize("where", [">&-", ">/dev/full", "--json >&-", "--json >/dev/full"])
def test_standard_output_that_cannot_be_written_is_told_in_one_line(sound: Path, where: str) -> None:
    done = in_a_shell(f'tidegauge check "$1" {where}', sound)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "bug in tidegauge" not in done.stderr


def test_a_terminal_without_unicode_gets_escapes(lossy: Path) -> None:
    done = in_a_shell('tidegauge check "$1" --limit 0', lossy, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (1, "")
    assert "\\u2026 and " in done.stdout


def test_closed_standard_error_changes_nothing(lossy: Path) -> None:
    assert in_a_shell('tidegauge check "$1" 2>&-', lossy).returncode == 1
    refused = in_a_shell('tidegauge check "$1" 2>&-', lossy / "missing")
    assert (refused.returncode, refused.stdout) == (2, "")


def test_a_file_name_that_is_no_unicode_is_checked_like_any_other(
    capsys: pytest.CaptureFixture[str], sound: Path, tmp_path: Path
) -> None:
    odd = tmp_path / os.fsdecode(b"[red]\xff.jsonl")
    jsonl.write(odd, history(1))
    status, found = document(capsys, "check", odd, sound, "--out", tmp_path / "out")
    assert (status, found["histories"]) == (0, 3)
    assert found["files"][0]["file"].endswith(r"[red]\xff.jsonl")


def test_a_folder_is_searched_as_spark_does(capsys: pytest.CaptureFixture[str], sound: Path, tmp_path: Path) -> None:
    for place in ("deep/er/a.parquet", "part.parquet/b.parquet", "_kept/c.parquet", ".d.parquet"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(sound.read_bytes())
    jsonl.write(tmp_path / "e.ndjson", history(1))
    status, found = document(capsys, "check", tmp_path)
    names = [Path(each["file"]).name for each in found["files"]]
    assert (status, sorted(names)) == (0, ["a.parquet", "b.parquet", "e.ndjson", "sound.parquet"])


def test_tables_that_cannot_be_written_leave_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, sound: Path, tmp_path: Path
) -> None:
    write_table = pq.write_table

    def until_full(table: pa.Table, place: Path, **options: object) -> None:
        write_table(table, place, **options)
        if "anomalies" in place.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pq, "write_table", until_full)
    status, _, err = run(capsys, "check", sound, "--out", tmp_path / "out")
    assert status == 2
    assert f"--out {tmp_path / 'out'} cannot be written (No space left on device)" in err
    assert not list((tmp_path / "out").iterdir())


def test_the_package_is_cheap_to_import_and_needs_neither_spark_nor_hypothesis() -> None:
    code = (
        "import sys, tidegauge\n"
        "assert not {'numpy', 'pyarrow', 'trio', 'cyclopts'} & set(sys.modules), 'not cheap'\n"
        "sys.modules['pyspark'] = sys.modules['hypothesis'] = sys.modules['pytest'] = None\n"
        "for name in tidegauge.__all__: getattr(tidegauge, name)\n"
        "import tidegauge.__main__\n"
        "assert tidegauge.__version__[0].isdigit()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    import tidegauge

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tidegauge.nothing


@pytest.mark.parametrize(
    "words",
    [
        ("check", "{}", "--html"),
        ("replay", str(COUNTEREXAMPLES / "kafka_18227.json"), "--page"),
        ("explore", "isr", "--page"),
    ],
)
def test_a_page_never_takes_the_place_of_anything_but_a_page(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept, page = tmp_path / "kept.jsonl", tmp_path / "page.html"
    jsonl.write(kept, history(1, lose=True))
    before = kept.read_bytes()
    status, _, err = run(capsys, *(word.format(kept) for word in words), kept)
    assert status == 2
    assert f"{words[-1]} {kept} is there, and is no page: name another file" in err
    assert kept.read_bytes() == before
    for text in ("", "<!DOCTYPE html>an earlier page"):
        page.write_text(text)
        assert run(capsys, "check", kept, "--html", page)[0] == 1
        assert "poll-skip" in page.read_text(encoding="utf-8")


def test_a_history_that_a_file_does_not_have_is_named(capsys: pytest.CaptureFixture[str], sound: Path) -> None:
    status, _, err = run(capsys, "check", sound, "--history", "99")
    assert status == 2
    assert "no operations of history 99, so nothing is checked: name a history that the file has" in err
