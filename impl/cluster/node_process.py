"""One node of a cluster as a process: a broker or the controller, on the real host.

Such a process can be killed at any moment and started again in the same directory. The directory is laid out as that
node's directory in a cluster in one process (`impl.cluster.hosts.TcpHost`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs
import trio

from tidegauge.impl.cluster.names import CONTROLLER, LOOPBACK, broker_name
from tidegauge.impl.cluster.node_task import NodeEndedError, NodeTask
from tidegauge.impl.cluster.options import DEFAULTS
from tidegauge.impl.cluster.secret_files import (
    SECRET_FILE,
    SECRET_VARIABLE,
    NoSecretYetError,
    kept_secret,
    read_secret,
)
from tidegauge.impl.controller.config import DEFAULT_CONTROLLER_ID
from tidegauge.impl.ports.clock import SystemClock
from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.ports.log_lines import NODE
from tidegauge.impl.ports.network import Address, TcpNetwork
from tidegauge.impl.ports.randomness import SystemRandomness
from tidegauge.impl.server.broker.cluster_identity import learn_cluster_id
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.controller.metadata_log import METADATA_DIRECTORY
from tidegauge.impl.server.controller.node import ControllerNode
from tidegauge.impl.server.node import Node
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.settings.voters import SETTING, check_membership, parse_voters
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret
from tidegauge.impl.storage.checkpoints import META_PROPERTIES

T = TypeVar("T")

LEAVE_TIMEOUT: Final = 60.0
"""Seconds that a broker tries to hand over what it leads."""
JOIN_TIMEOUT: Final = 60.0
"""Seconds that a broker tries to reach its controller."""
REPORT_INTERVAL: Final = 5.0
"""Seconds between two reports of what a broker waits for."""
LOOK_INTERVAL: Final = 0.1
"""Seconds between two looks for a file that another process is to write."""


@attrs.frozen
class NodeOptions:
    """The options of a node's process."""

    directory: Path
    listen: Address
    config: Mapping[str, Any] = attrs.field(factory=dict)
    advertised_host: str | None = None
    rack: str | None = None
    secret: ClusterSecret | None = None
    """The cluster's. Without one a controller keeps its own in its directory, and a broker reads `secret_file`."""
    secret_file: Path | None = None
    """Where a broker finds the secret, once the controller has written it."""

    def node(self, node_id: int, secret: ClusterSecret, cluster_id: str | None = None) -> Node:
        """The node of this process; a broker's has the id of its controller's cluster."""
        clock = SystemClock()
        return Node(
            id=node_id,
            network=TcpNetwork(),
            disk=RealDisk(),
            clock=clock,
            tracer=Tracer(None, node_id, clock),
            directory=str(self.directory),
            listen=self.listen,
            cluster_id=cluster_id,
            secret=secret,
            config=ServerConfig.from_properties({**DEFAULTS, **self.config}),
            rack=self.rack,
            advertised_host=self.advertised_host,
        )


Ready = Callable[[Address], None]
BrokerReady = Callable[[Address, Address], None]
"""Is told where clients connect, and where other brokers do."""
Waiting = Callable[[str], None]
Ending = Callable[[], Awaitable[object]]


async def run_controller(options: NodeOptions, on_ready: Ready, until: Ending, *, seed: int = 0) -> None:
    """Run the controller until `until` returns.

    Raises ValueError for a directory that is not its own, LogDirectoryLockedError, ForeignLogDirectoryError,
    DamagedIdentityError, DamagedMetadataLogError, OSError, and NodeEndedError when it stops by itself.
    """
    NODE.set(CONTROLLER)
    voters = ServerConfig.from_properties(options.config).controller_quorum_voters
    check_membership(voters, DEFAULT_CONTROLLER_ID, is_alone=True)
    refuse_other_files(options.directory)
    options.directory.mkdir(parents=True, exist_ok=True)
    secret = options.secret or kept_secret(options.directory)
    server = ControllerNode(options.node(DEFAULT_CONTROLLER_ID, secret), seed=seed)
    await _run(server, until, lambda: _call(on_ready, server.address))


async def run_broker(
    broker_id: int,
    voters: Sequence[Address],
    options: NodeOptions,
    on_ready: BrokerReady,
    on_waiting: Waiting,
    until: Ending,
) -> None:
    """Run a broker until `until` returns, when it leaves in good order; it is ready once it is part of the cluster.

    It waits for the file of the cluster's secret as it waits for the controller, so that all may be started at once.

    voters: the addresses of the controllers.
    on_waiting: is called every few seconds with what it waits for until then.

    Raises ValueError for a directory that is not its own, ForeignLogDirectoryError for one of another cluster or
    broker, OSError, NodeEndedError when it stops by itself, and TimeoutError when the controller cannot be reached.
    """
    NODE.set(broker_name(broker_id))
    if options.secret is None and options.secret_file is None:
        raise ValueError(
            f"no cluster secret: name its file by --secret-file (a controller that is given none writes {SECRET_FILE} "
            f"in its directory), or set {SECRET_VARIABLE}"
        )
    refuse_other_files(options.directory)
    ends = trio.current_time() + JOIN_TIMEOUT
    joining = _Joining(broker_id, voters, on_waiting, ends)
    learned = await _learn(joining, options, until)
    if learned is None:
        return  # it is to end before it has begun
    server = Broker(options.node(broker_id, *learned), voters)

    async def join() -> None:
        await joining.wait_for(server.readiness.until_ready, server.readiness.waits_for)
        on_ready(server.advertised, server.listeners.address)

    await _run(server, until, join)


@attrs.frozen
class _Joining:
    """A broker's way into its cluster."""

    broker_id: int
    voters: Sequence[Address]
    on_waiting: Waiting
    ends: float
    """In trio's time."""

    async def wait_for(self, wait: Callable[[], Awaitable[T]], lacking: Callable[[], str]) -> T:
        """Wait for something of the controller, with a report of what is lacking now and then. Raises TimeoutError."""
        controllers = " or ".join(map(str, self.voters))
        async for more in self._reports():
            with trio.move_on_after(more):
                return await wait()
            self._report(f"the controller at {controllers}", lacking() or "it has not responded yet")
        raise TimeoutError(
            f"no controller has let broker {self.broker_id} in within {JOIN_TIMEOUT:.0f} s: is {controllers} one? "
            f"{lacking() or 'It has not responded'}"
        )

    async def wait_for_secret(self, file: Path) -> ClusterSecret:
        """The cluster's secret, when its file is there. Raises ValueError as `read_secret` does."""
        refused: NoSecretYetError | None = None
        async for more in self._reports():
            ends = trio.current_time() + more
            while trio.current_time() < ends:
                try:
                    return read_secret(file)
                except NoSecretYetError as error:
                    refused = error
                await trio.sleep(min(LOOK_INTERVAL, more))
            self._report(f"the cluster's secret in {file}", str(refused))
        raise refused or NoSecretYetError(f"the cluster's secret is not in {file}")

    async def _reports(self) -> AsyncIterator[float]:
        """For how long to wait until the next report is due, as long as there is time."""
        while (left := self.ends - trio.current_time()) > 0:
            yield min(REPORT_INTERVAL, left)

    def _report(self, what: str, lacking: str) -> None:
        more = max(0.0, self.ends - trio.current_time())
        self.on_waiting(f"broker {self.broker_id} waits for {what}, {more:.0f} s at most: {lacking}")


async def _learn(joining: _Joining, options: NodeOptions, until: Ending) -> tuple[ClusterSecret, str] | None:
    """The cluster's secret, and the id of the controller's cluster; None when the process is to end."""
    found: tuple[ClusterSecret, str] | None = None
    name, failures = broker_name(joining.broker_id), deque[str](maxlen=1)
    async with trio.open_nursery() as nursery:

        async def learn() -> None:
            nonlocal found
            secret = options.secret
            if secret is None:
                assert options.secret_file is not None, "a broker without both does not start"
                secret = await joining.wait_for_secret(options.secret_file)
            login = secret.login(name, SystemRandomness())
            ask = partial(learn_cluster_id, TcpNetwork(), joining.voters, name, login, failures.append)
            found = secret, await joining.wait_for(ask, lambda: failures[-1] if failures else "")
            nursery.cancel_scope.cancel()

        nursery.start_soon(learn)
        await until()
        nursery.cancel_scope.cancel()
    return found


async def _call(on_ready: Ready, address: Address) -> None:
    on_ready(address)


async def _run(server: Broker | ControllerNode, until: Ending, when_up: Ending) -> None:
    task = NodeTask(server, NODE.get())
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(task.run)
            nursery.start_soon(_watch, task)
            nursery.start_soon(when_up)
            await until()
            if isinstance(server, Broker):
                with trio.move_on_after(LEAVE_TIMEOUT):
                    await server.membership.leave()
            task.stop()
            nursery.cancel_scope.cancel()
    finally:
        task.abandon()


async def _watch(task: NodeTask) -> None:
    """Raise when the node ends by itself."""
    await task.wait_until_ended()
    reason = getattr(task.server, "halted", None)
    raise NodeEndedError(f"the node has stopped by itself: {reason or 'for an unknown reason'}")


def refuse_other_files(directory: Path) -> None:
    """Raise ValueError for a place that is no directory, or has something in it that no node of ours wrote."""
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory} is a file: name a directory")
    names = sorted(path.name for path in directory.iterdir()) if directory.exists() else []
    if names and not {META_PROPERTIES, METADATA_DIRECTORY, SECRET_FILE, ".lock"} & set(names):
        raise ValueError(f"{directory} holds {names[0]!r}, which no node wrote: name an empty or a new directory")


def voters_of(given: Sequence[str], settings: Mapping[str, Any]) -> tuple[Address, ...]:
    """The controllers' addresses: --controller HOST:PORT alone, or ID@HOST:PORT for each, or the setting for all.

    Raises ValueError saying what is wrong with them, and when there is none, or they are given twice.
    """
    configured = ServerConfig.from_properties(settings).controller_quorum_voters
    if configured and given:
        raise ValueError(f"--controller and --config {SETTING} both name the controllers: leave one of them out")
    if not configured and not given:
        raise ValueError(
            f"no controller: give --controller HOST:PORT, --controller ID@HOST:PORT for each, or --config {SETTING}="
        )
    if len(given) == 1 and "@" not in given[0]:
        return (address_of(given[0], what="--controller"),)
    voters = parse_voters(configured) if configured else parse_voters(given, what="--controller")
    return tuple(voter.address for voter in voters)


def address_of(text: str, *, what: str) -> Address:
    """An address from `host:port`. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{what} {text}: write host:port, as in {LOOPBACK}:9093")
    return Address(host.strip("[]"), int(port))
