"""A cluster of processes, whose brokers can be killed: `ProcessCluster`.

    with ProcessCluster(brokers=3) as cluster:
        cluster.create_topic("orders")
        …
        cluster.kill(cluster.leader("orders"))      # SIGKILL
        cluster.restart(0)

Each node is a process of `tidegauge controller` or `tidegauge broker`. It keeps its port and has its own directory; its
output is in a file beside that directory. Each watches its standard input, so all of them end when this process
does, in whatever way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.hosts import lock_directory, refuse_fewer, refuse_foreign
from tidegauge.impl.cluster.names import BROKER, CONTROLLER
from tidegauge.impl.cluster.node_process import address_of
from tidegauge.impl.cluster.options import defaults_of, refuse_voters
from tidegauge.impl.cluster.secret_files import SECRET_VARIABLE
from tidegauge.impl.cluster.temporary_directory import remove_directory
from tidegauge.impl.ports.clock import SystemClock
from tidegauge.impl.ports.network import Address, TcpNetwork
from tidegauge.impl.ports.randomness import SystemRandomness
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret
from tidegauge.impl.server.transport.security.inter_broker import InterBroker
from tidegauge.impl.server.transport.security.listeners import plan_listeners

PATIENCE_S: Final = 60.0


class ProcessEndedError(RuntimeError):
    """A node's process has ended by itself."""


@attrs.define
class NodeProcess:
    """One process of one node."""

    process: subprocess.Popen[str]
    log: Path
    paused: bool = False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ready(self) -> dict[str, Any]:
        """What it prints when it is ready. Raises ProcessEndedError with what it printed instead."""
        assert self.process.stdout is not None, "it was started with a pipe"
        line = self.process.stdout.readline()
        printed: dict[str, Any] = json.loads(line) if line else {}
        if "pid" not in printed:
            self.end(signal.SIGKILL)
            raise ProcessEndedError(
                f"{printed.get('error') or 'it ended before it was ready'} (its output: {self.log})"
            )
        return printed

    def end(self, how: signal.Signals) -> None:
        """Send it a signal that ends it, and wait until it has ended."""
        if self.alive:
            self.process.send_signal(how)
            if self.paused:
                self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


class ProcessCluster:
    """A controller and brokers, a process each. Use it as `with`."""

    def __init__(
        self, brokers: int = 3, config: Mapping[str, Any] | None = None, *, directory: str | Path | None = None
    ) -> None:
        """
        brokers: how many, with ids from 0.
        config: settings under Kafka's names, for all nodes.
        directory: where files are kept; without one in a temporary directory that goes at the end.

        Raises ValueError naming what is wrong, its value and the way out.
        """
        if type(brokers) is not int or brokers < 1:
            raise ValueError(f"brokers is {brokers!r}: ask for at least 1")
        given = {**defaults_of(brokers), **(config or {})}
        self._config = ServerConfig.from_properties(given)
        plan_listeners(self._config)
        refuse_voters(config or {})
        self.size = brokers
        self._settings = [f"--config={name}={_text(value)}" for name, value in given.items()]
        self._secret = ClusterSecret.generate(SystemRandomness())
        self._directory = directory
        self._root: Path
        self._nodes: dict[str, NodeProcess] = {}
        self._addresses: dict[str, Address] = {}
        self._for_brokers: dict[str, Address] = {}
        """Where brokers connect to each other, and the client of this object too."""

    # --- running ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> ProcessCluster:
        self._root = Path(self._directory or tempfile.mkdtemp(prefix="tidegauge-"))
        if self._directory is not None:
            refuse_foreign(self._root)
            refuse_fewer(self._root, self.size)
        self._lock = lock_directory(self._root)
        try:
            self._launch(CONTROLLER)
            self._await_ready(CONTROLLER)
            for name in self._names():
                self._launch(name)
            for name in self._names():
                self._await_ready(name)
        except BaseException:
            self._clear_away()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._clear_away()

    def _clear_away(self) -> None:
        """Brokers first, for they tell the controller that they stop. Nobody leaves in order what is deleted next."""
        how = signal.SIGKILL if self._directory is None else signal.SIGTERM
        for name in [*self._names(), CONTROLLER]:
            if name in self._nodes:
                self._nodes[name].end(how)
        self._lock.release()
        if self._directory is None:
            remove_directory(self._root)

    def _launch(self, name: str) -> None:
        address = self._addresses.get(name)
        words = [f"--data={self._root / name}", f"--port={0 if address is None else address.port}", *self._settings]
        if name == CONTROLLER:
            words = ["controller", *words]
        else:
            words = [
                "broker",
                f"--id={name.removeprefix(BROKER)}",
                f"--controller={self._addresses[CONTROLLER]}",
                *words,
            ]
        log = self._root / f"{name}.log"
        environment = {**os.environ, SECRET_VARIABLE: self._secret.text}
        with log.open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "tidegauge", *words, "--until-eof", "--json"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                text=True,
                start_new_session=True,  # Ctrl-C is for this process, which ends them in order
            )
        self._nodes[name] = NodeProcess(process, log)

    def _await_ready(self, name: str) -> None:
        printed = self._nodes[name].ready()
        self._addresses[name] = address_of(printed.get("controller") or printed["bootstrap_servers"], what=name)
        if name != CONTROLLER:
            self._for_brokers[name] = address_of(printed["for_brokers"], what=name)

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin: `host:port` of every broker, separated by commas."""
        return ",".join(str(self._addresses[name]) for name in self._names())

    def is_alive(self, broker_id: int) -> bool:
        """Whether the broker's process runs (it may be paused all the same)."""
        return self._node(broker_id).alive

    def pid(self, broker_id: int) -> int:
        """The broker's latest process id."""
        return self._node(broker_id).process.pid

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition, according to any broker; -1 for none. Raises ValueError."""
        return trio.run(self._leader, topic, partition)

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        """The in-sync replicas of a partition, according to any broker, sorted. Raises ValueError."""
        return trio.run(self._isr, topic, partition)

    # --- using -----------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        assignments: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic and wait until its partitions have leaders. Raises KafkaError.

        A new controller may not know yet of as many live brokers as there are: they are waited for.
        """
        factor = self.size if replication_factor is None else replication_factor
        configs = {key: _text(value) for key, value in (config or {}).items()}

        async def create() -> None:
            end = trio.current_time() + PATIENCE_S
            while True:
                too_late = trio.current_time() >= end or self._running() < factor
                if await created(or_raise=too_late):
                    break
                await trio.sleep(0.02)
            await self._until(lambda: self._has_leaders(name), f"a partition of {name} has no leader")

        async def created(*, or_raise: bool) -> bool:
            try:
                async with self._client() as client:
                    await client.create_topic(name, partitions, factor, configs=configs, assignments=assignments)
            except KafkaError as error:
                if or_raise or error.code is not ErrorCode.invalid_replication_factor:
                    raise
                return False
            return True

        trio.run(create)

    def wait_for_isr(self, topic: str, members: Collection[int], partition: int = 0) -> None:
        """Wait until the ISR is exactly `members`. Raises TimeoutError."""
        wanted = tuple(sorted(members))

        async def has_isr() -> bool:
            return await self._isr(topic, partition) == wanted

        trio.run(self._until, has_isr, f"the ISR of {topic}-{partition} is not {wanted}")

    def wait_for_leader(self, topic: str, partition: int = 0, *, other_than: int = -1) -> int:
        """Wait until a partition has a leader (another than one), and return it. Raises TimeoutError."""

        async def has_leader() -> bool:
            return await self._leader(topic, partition) not in (-1, other_than)

        trio.run(self._until, has_leader, f"{topic}-{partition} has no leader other than {other_than}")
        return self.leader(topic, partition)

    # --- faults ----------------------------------------------------------------------------------------------------

    def kill(self, broker_id: int) -> None:
        """SIGKILL: the broker is gone in the middle of whatever it did. Raises ValueError when it is down."""
        self._up(broker_id).end(signal.SIGKILL)

    def stop(self, broker_id: int) -> None:
        """SIGTERM: the broker stops cleanly. Raises ValueError when it is down."""
        self._up(broker_id).end(signal.SIGTERM)

    def restart(self, broker_id: int) -> None:
        """Start a broker again in its directory and on its port. Raises ValueError when it is up, ProcessEndedError."""
        if self._node(broker_id).alive:
            raise ValueError(f"broker {broker_id} is up: kill or stop it first")
        self._launch(f"{BROKER}{broker_id}")
        self._await_ready(f"{BROKER}{broker_id}")

    def pause(self, broker_id: int) -> None:
        """SIGSTOP: the broker's process stands still, and its connections stay."""
        node = self._up(broker_id)
        node.process.send_signal(signal.SIGSTOP)
        node.paused = True

    def resume(self, broker_id: int) -> None:
        """SIGCONT: a paused broker goes on."""
        node = self._up(broker_id)
        node.process.send_signal(signal.SIGCONT)
        node.paused = False

    def restart_controller(self) -> None:
        """SIGKILL to the controller, and a new one takes over from its log; returns when it has found all brokers."""
        self._nodes[CONTROLLER].end(signal.SIGKILL)
        self._launch(CONTROLLER)
        self._await_ready(CONTROLLER)
        trio.run(self._until, self._has_all_brokers, "the controller has not found every broker that runs")

    # --- within ----------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        return [f"{BROKER}{broker_id}" for broker_id in range(self.size)]

    def _node(self, broker_id: int) -> NodeProcess:
        node = self._nodes.get(f"{BROKER}{broker_id}") if type(broker_id) is int else None
        if node is None:
            raise ValueError(f"there is no broker {broker_id!r}: ids go from 0 to {self.size - 1}, inside the `with`")
        return node

    def _up(self, broker_id: int) -> NodeProcess:
        node = self._node(broker_id)
        if not node.alive:
            raise ValueError(f"broker {broker_id} is down: restart it first")
        return node

    def _is_responsive(self, name: str) -> bool:
        return self._nodes[name].alive and not self._nodes[name].paused

    def _running(self) -> int:
        """How many brokers run and are not paused."""
        return sum(map(self._is_responsive, self._names()))

    def _client(self) -> Client:
        """A client of the brokers that run, which comes to them as they do to each other. Raises ValueError."""
        bootstrap = [self._for_brokers[name] for name in self._names() if self._is_responsive(name)]
        if not bootstrap:
            raise ValueError("no broker runs: restart one first")
        name, randomness = "admin", SystemRandomness()
        ways = InterBroker(
            plan_listeners(self._config)[0],
            lambda: self._config,
            TcpNetwork(),
            randomness,
            secret_login=self._secret.login(name, randomness),
        )
        return Client(ways.network(), bootstrap, SystemClock(), client_id=name, login=ways.login())

    async def _partition(self, topic: str, partition: int) -> Any:
        async with self._client() as client:
            metadata = await client.metadata(topic)
        found = [p for t in metadata.topics for p in t.partitions if p.partition_index == partition]
        if not found:
            raise ValueError(f"there is no partition {topic}-{partition}")
        return found[0]

    async def _leader(self, topic: str, partition: int) -> int:
        return int((await self._partition(topic, partition)).leader_id)

    async def _isr(self, topic: str, partition: int) -> tuple[int, ...]:
        return tuple(sorted((await self._partition(topic, partition)).isr_nodes))

    async def _has_leaders(self, topic: str) -> bool:
        async with self._client() as client:
            metadata = await client.metadata(topic)
        partitions = [p for t in metadata.topics for p in t.partitions]
        return bool(partitions) and all(p.leader_id >= 0 for p in partitions)

    async def _has_all_brokers(self) -> bool:
        async with self._client() as client:
            metadata = await client.metadata()
        live = {broker.node_id for broker in metadata.brokers}
        return {b for b in range(self.size) if self._is_responsive(f"{BROKER}{b}")} <= live

    async def _until(self, holds: Callable[[], Awaitable[bool]], failure: str) -> None:
        """Return when the condition holds. Raises TimeoutError after `PATIENCE_S` seconds."""
        with trio.move_on_after(PATIENCE_S):
            while not await holds():  # noqa: ASYNC110 - it asks other processes
                await trio.sleep(0.02)
            return
        raise TimeoutError(f"{failure}, still after {PATIENCE_S:.0f} s")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
