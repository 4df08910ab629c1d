"""`tidegauge serve`, `controller` and `broker` as a shell sees them."""

from __future__ import annotations

import inspect
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tidegauge import ProcessCluster
from tidegauge import __main__ as command_line
from tidegauge.commands import serving
from tidegauge.commands.serving import warn_of_halts
from tidegauge.exits import Status
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.node_process import _Joining
from tidegauge.impl.cluster.secret_files import SECRET_FILE, SECRET_VARIABLE
from tidegauge.impl.ports.network import Address
from tidegauge.model_tests.cluster.real_clients import produce, producer, read
from tidegauge.screen import Screen

SECRET = "known to all nodes"


@pytest.fixture(autouse=True)
def cluster_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, SECRET)


@contextmanager
def started(*words: object) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A command that runs, and what it said when it was ready."""
    command = [sys.executable, "-m", "tidegauge", *map(str, words), "--json"]
    with (
        tempfile.TemporaryDirectory() as scratch,  # one that is killed leaves its files behind
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": scratch},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody has just now."""
    for first in range(20_000 + os.getpid() % 10_000, 60_000, count):
        sockets = [socket.socket() for _ in range(count)]
        try:
            for offset, each in enumerate(sockets):
                each.bind(("127.0.0.1", first + offset))
            return first
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise AssertionError("no ports are free")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_serve_keeps_what_was_produced_until_the_next_time(how: signal.Signals, tmp_path: Path) -> None:
    port = free_ports(2)
    words = ("serve", "--brokers", 2, "--port", port, "--data", tmp_path / "data", "--config", "num.partitions=3")
    servers = f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    for nth in range(2):
        with started(*words) as (process, told):
            assert told["bootstrap_servers"] == servers
            assert [broker["port"] for broker in told["brokers"]] == [port, port + 1]
            with producer(servers, allow_auto_create_topics=True) as client:
                assert produce(client, "orders", b"%d" % nth) == nth
            assert read(servers, "orders", nth + 1) == [b"0", b"1"][: nth + 1]
            process.send_signal(how)
            assert process.wait(30) == 0
    assert (tmp_path / "data" / "broker-0" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "--brokers", 3),
        ("controller", "--data", "d"),
        ("broker", "--id", 0, "--data", "d", "--controller", "localhost:1"),
    ],
)
def test_a_process_that_may_open_too_little_says_so_and_is_never_ready(
    words: tuple[object, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (47, 47))
    assert command_line.run([*map(str, words)]) == Status.COULD_NOT_RUN
    assert "the process may open 47 files and connections" in capsys.readouterr().err


def test_serve_ends_with_its_standard_input() -> None:
    with started("serve", "--port", 0, "--until-eof") as (process, told):
        assert told["pid"] == process.pid
        assert "verdict" not in told, "nothing is checked"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


def test_serve_ends_when_its_last_broker_has_lost_its_disk(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose_the_disks(_: Screen, cluster: Cluster) -> None:
        cluster.fail_disk(0)
        await warn_of_halts(_, cluster)

    monkeypatch.setattr(serving, "warn_of_halts", lose_the_disks)
    line = refusal(capsys, "serve", "--port", 0, "--config", "log.flush.offset.checkpoint.interval.ms=50")
    assert "broker 0 has stopped: every log directory has failed" in line
    assert "every broker has stopped by itself" in line


def test_serve_tells_clients_the_advertised_host() -> None:
    port = free_ports(1)
    with started("serve", "--port", port, "--host", "0.0.0.0", "--advertised-host", "localhost") as (_, told):
        assert told["bootstrap_servers"] == f"localhost:{port}"
        with producer(told["bootstrap_servers"], allow_auto_create_topics=True) as client:
            assert produce(client, "orders", b"a") == 0


def test_a_controller_at_every_address_is_reached_by_the_host_that_it_advertises(tmp_path: Path) -> None:
    """The message that asks for --advertised-host is that of every command that takes --host."""
    at_all = ("--host", "0.0.0.0", "--advertised-host", "localhost", "--port", 0)
    with started("controller", *at_all, "--data", tmp_path / "controller") as (_, told):
        assert told["controller"].startswith("localhost:")
        words = ("broker", "--id", 0, "--controller", told["controller"], "--data", tmp_path / "broker")
        with started(*words, *at_all) as (_, ready):
            assert ready["bootstrap_servers"].startswith("localhost:")
    registered = b'"host":"localhost","port":' + told["controller"].partition(":")[2].encode()
    (log,) = (tmp_path / "controller").glob("__cluster_metadata-0/*.log")
    assert registered in log.read_bytes(), "brokers that look for the active controller are told that"


@pytest.mark.parametrize("command", ["serve", "controller", "broker"])
def test_every_command_that_asks_for_the_advertised_host_takes_it(command: str) -> None:
    parameters = inspect.signature(getattr(serving, command)).parameters
    assert {"host", "advertised_host"} <= parameters.keys()


def test_a_node_is_a_process_that_may_be_killed_and_goes_on_with_its_files(tmp_path: Path) -> None:
    with started("controller", "--port", 0, "--data", tmp_path / "controller") as (controller, told):
        words = ("broker", "--id", 7, "--controller", told["controller"], "--data", tmp_path / "broker")
        with started(*words, "--port", 0) as (broker, ready):
            assert ready["id"] == 7
            with producer(ready["bootstrap_servers"], allow_auto_create_topics=True) as client:
                assert produce(client, "orders", b"a") == 0
            broker.kill()
            broker.wait()
        port = ready["bootstrap_servers"].rpartition(":")[2]
        with started(*words, "--port", port) as (broker, ready):
            assert read(ready["bootstrap_servers"], "orders", 1) == [b"a"]
            broker.terminate()
            assert broker.wait(30) == 0
        controller.terminate()
        assert controller.wait(30) == 0


@pytest.mark.parametrize("spelling", ["words", "setting"])
def test_a_broker_that_is_told_several_controllers_finds_the_one_that_is(spelling: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        gone = f"3001@127.0.0.1:{nobody.getsockname()[1]}"
    with started("controller", "--port", 0, "--data", tmp_path / "controller") as (_, told):
        there = f"3000@{told['controller']}"
        spellings = {
            "words": ("--controller", gone, "--controller", there),
            "setting": ("--config", f"controller.quorum.voters={gone},{there}"),
        }
        words = ("broker", "--id", 0, "--port", 0, "--data", tmp_path / "broker", *spellings[spelling])
        with started(*words) as (_, ready):
            assert ready["id"] == 0


def test_a_node_without_the_secret_of_the_cluster_is_not_let_in(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SECRET_VARIABLE)
    monkeypatch.setattr("tidegauge.impl.cluster.node_process.JOIN_TIMEOUT", 1.0)
    with started("controller", "--port", 0, "--data", tmp_path / "controller") as (process, told):
        kept = tmp_path / "controller" / SECRET_FILE
        assert kept.stat().st_mode & 0o777 == 0o600
        secret = kept.read_text().strip()
        assert secret.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        words = ("broker", "--id", 0, "--port", 0, "--controller", told["controller"], "--data", tmp_path / "broker")
        assert "no cluster secret: name its file by --secret-file" in refusal(capsys, *words)
        other = tmp_path / "other.secret"
        other.touch(0o600)
        assert "other.secret: the cluster's secret has 0 characters: take at least 16" in refusal(
            capsys, *words, "--secret-file", other
        )
        other.write_text("another cluster's")
        refused = refusal(capsys, *words, "--secret-file", other)
        assert "no controller has let broker 0 in within 1 s" in refused
        assert f"{told['controller']} has another cluster secret, or is no node of this cluster" in refused
        other.chmod(0o644)
        assert "can be read by others (mode 644): chmod 600" in refusal(capsys, *words, "--secret-file", other)
        missing = refusal(capsys, *words, "--secret-file", tmp_path / "none")
        assert "the cluster's secret cannot be read" in missing
        assert "a controller that is given none writes cluster.secret in its directory: start it" in missing
        assert "broker 0 waits for the cluster's secret in" in missing


@pytest.mark.parametrize("before", [None, ""], ids=["missing", "empty"])
def test_a_broker_waits_for_the_file_of_the_clusters_secret(tmp_path: Path, before: str | None) -> None:
    """A broker that is started together with its controller may look before that has written it."""
    file = tmp_path / SECRET_FILE
    if before is not None:
        file.write_text(before)
        file.chmod(0o600)
    reports: list[str] = []

    async def write() -> None:
        await trio.sleep(6.0)
        file.touch(0o600)
        file.write_text(SECRET)

    async def wait() -> str:
        joining = _Joining(0, [Address("127.0.0.1", 1)], reports.append, trio.current_time() + 60.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            secret = await joining.wait_for_secret(file)
        return secret.text

    assert trio.run(wait, clock=trio.testing.MockClock(autojump_threshold=0)) == SECRET
    (report,) = reports
    assert report.startswith(f"broker 0 waits for the cluster's secret in {file}, 55 s at most: ")


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line of a command that cannot run."""
    assert command_line.run([str(word) for word in words]) == 2
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("serve", "--brokers", 0), "brokers is 0: ask for at least 1"),
        (("serve", "--port", 70_000), "--port 70000: give one from 1 to 65535, or 0 for any that is free"),
        (("serve", "--host", "0.0.0.0"), "--host 0.0.0.0: give --advertised-host as well"),
        (("serve", "--config", "x"), "--config x: write NAME=VALUE, as in log.retention.ms=60000"),
        (("serve", "--config", "num.partitions=a"), "num.partitions is 'a'"),
        (("serve", "--config", "num.partition=1"), "did you mean 'num.partitions'?"),
        (("serve", "--config", "num.partitions=1", "--config", "num.partitions=2"), "num.partitions is given twice"),
        (("broker", "--id", -1, "--controller", "localhost:1", "--data", "x"), "--id -1: give a whole number from 0"),
        (("broker", "--id", 0, "--controller", "here", "--data", "x"), "--controller here: write host:port, as in"),
        (("broker", "--id", 0, "--data", "x"), "no controller: give --controller HOST:PORT, --controller ID@HOST:PORT"),
        (
            ("broker", "--id", 0, "--data", "x", "--controller", "1@h:1", "--controller", "h:2"),
            "--controller has 'h:2': write ID@HOST:PORT, as in 3000@127.0.0.1:9093",
        ),
        (
            ("broker", "--id", 0, "--data", "x", "--controller", "1@h:1", "--controller", "1@h:2"),
            "--controller has id 1 twice: no two controllers have the same",
        ),
        (
            ("broker", "--id", 0, "--data", "x", "--controller", "1@h:1", "--controller", "2@h:1"),
            "--controller has h:1 twice, as 1 and 2: name each node once",
        ),
        (
            ("broker", "--id", 0, "--data", "x", "--controller", "h:1", "--config", "controller.quorum.voters=1@h:1"),
            "--controller and --config controller.quorum.voters both name the controllers: leave one of them out",
        ),
        (
            ("broker", "--id", 0, "--data", "x", "--config", "controller.quorum.voters=1@h"),
            "controller.quorum.voters is '1@h': it has '1@h': write ID@HOST:PORT",
        ),
        (
            ("controller", "--port", 0, "--data", "x", "--config", "controller.quorum.voters=3000@h:1,3001@h:2"),
            "controller.quorum.voters names 2 controllers: this one keeps its metadata log alone; name 3000 alone",
        ),
        (
            ("controller", "--port", 0, "--data", "x", "--config", "controller.quorum.voters=1@h:1"),
            "controller.quorum.voters names 1: this controller is 3000; name it as well",
        ),
        (
            ("serve", "--port", 0, "--config", "controller.quorum.voters=3000@h:1"),
            "controller.quorum.voters is '3000@h:1': this cluster starts its own controller; leave it out",
        ),
        (("broker", "--id", 0, "--controller", "h:1", "--data", "x", "--port", -4), "--port -4: give one from 1"),
        (("controller", "--data", "x", "--host", "::"), "--host ::: give --advertised-host as well"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str],
    words: tuple[object, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refusal(capsys, *words)
    assert list(tmp_path.iterdir()) == []


def test_an_end_of_input_that_cannot_come_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert "--until-eof: standard input is closed" in refusal(capsys, "serve", "--port", 0, "--until-eof")


def test_a_taken_port_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words in (("serve", "--brokers", 1), ("controller", "--data", tmp_path)):
            line = refusal(capsys, *words, "--port", port)
            assert f"cannot listen on 127.0.0.1:{port}: something else listens there; choose another port" in line


def test_a_host_that_is_none_of_ours_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    line = refusal(capsys, "serve", "--host", "203.0.113.7", "--port", 0)
    assert line.startswith("tidegauge: cannot listen on 203.0.113.7:0: ")
    assert line.endswith("; name an address of this machine")


def test_a_directory_of_somebody_else_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    full, file = tmp_path / "full", tmp_path / "file"
    full.mkdir()
    (full / "thesis.tex").touch()
    file.touch()
    assert "it holds 'thesis.tex', which no cluster wrote" in refusal(capsys, "serve", "--port", 0, "--data", full)
    assert "that is a file" in refusal(capsys, "serve", "--port", 0, "--data", file)
    broker = ("broker", "--id", 0, "--controller", "127.0.0.1:1", "--port", 0)
    assert "holds 'thesis.tex', which no node wrote" in refusal(capsys, *broker, "--data", full)
    assert "is a file: name a directory" in refusal(capsys, "controller", "--port", 0, "--data", file)


def test_fewer_brokers_than_the_directory_has_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("controller", "broker-0", "broker-1", "broker-10", "broker-x"):
        (tmp_path / name).mkdir()
    line = refusal(capsys, "serve", "--port", 0, "--data", tmp_path)
    assert f"brokers is 1: directory '{tmp_path}' holds broker-1, broker-10 too" in line
    assert f"start 11 brokers, or move {tmp_path / 'broker-1'}, {tmp_path / 'broker-10'} away" in line
    with (
        pytest.raises(ValueError, match=r"brokers is 2: .* holds broker-10 too"),
        ProcessCluster(2, directory=tmp_path),
    ):
        pass
    assert not any((tmp_path / name).exists() for name in (".lock", "controller/meta.properties"))


def test_a_broker_says_what_it_waits_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.impl.cluster.node_process.JOIN_TIMEOUT", 0.3)
    monkeypatch.setattr("tidegauge.impl.cluster.node_process.REPORT_INTERVAL", 0.1)
    told = refusal(capsys, "broker", "--id", 3, "--controller", "127.0.0.1:1", "--port", 0, "--data", tmp_path / "b")
    first, *_, last = told.splitlines()
    why = "127.0.0.1:1 cannot be reached: ECONNREFUSED (Connection refused)"
    assert first == f"tidegauge: broker 3 waits for the controller at 127.0.0.1:1, 0 s at most: {why}"
    assert f"no controller has let broker 3 in within 0 s: is 127.0.0.1:1 one? {why}" in last


def test_a_directory_in_use_and_one_of_another_broker_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with started("controller", "--port", 0, "--data", tmp_path / "controller") as (_, told):
        assert "is used by another controller (its .lock is locked)" in refusal(
            capsys, "controller", "--port", 0, "--data", tmp_path / "controller"
        )
        words = ("--controller", told["controller"], "--data", tmp_path / "broker", "--port", 0)
        with started("broker", "--id", 0, *words) as (broker, _):
            assert "is used by another broker" in refusal(capsys, "broker", "--id", 0, *words)
            broker.kill()
            broker.wait()
        assert "broker" in refusal(capsys, "broker", "--id", 1, *words)


def test_a_broker_of_another_cluster_refuses_and_touches_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("--id", 0, "--data", tmp_path / "broker", "--port", 0)
    with (
        started("controller", "--port", 0, "--data", tmp_path / "first") as (_, told),
        started("broker", *words, "--controller", told["controller"]) as (_, ready),
        producer(ready["bootstrap_servers"], allow_auto_create_topics=True) as client,
    ):
        assert produce(client, "orders", b"a") == 0
    before = {path: path.read_bytes() for path in (tmp_path / "broker").rglob("*") if path.is_file()}
    with started("controller", "--port", 0, "--data", tmp_path / "second") as (_, told):
        line = refusal(capsys, "broker", *words, "--controller", told["controller"])
    assert "belongs to cluster.id=" in line
    assert "nothing in it was changed" in line
    assert {path: path.read_bytes() for path in (tmp_path / "broker").rglob("*") if path.is_file()} == before


def test_strays_are_listed_and_deleted_by_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = [f"orders-{partition}.{partition:032x}-stray" for partition in range(2)]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(b"1234")
    (tmp_path / "orders-0").mkdir()
    assert "it is no stray" in refusal(capsys, "strays", "--data", tmp_path, "--delete", "orders-0")
    assert "that is no directory" in refusal(capsys, "strays", "--data", tmp_path / "none")
    assert command_line.run(["strays", "--data", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["strays"] == names
    assert command_line.run(["strays", "--data", str(tmp_path), "--delete", names[0]]) == 0
    told = capsys.readouterr().out
    assert f"deleted {names[0]}" in told
    assert f"{names[1]}  4 bytes" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders-0", names[1]]


def test_strays_are_looked_for_in_log_directories_of_brokers_only(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "no log directory of a broker; name one of log.dirs" in refusal(capsys, "strays", "--data", tmp_path)
    for name in ("controller", "broker-0", "broker-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").touch()
    (tmp_path / "controller" / "__cluster_metadata-0").mkdir()
    brokers = f"name one of {tmp_path / 'broker-0'}, {tmp_path / 'broker-1'}"
    assert refusal(capsys, "strays", "--data", tmp_path).endswith(brokers)
    assert "no log directory of a broker" in refusal(capsys, "strays", "--data", tmp_path / "controller")
    assert command_line.run(["strays", "--data", str(tmp_path / "broker-0")]) == 0
    assert f"no strays in {tmp_path / 'broker-0'}" in capsys.readouterr().out


def test_a_served_node_seldom_collects_all_garbage() -> None:
    program = """
import gc
from tidegauge.commands.serving import collect_rarely
collect_rarely()
print(gc.get_threshold()[2], gc.get_freeze_count() > 1000)
"""
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert printed.split() == ["1000", "True"]


def test_a_command_loads_no_more_than_it_needs() -> None:
    program = (
        "import sys\nfrom tidegauge.__main__ import app_for\napp_for(['serve'])\n"
        "print(sorted({'numpy', 'pyarrow', 'pyspark', 'hypothesis', 'pytest', 'spec'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_log_lines_go_to_standard_error_from_the_level_up() -> None:
    command = [sys.executable, "-m", "tidegauge", "serve", "--port", "0", "--until-eof", "--json"]
    shown = {
        level: subprocess.run([*command, "--log-level", level], input="", capture_output=True, text=True, check=True)
        for level in ("info", "warning")
    }
    assert "broker registered: node=controller broker=0" in shown["info"].stderr
    assert " INFO tidegauge.impl.server.controller.decision_lines: " in shown["info"].stderr
    assert "broker registered" not in shown["warning"].stderr


def test_a_log_level_that_there_is_not_is_refused() -> None:
    command = [sys.executable, "-m", "tidegauge", "serve", "--log-level", "loud"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "loud" in refused.stderr
    assert "warning" in refused.stderr
