"""`tidegauge tap` and what `tidegauge check` makes of its recordings: at the end, while it grows, and after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tidegauge import running_cluster
from tidegauge.__main__ import run
from tidegauge.commands import tapping as tapping_command
from tidegauge.commands.tap_reader import ReadingProcess
from tidegauge.impl.tap.copies import Passing
from tidegauge.impl.tap.recording import Rotation
from tidegauge.impl.tap.tap import Tap
from tidegauge.linearizability.tapped.reading import Reader
from tidegauge.model_tests.tap.test_clients import consume, produce
from tidegauge.screen import Screen


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with running_cluster(brokers=1, trace=False) as cluster:
        yield cluster


@contextmanager
def tapping(cluster: Any, out: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, and where clients connect."""
    asked = ("--upstream", cluster.bootstrap_servers, "--listen", "0", "--out", str(out), "--json", *words)
    command = (sys.executable, "-m", "tidegauge", "tap", *asked)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["bootstrap_servers"]
        finally:
            process.kill()


@pytest.mark.deep
def test_a_recording_is_checked_at_its_end(cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.create_topic("ended", partitions=2)
    with tapping(cluster, tmp_path / "tap", "--alone") as (process, bootstrap):
        produce(bootstrap, "ended", 10)
        consume(bootstrap, "ended", 10)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    assert run(("check", str(tmp_path), "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["checked"] == {"logs": 1, "transactions": 0, "groups": 0}
    assert told["files"][0]["coverage"]["records"] == 10
    assert told["files"][0]["remarks"] == []


def test_a_recording_that_was_killed_is_checked_as_far_as_it_goes(cluster: Any, tmp_path: Path) -> None:
    cluster.create_topic("killed", partitions=2)
    with tapping(cluster, tmp_path / "tap") as (process, bootstrap):
        produce(bootstrap, "killed", 10)
        reader = Reader.of(tmp_path / "tap")
        pause = threading.Event()
        while not any(getattr(line, "offset", None) is not None for line in reader.lines.values()):
            pause.wait(0.02)
            reader.read_on()
        process.kill()
    assert run(("check", str(tmp_path / "tap"))) == 0


def lines(*rows: dict[str, Any], at: int = 10**9) -> str:
    every = [{"op": [number, 0], "process": 0, **row} for number, row in enumerate(rows)]
    return "".join(json.dumps(row) + "\n" for row in [*every, {"kind": "snapshot", "at": at}])


def sent(value: int, offset: int, at: int) -> dict[str, Any]:
    where = {"topic": "orders", "partition": 0, "acks": -1, "values": [value], "error": 0, "offset": offset}
    return {"kind": "produce", "call": at, "return": at + 1, **where}


def write(folder: Path, *rows: dict[str, Any], alone: bool = False) -> None:
    folder.mkdir()
    (folder / "tap.json").write_text(json.dumps({"tap": 1, "alone": alone}))
    (folder / "part-000001.jsonl").write_text(lines(*rows))


def test_a_recording_that_does_not_hold_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "tap", sent(100, 0, 10), sent(200, 0, 20))
    (tmp_path / "other").mkdir()
    assert run(("check", str(tmp_path))) == 1
    told = capsys.readouterr().out
    assert "inconsistent-offsets" in told
    assert "lost-write" in told


def test_who_follows_a_recording_tells_each_anomaly_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tap"
    write(folder, sent(100, 0, 10))

    def go_on(number: int) -> None:
        unread = {"kind": "unread", "call": 5, "api": "SHARE_FETCH", "version": 1, "why": "nothing of it is recorded"}
        text = lines(sent(100, 0, 10), sent(200, 0, 20), unread, at=number * 10**9)
        (folder / f"part-{number:06}.jsonl").write_text(text)

    steps: Iterator[Callable[[], None]] = iter([lambda: None, partial(go_on, 2), partial(go_on, 3)])

    def sleep(_: float) -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    monkeypatch.setattr(time, "sleep", sleep)
    assert run(("check", "--follow", str(folder))) == 1
    told = capsys.readouterr().out
    assert told.count("inconsistent-offsets") == 1
    assert told.count("passed unread: SHARE_FETCH 1") == 1
    assert "anomalies told" in told


def test_who_follows_a_recording_is_told_of_rows_that_are_no_operations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = {**sent(100, 0, 10), "acks": 7}
    write(tmp_path / "tap", strange, sent(200, 1, 20))

    def sleep(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    assert run(("check", "--follow", str(tmp_path / "tap"))) == 2
    told = capsys.readouterr().out
    assert "malformed, so its history is not checked: acks is 7" in told
    assert "0 operations were looked at" in told


def test_a_tap_that_breaks_off_writes_down_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    reading = ReadingProcess.start(tmp_path / "tap", {}, Rotation(), 1 << 20, "warning")
    reading.copies.left_out(Passing(1, 0, 78, 1, 1, 1), "nothing of it is recorded")
    running = Tap((), reading.copies, reading.now)
    monkeypatch.setattr(tapping_command, "warn_if_unreachable", interrupted)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        tapping_command.run(Screen("tap", json=True), running, reading, "0", until_eof=False)
    reader = Reader.of(tmp_path / "tap")
    assert reader.read_on(), "a snapshot was written"
    assert reading.process.returncode == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("tap",), "upstream"),
        (("tap", "--upstream", "kafka"), "--upstream kafka: write it as localhost:9092"),
        (("tap", "--upstream", "a:1", "--listen", "x:y"), "--listen x:y: write it as 9092 or 127.0.0.1:9092"),
        (("tap", "--upstream", "a:1", "--listen", "0.0.0.0:1"), "give --advertised-host"),
        (("tap", "--upstream", "a:1", "--keep", "0"), "--keep 0: give 1 or more"),
        (("tap", "--upstream", "a:1", "--memory-mb", "0"), "--memory-mb 0: give 1 or more"),
        (("tap", "--upstream", "a:1", "--check", "--json"), "--check with --json"),
        (("check", "--follow", "."), "--follow: name one folder"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    words: tuple[str, ...],
    told: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(words) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir()), "and nothing is left"


def test_a_folder_with_a_recording_is_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "tap", sent(100, 0, 10))
    assert run(("tap", "--upstream", "localhost:1", "--out", str(tmp_path / "tap"))) == 2
    assert "there is a recording already" in capsys.readouterr().err
