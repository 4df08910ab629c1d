"""`tidegauge serve`, `controller` and `broker`: a cluster in one process, or one node in a process of its own.

Each prints one line when it is ready (with --json, one JSON document), and runs until SIGINT or SIGTERM, when it stops
cleanly and exits with 0. A second signal ends it at once.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import trio
from cyclopts import Parameter

from tidegauge.exits import Status, Unusable, in_one_line
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import LOOPBACK
from tidegauge.impl.cluster.node_process import NodeOptions, run_broker, run_controller, voters_of
from tidegauge.impl.cluster.node_task import NodeEndedError
from tidegauge.impl.cluster.secret_files import given_secret
from tidegauge.impl.ports.network import Address
from tidegauge.impl.server.broker.controller_link import RegistrationRefusedError
from tidegauge.impl.server.controller.metadata_damage import DamagedMetadataLogError
from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret
from tidegauge.impl.storage.identity import DamagedIdentityError, ForeignLogDirectoryError
from tidegauge.impl.storage.log_directories import LogDirectoryLockedError, NoLogDirectoryError
from tidegauge.log_output import LogLevel, write_log_lines
from tidegauge.screen import Screen, write_json

Flag = Annotated[bool, Parameter(negative="")]
Settings = Annotated[list[str] | None, Parameter(name="--config", negative="")]

FEWEST_DESCRIPTORS: Final = 16
"""That a broker needs, and of which a process needs twice as many."""

WRONG_INPUT = (
    DamagedIdentityError,
    DamagedMetadataLogError,
    ForeignLogDirectoryError,
    LogDirectoryLockedError,
    NoLogDirectoryError,
    NodeEndedError,
    RegistrationRefusedError,
    TimeoutError,
    ValueError,
    OSError,
)
"""What a user can do something about."""


def serve(
    *,
    brokers: int = 1,
    port: int = 9092,
    data: Path | None = None,
    config: Settings = None,
    host: str = LOOPBACK,
    advertised_host: str | None = None,
    seed: int = 0,
    log_level: LogLevel = "warning",
    until_eof: Flag = False,
    json: Flag = False,
) -> Status:
    """Run a cluster, controller and brokers, in this process, for any Kafka client.

    Parameters
    ----------
    brokers
        How many, with ids from 0.
    port
        Where broker 0 listens, the others on the ports that follow; 0 picks free ones.
    data
        Keep the files in this directory, and go on with what is in it; without it nothing is kept.
    config
        A setting as NAME=VALUE, under Kafka's name; may be given several times.
    host
        The address to listen at.
    advertised_host
        The host name that clients are told, when it is another one.
    seed
        Where ids and injected faults come from.
    log_level
        The least important log lines that standard error shows; docs/logging.md lists them.
    until_eof
        End when standard input does, so that nothing is left when the process that started this dies.
    json
        Print one JSON document when ready, and nothing else.
    """
    write_log_lines(log_level)
    listening(host, port, advertised_host)
    cluster = Cluster(
        brokers,
        seed,
        settings_of(config),
        host="tcp",
        directory=data,
        listen=host,
        port=port,
        advertised_host=advertised_host,
        trace=False,
    )
    screen = Screen("serve", json=json)
    screen.header({"brokers": brokers, "data": data or "nothing is kept", "seed": seed})

    async def run(until: Callable[[], Awaitable[None]]) -> None:
        async with cluster:
            where = cluster.bootstrap_servers
            told = {
                "brokers": [{"id": b.id, "host": b.advertised.host, "port": b.advertised.port} for b in cluster.brokers]
            }
            announce(screen, f"bootstrap servers: {where}", {"bootstrap_servers": where, **told})
            async with trio.open_nursery() as nursery:
                nursery.start_soon(warn_of_halts, screen, cluster)
                await until()
                nursery.cancel_scope.cancel()
            screen.say("stopping")

    return run_until_stopped(run, until_eof=until_eof, brokers=brokers)


def controller(
    *,
    data: Path,
    port: int = 9093,
    host: str = LOOPBACK,
    advertised_host: str | None = None,
    config: Settings = None,
    secret_file: Path | None = None,
    seed: int = 0,
    log_level: LogLevel = "warning",
    until_eof: Flag = False,
    json: Flag = False,
) -> Status:
    """Run a cluster's controller in a process of its own; its brokers are told where by --controller.

    Parameters
    ----------
    data
        The directory of its metadata log, kept; it goes on with what is in it.
    port
        Where it listens; 0 picks a free port.
    host
        The address to listen at.
    advertised_host
        The host name by which brokers reach it, when it is another one.
    config
        A setting as NAME=VALUE, under Kafka's name; may be given several times.
    secret_file
        The file with the cluster's secret, by which its nodes know each other; else it is in the environment variable
        TIDEGAUGE_CLUSTER_SECRET, else the controller keeps one in cluster.secret in its directory.
    seed
        Where the ids of topics come from.
    log_level
        The least important log lines that standard error shows; docs/logging.md lists them.
    until_eof
        End when standard input does.
    json
        Print one JSON document when ready, and nothing else.
    """
    write_log_lines(log_level)
    secret = secret_of(secret_file)
    where = listening(host, port, advertised_host)
    options = NodeOptions(data, where, settings_of(config), advertised_host, secret=secret)
    screen = Screen("controller", json=json)
    screen.header({"data": data, "seed": seed})

    def ready(listening_at: Address) -> None:
        address = Address(advertised_host or listening_at.host, listening_at.port)
        announce(screen, f"the controller listens at {address} (pid {os.getpid()})", {"controller": str(address)})

    return run_until_stopped(lambda until: run_controller(options, ready, until, seed=seed), until_eof=until_eof)


def broker(
    *,
    id_: Annotated[int, Parameter(name="--id")],
    controller: Annotated[list[str] | None, Parameter(negative="")] = None,
    data: Path,
    port: int = 9092,
    host: str = LOOPBACK,
    advertised_host: str | None = None,
    rack: str | None = None,
    config: Settings = None,
    secret_file: Path | None = None,
    log_level: LogLevel = "warning",
    until_eof: Flag = False,
    json: Flag = False,
) -> Status:
    """Run one broker in a process of its own, that may be killed and started again.

    Parameters
    ----------
    id_
        The broker's id, from 0; no two of a cluster have the same.
    controller
        Where the controller listens, as HOST:PORT; of several the broker is told each, as ID@HOST:PORT. The setting
        controller.quorum.voters says the same.
    data
        The directory of its logs, kept; it goes on with what is in it.
    port
        Where it listens; 0 picks a free port.
    host
        The address to listen at.
    advertised_host
        The host name that clients are told, when it is another one.
    rack
        The broker's rack.
    config
        A setting as NAME=VALUE, under Kafka's name; may be given several times.
    secret_file
        The file with the cluster's secret, that of the controller; else TIDEGAUGE_CLUSTER_SECRET has it. The broker
        waits for it to be written, as it waits for the controller.
    log_level
        The least important log lines that standard error shows; docs/logging.md lists them.
    until_eof
        End when standard input does.
    json
        Print one JSON document when ready, and nothing else.
    """
    write_log_lines(log_level)
    if id_ < 0:
        raise Unusable(f"--id {id_}: give a whole number from 0")
    settings = settings_of(config)
    voters = controllers_of(controller or [], settings)
    options = NodeOptions(
        data,
        listening(host, port, advertised_host),
        settings,
        advertised_host,
        rack=rack,
        secret=secret_of(None) if secret_file is None else None,
        secret_file=secret_file,
    )
    screen = Screen("broker", json=json)
    screen.header({"id": id_, "controller": ", ".join(map(str, voters)), "data": data})

    def ready(address: Address, for_brokers: Address) -> None:
        told = {"id": id_, "bootstrap_servers": str(address), "for_brokers": str(for_brokers)}
        announce(screen, f"broker {id_} is ready at {address} (pid {os.getpid()})", told)

    return run_until_stopped(
        lambda until: run_broker(id_, voters, options, ready, screen.warn, until), until_eof=until_eof
    )


async def warn_of_halts(screen: Screen, cluster: Cluster) -> None:
    """Say when a broker has stopped by itself; the others go on, and the last one ends the command."""
    known: set[int] = set()
    while len(known) < cluster.size:
        await trio.sleep(0.5)
        for broker in cluster.brokers:
            if broker.halted is not None and broker.id not in known:
                known.add(broker.id)
                screen.warn(f"broker {broker.id} has stopped: {broker.halted}")
    raise NodeEndedError("every broker has stopped by itself: see above")


def controllers_of(given: list[str], settings: Mapping[str, str]) -> tuple[Address, ...]:
    """The controllers' addresses."""
    try:
        return voters_of(given, settings)
    except ValueError as error:
        raise Unusable(str(error)) from error


def secret_of(file: Path | None) -> ClusterSecret | None:
    """The cluster's secret, if one is given."""
    try:
        return given_secret(file, os.environ)
    except ValueError as error:
        raise Unusable(str(error)) from error


def settings_of(words: list[str] | None) -> dict[str, str]:
    """The settings of --config NAME=VALUE."""
    settings: dict[str, str] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise Unusable(f"--config {word}: write NAME=VALUE, as in log.retention.ms=60000")
        if name in settings:
            raise Unusable(f"--config {word}: {name} is given twice; leave one out")
        settings[name] = value
    return settings


def listening(host: str, port: int, advertised_host: str | None = None) -> Address:
    if not 0 <= port < 65536:
        raise Unusable(f"--port {port}: give one from 1 to 65535, or 0 for any that is free")
    if host in ("0.0.0.0", "::") and advertised_host is None:
        raise Unusable(f"--host {host}: give --advertised-host as well, for others have to be told where to connect")
    return Address(host, port)


def enough_descriptors(brokers: int) -> None:
    """Refuse where nodes would be ready and could serve nobody: connections and files share a limit."""
    limit, least = resource.getrlimit(resource.RLIMIT_NOFILE)[0], FEWEST_DESCRIPTORS * (2 + brokers)
    if limit < least and limit != resource.RLIM_INFINITY:
        raise Unusable(f"the process may open {limit} files and connections, {least} are needed at least: ulimit -n")


def collect_rarely() -> None:
    """Keep the garbage collector from looking through the whole process while requests wait.

    What was made up to now lives as long as the process: the collector passes it by from here on. It looks through all
    that came later (0.1 s for half a million objects, such as many large requests are) 100 times less often.
    """
    gc.freeze()
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, 100 * old)


def announce(screen: Screen, text: str, document: Mapping[str, Any]) -> None:
    """Say that all is ready."""
    collect_rarely()
    if screen.json:
        write_json(screen.command, Status.HOLDS, {"pid": os.getpid(), **document}, has_verdict=False)
    else:
        screen.say(text)
        sys.stdout.flush()


def run_until_stopped(
    run: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]], *, until_eof: bool, brokers: int = 1
) -> Status:
    """Run an async function, which is given one that returns when it is to end; so many brokers are in the process."""
    enough_descriptors(brokers)
    if until_eof and sys.stdin is None:
        raise Unusable("--until-eof: standard input is closed; leave it open, or leave --until-eof out")
    try:
        trio.run(run, partial(until_told, until_eof))
    except* WRONG_INPUT as errors:
        raise Unusable(in_one_line(first_of(errors))) from errors
    return Status.HOLDS


async def until_told(until_eof: bool) -> None:
    """Return at SIGINT or SIGTERM, or when standard input has ended; after that a signal ends the process at once."""
    async with trio.open_nursery() as nursery:
        if until_eof:
            nursery.start_soon(until_end_of_input, nursery.cancel_scope)
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                break
        nursery.cancel_scope.cancel()


async def until_end_of_input(scope: trio.CancelScope) -> None:
    descriptor = sys.stdin.fileno()
    while await trio.to_thread.run_sync(os.read, descriptor, 4096, abandon_on_cancel=True):
        pass  # whatever is typed
    scope.cancel()


def first_of(errors: BaseExceptionGroup[Any]) -> BaseException:
    """The first that is no group."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
