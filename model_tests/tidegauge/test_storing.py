"""`tidegauge explore --memory`, `--checkpoint`, `--resume`: what is found is the same, what cannot be is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidegauge.__main__ import run


def explored(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    """What `explore --json` tells, without what differs from run to run."""
    status = run(["explore", "kip320", *map(str, words), "--json"])
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    told["exit"] = status
    return {name: value for name, value in told.items() if name not in {"seconds", "rate"}}


def test_states_in_files_are_the_same_states(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cut = ("--max-depth", 9)
    in_memory = explored(capsys, *cut, "--engine", "fast")
    assert explored(capsys, *cut, "--memory", "64k") == in_memory
    folder = tmp_path / "states"
    saved = ("--checkpoint-seconds", 0)
    explored(capsys, "--max-depth", 7, "--checkpoint", folder, *saved)
    assert explored(capsys, *cut, "--resume", folder, *saved) == in_memory


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--memory", "many"], "--memory many: give a number of k, m or g, such as 512m or 2g"),
        (["--memory", "0"], "--memory 0: give a number"),
        (["--resume", "{}"], "has no checkpoint"),
        (["--resume", "{}", "--checkpoint", "{}"], "leave out --checkpoint"),
        (["--checkpoint", "{}", "--checkpoint-seconds", "-1"], "give a number of at least 0"),
        (
            ["--memory", "1g", "--workers", "2"],
            "--memory 1g: only the fast engine keeps states in files, in one process",
        ),
        (["--checkpoint", "{}", "--engine", "plain"], "; leave out --engine plain"),
    ],
)
def test_what_cannot_be_kept_is_refused(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert told in explored(capsys, *[word.format(tmp_path) for word in words])["error"]
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_other_constants_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    explored(capsys, "--max-depth", 4, "--checkpoint", tmp_path, "--checkpoint-seconds", 0)
    refused = explored(capsys, "max_records=1", "--resume", tmp_path)
    assert refused["error"].endswith("cannot be resumed: it is of max_records=2, not 1")
    assert refused["exit"] == 2
    refused = explored(capsys, "--stop", "never", "--resume", tmp_path)
    assert refused["error"].endswith("cannot be resumed: it is of stop=first, not never")
