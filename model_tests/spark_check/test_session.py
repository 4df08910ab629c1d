"""The local session: quiet, one JVM a process, and a start that fails is explained."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegauge.linearizability.arrow import to_arrow
from tidegauge.model_tests.spark_check.layouts import histories, write
from tidegauge.spark_check.__main__ import main
from tidegauge.spark_check.session import BadMemory, NoSpark, heap, local_session

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process of its own, which has no session yet."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "from tidegauge.spark_check.session import local_session\n" + code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_a_session_in_the_smallest_heap_says_nothing_and_another_one_follows_it_in_the_same_jvm() -> None:
    code = """
spark = local_session(memory="512m")
first = spark.sparkContext._gateway.proc.pid
assert spark.sparkContext.uiWebUrl is None
spark.stop()
again = local_session()
assert again.sparkContext._gateway.proc.pid == first
print(again.range(40).count() + 2)
"""
    done = run(code)
    assert (done.stdout, done.stderr) == ("42\n", "")


def test_a_jvm_that_does_not_start_is_explained_in_its_own_words() -> None:
    code = """
import os
from tidegauge.spark_check.session import NoSpark
os.environ["SPARK_SUBMIT_OPTS"] = "-Xmx1x"
try:
    local_session()
except NoSpark as error:
    print(error)
"""
    said = run(code).stdout
    assert said.startswith("Spark did not start on the Java in ")
    assert "-Xmx1x" in said
    assert "JAVA_HOME chooses another" in said


@pytest.mark.parametrize("memory", ["x", "1x", "640", "-1m", "1.5g", ""])
def test_a_heap_that_is_no_size_is_refused(memory: str) -> None:
    with pytest.raises(BadMemory, match=f"memory is {memory!r}: give a whole number of m or g, such as 640m or 2g"):
        local_session(memory=memory)


@pytest.mark.parametrize("memory", ["1m", "511M", "0g"])
def test_a_heap_that_spark_does_not_start_with_is_refused(memory: str) -> None:
    with pytest.raises(BadMemory, match=f"memory is {memory!r}: Spark starts with no less than 512m"):
        local_session(memory=memory)


def test_a_size_has_many_spellings() -> None:
    assert [heap(memory) for memory in ("512m", "2G", "1gb")] == ["512m", "2g", "1g"]


def test_a_heap_that_the_machine_has_no_room_for_is_refused() -> None:
    with pytest.raises(BadMemory, match=r"memory is '900000000m': this machine has \d+m"):
        local_session(memory="900000000m")


def test_the_job_counts_its_files_before_it_starts_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise NoSpark("none")

    monkeypatch.setattr("tidegauge.spark_check.options.local_session", stopped)
    (tmp_path / "in").mkdir()
    for count in ("1 file", "2 files"):
        write(tmp_path / "in" / f"{count[0]}.parquet", to_arrow(histories(3)), 100)
        assert main([str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 2
        assert capsys.readouterr().err.splitlines()[0] == f"{count} of histories; starting Spark"


def test_without_pyspark_the_job_says_only_that(tmp_path: Path) -> None:
    write(tmp_path / "good.parquet", to_arrow(histories(3)), 100)
    code = f"""
import sys
sys.modules["pyspark"] = None
from tidegauge.spark_check.__main__ import main
sys.exit(main([{str(tmp_path / "good.parquet")!r}, "--out", {str(tmp_path / "out")!r}]))
"""
    done = run(code)
    assert done.returncode == 2
    assert done.stderr.startswith("error: pyspark cannot be imported")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_machine_without_pyspark_is_told_what_to_install() -> None:
    code = """
import sys
sys.modules["pyspark"] = None
local_session()
"""
    said = run(code).stderr
    assert "NoSpark: pyspark cannot be imported" in said
    assert "pip install '.[spark]' in a clone" in said
