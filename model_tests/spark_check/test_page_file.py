"""Where the page of a job may go: whatever else is there stays, and is told before the job runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidegauge.linearizability.arrow import to_arrow
from tidegauge.model_tests.spark_check.layouts import histories, write
from tidegauge.model_tests.spark_check.test_places import fill
from tidegauge.spark_check import places
from tidegauge.spark_check.__main__ import main
from tidegauge.spark_check.errors import BadOutput
from tidegauge.spark_check.page_file import check_page
from tidegauge.spark_check.places import Place


@pytest.fixture(params=["path", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder that does not exist yet, here and elsewhere."""
    if request.param == "path":
        return f"{tmp_path}/in"
    pytest.importorskip("fsspec")
    return f"memory://{tmp_path.name}/in"


def refusal(page: Place | str, out: Place | str, inputs: tuple[Place, ...] = ()) -> str:
    """Why a page may not be put there; nothing where it may."""
    try:
        check_page("--html", Place.of(page), inputs, Place.of(out))
    except BadOutput as error:
        return str(error).removeprefix(f"--html {Place.of(page)}")
    return ""


def test_a_page_takes_the_place_of_a_page_or_of_nothing(folder: str) -> None:
    root, out = fill(folder, "runs/a.jsonl", "notes.txt"), f"{folder}/verdicts"
    fill(folder, "empty.jsonl", "empty.html", content=b"")
    fill(folder, "page.html", content=b"<!DOCTYPE html>an earlier page")
    before = {(file.uri, file.size) for file in root.files(recursive=True)}
    for name in ("page.html", "empty.html", "absent.html"):
        assert refusal(root / name, out) == ""
    for name in ("runs/a.jsonl", "notes.txt"):
        assert refusal(root / name, out) == " is there, and is no page: name another file"
    assert refusal(root / "runs", out) == " is a folder: name a file"
    assert refusal(root / "empty.jsonl", out) == ""
    read = refusal(root / "empty.jsonl", out, (root / "empty.jsonl",))
    assert read == " is one of the histories: name another file"
    assert refusal(root / "nowhere" / "page.html", out) == ": there is no folder for it: make it first"
    assert {(file.uri, file.size) for file in root.files(recursive=True)} == before


def test_a_page_is_no_part_of_what_the_job_writes(folder: str) -> None:
    """The folder of the tables may not be there yet."""
    fill(folder, "a.jsonl")
    out = Place.of(folder) / "verdicts"
    assert refusal(out / "page.html", out) == ""
    among = f" is among the files of --out: name one elsewhere, such as {out / 'page.html'}"
    for name in ("summary.json", "_manifest.json", "verdicts/page.html", "_units/page.html"):
        assert refusal(out / name, out) == among
    for page in (out, Place.of(folder)):
        assert refusal(page, out) == " is where --out has a folder: name another file"


def test_a_bucket_has_one_name() -> None:
    out = "s3a://runs/verdicts?region=eu-west-1"
    assert "is among the files of --out" in refusal("s3://runs/verdicts/_units/page.html", out)


def test_a_page_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.html").write_text("<!doctype html>")

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(places, "_write", refuse)
    for name in ("page.html", "absent.html"):
        assert refusal(f"{tmp_path}/{name}", "/out") == " cannot be written (Permission denied): name another file"
    assert refusal("/dev/null", "/out") == " is a device or a pipe: name a file"


def test_the_command_refuses_a_page_before_spark_is_started_and_leaves_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.spark_check.options.local_session", lambda *_: pytest.fail("Spark was started"))
    runs = write(tmp_path / "runs.parquet", to_arrow(histories(1)), 20)
    before = runs.read_bytes()
    assert main([str(runs), "--out", str(tmp_path / "out"), "--html", str(runs)]) == 2
    assert capsys.readouterr().err == f"error: --html {runs} is one of the histories: name another file\n"
    assert runs.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["runs.parquet"]
