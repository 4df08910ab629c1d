"""A cluster in a thread: how it starts, is used and ends, and what is left of it."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import wraps
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import pytest
import trio

from tidegauge import RunningCluster, deny, running_cluster
from tidegauge.impl.cluster.background_loop import BackgroundLoop, LoopEndedError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.hosts import UnsupportedFaultError
from tidegauge.model_tests.cluster.real_clients import produce, producer, read

QUICK = {"broker.session.timeout.ms": 1_500, "broker.heartbeat.interval.ms": 200, "replica.lag.time.max.ms": 1_000}


async def produced(cluster: Cluster, topic: str, value: bytes) -> int | None:
    async with cluster.client() as client:
        return await client.produce(topic, value)


def in_a_process_of_its_own(test: Callable[[], None]) -> Callable[[], None]:
    """Run a test where no cluster and no client of another one opens and closes connections meanwhile."""

    @wraps(test)
    def run() -> None:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            process.submit(_run_wrapped, test.__name__).result()

    return run


def _run_wrapped(name: str) -> None:
    globals()[name].__wrapped__()


@contextmanager
def nothing_left() -> Iterator[None]:
    """The block leaves no thread, no descriptor and no temporary directory behind."""

    def belongings() -> tuple[set[str], set[str], set[str]]:
        gc.collect()
        threads = {thread.name for thread in threading.enumerate() if thread.name.startswith("tidegauge")}
        descriptors = set()
        for name in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # the descriptor of the listing itself
                descriptors.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        return threads, descriptors, set(os.listdir(tempfile.gettempdir()))

    with tempfile.TemporaryDirectory() as own, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", own)
        before = belongings()
        yield
        left: list[set[str]] = []
        for _ in range(20):
            left = [now - had for now, had in zip(belongings(), before, strict=True)]
            if not any(left):
                return
            time.sleep(0.1)
        assert not any(left), left


def test_real_clients_produce_and_read_while_the_leader_crashes() -> None:
    with running_cluster(brokers=3, config=QUICK) as cluster, producer(cluster.bootstrap_servers) as client:
        cluster.create_topic("orders", config={"min.insync.replicas": 2})
        assert produce(client, "orders", b"first") == 0
        old = cluster.leader("orders")
        cluster.crash(old)
        assert cluster.wait_for_leader("orders", other_than=old) != old
        assert produce(client, "orders", b"second") == 1
        cluster.restart(old)
        cluster.wait_for_isr("orders", {0, 1, 2})
        assert read(cluster.bootstrap_servers, "orders", 2) == [b"first", b"second"]
        assert [fault.split("s  ")[1] for fault in cluster.faults] == [f"crash({old})", f"restart({old})"]
        assert any(event.name == "Crash" for event in cluster.trace)


@in_a_process_of_its_own
def test_nothing_is_left_of_it() -> None:
    with running_cluster():  # what is imported and made once
        pass
    with nothing_left():
        with running_cluster(brokers=3, config=QUICK) as cluster:
            cluster.create_topic("t")
            cluster.run(produced, "t", b"a")
            cluster.crash(1)
            cluster.pause(2)
        with pytest.raises(ZeroDivisionError), running_cluster() as cluster:  # noqa: PT012
            cluster.create_topic("t")
            cluster.hold_acks("t")
            1 / 0  # noqa: B018
        with pytest.raises(ValueError, match="needs a topic"), running_cluster() as cluster:
            cluster.run(lambda _: (_ for _ in ()).throw(ValueError("needs a topic")))


@in_a_process_of_its_own
def test_nothing_is_left_of_a_cluster_in_trio_whose_block_fails() -> None:
    async def main() -> None:
        async with Cluster(brokers=2, host="tcp", config=QUICK) as cluster:
            await cluster.create_topic("t")
            await cluster.crash(1)
            await cluster.restart_controller()
            raise KeyError("the block's own")

    trio.run(trio.sleep, 0)
    with nothing_left(), pytest.raises(KeyError, match="the block's own"):
        trio.run(main)


def test_files_are_kept_where_a_directory_is_named(tmp_path: Path) -> None:
    with running_cluster(directory=tmp_path) as cluster:
        cluster.create_topic("t")
        assert cluster.run(produced, "t", b"a") == 0
        with pytest.raises(ValueError, match="another cluster uses it"), running_cluster(directory=tmp_path):
            pass
    with running_cluster(directory=tmp_path) as cluster:
        cluster.wait_for_leader("t")
        assert cluster.run(produced, "t", b"b") == 1


def test_a_directory_with_something_else_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ValueError, match=r"it holds 'thesis.tex', which no cluster wrote; name an empty directory"):
        running_cluster(directory=tmp_path).start()
    with pytest.raises(ValueError, match="that is a file; name a directory"):
        running_cluster(directory=tmp_path / "thesis.tex").start()


def test_two_at_a_time_know_nothing_of_each_other() -> None:
    with running_cluster() as one, running_cluster() as other:
        one.create_topic("t")
        assert one.bootstrap_servers != other.bootstrap_servers
        with pytest.raises(ValueError, match="there is no partition t-0"):
            other.leader("t")


def test_many_threads_use_one_handle() -> None:
    with running_cluster() as cluster:
        cluster.create_topic("t")
        offsets: list[int] = []  # filled by several threads
        threads = [threading.Thread(target=lambda: offsets.append(cluster.run(produced, "t", b"x"))) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(offsets) == list(range(10))


def test_asyncio_may_enter_it_and_call_it() -> None:
    async def main() -> int:
        async with running_cluster() as cluster:
            cluster.create_topic("t")
            await asyncio.to_thread(cluster.wait_for_isr, "t", {0})
            return cluster.leader("t")

    assert asyncio.run(main()) == 0


def test_trio_may_enter_it_too() -> None:
    async def main() -> int:
        async with running_cluster() as cluster:
            cluster.create_topic("t")
            return cluster.leader("t")

    assert trio.run(main) == 0


def test_a_call_that_takes_too_long_is_given_up_and_the_cluster_lives_on() -> None:
    with running_cluster(patience_s=0.1) as cluster:
        cluster.create_topic("t")
        with pytest.raises(TimeoutError, match=r"not done within 0.1 s, the patience_s of this handle"):
            cluster.wait_for_isr("t", {0, 1})
        assert cluster.isr("t") == (0,)


def test_a_wait_that_is_given_up_says_what_it_waited_for_and_how_it_is() -> None:
    late = "not done within 0.1 s, the patience_s of this handle"
    with running_cluster(patience_s=0.1) as cluster:
        cluster.run(lambda c: c.create_topic("t", partitions=2))
        for wait, told in (
            (lambda: cluster.wait_for_isr("t", {0, 1}), "wait_for_isr('t', {0, 1})"),
            (lambda: cluster.wait_for_isr(topic="t", members={1}), "wait_for_isr(topic='t', members={1})"),
            (lambda: cluster.wait_for_leader("t", 1, other_than=0), "wait_for_leader('t', 1, other_than=0)"),
        ):
            with pytest.raises(TimeoutError) as caught:
                wait()
            assert str(caught.value) == f"{told}: {late}; the leader is 0, the ISR (0,)"


def test_a_description_says_who_is_paused_and_which_fault_was_refused() -> None:
    with running_cluster(brokers=3) as cluster:
        cluster.pause(0)
        cluster.crash(1)
        for refused in (cluster.crash, cluster.pause):
            with pytest.raises(ValueError, match="broker 1 is down"):
                refused(1)
        described = cluster.describe().splitlines()
        assert described[1:5] == ["broker 0: paused", "broker 1: down", "broker 2: up", "faults injected (4):"]
        assert [line.partition(" s  ")[2] for line in described[5:]] == [
            "pause(0)",
            "crash(1)",
            "crash(1), which raised ValueError: broker 1 is down already: restart it first",
            "pause(1), which raised ValueError: broker 1 is down: restart it first",
        ]
        cluster.resume(0)
        assert "broker 0: up" in cluster.describe()


def test_a_failure_of_the_cluster_is_raised_by_the_next_call_and_at_the_end() -> None:
    async def fail(cluster: Cluster) -> None:
        async def broken() -> None:
            raise ZeroDivisionError("a bug")

        cluster.broker(0).tasks.start_soon(broken)
        await trio.sleep_forever()

    cluster = running_cluster()
    with pytest.raises(LoopEndedError, match="ended by itself") as at_the_end:  # noqa: PT012, SIM117
        with cluster:
            with pytest.raises(LoopEndedError, match="ended by itself") as during:
                cluster.run(fail)
            with pytest.raises(LoopEndedError, match="ended by itself"):
                cluster.leader("t")
            assert "a bug" in repr(during.value.__cause__)
    assert "a bug" in repr(at_the_end.value.__cause__)


def test_the_failure_of_the_cluster_is_a_note_on_the_failure_of_the_block() -> None:
    async def broken() -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(KeyError) as caught, running_cluster() as cluster:  # noqa: PT012
        cluster.run(lambda c: c.broker(0).tasks.start_soon(broken))
        time.sleep(0.2)
        raise KeyError("first")
    assert any("ended by itself" in note for note in caught.value.__notes__)


@in_a_process_of_its_own
def test_a_cluster_that_cannot_start_says_so_and_leaves_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with nothing_left(), pytest.raises(OSError, match=f"{port}: something else listens there; choose another port"):
            running_cluster(port=port).start()


def test_before_and_after_its_block_it_says_that_it_does_not_run() -> None:
    cluster = running_cluster()
    with pytest.raises(RuntimeError, match="is not running: use it as `with"):
        _ = cluster.bootstrap_servers
    with pytest.raises(LoopEndedError, match="is not running"):
        cluster.create_topic("t")
    with cluster:
        pass
    with pytest.raises(LoopEndedError, match="is not running"):
        cluster.leader("t")
    with pytest.raises(LoopEndedError, match="runs once"):
        cluster.start()
    cluster.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brokers": 0}, "brokers is 0: ask for at least 1"),
        ({"brokers": "3"}, "brokers is '3': give a whole number"),
        ({"racks": "ab", "brokers": 2}, "racks is 'ab': give a list"),
        ({"security": "SSL"}, "security is 'SSL': give a Security"),
        ({"config": {"log.retention.m": 5}}, "'log.retention.m' is not a setting: did you mean"),
        ({"host": "docker"}, "host is 'docker': use 'simulated' or 'tcp'"),
        ({"patience_s": 0}, "patience_s is 0: give a number of seconds above 0"),
        ({"port": 70_000}, "port is 70000: give 0 for free ports, or one from 1 to 65535"),
        ({"listen": "0.0.0.0"}, "listen is '0.0.0.0': give advertised_host as well"),
    ],
)
def test_bad_arguments_name_the_value_and_the_way_out(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        running_cluster(**options)  # type: ignore[arg-type]


def test_brokers_that_are_no_list_of_ids_are_refused_in_words() -> None:
    with running_cluster(brokers=2) as cluster:
        with pytest.raises(ValueError, match=r"the brokers of partition 1 are 1: list their ids"):
            cluster.create_topic("t", assignments=[[0], 1])  # type: ignore[list-item]
        cluster.create_topic("t", assignments=[[0]])
        with pytest.raises(ValueError, match=r"the brokers of t-0 are 1: list their ids"):
            cluster.reassign("t", 1)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"the brokers of topic t are '01': list their ids"):
            cluster.create_partitions("t", 2, assignments=["01"])  # type: ignore[list-item]


def test_acls_are_refused_where_they_have_no_effect() -> None:
    with running_cluster() as cluster, pytest.raises(ValueError, match="ACLs have no effect here"):
        cluster.create_acls(deny("User:*", topic="t"))


def test_its_own_thread_is_told_to_use_the_cluster_itself() -> None:
    with running_cluster() as cluster, pytest.raises(RuntimeError, match="own thread: await its methods directly"):
        cluster.run(lambda _: cluster.leader("t"))


def test_a_fork_is_told_that_it_has_no_cluster() -> None:
    with running_cluster() as cluster:
        ends, begins = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
            child = os.fork()
        if child == 0:
            try:
                cluster.leader("t")
            except BaseException as error:
                os.write(begins, str(error).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert b"of which this one is a fork" in os.read(ends, 1000)
        os.close(ends)
        os.close(begins)
        cluster.create_topic("t")
        assert cluster.leader("t") == 0


@in_a_process_of_its_own
def test_a_handle_that_is_lost_ends_its_cluster() -> None:
    def lose() -> None:
        running_cluster().start().create_topic("t")

    with nothing_left(), pytest.warns(ResourceWarning, match="was not stopped"):  # noqa: PT031
        lose()
        gc.collect()


INTERRUPTIBLE = "signal.signal(signal.SIGINT, signal.default_int_handler)"
"""A job in the background inherits that SIGINT is ignored."""


@pytest.mark.parametrize("ending", ["", "raise KeyboardInterrupt", "signal.raise_signal(signal.SIGINT)"])
def test_a_program_that_forgets_to_stop_it_ends_and_leaves_no_files(ending: str, tmp_path: Path) -> None:
    program = (
        "import signal, tidegauge\n"
        f"{INTERRUPTIBLE}\n"
        f"cluster = tidegauge.running_cluster().start()\nprint('up')\n{ending}\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout == "up\n"
    assert ("KeyboardInterrupt" in ended.stderr) == bool(ending)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_call_is_cancelled_and_the_cluster_ends_cleanly(tmp_path: Path) -> None:
    program = (
        "import signal, threading, tidegauge, trio\n"
        f"{INTERRUPTIBLE}\n"
        "ended = threading.Event()\n"
        "async def wait(cluster):\n"
        "    try:\n"
        "        await trio.sleep_forever()\n"
        "    finally:\n"
        "        ended.set()\n"
        "with tidegauge.running_cluster() as cluster:\n"
        "    main = threading.main_thread().ident\n"
        "    threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()\n"
        "    try:\n"
        "        cluster.run(wait)\n"
        "    finally:\n"
        "        print(ended.wait(20))\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout == "True\n"
    assert ended.stderr.rstrip().endswith("KeyboardInterrupt")
    assert list(tmp_path.iterdir()) == []


def test_simulated_time_stands_still_between_calls_and_passes_at_will() -> None:
    with running_cluster(brokers=3, host="simulated", seed=5) as cluster:
        cluster.create_topic("t")
        now = cluster.run(lambda _: trio.current_time())
        time.sleep(0.05)
        assert cluster.run(lambda _: trio.current_time()) == now
        cluster.advance(60)
        assert cluster.run(lambda _: trio.current_time()) >= now + 60
        cluster.pause(2)
        cluster.advance(60)
        assert cluster.isr("t") == (0, 1)


def test_real_time_cannot_be_advanced() -> None:
    with running_cluster() as cluster, pytest.raises(RuntimeError, match="only host='simulated'"):
        cluster.advance(1)


def test_what_tcp_cannot_do_is_refused() -> None:
    with running_cluster() as cluster:
        with pytest.raises(UnsupportedFaultError, match="comes twice needs the simulated host"):
            cluster.duplicate(0.5)
        with pytest.raises(UnsupportedFaultError, match="crash without `lose_unsynced`"):
            cluster.crash(0, lose_unsynced=True)
        assert cluster.is_alive(0)


def test_the_description_says_how_it_was_made_and_what_was_done() -> None:
    with running_cluster(brokers=2, seed=9, config=QUICK) as cluster:
        cluster.create_topic("t")
        cluster.crash(1)
        cluster.fail_produces("NOT_LEADER_OR_FOLLOWER", topic="t")
        text = cluster.describe(decisions=5)
    for part in ("seed=9", "'broker.session.timeout.ms': 1500", "broker 1: down", "crash(1)", "PRODUCE t", "decisions"):
        assert part in text


@pytest.mark.parametrize("host", ["tcp", "simulated"])
def test_the_description_has_one_time_for_what_was_done_and_what_was_decided(host: Literal["tcp", "simulated"]) -> None:
    with running_cluster(brokers=2, host=host, config=QUICK) as cluster:
        cluster.create_topic("t")
        cluster.crash(1)
        text = cluster.describe(decisions=1_000)
    times = {name: float(time) for time, name in re.findall(r"^ +(-?[\d.]+) s +(?:\d+ )?(\w+)", text, re.MULTILINE)}
    rounded = 0.002
    assert 0 <= times["CreateTopic"] <= times["crash"] + rounded
    assert times["crash"] <= times["Crash"] + rounded


def test_every_fault_and_wait_of_a_cluster_is_at_hand() -> None:
    own = {"client", "broker", "replica", "run", "inject"}
    methods = {
        name
        for name in dir(Cluster)
        if not name.startswith("_") and callable(getattr(Cluster, name)) and name not in own
    }
    assert methods - set(dir(RunningCluster)) == set()


def test_the_loop_itself_knows_no_cluster() -> None:
    loop: BackgroundLoop[int] = BackgroundLoop("a nursery", trio.open_nursery)  # type: ignore[arg-type]
    loop.start()
    assert loop.call(lambda: 5, timeout_s=1) == 5
    loop.stop()


def test_a_slow_disk_does_not_keep_a_cluster_from_ending() -> None:
    with running_cluster() as cluster:
        cluster.create_topic("t")
        cluster.slow_disk(0, 8)
    assert not cluster.is_running


def test_an_option_that_there_is_not_is_refused_with_those_that_are_called_nearly_so() -> None:
    with pytest.raises(TypeError, match=r"no option 'broker': did you mean brokers"):
        running_cluster(broker=3)


def test_a_directory_that_cannot_be_made_is_refused_with_the_reason_and_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ValueError, match=r"directory is '.*file/data': .*Not a directory.*name a directory that you may"
    ):
        running_cluster(directory=tmp_path / "file" / "data").start()
