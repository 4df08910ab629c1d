"""A standalone cluster of one master and two workers, whose Python does not have this package; one worker is killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import attrs
import pytest

from tidegauge.linearizability.arrow import to_arrow
from tidegauge.model_tests.spark_check.layouts import (
    expected,
    expected_anomalies,
    histories,
    write,
    written_anomalies,
    written_verdicts,
)
from tidegauge.spark_check import __main__ as command
from tidegauge.spark_check import options, session
from tidegauge.spark_check.java import java_home
from tidegauge.spark_check.output import UNITS
from tidegauge.spark_check.shipping import pack

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300.0
UNITS_AT_LEAST = 3
_URL = re.compile(r"spark://127\.0\.0\.1:\d+")

DRIVER = """
import sys
from tidegauge.spark_check.job import open_job
from tidegauge.spark_check.session import cluster_session
assert ".whl" in open_job.__code__.co_filename, open_job.__code__.co_filename
spark = cluster_session()
assert spark.sparkContext.master == sys.argv[3], spark.sparkContext.master
print("resumed:", open_job(sys.argv[1:2], sys.argv[2], target=20).run(spark).resumed)
"""


def wait_for(what: str, there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:.0f} s"
        time.sleep(0.05)


@attrs.frozen
class Cluster:
    """The master's URL, and the workers: each leads a group of processes, its executors among them."""

    url: str
    workers: tuple[subprocess.Popen[bytes], ...]
    environment: dict[str, str]
    home: Path

    def kill(self, worker: int) -> None:
        os.killpg(self.workers[worker].pid, signal.SIGKILL)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Processes of Spark's own scripts. The Python of executors sees the dependencies by PYTHONPATH, and no package of
    ours: an editable install works through a .pth file, which is not read there."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "PYSPARK"))
    }
    environment = {
        **inherited,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys._base_executable,  # type: ignore[attr-defined]  # where the venv's Python came from
        "PYSPARK_DRIVER_PYTHON": sys._base_executable,  # type: ignore[attr-defined]
        "PYTHONPATH": str(home.parent),
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: str) -> Path:
        log = tmp_path / f"{name}.log"
        kind = name.split("-")[0]
        main = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
        command = [str(home / "bin" / "spark-class"), main, "--host", "127.0.0.1", "--webui-port", "0", *words]
        with log.open("wb") as out:
            started.append(
                subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=tmp_path, start_new_session=True)
            )
        return log

    try:
        log = start("master", "--port", "0")
        wait_for("the master", lambda: _URL.search(log.read_text()) is not None)
        (url,) = set(_URL.findall(log.read_text()))
        for number in range(2):
            start(f"worker-{number}", "--cores", "1", "--memory", "600m", "--work-dir", str(tmp_path / "work"), url)
        wait_for("two workers", lambda: log.read_text().count("Registering worker") == 2)
        yield Cluster(url, tuple(started[1:]), environment, home)
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def build_wheel(folder: Path) -> Path:
    source = folder / "source"
    for name in ("compilation", "impl", "linearizability", "model_tests", "spark_check", "spec", "tidegauge"):
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, source / name)
    words = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(folder), str(source)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.deep
@pytest.mark.spark
def test_a_submitted_job_outlives_a_worker_and_executors_need_nothing_but_the_wheel(
    cluster: Cluster, tmp_path: Path
) -> None:
    operations = histories(70)
    file = write(tmp_path / "in.parquet", to_arrow(operations), 20)
    out, script = tmp_path / "out", tmp_path / "driver.py"
    script.write_text(DRIVER)
    words = ["--master", cluster.url, "--py-files", str(build_wheel(tmp_path)), "--conf", "spark.executor.memory=512m"]
    words += ["--conf", "spark.driver.memory=512m", "--conf", "spark.ui.enabled=false"]
    with (tmp_path / "driver.log").open("w+") as said:
        driver = subprocess.Popen(
            [str(cluster.home / "bin" / "spark-submit"), *words, str(script), str(file), str(out), cluster.url],
            env=cluster.environment, cwd=tmp_path, stdout=said, stderr=said,
        )  # fmt: skip
        try:
            wait_for(
                "the first units",
                lambda: len(list((out / UNITS).glob("*.json"))) > UNITS_AT_LEAST or driver.poll() is not None,
            )
            cluster.kill(0)
            done = len(list((out / UNITS).glob("*.json")))
            status = driver.wait(PATIENCE_S)
        finally:
            driver.kill()
        said.seek(0)
        assert (status, done < 70) == (0, True), said.read()[-3_000:]
    assert written_verdicts(out) == expected(operations)
    assert written_anomalies(out) == expected_anomalies(operations)


def test_what_is_sent_to_executors_is_enough_to_check_histories(tmp_path: Path) -> None:
    """In a Python that sees numpy and pyarrow only, as they are in one folder: this package and attrs come packed."""
    archive = pack(tmp_path / "packed.zip")
    with zipfile.ZipFile(archive) as packed:
        names = packed.namelist()
    assert not [name for name in names if name.startswith(("tidegauge/impl", "tidegauge/model_tests"))]
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("numpy", "pyarrow"):
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        for entry in Path(spec.origin).parent.parent.glob(f"{name}*"):
            (libraries / entry.name).symlink_to(entry)
    code = "import tidegauge.spark_check.job as job, tidegauge.spark_check.judging; print(job.__file__)"
    environment = {"PYTHONPATH": f"{archive}:{libraries}", "PATH": os.environ["PATH"]}
    base = sys._base_executable  # type: ignore[attr-defined]
    done = subprocess.run([base, "-S", "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{archive}/tidegauge/spark_check/job.py\n", "")


def test_the_master_that_is_given_is_the_one_that_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    used: list[tuple[str | None, dict[str, str]]] = []

    def remember(master: str | None, settings: dict[str, str]) -> None:
        used.append((master, settings))
        raise session.NoSpark("there is no such master")

    monkeypatch.setattr(options, "cluster_session", remember)
    monkeypatch.setattr(options, "local_session", lambda *_, **__: pytest.fail("the master was not obeyed"))
    file = write(tmp_path / "in.parquet", to_arrow(histories(1)), 100)
    words = [str(file), "--out", str(tmp_path / "out")]
    assert command.main([*words, "--master", "spark://a:1", "--conf", "spark.executor.memory=4g"]) == 2
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")  # as spark-submit does
    assert command.main(words) == 2
    assert used == [("spark://a:1", {"spark.executor.memory": "4g"}), (None, {})]
    with pytest.raises(SystemExit):
        command.main([*words, "--memory", "2g"])
    assert "--cores and --memory are for this machine alone" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main([*words, "--conf", "spark.executor.memory"])
    assert "is no setting: write NAME=VALUE" in capsys.readouterr().err
