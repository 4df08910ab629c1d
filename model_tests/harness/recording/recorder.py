"""A history that several threads write to, by one monotonic clock."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Sequence
from typing import Any

from tidegauge.linearizability.history import History, Isolation, Kind, Operations
from tidegauge.model_tests.harness.recording.clients import Record


class ThreadedRecorder:
    """Operations of one topic; every method may be called in any thread."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._history = History()
        self._lock = threading.Lock()
        self._began = time.monotonic_ns()
        self._transactions = itertools.count()

    def __len__(self) -> int:
        return len(self._history)

    def next_transaction(self) -> int:
        """The number of a transaction that nobody has yet."""
        return next(self._transactions)

    def produce(self, process: int, partition: int, value: int, acks: int, transaction: int | None = None) -> int:
        """A record is about to be sent; returns the operation's index."""
        return self._invoke(process, Kind.PRODUCE, partition, values=[value], acks=acks, transaction=transaction)

    def fetch(
        self,
        process: int,
        partition: int,
        position: int,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        transaction: int | None = None,
    ) -> int:
        """A partition is about to be read from `position`."""
        return self._invoke(
            process, Kind.FETCH, partition, position=position, isolation=isolation, transaction=transaction
        )

    def commit_offset(self, process: int, partition: int, position: int, transaction: int, group: int) -> int:
        """A group's offset is about to be committed in a transaction."""
        return self._invoke(
            process, Kind.COMMIT_OFFSETS, partition, position=position, transaction=transaction, group=group
        )

    def commit_of_member(
        self, process: int, partition: int, position: int, group: int, generation: int | None, member: int
    ) -> int:
        """A member of a group is about to commit an offset."""
        return self._invoke(
            process,
            Kind.COMMIT_OFFSETS,
            partition,
            position=position,
            group=group,
            generation=generation,
            member=member,
        )

    def read_offsets(self, process: int, partition: int, group: int) -> int:
        """A group's committed offset is about to be asked for."""
        return self._invoke(process, Kind.READ_OFFSETS, partition, group=group)

    def offsets_read(self, index: int, offset: int | None, commit: int | None) -> None:
        """A read_offsets returned: the offset of a commit, by its index; or nothing."""
        with self._lock:
            self._history.ok(index, returned=self.now(), offset=offset, found=commit)

    def assigned(self, process: int, call: int, partitions: Sequence[int], group: int, generation: int | None) -> None:
        """A process, which had asked at `call` at the earliest, has been told what it is assigned."""
        self._told(process, Kind.ASSIGN, call, 0, group, generation, values=partitions)

    def delivered(
        self, process: int, call: int, partition: int, records: Sequence[Record], group: int, generation: int | None
    ) -> None:
        """An application that polled at `call` has been given records."""
        values, offsets = [int(record.value or b"") for record in records], [record.offset for record in records]
        self._told(process, Kind.DELIVER, call, partition, group, generation, values=values, offsets=offsets)

    def _told(
        self, process: int, kind: Kind, call: int, partition: int, group: int, generation: int | None, **told: Any
    ) -> None:
        """A row of what has been done, which returns now."""
        with self._lock:
            index = self._history.invoke(
                process=process,
                kind=kind,
                partition=partition,
                call=call,
                topic=self._topic,
                group=group,
                generation=generation,
                member=process,
            )
            self._history.ok(index, returned=self.now(), **told)

    def released(self, process: int, partitions: Sequence[int], group: int) -> None:
        """A process does not own these any more."""
        with self._lock:
            self._history.declare(
                Kind.RELEASE,
                call=self.now(),
                process=process,
                topic=self._topic,
                group=group,
                values=tuple(partitions),
            )

    def group_settled(self, partition: int, group: int, end: int) -> None:
        """Nobody of the group works on the partition any more, whose records end there."""
        with self._lock:
            self._history.settled(call=self.now(), partition=partition, topic=self._topic, group=group, offset=end)

    def end(self, process: int, kind: Kind, transaction: int) -> int:
        """A transaction is about to be committed or aborted."""
        return self._invoke(process, kind, 0, transaction=transaction, topic="")

    def list_offsets(self, process: int, partition: int) -> int:
        """A partition's end is about to be asked for."""
        return self._invoke(process, Kind.LIST_OFFSETS, partition)

    def _invoke(
        self,
        process: int,
        kind: Kind,
        partition: int,
        *,
        values: Sequence[int] = (),
        position: int = -1,
        acks: int = -1,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        transaction: int | None = None,
        group: int | None = None,
        topic: str | None = None,
        generation: int | None = None,
        member: int | None = None,
    ) -> int:
        with self._lock:
            return self._history.invoke(
                process=process,
                kind=kind,
                partition=partition,
                call=self.now(),
                topic=self._topic if topic is None else topic,
                values=values,
                position=position,
                acks=acks,
                isolation=isolation,
                transaction=transaction,
                group=group,
                generation=generation,
                member=member,
            )

    def done(self, index: int) -> None:
        """An operation that returns nothing has returned."""
        with self._lock:
            self._history.ok(index, returned=self.now())

    def offset_known(self, index: int, offset: int | None) -> None:
        """A produce or list_offsets returned."""
        with self._lock:
            self._history.ok(index, returned=self.now(), offset=offset)

    def read(self, index: int, records: Sequence[Record]) -> None:
        """A fetch returned."""
        with self._lock:
            self._history.ok(
                index,
                returned=self.now(),
                values=[int(record.value or b"") for record in records],
                offsets=[record.offset for record in records],
            )

    def failed(self, index: int, reason: str) -> None:
        """It certainly did nothing."""
        with self._lock:
            self._history.fail(index, returned=self.now(), meta=json.dumps({"error": reason}))

    def unknown(self, index: int, reason: str) -> None:
        """Nobody knows what became of it."""
        with self._lock:
            self._history.info(index, returned=self.now(), meta=json.dumps({"error": reason}))

    def settled(self, partition: int) -> None:
        """From now on reads see the true end of the partition."""
        with self._lock:
            self._history.settled(call=self.now(), partition=partition, topic=self._topic)

    def operations(self) -> Operations:
        """The history so far."""
        with self._lock:
            return self._history.operations()

    def now(self) -> int:
        """Nanoseconds since the recording began."""
        return time.monotonic_ns() - self._began
