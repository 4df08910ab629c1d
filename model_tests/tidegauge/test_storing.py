"""`tidegauge explore --memory`, `--checkpoint`, `--resume`: what is found is the same, what cannot be is refused."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tidegauge.__main__ import run
from tidegauge.compilation.compiling import Compiling
from tidegauge.model_tests.harness.storage.folder import Folder


def explored(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """What `explore --json` tells, without what differs from run to run."""
    status = run(["explore", "kip320", *map(str, words), "--json"])
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    told["exit"] = status
    return {name: value for name, value in told.items() if name not in {"seconds", "rate", "compiling"}}


def test_states_in_files_are_the_same_states(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cut = ("--max-depth", 9)
    in_memory = explored(capsys, *cut, "--engine", "fast")
    assert explored(capsys, *cut, "--memory", "64k") == in_memory
    assert explored(capsys, *cut, "--memory", "64k", "--workers", 2) == {**in_memory, "workers": 2}
    folder = tmp_path / "states"
    saved = ("--checkpoint-seconds", 0)
    explored(capsys, "--max-depth", 7, "--checkpoint", folder, *saved)
    assert explored(capsys, *cut, "--resume", folder, *saved) == in_memory


def test_what_was_compiled_is_told_apart(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["explore", "kip320", "--max-depth", "5", "--engine", "fast"]
    monkeypatch.setattr(Compiling, "seconds", property(lambda _: 2.5))
    assert run(words) == 0
    assert "the engine was compiled in 2.5 CPU s more" in capsys.readouterr().out
    monkeypatch.setattr(Compiling, "seconds", property(lambda _: 0.0))
    assert run(words) == 0
    assert "compiled" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--memory", "many"], "--memory many: give a number of k, m or g (KiB, MiB, GiB), such as 512m or 2g"),
        (["--memory", "1"], "--memory 1: give a number of k, m or g"),
        (["--memory", "2000000b"], "--memory 2000000b: give a number of k, m or g"),
        (["--memory", "0"], "--memory 0: give a number"),
        (["--memory", "-5m"], "--memory -5m: give a number"),
        (["--resume", "{}"], "has no checkpoint: name the folder of an earlier one"),
        (["--resume", "{}/gone"], "/gone is not there: name the folder of an earlier --checkpoint"),
        (["--resume", __file__], "test_storing.py is a file: name the folder of an earlier --checkpoint"),
        (["--checkpoint", __file__], "test_storing.py is a file: name a folder"),
        (["--checkpoint", "/proc/x"], "--checkpoint /proc/x cannot be written (No such file or directory)"),
        (["--resume", "{}", "--checkpoint", "{}"], "leave out --checkpoint"),
        (["--checkpoint", "{}", "--checkpoint-seconds", "-1"], "give a number of at least 0"),
        (
            ["--checkpoint-seconds", "7"],
            "--checkpoint-seconds 7.0: name the folder, by --checkpoint DIR or --resume DIR",
        ),
        (
            ["--memory", "1g", "--engine", "plain"],
            "--memory 1g: only the fast engine keeps states in files; leave out --engine plain",
        ),
        (["--checkpoint", "{}", "--engine", "plain"], "; leave out --engine plain"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    error = explored(capsys, *[word.format(tmp_path) for word in words])["error"]
    assert told in error
    assert error.startswith("--")
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_other_constants_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    explored(capsys, "--max-depth", 4, "--checkpoint", tmp_path, "--checkpoint-seconds", 0)
    refused = explored(capsys, "max_records=1", "--resume", tmp_path)
    assert refused["error"].endswith("it is of max_records=2, not 1: begin a new search in another folder")
    assert refused["exit"] == 2
    refused = explored(capsys, "--stop", "never", "--resume", tmp_path)
    assert refused["error"].endswith("it is of stop=first, not never: begin a new search in another folder")
    refused = explored(capsys, "--no-liveness", "--resume", tmp_path)
    assert refused["error"].endswith("it is of liveness=True, not False: begin a new search in another folder")
    status = run(["explore", "retention-crash", "--resume", str(tmp_path)])
    error = capsys.readouterr().err
    assert status == 2
    assert "it is of the machine Kip320, not Replication, Retention; replicas=3, not none; " in error
    assert error.count(", not ") == 4
    assert re.search(r"; and \d+ more: begin a new search", error)


def test_a_checkpoint_that_cannot_be_written_to_is_not_resumed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(folder: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    explored(capsys, "--max-depth", 4, "--checkpoint", tmp_path, "--checkpoint-seconds", 0)
    monkeypatch.setattr("tidegauge.commands.outputs._try_to_write", refused)
    assert explored(capsys, "--resume", tmp_path)["error"] == (
        f"--resume {tmp_path} cannot be written (Read-only file system): a search saves where it resumes; "
        "copy the folder to where it can be written"
    )


def test_a_folder_that_goes_while_states_are_kept_in_it_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "states"
    array = Folder.array

    def gone(kept: Folder, *words: Any) -> Any:
        shutil.rmtree(folder, ignore_errors=True)
        return array(kept, *words)

    monkeypatch.setattr(Folder, "array", gone)
    error = explored(capsys, "--checkpoint", folder)["error"]
    assert error.startswith(f"--checkpoint {folder}: states cannot be kept in {folder}: ")
    assert error.endswith("(No such file or directory); no checkpoint was saved")
