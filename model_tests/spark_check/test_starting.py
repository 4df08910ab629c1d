"""Why Spark does not start is told in one line: the option, the value, the way out, and no line of Java's."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tidegauge.linearizability.arrow import to_arrow
from tidegauge.model_tests.spark_check.layouts import histories, write
from tidegauge.spark_check import __main__ as checker
from tidegauge.spark_check import explore as explorer
from tidegauge.spark_check import options
from tidegauge.spark_check.session import NoSpark, cluster_session, local_session
from tidegauge.spark_check.starting import JvmOutput, check_master, reason_of, unreachable

CALLED = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
FRAMES = (
    "\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:603)\n\tat java.lang.Thread.run(Thread.java:840)\n"
)
EXITED = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."
CHATTER = [
    "WARNING: Using incubator modules: jdk.incubator.vector",
    "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties",
    "26/11/29 06:15:28 WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.0.1",
]


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[2]",
        "local[*]",
        "local[2,3]",
        "local[*, 4]",
        "local-cluster[2, 1, 1024]",
        "spark://a:7077,b:7077",
        "yarn",
        "k8s://https://host:443",
    ],
)
def test_what_spark_takes_for_a_master_is_taken(master: str) -> None:
    check_master("--master", master)


@pytest.mark.parametrize("master", ["", "local[x]", "local[0]", "local[]", "nonsense", "spark", "spark://", "Yarn"])
@pytest.mark.parametrize("command", ["checker", "explorer"])
def test_a_master_that_is_none_is_refused_in_one_line_before_anything_is_done(
    command: str, master: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "cluster_session", lambda *_: pytest.fail("a JVM was started"))
    words = [str(tmp_path / "none.parquet")] if command == "checker" else ["kip320"]
    main = checker.main if command == "checker" else explorer.main
    assert main([*words, "--out", str(tmp_path / "out"), "--master", master]) == 2
    assert capsys.readouterr().err == (
        f"error: --master {master}: Spark has no such master: "
        "give local[N], spark://HOST:PORT, yarn or k8s://https://HOST:PORT\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_program_is_told_too() -> None:
    with pytest.raises(NoSpark, match=r"^master nonsense: Spark has no such master: give local\[N\]"):
        cluster_session("nonsense")
    with pytest.raises(NoSpark, match=r"^spark\.master local\[x\]: Spark has no such master"):
        cluster_session(settings={"spark.master": "local[x]"})


@pytest.mark.parametrize(
    ("raised", "printed", "reason"),
    [
        (
            f"{CALLED}: org.apache.spark.SparkException: Could not parse Master URL: 'local[x]'\n{FRAMES}",
            [],
            "Could not parse Master URL: 'local[x]'",
        ),
        (
            EXITED,
            [*CHATTER, 'Exception in thread "main" org.apache.spark.SparkException: Driver cores: none', FRAMES],
            "Driver cores: none",
        ),
        (EXITED, [*CHATTER, "Invalid heap size: -Xmxlots", "Error: Could not"], "Invalid heap size: -Xmxlots"),
        (
            f"{CALLED}: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\n{FRAMES}",
            ["26/11/29 06:22:00 ERROR Backend: Application has been killed. Reason: All masters are silent"],
            "All masters are silent",
        ),
        (EXITED, CHATTER, EXITED),
        ("", [], "RuntimeError"),
    ],
)  # fmt: skip
def test_the_reason_is_the_one_line_that_says_it(raised: str, printed: list[str], reason: str) -> None:
    assert reason_of(RuntimeError(raised), printed) == reason


def test_a_master_of_which_no_host_can_be_reached_is_found_out_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = server.getsockname()[1]
        with socket.create_server(("127.0.0.1", 0)) as closed:
            gone = closed.getsockname()[1]
        assert unreachable(f"spark://127.0.0.1:{gone}") == f"127.0.0.1:{gone}: Connection refused"
        assert unreachable(f"spark://127.0.0.1:{gone},127.0.0.1:{there}") == ""
    assert unreachable("local[2]") == unreachable("yarn") == unreachable("") == ""


def told(output: JvmOutput, text: str) -> None:
    os.write(output.descriptor, text.encode())


def test_what_the_jvm_says_is_held_back_until_spark_has_started(capsys: pytest.CaptureFixture[str]) -> None:
    failed = JvmOutput()
    told(failed, "one\ntwo\n")
    assert failed.lines() == ["one", "two"]
    for goes_on, shown in ((True, "before\n"), (False, "")):
        output = JvmOutput()
        told(output, "before\n")
        output.close()
        output._reader.join()
        assert capsys.readouterr().err == ""
        output.let_go(goes_on=goes_on)
        assert capsys.readouterr().err == shown


def test_all_that_the_jvm_says_is_shown_at_once_if_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGAUGE_TRACEBACK", "1")
    output = JvmOutput()
    told(output, "a line\n")
    assert output.lines() == []
    output.let_go(goes_on=False)
    assert capsys.readouterr().err == "a line\n"


def test_a_setting_with_which_spark_does_not_start_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_started(*_: object) -> None:
        raise NoSpark("Spark did not start")

    monkeypatch.setattr(options, "cluster_session", not_started)
    file = write(tmp_path / "in.parquet", to_arrow(histories(1)), 100)
    assert checker.main([str(file), "--out", str(tmp_path / "out"), "--master", "local[2]"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "error: --master local[2]: Spark did not start"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: --out"),
        (["--out", "o"], "the following arguments are required: MODEL"),
        (["kip320", "--ouut", "o"], "unknown option --ouut: did you mean --out?"),
        (["kip320", "--out", "o", "--memory", "-5m"], "argument --memory: memory is '-5m': give a whole number of m"),
        (["kip320", "--out", "o", "--max-depth", "-1"], "argument --max-depth: '-1' is no whole number"),
        (["kip320", "--out", "o", "--cores", "--json"], "argument --cores: expected one argument"),
    ],
)
def test_what_the_explorers_options_want_is_told(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        explorer.main(words)
    assert ended.value.code == 2
    told_last = capsys.readouterr().err.splitlines()[-1]
    assert said in told_last
    assert "NAME=VALUE" not in told_last


def test_constants_and_files_may_stand_anywhere() -> None:
    words = ["--out", "o", "kip320", "replicas=2", "--json", "max_records=1", "--max-depth", "3", "log_size=2"]
    found = options.parsed(explorer._parser, words)
    assert (found.spec, found.constants) == ("kip320", ["replicas=2", "max_records=1", "log_size=2"])
    checked = options.parsed(checker._parser, ["a", "--out", "o", "b"])
    assert checked.histories == ["a", "b"]


@pytest.mark.spark
def test_a_session_that_does_not_start_says_why_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    for name in ("_active_spark_context", "_gateway", "_jvm"):
        monkeypatch.setattr(SparkContext, name, None)
    with pytest.raises(NoSpark) as raised:
        local_session(settings={"spark.driver.memory": "lots"})
    said = str(raised.value)
    assert said.startswith("Spark did not start on the Java in ")
    assert ": Invalid maximum heap size: -Xmxlots. Way out: look at the master and the settings" in said
    assert "\n" not in said
