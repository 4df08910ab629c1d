"""Where a node's process has the cluster's secret from, and which files it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.impl.cluster.secret_files import (
    SECRET_FILE,
    SECRET_VARIABLE,
    NoSecretYetError,
    given_secret,
    kept_secret,
    read_secret,
)

SECRET = "a secret that is long enough to be one"


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "secret"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_a_controller_writes_a_secret_once_for_its_owner_alone(tmp_path: Path) -> None:
    first = kept_secret(tmp_path)
    assert kept_secret(tmp_path).text == first.text == read_secret(tmp_path / SECRET_FILE).text
    assert (tmp_path / SECRET_FILE).stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other"
    other.mkdir()
    assert kept_secret(other).text != first.text


def test_a_file_counts_before_the_environment_and_without_both_there_is_none(tmp_path: Path) -> None:
    environment = {SECRET_VARIABLE: f" {SECRET} from the environment\n"}
    file = written(tmp_path, f"{SECRET}\n")
    given, of_environment = given_secret(file, environment), given_secret(None, environment)
    assert given is not None
    assert of_environment is not None
    assert (given.text, of_environment.text) == (SECRET, f"{SECRET} from the environment")
    assert given_secret(None, {}) is None


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_may_yet_be_written(text: str, tmp_path: Path) -> None:
    with pytest.raises(NoSecretYetError, match="secret"):
        read_secret(written(tmp_path, text))


def test_a_missing_file_may_yet_be_written_by_a_controller(tmp_path: Path) -> None:
    with pytest.raises(NoSecretYetError, match=f"writes {SECRET_FILE} in its directory: start it"):
        read_secret(tmp_path / "nowhere")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_may_use_is_refused_with_the_way_out(mode: int, tmp_path: Path) -> None:
    file = written(tmp_path, SECRET, mode)
    with pytest.raises(ValueError, match=rf"can be read by others \(mode {mode:o}\): chmod 600 {file}"):
        read_secret(file)


def test_what_is_no_secret_is_refused_by_name(tmp_path: Path) -> None:
    for file in (written(tmp_path, "short"), tmp_path):
        with pytest.raises(ValueError, match=str(file)) as refused:
            read_secret(file)
        assert not isinstance(refused.value, NoSecretYetError)
    (tmp_path / "bytes").write_bytes(b"\xff" * 40)
    (tmp_path / "bytes").chmod(0o600)
    with pytest.raises(ValueError, match="cannot be read"):
        read_secret(tmp_path / "bytes")
    with pytest.raises(ValueError, match=f"{SECRET_VARIABLE}: "):
        given_secret(None, {SECRET_VARIABLE: "short"})
