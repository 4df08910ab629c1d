"""The workload of a recording with a group: members that subscribe, deliver, commit, pause, leave and come again.

Theory of operation
-------------------
Each member is a thread, with one life of a client after the other; a life is a process, and a member of its own. It
polls, delivers what comes, and commits most of it, with the index of the commit's row as metadata: so a member that is
assigned a partition can say which commit it finds there. Now and then it pauses, at times for longer than the
group waits. What a library calls before and after a rebalance says what it owned; and since it may have asked for an
assignment in the background, that counts as asked for since the last time that something was taken away.

An error of a commit is *info*: the library may have asked before. At the end one more member delivers what is left,
and each partition of which all is delivered is declared settled for the group.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tidegauge.model_tests.harness.recording.clients import (
    Library,
    Member,
    Polled,
    Rebalances,
    UnavailableError,
)
from tidegauge.model_tests.harness.recording.workload import POLL_SECONDS, Recording, Workload

GROUP_NUMBER: Final = 0
LIVES: Final = (1.0, 3.0, 10.0)
"""How many seconds a member lives."""
REST_SECONDS: Final = 0.5
"""At most so long until it comes again."""
PAUSES: Final = (0.1, 0.5, 8.0)
"""How many seconds it does nothing; the last one is longer than the group waits."""
PAUSED_SHARE: Final = 0.02
COMMITTED_SHARE: Final = 0.7
"""Of the polls, those after which it commits."""


class GroupRecording(Recording):
    """One run of a workload whose records are consumed by a group."""

    def __init__(self, workload: Workload, library: Library) -> None:
        super().__init__(workload, library)
        self._numbers = itertools.count(self._writing + workload.readers + 1 + workload.partitions)
        self._delivered = dict.fromkeys(range(workload.partitions), 0)
        """After the last record of each partition that somebody was given."""

    def _tasks(self) -> Sequence[tuple[Callable[[int], None], int]]:
        return (*super()._tasks(), (self._consume, self._workload.groups))

    def _consume(self, number: int) -> None:
        rng = random.Random(f"{self._workload.seed}/member/{number}")
        while not self._stopped.is_set():
            self._live(rng, partial(self._is_over, time.monotonic() + rng.choice(LIVES)))
            self._stopped.wait(rng.uniform(0, REST_SECONDS))

    def _is_over(self, until: float) -> bool:
        return self._stopped.is_set() or time.monotonic() >= until

    def _live(self, rng: random.Random, is_over: Callable[[], bool], *, rests: bool = True) -> None:
        """One life of a client."""
        life = _Life(self, next(self._numbers), rng)
        try:
            while not is_over():
                life.step()
                if rests and rng.random() < PAUSED_SHARE:
                    self._stopped.wait(rng.choice(PAUSES))
        finally:
            life.close()

    def _settle(self) -> tuple[int, ...]:
        """The log first; then a last member is given what is left. Returns what could not be settled."""
        unsettled = super()._settle()
        deadline = time.monotonic() + self._workload.settle_seconds

        def behind() -> list[int]:
            return [one for one, end in self._ends.items() if self._delivered[one] < end]

        rng = random.Random(f"{self._workload.seed}/last")
        self._live(rng, lambda: not behind() or time.monotonic() >= deadline, rests=False)
        late = set(behind()) | set(unsettled)
        for partition, end in sorted(self._ends.items()):
            if partition not in late:
                self._recorder.group_settled(partition, GROUP_NUMBER, end)
        return tuple(sorted(late))

    def join(self, rebalances: Rebalances) -> Member:
        """A client that subscribes. Raises UnavailableError."""
        work = self._workload
        group = f"{work.topic}-group"
        return self._library.member(work.bootstrap, group, work.topic, work.group_protocol, work.properties, rebalances)

    def delivered(self, polled: Polled) -> None:
        """Somebody was given this."""
        after = polled.records[-1].offset + 1
        self._delivered[polled.partition] = max(self._delivered[polled.partition], after)


class _Life:
    """A life of a client, as the recorder is told of it."""

    def __init__(self, recording: GroupRecording, process: int, rng: random.Random) -> None:
        self._recording = recording
        self._recorder = recording._recorder
        self._process = process
        self._rng = rng
        self._asked_at = self._recorder.now()
        """When it can have asked for its assignment at the earliest."""
        self._owned: set[int] = set()
        self._unread: set[int] = set()
        """What it has been assigned, and has not asked yet what is committed of it."""
        self._member = recording.join(Rebalances(self._assigned, self._released))

    def _assigned(self, partitions: Sequence[int], generation: int | None, *, incremental: bool) -> None:
        """The library says what it has been assigned: all of it, or with `incremental` what came to it."""
        if not incremental:
            self._released(sorted(self._owned - set(partitions)))
        self._unread |= set(partitions) - self._owned
        self._owned |= set(partitions)
        self._recorder.assigned(self._process, self._asked_at, sorted(self._owned), GROUP_NUMBER, generation)

    def _released(self, partitions: Sequence[int]) -> None:
        """The library says what is taken away."""
        if partitions:
            self._owned -= set(partitions)
            self._unread -= set(partitions)
            self._recorder.released(self._process, partitions, GROUP_NUMBER)
        self._asked_at = self._recorder.now()

    def step(self) -> None:
        """Poll once, and do what comes of it. What the cluster does not do is tried again."""
        call = self._recorder.now()
        try:
            polled = self._member.poll(POLL_SECONDS)
        except UnavailableError:
            self._recording._stopped.wait(POLL_SECONDS)
            return
        generation = self._member.generation()
        for one in polled:
            self._recorder.delivered(self._process, call, one.partition, one.records, GROUP_NUMBER, generation)
            self._recording.delivered(one)
        for one in polled:
            if self._rng.random() < COMMITTED_SHARE:
                self._commit(one.partition, one.records[-1].offset + 1, generation)
        for partition in sorted(self._unread)[:1]:
            self._unread.discard(partition)
            self._read(partition)

    def _commit(self, partition: int, offset: int, generation: int | None) -> None:
        said = (GROUP_NUMBER, generation, self._process)
        index = self._recorder.commit_of_member(self._process, partition, offset, *said)
        try:
            self._member.commit(partition, offset, str(index))
        except UnavailableError as error:
            self._recorder.unknown(index, str(error))
        else:
            self._recorder.done(index)

    def _read(self, partition: int) -> None:
        """Ask what is committed."""
        index = self._recorder.read_offsets(self._process, partition, GROUP_NUMBER)
        try:
            committed = self._member.committed(partition)
        except UnavailableError as error:
            self._recorder.failed(index, str(error))
            return
        offset, metadata = committed or (None, None)
        self._recorder.offsets_read(index, offset, None if metadata is None else int(metadata))

    def close(self) -> None:
        """It leaves."""
        try:
            self._member.close()
        finally:
            self._released(sorted(self._owned))
