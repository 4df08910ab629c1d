"""`tidegauge tap`: a proxy between any Kafka clients and any cluster, that writes down what the clients did."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import attrs
from cyclopts import Parameter

from tidegauge.commands.checking import check
from tidegauge.commands.tap_reader import ReadingProcess, Written
from tidegauge.exits import Status, Unusable
from tidegauge.impl.ports.clock import SystemClock
from tidegauge.impl.ports.network import Address
from tidegauge.impl.tap.memory import Memory
from tidegauge.impl.tap.recording import Rotation
from tidegauge.impl.tap.tap import Tap, load_messages
from tidegauge.linearizability.plurals import say
from tidegauge.log_output import LogLevel, write_log_lines
from tidegauge.screen import Screen, write_json

Flag = Annotated[bool, Parameter(negative="")]
MEGABYTE: Final = 1 << 20
LOOPBACK: Final = "127.0.0.1"
CONNECT_SECONDS: Final = 5.0
THREAD_TURN_SECONDS: Final = 0.00005
"""So long a thread that reads what has passed may keep one waiting that has something to pass on."""


def _at_least_1(_: object, attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and not value >= 1:
        raise Unusable(f"--{attribute.name.replace('_', '-')} {value}: give 1 or more")


@Parameter(name="*")
@attrs.frozen
class Limits:
    """How much is held, and how much a file has."""

    rotate_mb: Annotated[int, Parameter(help="Begin another file after so many megabytes.")] = attrs.field(
        default=64, validator=_at_least_1
    )
    rotate_seconds: Annotated[float, Parameter(help="Or after so many seconds.")] = attrs.field(
        default=3600, validator=_at_least_1
    )
    keep: Annotated[int | None, Parameter(help="Keep so many files and delete those before; by default all.")] = (
        attrs.field(default=None, validator=_at_least_1)
    )
    memory_mb: Annotated[
        int,
        Parameter(help="Megabytes of requests and responses that each of its two processes holds at most."),
    ] = attrs.field(default=256, validator=_at_least_1)

    @property
    def rotation(self) -> Rotation:
        """When a file ends."""
        return Rotation(self.rotate_mb * MEGABYTE, self.rotate_seconds, self.keep)


def tap(
    *,
    upstream: str,
    listen: str = "9092",
    out: Path = Path("tap"),
    advertised_host: str | None = None,
    alone: Flag = False,
    check_: Annotated[bool, Parameter(name="--check", negative="")] = False,
    limits: Limits = Limits(),
    log_level: LogLevel = "warning",
    until_eof: Flag = False,
    json: Flag = False,
) -> Status:
    """Pass between Kafka clients and a cluster, and write down what the clients do: tidegauge check checks it.

    Clients connect to --listen in place of their bootstrap servers; nothing else changes for them. It runs until SIGINT
    or SIGTERM. tidegauge check --follow checks the recording while it grows.

    Parameters
    ----------
    upstream
        HOST:PORT of a broker of the cluster, or several with commas: clients that know none yet go to the first that
        can be reached.
    listen
        [HOST:]PORT for clients that know no broker yet; each broker gets one of the ports that follow. 0 picks free
        ones.
    out
        The folder to make for the recording.
    advertised_host
        The host name that clients are told, when it is another one than that of --listen.
    alone
        Nobody else writes to the topics, and they were empty before: a record that nobody has sent is an anomaly.
    check_
        Check the recording at the end.
    log_level
        The least important log lines that standard error shows; docs/logging.md lists them.
    until_eof
        End when standard input does.
    json
        Print one JSON document when ready, and nothing else.
    """
    write_log_lines(log_level)
    if check_ and json:
        raise Unusable("--check with --json: leave one out, and use tidegauge check --json at the end")
    where = address_of("--listen", listen, LOOPBACK)
    to = tuple(address_of("--upstream", one.strip()) for one in upstream.split(","))
    if where.host in ("0.0.0.0", "::") and advertised_host is None:
        raise Unusable(f"--listen {listen}: give --advertised-host as well, for clients have to be told where to go")
    screen = Screen("tap", json=json)
    screen.header({"upstream": upstream, "out": out, "alone": alone})
    about = {"alone": alone, "upstream": upstream, "began_ms": SystemClock().now_ms()}
    reading = reading_into(out, about, limits, log_level)
    memory = Memory(limits.memory_mb * MEGABYTE)
    running = Tap(to, reading.copies, reading.now, where.host, where.port, advertised_host, memory)
    written = run(screen, running, reading, listen, until_eof=until_eof)
    if written.operations is not None:
        screen.say(f"\n{say(written.operations, 'line')} written to {out}; check them:  tidegauge check {out}")
    if written.failure is not None:
        screen.warn(f"{out}: the recording ended early ({written.failure}): what came after it is not recorded")
        return Status.COULD_NOT_RUN
    return check(out) if check_ else Status.HOLDS


def run(screen: Screen, running: Tap, reading: ReadingProcess, listen: str, *, until_eof: bool) -> Written:
    """Serve clients until told to end; the recording is closed then. Raises Unusable where nobody can listen."""
    try:
        serve(screen, running, reading, listen, until_eof=until_eof)
    finally:
        running.stop()
        written = reading.close()
    return written


def serve(screen: Screen, running: Tap, reading: ReadingProcess, listen: str, *, until_eof: bool) -> None:
    """The same, but that it leaves all open."""
    load_messages()
    sys.setswitchinterval(THREAD_TURN_SECONDS)
    try:
        address = running.start()
    except OSError as error:
        raise Unusable(f"--listen {listen}: {error.strerror or error}; name a port that is free") from error
    warn_if_unreachable(screen, running.upstream)
    if screen.json:
        pids = {"pid": os.getpid(), "reader_pid": reading.process.pid}
        told = {**pids, "bootstrap_servers": str(address), "out": str(reading.folder)}
        write_json("tap", Status.HOLDS, told, has_verdict=False)
    else:
        screen.say(f"clients connect to {address}; recording in {reading.folder}")
        sys.stdout.flush()
    until_told(until_eof=until_eof)


def address_of(name: str, text: str, default_host: str | None = None) -> Address:
    """HOST:PORT, or with a default host PORT alone."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") if colon else default_host or ""
    if not host or not port.isdigit() or not int(port) < 65536:
        example = "9092 or 127.0.0.1:9092" if default_host else "localhost:9092"
        raise Unusable(f"{name} {text}: write it as {example}")
    return Address(host, int(port))


def reading_into(folder: Path, about: dict[str, Any], limits: Limits, log_level: LogLevel) -> ReadingProcess:
    """A process that writes a new recording. Raises Unusable where there is one, or no folder can be made."""
    try:
        return ReadingProcess.start(folder, about, limits.rotation, limits.memory_mb * MEGABYTE, log_level)
    except FileExistsError:
        raise Unusable(f"--out {folder}: there is a recording already, or a file; name another folder") from None
    except OSError as error:
        raise Unusable(f"--out {folder}: {error.strerror or error}; name a folder that can be written") from error


def warn_if_unreachable(screen: Screen, upstream: Sequence[Address]) -> None:
    """Say so at once if no broker can be reached: each client's connection tries again."""
    reasons = []
    for address in upstream:
        try:
            socket.create_connection(address, CONNECT_SECONDS).close()
        except OSError as error:
            reasons.append(f"{address} ({error.strerror or error})")
        else:
            return
    screen.warn(f"--upstream: none can be reached, of {', '.join(reasons)}: clients are closed until one can")


def until_told(*, until_eof: bool) -> None:
    """Return at SIGINT or SIGTERM, or when standard input has ended; after that a signal ends the process at once."""
    over = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda *_: over.set())
    if until_eof:
        threading.Thread(target=until_end_of_input, args=(over.set,), daemon=True).start()
    over.wait()
    for number, handler in before.items():
        signal.signal(number, handler)


def until_end_of_input(then: Callable[[], None]) -> None:
    """Wait for the end of standard input."""
    if sys.stdin is not None:
        descriptor = sys.stdin.fileno()
        while os.read(descriptor, 4096):
            pass  # whatever is typed
    then()
