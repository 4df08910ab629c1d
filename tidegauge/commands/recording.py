"""`tidegauge record`: what real clients see at any Kafka-compatible cluster, written down to be checked."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal
from uuid import uuid4

import attrs
from cyclopts import Parameter

from tidegauge.commands.outputs import check_file
from tidegauge.exits import Status, Unusable
from tidegauge.linearizability import files
from tidegauge.linearizability.history import DECLARED, Kind, Operations, Outcome
from tidegauge.model_tests.harness.recording.clients import UnavailableError, library, quiet
from tidegauge.model_tests.harness.recording.consuming import GroupRecording
from tidegauge.model_tests.harness.recording.transacting import TransactionalRecording
from tidegauge.model_tests.harness.recording.workload import Recorded, Recording, Workload
from tidegauge.screen import Advance, Screen

Flag = Annotated[bool, Parameter(negative="")]
ALWAYS = (Kind.PRODUCE, Kind.FETCH, Kind.LIST_OFFSETS)
"""The kinds of operation that are counted, though there be none."""
ACKS = {"all": -1, "1": 1, "0": 0}


@Parameter(name="*")
@attrs.frozen
class Shape:
    """How much is done at once, and for how long."""

    partitions: Annotated[int, Parameter(help="How many partitions the topic gets.")] = 3
    seconds: Annotated[float, Parameter(help="How long to produce and read.")] = 10
    producers: Annotated[int, Parameter(help="Producers, a thread each.")] = 2
    transactions: Annotated[
        int, Parameter(help="Transactional ids that write in place of the producers, with a consumer that transforms.")
    ] = 0
    groups: Annotated[int, Parameter(help="Members of a group that consume, a thread each.")] = 0
    group_protocol: Annotated[
        Literal["classic", "consumer"], Parameter(help="How they join; consumer is that of KIP-848.")
    ] = "classic"
    readers: Annotated[int, Parameter(help="Readers, a thread each.")] = 2
    in_flight: Annotated[int, Parameter(help="Records that each producer has on their way.")] = 5
    rate: Annotated[float, Parameter(help="Records a second of each producer, at most.")] = 200
    settle_seconds: Annotated[float, Parameter(help="How long to wait at the end for every partition.")] = 30
    seed: Annotated[int, Parameter(help="Decides which partitions and positions are asked for.")] = 1


def record(
    *,
    bootstrap: str,
    out: Path = Path("history.parquet"),
    client: Literal["confluent-kafka", "kafka-python", "aiokafka"] = "confluent-kafka",
    topic: str | None = None,
    replication_factor: int = -1,
    acks: Literal["all", "1", "0"] = "all",
    shape: Shape = Shape(),
    set_: Annotated[list[str] | None, Parameter(name="--set", negative="")] = None,
    keep_topic: Flag = False,
    json: Flag = False,
) -> Status:
    """Run a workload with a real client against any Kafka-compatible cluster, and write what it saw as a history.

    Break what you like meanwhile: kill brokers, cut networks. tidegauge check and spark_check check the history.
    Ctrl-C ends the workload early and keeps what was seen.

    Parameters
    ----------
    bootstrap
        HOST:PORT of a broker, or several with commas.
    out
        The Parquet file to write.
    client
        The library whose producer and consumer are used.
    topic
        The topic to make for it; a new name unless it is given. It must not exist.
    replication_factor
        How many replicas each partition has; -1 is the cluster's default.
    acks
        What an acknowledgement means. all: idempotent; 1 and 0: without retries, and without transactions.
    set_
        A setting of the client library, for all of its clients: --set security.protocol=SSL.
    keep_topic
        Do not delete the topic at the end.
    json
        Print one JSON document and nothing else.
    """
    screen = Screen("record", json=json)
    check_file("--out", out)
    if out.suffix != ".parquet":
        raise Unusable(f"--out {out}: histories are written as Parquet: name a .parquet file")
    if shape.transactions and acks != "all":
        raise Unusable(f"--acks {acks} with --transactions: a transactional producer waits for all, use --acks all")
    if shape.groups and shape.transactions:
        raise Unusable("--groups with --transactions: leave one of them out")
    name = topic or f"tidegauge-{uuid4().hex[:12]}"
    settings = settings_of(set_ or ())
    try:
        workload = Workload(bootstrap, name, acks=ACKS[acks], properties=settings, **attrs.asdict(shape))
    except ValueError as error:
        raise Unusable(f"--{error}") from None
    screen.header({"bootstrap": bootstrap, "client": client, "topic": name, "acks": acks, **attrs.asdict(shape)})
    try:
        with quiet():
            recorded = run(screen, workload, client, replication_factor, keep_topic=keep_topic)
    except UnavailableError as error:
        raise Unusable(f"--bootstrap {bootstrap}: {error}") from None
    files.write(out, recorded.operations)
    return report(screen, recorded, out, name)


def run(
    screen: Screen,
    workload: Workload,
    client: str,
    replication_factor: int,
    *,
    keep_topic: bool,
) -> Recorded:
    """Make the topic, record, and remove the topic."""
    clients = library(client)
    admin = clients.admin(workload.bootstrap, workload.properties)
    try:
        admin.create_topic(workload.topic, workload.partitions, replication_factor)
        try:
            recording = kind_of(workload)(workload, clients)
            with screen.progress("recording") as advance, ended_by_interrupt(recording.stop), shown(recording, advance):
                return recording.run()
        finally:
            if not keep_topic:
                try:
                    admin.delete_topic(workload.topic)
                except UnavailableError as error:
                    screen.warn(f"topic {workload.topic} is left behind: {error}")
    finally:
        admin.close()


def kind_of(workload: Workload) -> type[Recording]:
    """What records such a workload."""
    if workload.groups:
        return GroupRecording
    return TransactionalRecording if workload.transactions else Recording


@contextmanager
def ended_by_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C ends the workload in good order; a second one ends the command."""
    before = signal.getsignal(signal.SIGINT)

    def end(_signal: int, _frame: object) -> None:
        stop()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def shown(recording: Recording, advance: Advance) -> Iterator[None]:
    """Say now and then how many operations there are."""
    over = threading.Event()

    def show() -> None:
        while not over.wait(0.5):
            advance(f"{recording.operations:,} operations")

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def report(screen: Screen, recorded: Recorded, out: Path, topic: str) -> Status:
    """What was recorded, by kind and outcome."""
    operations = recorded.operations
    rows = [
        (kind.name.lower(), *(count(operations, kind, outcome) for outcome in Outcome))
        for kind in Kind
        if kind in ALWAYS or bool((operations.kind == kind).any() and kind not in DECLARED)
    ]
    screen.table(("operation", *(outcome.name.lower() for outcome in Outcome)), rows)
    for partition in recorded.unsettled:
        screen.warn(f"{topic}-{partition} could not be read to its end: what it lost at the end is not checked")
    screen.say(f"\nwritten to {out}; check it:  tidegauge check {out}")
    outcomes = [outcome.name.lower() for outcome in Outcome]
    document = {
        "operations": {str(kind): dict(zip(outcomes, counts, strict=True)) for kind, *counts in rows},
        "unsettled": list(recorded.unsettled),
        "out": str(out),
        "topic": topic,
    }
    return screen.finish(Status.HOLDS if not recorded.unsettled else Status.COULD_NOT_RUN, document)


def count(operations: Operations, kind: Kind, outcome: Outcome) -> int:
    return int(((operations.kind == kind) & (operations.outcome == outcome)).sum())


def settings_of(texts: Sequence[str]) -> dict[str, str]:
    """Settings from name=value."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise Unusable(f"--set {text}: give name=value, as in security.protocol=SSL")
        settings[name] = value
    return settings
