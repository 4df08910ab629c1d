"""A log directory that fails: what the broker does at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.ports.clock import SimulatedClock
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.broker.controller_link import RegistrationRefusedError
from tidegauge.impl.server.broker.directory_failures import DirectoryFailures
from tidegauge.impl.server.broker.metadata_cache import MetadataCache
from tidegauge.impl.server.broker.registration import Registration
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.model_tests.simulated import simulated


class Replicas(list[Any]):
    """No replicas, in these directories that are online."""

    def __init__(self, *online: str) -> None:
        self.directories = SimpleNamespace(online=online, paths=online)


class Tasks:
    """Keeps the tasks that were started."""

    def __init__(self) -> None:
        self.started: list[Callable[[], Awaitable[None]]] = []
        self.halted: str | None = None

    def start_soon(self, task: Callable[[], Awaitable[None]]) -> None:
        self.started.append(task)

    def halt(self, reason: str) -> None:
        self.halted = reason


class FailingMembership:
    """A membership whose heartbeats fail."""

    def __init__(self, error: Exception) -> None:
        self.error, self.heartbeats = error, 0

    async def heartbeat(self) -> bool:
        self.heartbeats += 1
        raise self.error


def fail_directory(replicas: Any, tasks: Any, membership: Any, *, timers: bool = True) -> None:
    nothing: Any = None
    tracer = Tracer(None, 0, SimulatedClock())
    registration = Registration(0, "cluster")
    failures = DirectoryFailures(
        replicas, registration, membership, MetadataCache(), nothing, tasks, tracer=tracer, timers=timers
    )
    directory: Any = SimpleNamespace(path="data/one")
    failures.directory_failed(directory, [])


@pytest.mark.parametrize(
    "error",
    [
        UnreachableError("gone"),
        NoResponseError("lost"),
        RegistrationRefusedError(ErrorCode.duplicate_broker_registration, 0, Address("controller", 1)),
    ],
)
def test_a_heartbeat_is_sent_at_once_and_its_failure_harms_nothing(error: Exception) -> None:
    @simulated
    async def test() -> None:
        tasks, membership = Tasks(), FailingMembership(error)
        fail_directory(Replicas("data/two"), tasks, membership)
        (report,) = tasks.started
        await report()
        assert membership.heartbeats == 1
        assert tasks.halted is None

    test()


@simulated
async def test_without_timers_nothing_is_sent() -> None:
    tasks = Tasks()
    fail_directory(Replicas("data/two"), tasks, None, timers=False)
    assert tasks.started == []


@simulated
async def test_a_broker_stops_with_its_last_directory() -> None:
    tasks = Tasks()
    fail_directory(Replicas(), tasks, None)
    assert tasks.halted == "every log directory has failed, the last one data/one"
    assert tasks.started == []
