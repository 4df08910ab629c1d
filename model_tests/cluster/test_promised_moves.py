"""What docs/durability.md says of a move between directories that something goes wrong in is what is observed.

The fault comes with the first operation of the disk after a step: the first that copies, or the one behind the renaming
of the log in the source, which decides.
"""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import broker_name
from tidegauge.impl.ports.failing_disk import FailingDisk, Operation
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.model_tests.cluster.test_failing_moves import FLUSHED, OTHER, named_so, values
from tidegauge.model_tests.cluster.test_log_directories import CONFIG, ask, directory_of, move, until
from tidegauge.model_tests.simulated import simulated

PAGE: Final = Path(__file__).parents[2] / "docs" / "durability.md"
HEAD: Final = "| what happens | before the second step | from then on |\n|---|---|---|\n"
COPYING: Final = (Operation.APPEND, Operation.SYNC)
GIVEN_UP: Final = "(`move given up`)"


class Found(Enum):
    """Where the replica is."""

    SOURCE = "in the source"
    TARGET = "in the target"
    OFFLINE = "in neither that is online"


S, T, NEITHER = Found.SOURCE, Found.TARGET, Found.OFFLINE
ROWS: Final[dict[str, tuple[tuple[str, Found], tuple[str, Found]]]] = {
    "the broker dies, and starts with both directories": (
        ("the replica is in the source, and the move is given up", S),
        ("it is in the target", T),
    ),
    "the target fails": (
        (f"the replica stays in the source {GIVEN_UP}", S),
        ("the replica is offline until its broker starts with that directory", NEITHER),
    ),
    "the source fails": (
        ("the replica is offline, as any other there", NEITHER),
        ("the replica goes on in the target", T),
    ),
    "the target is full": (
        (f"the replica stays in the source {GIVEN_UP}", S),
        ("the replica is opened when there is room", T),
    ),
    "the source is full": (("nothing: no step needs room there", T), ("nothing", T)),
    "the broker starts without the source": (
        ("the replica is offline", NEITHER),
        ("it is in the target, if it has got its name there; else offline until the source is back", NEITHER),
    ),
    "the broker starts without the target": (("it is in the source", S), ("the replica is offline", NEITHER)),
}
"""What happens -> what is said of it, and where the replica is then, before the second step and from then on."""


def test_the_page_has_the_table() -> None:
    rows = "".join(f"| {what} | {before[0]} | {after[0]} |\n" for what, (before, after) in ROWS.items())
    assert HEAD + rows in PAGE.read_text("utf-8")


@attrs.define
class Fault:
    """What happens, when it is time."""

    what: str
    is_late: bool
    disk: FailingDisk
    source: str
    has_come: bool = False
    has_left: bool = False

    def __call__(self, operation: Operation, path: str) -> None:
        if self.has_left and not self.has_come and self.is_late:
            self.come()
        is_copying = operation in COPYING and path.startswith(f"data/{OTHER[self.source]}/t-0.") and ".log" in path
        if is_copying and not self.is_late and not self.has_come:
            self.come()
        # the name is on stable storage once its directory is synced
        is_synced = operation is Operation.SYNC_DIRECTORY and path == f"data/{self.source}"
        self.has_left |= is_synced and any(n.endswith("-left") for n in self.disk.list_directory(path))

    def come(self) -> None:
        self.has_come = True
        self.disk.watched_by(None)
        match self.what.removeprefix("the ").split():
            case ["source", "fails"]:
                self.disk.fail(f"data/{self.source}")
            case ["target", "fails"]:
                self.disk.fail(f"data/{OTHER[self.source]}")
            case ["source", *_]:
                self.disk.fill(f"data/{self.source}")
            case ["target", *_]:
                self.disk.fill(f"data/{OTHER[self.source]}")
            case _:
                self.disk.fail("data")


def found(cluster: Cluster, source: str) -> Found:
    where = directory_of(cluster, 0, 0) if cluster.broker(0).replicas.get("t", 0) is not None else ""
    return {source: S, OTHER[source]: T}.get(where, NEITHER)


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("what", ROWS)
def test_a_move_that_something_goes_wrong_in_ends_as_promised(
    what: str, *, is_late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    text, promised = ROWS[what][is_late]

    @simulated
    async def run() -> None:
        async with Cluster(1, seed=3, config=CONFIG) as cluster, cluster.client() as client:
            await cluster.create_topic("t", assignments=[[0]], config=FLUSHED)
            await until(lambda: (0, 0) in cluster.controller.controller.image.topics["t"].directories)
            await client.produce("t", b"a")
            disk, source = cluster.host.disk(broker_name(0)), directory_of(cluster, 0, 0)
            fault = Fault(what, is_late, disk, source)
            disk.watched_by(fault)
            with suppress(KafkaError, NoResponseError, UnreachableError), trio.move_on_after(5):
                await ask(client, cluster, 0, move("t", 0, f"data/{OTHER[source]}"))
            with trio.fail_after(20):
                await until(lambda: fault.has_come)
            await trio.sleep(1)
            if "broker" in what:
                if cluster.is_alive(0):
                    await cluster.crash(0, lose_unsynced=True)
                cluster.heal_disk(0)
                if "without" in what:
                    disk.fail(f"data/{source if 'source' in what else OTHER[source]}")
                await cluster.restart(0)
            await trio.sleep(10)
            if "when there is room" in text:
                cluster.heal_disk(0)
            with trio.move_on_after(20):
                await until(lambda: found(cluster, source) is promised)
            assert found(cluster, source) is promised, named_so(disk)
            if promised is not NEITHER:
                assert values(cluster) == [b"a"]
            cluster.heal_disk(0)
            if promised is NEITHER:
                await cluster.crash(0, lose_unsynced=True)
                await cluster.restart(0)
                with trio.fail_after(30):
                    await until(lambda: values(cluster) == [b"a"])

    run()
    assert GIVEN_UP not in text or "move given up: node=broker-0" in caplog.text
