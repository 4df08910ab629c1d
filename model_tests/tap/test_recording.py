"""Recordings on disk: snapshots are whole or not there, parts follow each other, and a full disk ends no connection."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import pytest

from tidegauge.impl.tap.exchange import Exchange
from tidegauge.impl.tap.recording import FolderRecording, Rotation
from tidegauge.linearizability.arrow import HistoryError
from tidegauge.linearizability.tapped.lines import Ended
from tidegauge.linearizability.tapped.reading import Reader


def end(number: int, at: int = 1) -> Exchange:
    exchange = Exchange(number, 0, 26, 3, at)
    exchange.lines = [exchange.line("end", producer=[number, 0], commit=True)]
    return exchange


def read(folder: Path) -> Reader:
    reader = Reader.of(folder)
    reader.read_on()
    return reader


def test_what_has_ended_replaces_what_had_begun(tmp_path: Path) -> None:
    recording = FolderRecording(tmp_path / "tap", {})
    exchange = end(1)
    recording.begin(exchange)
    recording.begin(end(2))
    deadline = time.monotonic() + 20
    while not (reader := read(tmp_path / "tap")).lines and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [(line.op, line.error) for line in reader.lines.values() if isinstance(line, Ended)] == [
        ((1, 0), None),
        ((2, 0), None),
    ]
    recording.finish(exchange, [{**(exchange.lines or [])[0], "return": 5, "error": 0}])
    recording.close()
    assert reader.read_on()
    assert [(line.op, line.error) for line in reader.lines.values() if isinstance(line, Ended)] == [
        ((1, 0), 0),
        ((2, 0), None),
    ]


def test_parts_follow_each_other_and_the_oldest_are_deleted(tmp_path: Path) -> None:
    recording = FolderRecording(tmp_path / "tap", {"alone": True}, Rotation(most_bytes=1, keep=2))
    reader = Reader.of(tmp_path / "tap")
    for number in range(4):
        recording.emit([{**(end(number).lines or [])[0], "return": 5, "error": 0}])
        recording._snapshot()
        reader.read_on()
    recording.close()
    parts = sorted(path.name for path in (tmp_path / "tap").glob("part-*"))
    assert len(parts) == 2
    assert len(reader.lines) == 4, "who follows has read them all"
    assert (reader.alone, reader.lacks_parts) == (True, False)
    late = read(tmp_path / "tap")
    assert len(late.lines) < 4
    assert (late.alone, late.lacks_parts) == (False, True), "what was sent before counts as that of others"


def test_a_part_that_was_deleted_before_its_end_was_read_is_lacking(tmp_path: Path) -> None:
    recording = FolderRecording(tmp_path / "tap", {"alone": True})
    recording.close()
    reader = read(tmp_path / "tap")
    (tmp_path / "tap" / "part-000001.jsonl").rename(tmp_path / "tap" / "part-000002.jsonl")
    reader.read_on()
    assert (reader.alone, reader.lacks_parts) == (False, True)


def test_what_is_behind_the_last_snapshot_is_left_out(tmp_path: Path) -> None:
    recording = FolderRecording(tmp_path / "tap", {})
    recording.emit([{**(end(1).lines or [])[0], "return": 5, "error": 0}])
    recording.close()
    part = tmp_path / "tap" / "part-000001.jsonl"
    whole = part.read_bytes()
    assert not read(tmp_path / "tap").incomplete
    second = json.dumps({**(end(2).lines or [])[0], "return": 5, "error": 0}).encode() + b"\n"
    for cut in (1, len(second) // 2, len(second)):
        part.write_bytes(whole + second[:cut])
        reader = read(tmp_path / "tap")
        assert reader.incomplete
        assert list(reader.lines) == [(1, 0)]
    part.write_bytes(whole + b'{"kind":"end"}\n')
    with pytest.raises(HistoryError, match="not what a tap writes"):
        read(tmp_path / "tap")


def fetched(number: int) -> dict[str, object]:
    return {**end(number).line("end", producer=[number, 0], commit=True), "return": 5, "error": 0}


def test_a_request_that_is_never_read_holds_up_neither_snapshots_nor_other_requests(tmp_path: Path) -> None:
    recording = FolderRecording(tmp_path / "tap", {})
    unread = end(1)
    unread.lines = None
    recording.begin(unread)
    recording.emit([fetched(2)])
    deadline = time.monotonic() + 20
    while not (reader := read(tmp_path / "tap")).lines and time.monotonic() < deadline:
        time.sleep(0.02)
    assert set(reader.lines) == {(2, 0)}
    recording.begin(end(3))
    recording.close()
    assert set(read(tmp_path / "tap").lines) == {(2, 0), (3, 0)}


def test_a_snapshot_is_synced_once_it_is_written(tmp_path: Path) -> None:
    recording = FolderRecording(tmp_path / "tap", {})
    sizes: list[int] = []
    with patch("os.fdatasync", lambda file: sizes.append(os.fstat(file).st_size)):
        recording.emit([(end(1).lines or [])[0]])
        recording.close()
    assert sizes == [(tmp_path / "tap" / "part-000001.jsonl").stat().st_size]


def test_a_folder_has_one_recording(tmp_path: Path) -> None:
    FolderRecording(tmp_path / "tap", {}).close()
    with pytest.raises(FileExistsError):
        FolderRecording(tmp_path / "tap", {})
    with pytest.raises(HistoryError, match="not what a tap writes"):
        Reader.of(tmp_path)


def test_a_disk_that_is_full_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    recording = FolderRecording(tmp_path / "tap", {})
    with patch("os.write", side_effect=OSError(28, "No space left on device")):
        recording.emit([(end(1).lines or [])[0]])
        recording._guarded(recording._snapshot)
    assert recording.failure == "No space left on device"
    recording.emit([(end(2).lines or [])[0]])
    assert recording._size == 0, "nothing is held for ever"
    recording.close()


KILLED = """
import sys, time, pathlib
from tidegauge.impl.tap.recording import FolderRecording
recording = FolderRecording(pathlib.Path(sys.argv[1]), {})
def emit(number):
    recording.emit([{"kind": "end", "op": [number, 0], "process": 0, "call": recording.now(),
                     "producer": [0, 0], "commit": True, "return": recording.now(), "error": 0}])
for number in range(100):
    emit(number)
time.sleep(1)
print("a second later", flush=True)
while True:
    number += 1
    emit(number)
"""


def test_a_process_that_is_killed_has_lost_no_more_than_the_last_second(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "tap")], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"a second later\n"
        os.kill(process.pid, signal.SIGKILL)
    numbers = [operation[0] for operation in read(tmp_path / "tap").lines]
    assert len(numbers) >= 100, "what was a second old"
    assert numbers == list(range(len(numbers))), "nothing before the last of them is missing"
