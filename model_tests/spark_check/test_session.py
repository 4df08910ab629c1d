"""The local session: quiet, one JVM a process, and a start that fails is explained."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark
ROOT = Path(__file__).resolve().parents[2]


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process of its own, which has no session yet."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "from spark_check.session import local_session\n" + code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_a_session_says_nothing_and_one_that_is_stopped_is_followed_by_another_in_the_same_jvm() -> None:
    code = """
spark = local_session()
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
from spark_check.session import NoSpark
try:
    local_session(memory="1x")
except NoSpark as error:
    print(error)
"""
    said = run(code).stdout
    assert said.startswith("Spark did not start on the Java in ")
    assert "-Xmx1x" in said
    assert "JAVA_HOME chooses another" in said


def test_a_machine_without_pyspark_is_told_what_to_install() -> None:
    code = """
import sys
sys.modules["pyspark"] = None
local_session()
"""
    said = run(code).stderr
    assert "NoSpark: pyspark cannot be imported" in said
    assert "pip install 'tidegauge[spark]'" in said
