"""The nodes that a process of its own runs, here in one process: they find each other, and say what they wait for."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from tidegauge.impl.cluster import node_process
from tidegauge.impl.cluster.names import LOOPBACK
from tidegauge.impl.cluster.node_process import NodeOptions, address_of, run_broker, run_controller, voters_of
from tidegauge.impl.cluster.secret_files import SECRET_FILE, NoSecretYetError, kept_secret
from tidegauge.impl.ports.network import Address
from tidegauge.impl.storage.identity import ForeignLogDirectoryError
from tidegauge.impl.storage.log_directories import LogDirectoryLockedError

QUICK = {"broker.heartbeat.interval.ms": 100}
PATIENCE = 60


def free_port() -> int:
    with socket.create_server((LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])


@attrs.define
class Started:
    """A node, until it is stopped."""

    up: trio.Event = attrs.field(factory=trio.Event)
    asked: trio.Event = attrs.field(factory=trio.Event)
    ended: trio.Event = attrs.field(factory=trio.Event)

    async def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self.asked.set()
        await self.ended.wait()


@attrs.define
class Nodes:
    """Nodes in a folder, in one nursery."""

    folder: Path
    nursery: trio.Nursery
    port: int = attrs.field(factory=free_port)
    """The controller's."""
    waits: list[str] = attrs.field(factory=list)
    """What brokers have said that they wait for."""

    def controller(self, name: str = "c") -> Started:
        """A controller that starts."""
        node = Started()
        options = NodeOptions(self.folder / name, Address(LOOPBACK, self.port), QUICK)
        return self._start(node, partial(run_controller, options, lambda _: node.up.set(), node.asked.wait))

    def broker(self, *others: int, secret_of: str = "c") -> Started:
        """Broker 0 that starts, and looks for its controller at other ports first."""
        node = Started()
        options = NodeOptions(
            self.folder / "b0", Address(LOOPBACK, 0), QUICK, secret_file=self.folder / secret_of / SECRET_FILE
        )
        voters = [Address(LOOPBACK, port) for port in (*others, self.port)]
        ready = lambda *_: node.up.set()  # noqa: E731 - both of its addresses are of no interest
        return self._start(node, partial(run_broker, 0, voters, options, ready, self.waits.append, node.asked.wait))

    def _start(self, node: Started, run: Callable[[], Awaitable[None]]) -> Started:
        async def run_to_its_end() -> None:
            try:
                await run()
            finally:
                node.ended.set()

        self.nursery.start_soon(run_to_its_end)
        return node


def in_nursery(test: Callable[[Nodes], Awaitable[None]]) -> Callable[[Path], None]:
    """A test of nodes as a test of its folder."""

    async def main(folder: Path) -> None:
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                await test(Nodes(folder, nursery))

    def run(tmp_path: Path) -> None:
        trio.run(main, tmp_path)

    run.__name__ = run.__qualname__ = test.__name__
    return run


def only_error(raised: pytest.ExceptionInfo[BaseException]) -> BaseException:
    """The error within groups of one."""
    error = raised.value
    while isinstance(error, BaseExceptionGroup):
        (error,) = error.exceptions
    return error


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@in_nursery
async def test_a_broker_that_is_started_before_its_controller_joins_it(nodes: Nodes) -> None:
    broker = nodes.broker()
    await trio.sleep(0.05)
    controller = nodes.controller()
    await broker.up.wait()
    await broker.stop()
    await controller.stop()


@in_nursery
async def test_a_broker_looks_for_its_controller_from_one_address_to_the_next_and_comes_back_as_itself(
    nodes: Nodes,
) -> None:
    controller = nodes.controller()
    for _ in range(2):
        broker = nodes.broker(free_port())
        await broker.up.wait()
        await broker.stop()
    await controller.stop()


def test_a_broker_of_another_cluster_is_refused_and_its_files_are_as_they_were(tmp_path: Path) -> None:
    before = dict[Path, bytes]()

    async def meet_another_controller(nodes: Nodes) -> None:
        first, broker = nodes.controller(), nodes.broker()
        await broker.up.wait()
        await broker.stop()
        await first.stop()
        before.update(files_of(tmp_path / "b0"))
        await nodes.controller("other").up.wait()
        nodes.broker(secret_of="other")

    with pytest.raises(BaseExceptionGroup) as raised:
        in_nursery(meet_another_controller)(tmp_path)
    assert isinstance(only_error(raised), ForeignLogDirectoryError)
    assert files_of(tmp_path / "b0") == before


def test_a_second_process_in_a_directory_ends_with_words(tmp_path: Path) -> None:
    async def start_twice(nodes: Nodes) -> None:
        nodes.controller()
        await nodes.broker().up.wait()
        nodes.broker()

    with pytest.raises(BaseExceptionGroup) as raised:
        in_nursery(start_twice)(tmp_path)
    assert isinstance(only_error(raised), LogDirectoryLockedError)


def test_a_broker_says_what_it_waits_for_and_gives_up_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_process, "JOIN_TIMEOUT", 0.3)
    monkeypatch.setattr(node_process, "REPORT_INTERVAL", 0.1)
    port, waits = free_port(), list[str]()
    options = NodeOptions(tmp_path / "b0", Address(LOOPBACK, 0), secret_file=tmp_path / SECRET_FILE)

    def give_up() -> BaseException:
        voters = [Address(LOOPBACK, port)]
        with pytest.raises(BaseExceptionGroup) as raised:
            trio.run(run_broker, 0, voters, options, lambda *_: None, waits.append, trio.sleep_forever)
        return only_error(raised)

    assert isinstance(give_up(), NoSecretYetError)
    assert all(
        line.startswith(f"broker 0 waits for the cluster's secret in {tmp_path / SECRET_FILE}") for line in waits
    )
    waits.clear()
    kept_secret(tmp_path)
    error = give_up()
    assert isinstance(error, TimeoutError)
    assert f"is {LOOPBACK}:{port} one?" in str(error)
    assert all(line.startswith(f"broker 0 waits for the controller at {LOOPBACK}:{port}") for line in waits)
    assert len(waits) > 1
    assert not (tmp_path / "b0").exists()


@in_nursery
async def test_a_broker_that_is_to_end_before_it_has_joined_ends(nodes: Nodes) -> None:
    broker = nodes.broker()
    await broker.stop()
    assert not broker.up.is_set()


@pytest.mark.parametrize(
    ("given", "settings", "says"),
    [
        ([], {}, "no controller: give --controller HOST:PORT"),
        (["nowhere"], {}, "--controller nowhere: write host:port"),
        (["localhost:0"], {}, "--controller localhost:0: write host:port"),
        (["localhost:9093"], {"controller.quorum.voters": "3000@localhost:9093"}, "leave one of them out"),
    ],
)
def test_controllers_that_cannot_be_are_refused_with_the_way_out(
    given: list[str], settings: dict[str, str], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        voters_of(given, settings)


def test_controllers_are_named_by_option_or_by_setting() -> None:
    one, other = Address("localhost", 9093), Address("::1", 9094)
    assert voters_of(["localhost:9093"], {}) == (one,)
    assert voters_of(["3000@localhost:9093", "3001@[::1]:9094"], {}) == (one, other)
    assert voters_of([], {"controller.quorum.voters": "3000@localhost:9093"}) == (one,)
    assert address_of("[::1]:9094", what="--controller") == other


def test_a_place_with_files_of_others_is_no_nodes_directory(tmp_path: Path) -> None:
    (tmp_path / "diary").write_text("dear diary")
    for directory, says in ((tmp_path, "holds 'diary', which no node wrote"), (tmp_path / "diary", "is a file")):
        options = NodeOptions(directory, Address(LOOPBACK, 0))
        with pytest.raises(ValueError, match=says):
            trio.run(run_controller, options, lambda _: None, trio.sleep_forever)
    assert [path.name for path in tmp_path.iterdir()] == ["diary"]


def test_a_broker_without_a_secret_says_where_to_get_one(tmp_path: Path) -> None:
    options = NodeOptions(tmp_path / "b0", Address(LOOPBACK, 0))
    with pytest.raises(ValueError, match=f"no cluster secret: name its file by --secret-file .*{SECRET_FILE}"):
        trio.run(run_broker, 0, [], options, lambda *_: None, lambda _: None, trio.sleep_forever)
