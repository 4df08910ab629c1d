"""The one disk of a run that damages what it has, and a budget for it: the last good copy is never damaged.

Replication promises to survive one bad copy of many. So one broker's disk damages, always the same, and it does so only
while each of its partitions has a *good copy* elsewhere: a replica of the ISR or ELR whose process is registered, has
all its directories, is out of the injector's hands, and whose links are whole. From then on the disk is *suspect*,
until its broker is in sync again with everything. Meanwhile no other fault may take the last good copy of a partition,
nor cut it or the controller off (`spares`).

What a disk does beyond this budget costs what no protocol keeps, and nobody could tell a loss from a bug.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from random import Random
from typing import Final

import attrs

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.names import NodeName, broker_name
from tidegauge.impl.partition.registration import PartitionRegistration
from tidegauge.impl.ports.simulated_disk import SimulatedDisk
from tidegauge.impl.records.batches import CorruptRecordError, extents
from tidegauge.impl.storage import checkpoints
from tidegauge.impl.storage.errors import CorruptLogError
from tidegauge.impl.storage.partition_directory import remove_directory
from tidegauge.model_tests.harness.damage.files import BASE_OFFSET, LEADER_EPOCH, stays_unseen
from tidegauge.model_tests.harness.simulation.options import DAMAGED, Options
from tidegauge.model_tests.harness.simulation.workload import TOPIC

CONTROLLER: Final = "controller"
NOBODY: Final[Mapping[NodeName, int]] = {}
SECTOR: Final = 64
READ_BYTES: Final = 1 << 20
UNSEEN: Final = "rot that no check finds, elsewhere instead"
"""What `docs/durability.md` says that no check finds: a trace with it is no behaviour of the specification."""
SPARED: Final = "damage that would be to the last good copy, not done"
DELAYS: Final = (0.02, 0.1, 0.4)
"""Seconds that a delayed sync takes."""


@attrs.frozen
class WhatDisksDid:
    """What the disks of a run are known to have done, as in `Injector`: a trace is held to that."""

    lied: frozenset[tuple[int, int]] = frozenset()
    damaged: frozenset[tuple[int, int]] = frozenset()
    slowed: frozenset[int] = frozenset()
    lacking: frozenset[int] = frozenset()


class BadDisk:
    """The disk of broker `DAMAGED`, as the injector sees it."""

    def __init__(
        self,
        cluster: Cluster,
        options: Options,
        rng: Random,
        busy: Collection[int],
        cut: Mapping[NodeName, int] = NOBODY,
    ) -> None:
        """`busy` has the brokers that a fault has in its hands, `cut` by how many cut links a node is touched."""
        self.cluster = cluster
        self.counted: Counter[str] = Counter()
        self.lies = False
        """Whether a sync has been lost and the machine has not crashed since."""
        self._rotten: tuple[str, int, int] | None = None
        """What has rotten under a process that still runs: path, position, bit."""
        self._was: int | None = None
        """What the rotten byte is."""
        self._options = options
        self._rng = rng
        self._busy = busy
        self._cut = cut
        self._suspect = False

    @property
    def medium(self) -> SimulatedDisk:
        return medium(self.cluster, DAMAGED)

    @property
    def rots(self) -> bool:
        """Whether something has rotten under a process that still runs."""
        return self._rotten is not None and self._byte() == self._was

    # --- the budget ---------------------------------------------------------------------------------------------------

    def spares(self, *victims: NodeName) -> bool:
        """Whether a fault must not have these nodes at once: a partition would be left without a good copy.

        Without the controller the session of every broker expires, that of the last good copy as well.
        """
        others = set(victims) - {DAMAGED}
        if not others or not self.is_suspect():
            return False
        return CONTROLLER in others or any(good <= others for good in self._good_copies())

    def is_suspect(self) -> bool:
        """Whether the disk may have damaged what no repair has mended."""
        if self._suspect and not self.lies and not self.rots and self._is_in_sync():
            self._suspect = False
        return self._suspect

    def allows(self) -> bool:
        """Whether the disk may damage now; if so it is suspect from now on."""
        if not self.copies_are_good():
            self.counted[SPARED] += 1
            return False
        self._suspect = True
        return True

    def copies_are_good(self) -> bool:
        """Whether each partition of the broker has a good copy elsewhere."""
        return all(self._good_copies())

    def has_given_up(self, broker: int) -> bool:
        """Whether a replica of the broker is offline until its next start, as far as the controller knows or not."""
        if not self.cluster.broker(broker).unfenced.is_set():
            return False  # it has yet to open its replicas
        hosted = {partition.key for partition in self.cluster.broker(broker).replicas}
        return any(
            broker in registration.offline_replicas or (TOPIC, partition) not in hosted
            for partition, registration in self._partitions()
            if broker in registration.replicas
        )

    def _good_copies(self) -> Iterator[set[int]]:
        """Of each partition that the broker has, the other brokers with a good copy."""
        for registration in self._hosted():
            in_sync = registration.isr | registration.elr
            yield {b for b in in_sync - registration.offline_replicas - registration.lost_replicas if self._is_whole(b)}

    def _is_whole(self, broker: int) -> bool:
        """Whether a broker's process is registered, with all its directories, and no fault touches it or its links."""
        if broker in (DAMAGED, *self._busy) or not self.cluster.is_alive(broker):
            return False
        if self._cut.get(broker) or self._cut.get(CONTROLLER):
            return False
        process = self.cluster.broker(broker)
        return process.unfenced.is_set() and process.halted is None and not process.replicas.directories.offline

    def _is_in_sync(self) -> bool:
        if not self.cluster.is_alive(DAMAGED) or not self.cluster.broker(DAMAGED).unfenced.is_set():
            return False
        damaged = (hosted.log.damage for hosted in self.cluster.broker(DAMAGED).replicas if hosted.topic == TOPIC)
        return not any(damaged) and all(DAMAGED in registration.isr for registration in self._hosted())

    def _hosted(self) -> Iterator[PartitionRegistration]:
        """The partitions of which the broker has a replica."""
        return (registration for _, registration in self._partitions() if DAMAGED in registration.replicas)

    def _partitions(self) -> Iterator[tuple[int, PartitionRegistration]]:
        topic = self.cluster.controller.controller.image.topics.get(TOPIC)
        yield from () if topic is None else topic.partitions.items()

    # --- what it does -------------------------------------------------------------------------------------------------

    def damage(self) -> None:
        """Rot, a lost sector or a torn one in some segment, or a partition's log removed, while the broker is down."""
        if self._rng.random() < 0.25 and self.remove_log():
            return
        logs = self._logs()
        if not logs:
            return
        path = self._rng.choice(logs)
        size = self.medium.size(path)
        match self._rng.choice(("rot", "lost", "torn")):
            case "rot":
                self._flip(path, self._rng.randrange(size), self._rng.randrange(8))
            case "lost":
                start = self._rng.randrange(size)
                self.medium.zero(path, start, min(size, start + SECTOR))
            case _:
                file = self.medium.open(path)
                file.truncate(self._rng.randrange(size))
                file.sync()

    def rot(self) -> None:
        """A bit of a segment flips under the process that has it open, where the checksum or the length tells."""
        if logs := self._logs():
            path = self._rng.choice(logs)
            position, bit = self._rng.randrange(self.medium.size(path)), self._rng.randrange(8)
            content = self.medium.files()[path]
            while is_unchecked(content, position):
                self.counted[UNSEEN] += 1
                position = (position + 1) % len(content)
            self.medium.flip_bit(path, position, bit)
            self._rotten = path, position, bit
            self._was = self._byte()

    def read_rotten(self) -> None:
        """The broker reads what has rotten, as one does that serves a consumer, or moves a replica or cleans it."""
        if self._rotten is None or not self.cluster.is_alive(DAMAGED):
            return
        path, _, _ = self._rotten
        replicas = self.cluster.broker(DAMAGED).replicas
        for hosted in replicas:
            if path.rpartition("/")[0] != hosted.log.directory:
                continue
            offset = max(int(path.rpartition("/")[2].partition(".")[0]), hosted.log.log_start_offset)
            try:
                hosted.log.distrust(offset)
                while batches := list(extents(hosted.log.read(offset, READ_BYTES))):
                    offset = batches[-1].next_offset
            except CorruptLogError as error:
                replicas.storage_failed(hosted, error)

    def lie(self) -> None:
        """The next sync of one of the logs does nothing, and says that it is done."""
        if logs := self._logs():
            self.medium.lose_next_sync(self._rng.choice(logs))
            self.lies = True

    def lie_of_unsynced(self) -> None:
        """The next sync of one of the logs that have something to sync does nothing, and says that it is done."""
        self.medium.lose_next_sync(self._rng.choice(self.unsynced_logs()))
        self.lies = True

    def unsynced_logs(self) -> list[str]:
        """The segments whose next sync has something to save."""
        return [path for path in self._logs() if self.medium.unsynced(path)]

    def has_lied(self) -> bool:
        """Whether a sync has said that it is done, and was lost, since the machine last crashed."""
        return self.lies and not self.medium.loses_next_sync

    def hide_rot(self) -> None:
        """Undo the rot for a moment, in which a trace tells what the process has left on the disk."""
        if self._rotten is not None and self._byte() == self._was:
            self.medium.flip_bit(*self._rotten)
        else:
            self._rotten = None  # written anew, or gone with its file

    def show_rot(self) -> None:
        """The rot is there again, before the next process looks."""
        if self._rotten is not None and self._byte() is not None:
            self._flip(*self._rotten)
        self._rotten = None

    def _byte(self) -> int | None:
        """The byte that has rotten; None when its place is gone."""
        assert self._rotten is not None
        path, position, _ = self._rotten
        content = self.medium.files().get(path, b"")
        return content[position] if position < len(content) else None

    def _logs(self) -> list[str]:
        """The segments of the topic's partitions that have records."""
        return [
            path
            for path, content in self.medium.files().items()
            if f"/{TOPIC}-" in path and path.endswith(".log") and content
        ]

    def _flip(self, path: str, position: int, bit: int) -> None:
        """A bit flips; the next one to it that a check finds, where none finds this one."""
        content = self.medium.files()[path]
        while stays_unseen(content, position, bit):
            self.counted[UNSEEN] += 1
            position = (position + 1) % len(content)
        self.medium.flip_bit(path, position, bit)

    def remove_log(self) -> bool:
        """Remove the directory of a partition that had records; False if there is none."""
        disk = self.cluster.host.disk(broker_name(DAMAGED))
        for root, removable in self.flushed_logs():
            remove_directory(disk, self._rng.choice(removable))
            disk.sync_directory(root)
            return True
        return False

    def flushed_logs(self) -> Iterator[tuple[str, list[str]]]:
        """Log directories with those of partitions that have records up to a recovery point, if there are some."""
        disk = self.cluster.host.disk(broker_name(DAMAGED))
        for root in self.cluster.broker(DAMAGED).replicas.directories.paths:
            points = checkpoints.read_offsets(disk, root, checkpoints.RECOVERY_POINT_CHECKPOINT)
            found = [
                path
                for (topic, partition), point in sorted(points.items())
                if topic == TOPIC and point and disk.exists(path := f"{root}/{topic}-{partition}")
            ]
            if found:
                yield root, found


def medium(cluster: Cluster, broker: int) -> SimulatedDisk:
    """A broker's disk itself."""
    return cluster.host.simulated("damage").medium(broker_name(broker))


def is_unchecked(content: bytes, position: int) -> bool:
    """Whether a position is in the base offset or leader epoch of a batch, which a broker that runs believes."""
    try:
        for extent in extents(content):
            within = position - extent.position
            if within < extent.size:
                return within < BASE_OFFSET[1] or LEADER_EPOCH[0] <= within < LEADER_EPOCH[1]
    except CorruptRecordError:  # damaged before
        pass
    return False
