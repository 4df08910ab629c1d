"""A running cluster for threads, asyncio and plain tests: `running_cluster`.

    with running_cluster(brokers=3) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
        …
        cluster.crash(cluster.leader("orders"))

A `Cluster` runs in the trio loop of its own thread. The handle has the methods of `Cluster`; each returns when it is
done. Any thread may call them, and asyncio too, whose loop stands still meanwhile: call those that take long by
`asyncio.to_thread(cluster.wait_for_isr, …)`.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast

import trio

from tidegauge.impl.cluster.background_loop import BackgroundLoop
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.description import describe
from tidegauge.impl.faults.fault_log import as_written
from tidegauge.impl.server.trace.tracer import TraceEvent

if TYPE_CHECKING:
    from tidegauge.impl.faults.injections import Hold, Injection

P = ParamSpec("P")
R = TypeVar("R")
I = TypeVar("I", bound="Injection")  # noqa: E741 - an injection

PATIENCE_S = 30.0

IMPATIENT = {
    "broker.session.timeout.ms": 2_000,
    "broker.heartbeat.interval.ms": 200,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
}
"""Settings that differ from Kafka's unless they are given: a crashed leader is replaced in 2 s, not in 9, the first
member of a group does not wait 3 s for others, and who joins a group of KIP-848 next does not wait for its share until
the first heartbeat after a second."""


def waiting(method: Callable[Concatenate[Cluster, P], Awaitable[R]]) -> Callable[Concatenate[RunningCluster, P], R]:
    """Make a method that runs an async method of the cluster and waits for it.

    A TimeoutError names the call, and says how it is with the partition of a method that waits for one.
    """

    @functools.wraps(method)
    def call(self: RunningCluster, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return cast("R", self.run(method, *args, **kwargs))
        except TimeoutError as error:
            state = self._state_of(args, kwargs) if method.__name__.startswith("wait_for_") else ""
            raise TimeoutError(f"{as_written(method.__name__, args, kwargs)}: {error}{state}") from error

    return call  # type: ignore[return-value]


def calling(method: Callable[Concatenate[Cluster, P], R]) -> Callable[Concatenate[RunningCluster, P], R]:
    """Make a method that calls a method of the cluster in the cluster's thread."""

    @functools.wraps(method)
    def call(self: RunningCluster, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast("R", self.run(method, *args, **kwargs))

    return call  # type: ignore[return-value]


def injecting(
    method: Callable[Concatenate[Cluster, P], I],
) -> Callable[Concatenate[RunningCluster, P], RunningInjection[I]]:
    """Make a method that injects a fault and returns a handle of the injection for this thread."""

    @functools.wraps(method)
    def call(self: RunningCluster, *args: P.args, **kwargs: P.kwargs) -> RunningInjection[I]:
        return RunningInjection(self, self.run(method, *args, **kwargs))

    return call  # type: ignore[return-value]


class RunningInjection(Generic[I]):
    """An injection into a running cluster. As `with` it ends with the block."""

    def __init__(self, cluster: RunningCluster, injection: I) -> None:
        self._cluster = cluster
        self._injection = injection

    @property
    def hits(self) -> int:
        """How many requests it has applied to."""
        return self._injection.hits

    @property
    def waiting(self) -> int:
        """How many requests a hold holds now; 0 for another injection."""
        return 0 if (hold := self._if_hold()) is None else hold.waiting

    def wait_for(self, count: int = 1) -> None:
        """Return when a hold holds so many requests. Raises TimeoutError."""
        self._cluster.call(self._hold().wait_for, count)

    def release(self, count: int | None = None) -> None:
        """Release the `count` requests that a hold has held longest; without a number release all and end it."""
        self._cluster.call(self._hold().release, count)

    def cancel(self) -> None:
        """Apply to no further request; what is held is released."""
        self._cluster.call(self._injection.cancel)

    def _hold(self) -> Hold:
        if (hold := self._if_hold()) is None:
            raise TypeError("this injection holds nothing: only hold_requests and hold_acks do")
        return hold

    def _if_hold(self) -> Hold | None:
        from tidegauge.impl.faults.injections import Hold

        return self._injection if isinstance(self._injection, Hold) else None

    def __enter__(self) -> RunningInjection[I]:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def __repr__(self) -> str:
        return repr(self._injection)


class RunningCluster:
    """A cluster in its own thread. Use it as `with`, or as `async with` in asyncio."""

    def __init__(
        self,
        brokers: int = 1,
        config: Mapping[str, Any] | None = None,
        *,
        host: Literal["tcp", "simulated"] = "tcp",
        seed: int = 0,
        patience_s: float = PATIENCE_S,
        trace: bool = True,
        **options: Any,
    ) -> None:
        """
        brokers, config, host, seed, trace, and all other options: as `Cluster` has them, but that a broker's session
            ends after 2 s and a new group waits for nobody (`IMPATIENT`) unless `config` says otherwise.
        patience_s: after so many seconds a call that waits raises TimeoutError.

        Raises ValueError naming what is wrong, its value and the way out.
        """
        if not isinstance(patience_s, int | float) or patience_s <= 0:
            raise ValueError(f"patience_s is {patience_s!r}: give a number of seconds above 0")
        if config is not None and not isinstance(config, Mapping):
            raise ValueError(f"config is {config!r}: give a mapping of Kafka's names to values")
        _refuse_unknown(options)
        self._cluster = cluster = Cluster(
            brokers, seed, {**IMPATIENT, **(config or {})}, host=host, trace=trace, **options
        )
        self.seed = seed
        self.config = dict(config or {})
        self.size = brokers
        self.patience_s = patience_s
        self._host = host
        self._loop = BackgroundLoop("a running cluster", lambda: cluster, _stopped_clock(host))
        self._finalizer: weakref.finalize[..., RunningCluster] | None = None
        self._bootstrap_servers = ""

    # --- running ---------------------------------------------------------------------------------------------------

    def __enter__(self) -> RunningCluster:
        return self.start()

    def start(self) -> RunningCluster:
        """Start it where no `with` can stand; `stop` ends it."""
        loop, cluster = self._loop, self._cluster
        loop.start()
        self._finalizer = weakref.finalize(self, _end_leaked, loop)
        self._bootstrap_servers = loop.call(lambda: cluster.bootstrap_servers, self.patience_s)
        return self

    def stop(self) -> None:
        """End it: afterwards no thread, socket or temporary file is left. Raises when the cluster failed by itself."""
        if self._finalizer is not None:
            self._finalizer.detach()
        self._loop.stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except RuntimeError as failure:
            if error is None:
                raise
            error.add_note(str(failure))

    async def __aenter__(self) -> RunningCluster:
        return await _in_thread(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await _in_thread(lambda: self.__exit__(kind, error, traceback))

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run `function(cluster, …)`, async or not, in the cluster's thread, with the `Cluster` itself.

        For everything that the handle does not have: `cluster.run(lambda c: c.replica(0, "t").high_watermark)`.
        """
        return self.call(function, self._cluster, *args, **kwargs)

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run `function(…)`, async or not, in the cluster's thread. Raises what it raises, and TimeoutError."""
        return self._loop.call(functools.partial(function, *args, **kwargs), timeout_s=self.patience_s)

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """Where clients begin: `host:port` of every broker, separated by commas."""
        if not self._bootstrap_servers:
            raise RuntimeError("the cluster is not running: use it as `with running_cluster(...) as cluster:`")
        return self._bootstrap_servers

    @property
    def trace(self) -> Sequence[TraceEvent]:
        """What every node has decided so far."""
        return tuple(self._cluster.trace)

    @property
    def faults(self) -> Sequence[str]:
        """The faults that were injected so far: time and call."""
        return tuple(str(entry) for entry in self._cluster.fault_log.entries)

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._loop.is_running

    def describe(self, decisions: int = 0) -> str:
        """A description: how it was made, the faults injected, and the latest decisions of its nodes."""
        return "\n".join(describe(self._cluster, decisions))

    def _state_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The leader and the ISR of a partition, for who has waited for another; empty when it is gone."""
        topic = kwargs["topic"] if "topic" in kwargs else args[0]
        number = kwargs.get("partition", next((each for each in args if isinstance(each, int)), 0))
        try:
            return f"; the leader is {self.leader(topic, number)}, the ISR {self.isr(topic, number)}"
        except ValueError:
            return ""

    bootstrap_servers_of = calling(Cluster.bootstrap_servers_of)
    is_alive = calling(Cluster.is_alive)
    leader = calling(Cluster.leader)
    isr = calling(Cluster.isr)
    replicas = calling(Cluster.replicas)
    is_reassigned = calling(Cluster.is_reassigned)

    # --- using -----------------------------------------------------------------------------------------------------

    create_topic = waiting(Cluster.create_topic)
    delete_topic = waiting(Cluster.delete_topic)
    create_partitions = waiting(Cluster.create_partitions)
    reassign = waiting(Cluster.reassign)
    create_acls = waiting(Cluster.create_acls)
    delete_acls = waiting(Cluster.delete_acls)
    settle_metadata = waiting(Cluster.settle_metadata)
    wait_for_isr = waiting(Cluster.wait_for_isr)
    wait_for_leader = waiting(Cluster.wait_for_leader)

    def advance(self, seconds: float) -> None:
        """Let simulated time pass, at once; only with `host="simulated"`, where it stands still between calls."""
        if self._host != "simulated":
            raise RuntimeError(
                "time passes by itself with host='tcp': only host='simulated' has time that stands still"
            )
        self._loop.call(functools.partial(trio.sleep, seconds), timeout_s=max(self.patience_s, 2 * seconds))

    # --- nodes, links, disks ---------------------------------------------------------------------------------------

    crash = waiting(Cluster.crash)
    shutdown = waiting(Cluster.shutdown)
    restart = waiting(Cluster.restart)
    restart_controller = waiting(Cluster.restart_controller)
    recover = waiting(Cluster.recover)
    pause = calling(Cluster.pause)
    resume = calling(Cluster.resume)
    jump_clock = calling(Cluster.jump_clock)
    jump_controller_clock = calling(Cluster.jump_controller_clock)
    isolate = calling(Cluster.isolate)
    block = calling(Cluster.block)
    heal = calling(Cluster.heal)
    drop = calling(Cluster.drop)
    delay = calling(Cluster.delay)
    duplicate = calling(Cluster.duplicate)
    reorder = calling(Cluster.reorder)
    clear_faults = calling(Cluster.clear_faults)
    reset_connections = calling(Cluster.reset_connections)
    expire_session = waiting(Cluster.expire_session)
    elect = waiting(Cluster.elect)
    fill_disk = calling(Cluster.fill_disk)
    fail_disk = calling(Cluster.fail_disk)
    slow_disk = calling(Cluster.slow_disk)
    heal_disk = calling(Cluster.heal_disk)
    fail_next_sync = calling(Cluster.fail_next_sync)
    strays = calling(Cluster.strays)
    delete_stray = calling(Cluster.delete_stray)

    # --- requests --------------------------------------------------------------------------------------------------

    fail_requests = injecting(Cluster.fail_requests)
    fail_produces = injecting(Cluster.fail_produces)
    hold_requests = injecting(Cluster.hold_requests)
    hold_acks = injecting(Cluster.hold_acks)
    slow_responses = injecting(Cluster.slow_responses)
    drop_connections = injecting(Cluster.drop_connections)


def running_cluster(
    brokers: int = 1,
    config: Mapping[str, Any] | None = None,
    *,
    host: Literal["tcp", "simulated"] = "tcp",
    seed: int = 0,
    patience_s: float = PATIENCE_S,
    trace: bool = True,
    **options: Any,
) -> RunningCluster:
    """A cluster for any Kafka client, in its own thread: see `RunningCluster`."""
    return RunningCluster(brokers, config, host=host, seed=seed, patience_s=patience_s, trace=trace, **options)


def _refuse_unknown(options: Mapping[str, object]) -> None:
    """Raise TypeError for an option that a cluster does not have, with those that are called nearly so."""
    known = ("brokers", "config", "patience_s", *(Cluster.__init__.__kwdefaults__ or {}))
    for name in options:
        if name not in known:
            import difflib  # few callers mistake a name

            near = difflib.get_close_matches(name, known) or known
            raise TypeError(f"a running cluster has no option {name!r}: did you mean {' or '.join(near)}?")


def _end_leaked(loop: BackgroundLoop[Cluster]) -> None:
    if not loop.is_mine:
        return
    warnings.warn("a running cluster was not stopped: use it as `with`", ResourceWarning, stacklevel=2)
    loop.stop()


def _stopped_clock(host: str) -> Any:
    if host != "simulated":
        return None
    from trio.testing import MockClock

    return MockClock()


async def _in_thread(function: Callable[[], R]) -> R:
    """Run a blocking function off the caller's event loop."""
    if trio.lowlevel.in_trio_run():
        return await trio.to_thread.run_sync(function)
    import asyncio

    return await asyncio.to_thread(function)
