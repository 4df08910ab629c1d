"""A campaign on a controller's own files: each kind of damage, while it is down after either stop, and while it runs.

Brokers run all the time, and serve what needs no decision. Where decisions that were acknowledged are damaged the
controller does not start, or stops when it reads them, with words that name the file, the offset and the way out; the
files stay as they are. When the file is put back it goes on, and nobody has lost a topic.
`docs/durability.md` has what is promised, which a test compares with `table`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from random import Random
from typing import Literal

import attrs
import trio

from tidegauge.impl.client.client import Client
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import CONTROLLER
from tidegauge.impl.ports.disk import Disk
from tidegauge.impl.server.controller.metadata_damage import DamagedMetadataLogError
from tidegauge.impl.server.controller.metadata_log import COMMITTED, METADATA_DIRECTORY
from tidegauge.impl.storage.checkpoints import META_PROPERTIES
from tidegauge.impl.storage.identity import DamagedIdentityError, ForeignLogDirectoryError
from tidegauge.model_tests.harness.damage.campaign import CONFIG, CONVERGES_WITHIN, change_in_place, told
from tidegauge.model_tests.harness.damage.cells import Stop
from tidegauge.model_tests.harness.damage.files import (
    ANY_FILE,
    SEGMENT,
    TEXT,
    Change,
    emptied,
    flipped,
    garbage,
    half,
    somewhere,
)

TOPIC = "kept"
FIRST = f"{METADATA_DIRECTORY}/{0:020d}"
Files = Mapping[str, bytes]


class Promise(Enum):
    """What a controller does about a damaged file when it starts."""

    REFUSED = "refuses with words, and goes on when the file is put back"
    CUT = "cuts it, with a line"
    RECOVERED = "recovered"


@attrs.frozen
class Cell:
    """One file with one kind of damage."""

    file: str
    damage: str
    path: str
    change: Change
    promise: Promise
    is_met: bool = False
    """Whether a controller that runs finds it when a broker fetches all of the log: it stops then."""


def cells() -> Iterator[Cell]:
    """Every kind of damage to a controller's files."""
    log = "metadata log"
    for damage, change in {**SEGMENT, "a flipped bit": somewhere, "garbage": garbage, "empty": emptied}.items():
        is_met = damage not in ("missing", "leader epoch")  # it has the file open, and looks at no batch's epoch
        yield Cell(log, damage, f"{FIRST}.log", change, Promise.REFUSED, is_met)
    stray = f"{METADATA_DIRECTORY}/{999:020d}.log"
    yield Cell("a stray segment beside it", "empty", stray, emptied, Promise.REFUSED)
    yield Cell("a stray segment beside it", "garbage", stray, garbage, Promise.REFUSED)
    yield Cell("its unacknowledged end", "torn", f"{FIRST}.log", lambda content, rng: content + bytes(70), Promise.CUT)
    for name in ("leader-epoch-checkpoint",):
        for damage, change in TEXT.items():
            yield Cell(f"its `{name}`", damage, f"{METADATA_DIRECTORY}/{name}", change, Promise.RECOVERED)
    for suffix, name in ((".index", "index"), (".timeindex", "index by time"), (".snapshot", "producer snapshot")):
        for damage, change in ANY_FILE.items():
            yield Cell(f"its {name}", damage, FIRST + suffix, change, Promise.RECOVERED)
    for damage, change in {**ANY_FILE, **TEXT}.items():
        yield Cell(f"`{COMMITTED}`", damage, COMMITTED, change, Promise.RECOVERED)
    for damage, change in {**TEXT, "a flipped bit": in_a_property, "half a file": half}.items():
        yield Cell(f"`{META_PROPERTIES}`", damage, META_PROPERTIES, change, Promise.REFUSED)


def in_a_property(content: bytes, rng: Random) -> bytes:
    """A flipped bit in what the file says; the last line, its checksum, is a comment."""
    return flipped(content, rng.randrange(content.rstrip().rindex(b"\n")), rng)


def table() -> str:
    """The promises, as the page has them."""
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in cells():
        rows.setdefault((cell.file, cell.promise.value), []).append(cell.damage)
    lines = ["| file of a controller | damage | the controller |", "|---|---|---|"]
    lines += [f"| {file} | {', '.join(damages)} | {promise} |" for (file, promise), damages in rows.items()]
    return "\n".join(lines) + "\n"


class Campaign:
    """One cluster of two brokers, whose controller's files are damaged again and again."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        """The seed draws what happens, and which cells come after which stop: six in a row have all of them."""
        self.cluster = cluster
        self.broken: list[str] = []
        self._seed = seed
        self._rng = Random(f"controller damage/{seed}")
        self._topics = 0
        self._records = 0

    @property
    def disk(self) -> Disk:
        return self.cluster.host.disk(CONTROLLER)

    @property
    def root(self) -> str:
        return self.cluster.controller._node.directory

    def files(self) -> dict[str, bytes]:
        """All files of the controller but its lock."""
        found = {}
        for directory in (self.root, f"{self.root}/{METADATA_DIRECTORY}"):
            for name in self.disk.list_directory(directory):
                path = f"{directory}/{name}"
                if name != ".lock" and not path.endswith(f"/{METADATA_DIRECTORY}"):
                    file = self.disk.open_apart(path)
                    found[path] = file.read(0, file.size)
                    file.close()
        return found

    async def run(self) -> None:
        await self._decide()
        for number, cell in enumerate(cells(), start=self._seed):
            await self._while_down(cell, list(Stop)[number % 2])
            if cell.is_met and not number % 3:
                await self._while_it_stands(cell)

    # --- while it is down ---------------------------------------------------------------------------------------------

    async def _while_down(self, cell: Cell, stop: Stop) -> None:
        where = f"{cell.file}, {cell.damage}, {stop.value}"
        topics = self._known()
        await self._end(stop)
        before = self.files()
        path = f"{self.root}/{cell.path}"
        change = cell.change(before.get(path, b""), self._rng)
        if path not in before and cell.promise is Promise.RECOVERED:
            await self._start()
            return
        self._put(path, change)
        with told() as lines:
            if cell.promise is Promise.REFUSED:
                await self._is_refused(cell, where)
                await self._serves(where)
                self._put(path, before.get(path))
            await self._start()
        if cell.promise is Promise.CUT and not any(line.startswith("metadata log cut") for line in lines):
            self.broken.append(f"{where}: nothing was told")
        await self._goes_on(where, topics)

    async def _is_refused(self, cell: Cell, where: str) -> None:
        damaged = self.files()
        try:
            await self.cluster.parts.nodes.start_controller()
        except (DamagedMetadataLogError, DamagedIdentityError, ForeignLogDirectoryError) as error:
            words = str(error)
            name = cell.path.rpartition("/")[2]
            log = cell.path.startswith(METADATA_DIRECTORY)
            if "was changed" not in words or (METADATA_DIRECTORY if log else name) not in words:
                self.broken.append(f"{where}: the words lack the file, or what to do: {words}")
            if log and (" at offset " not in words or "Put the file back from a copy" not in words):
                self.broken.append(f"{where}: the words lack the offset, or the way out: {words}")
        else:
            self.broken.append(f"{where}: the controller has started")
            await self._end(Stop.KILLED)
        if self.files() != damaged:
            self.broken.append(f"{where}: the refusal has changed files")

    # --- while it stands ----------------------------------------------------------------------------------------------

    async def _while_it_stands(self, cell: Cell) -> None:
        """A broker begins anew, and fetches all of the log."""
        where, topics = f"{cell.file}, {cell.damage}, while it runs", self._known()
        path = f"{self.root}/{cell.path}"
        before = self.files()[path]
        damaged = cell.change(before, self._rng)
        change_in_place(self.disk, path, lambda _: damaged)
        controller = self.cluster.controller
        with told() as lines:
            await self.cluster.crash(1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.cluster.restart, 1)
                with trio.move_on_after(CONVERGES_WITHIN):
                    while controller.halted is None:  # noqa: ASYNC110 - nobody is told
                        await trio.sleep(0.02)
                nursery.cancel_scope.cancel()
        words = controller.halted or "it has not"
        if f"{METADATA_DIRECTORY}/" not in words or " at offset " not in words or "Put the file back" not in words:
            self.broken.append(f"{where}: the controller has not stopped with words: {words}")
        if not any(line.startswith("controller stopped") for line in lines):
            self.broken.append(f"{where}: nothing was told: {lines}")
        await self._serves(where)
        await self._end(Stop.KILLED)
        since = self.files()[path][len(damaged or b"") :]
        self._put(path, before + since)
        await self._start()
        if not self.cluster.is_alive(1):
            await self.cluster.restart(1)
        await self._goes_on(where, topics)

    # --- the cluster --------------------------------------------------------------------------------------------------

    def _known(self) -> dict[str, str]:
        return {name: topic.topic_id for name, topic in self.cluster.controller.controller.image.topics.items()}

    async def _decide(self) -> None:
        await self.cluster.create_topic(TOPIC, assignments=[[0, 1]])
        async with self.cluster.client("first") as client:
            await client.produce(TOPIC, b"0")
        self._records = 1
        await self._new_topic()

    async def _new_topic(self) -> None:
        await self.cluster.create_topic(f"topic-{self._topics}", assignments=[[self._topics % 2]])
        self._topics += 1

    async def _serves(self, where: str) -> None:
        """Brokers take a record and give it out, whatever the controller does."""
        async with self.cluster.client("user") as client:
            with trio.move_on_after(20) as scope:
                await self._append(client)
                fetched = await client.fetch(TOPIC, 0)
                if b"0" not in fetched.values[:1]:
                    self.broken.append(f"{where}: served {fetched.values}")
            if scope.cancelled_caught:
                self.broken.append(f"{where}: the brokers do not serve")

    async def _append(self, client: Client) -> None:
        """With acks=1: what is in sync can change by a decision only."""
        offset = await client.produce(TOPIC, b"%d" % self._records, acks=1)
        assert offset == self._records, f"the record at {offset} is the {self._records}th"
        self._records += 1

    async def _goes_on(self, where: str, topics: Mapping[str, str]) -> None:
        """All topics are there, on the brokers too, every record is, and a decision is taken."""
        with trio.fail_after(CONVERGES_WITHIN):
            for broker in range(2):
                await self.cluster.broker(broker).unfenced.wait()
            await self.cluster.wait_for_isr(TOPIC, (0, 1))
        if self._known() != topics:
            self.broken.append(f"{where}: of {len(topics)} topics {sorted(self._known())} are left")
        for broker in range(2):
            if self.cluster.broker(broker).halted is not None:
                self.broken.append(f"{where}: broker {broker} has ended: {self.cluster.broker(broker).halted}")
            elif strays := self.cluster.strays(broker):
                self.broken.append(f"{where}: broker {broker} has strays: {strays}")
            elif self.cluster.replica(broker, TOPIC).log_end_offset != self._records:
                self.broken.append(f"{where}: broker {broker} has lost records")
        await self._serves(where)
        if self._rng.random() < 0.1:
            await self._new_topic()

    async def _end(self, stop: Stop) -> None:
        """The controller's process ends; its brokers run on."""
        nodes, host = self.cluster.parts.nodes, self.cluster.host
        task = nodes.tasks[CONTROLLER]
        if stop is Stop.CLEAN and task.alive:
            task.stop()
        host.cut(CONTROLLER)
        await task.kill()
        task.abandon()
        host.power_on(CONTROLLER)

    async def _start(self) -> None:
        await self.cluster.parts.nodes.start_controller()

    def _put(self, path: str, content: bytes | None) -> None:
        """Let a file have these bytes, or let it be gone."""
        if self.disk.exists(path):
            self.disk.remove(path)
        if content is not None:
            file = self.disk.open(path, create=True)
            file.append(content)
            file.sync()
            file.close()
        self.disk.sync_directory(path.rpartition("/")[0])


async def run(seed: int, *, directory: Path | None = None) -> Sequence[str]:
    """Damage everything in turn; returns which promises are broken, and how."""
    host: Literal["simulated", "tcp"] = "simulated" if directory is None else "tcp"
    async with Cluster(2, seed, CONFIG, host=host, directory=directory) as cluster:
        campaign = Campaign(cluster, seed)
        await campaign.run()
        return campaign.broken
