"""The workload of a recording with transactions: processes that fence each other, one that consumes and produces.

Theory of operation
-------------------
Each transactional id has two processes, a thread each. A process lives for a while: it begins, which fences the other,
and makes one transaction after the other until it is fenced in turn, or dies, now and then in the midst of one. The
*transformer* consumes the first partition with read_committed, produces to the others, and commits its group's offset
in the same transaction; where it does not know the outcome it begins anew, and goes on where the group is then. Every
other reader has read_committed.

A commit whose response is an error is *info*: the library may have asked before, and what the coordinator did then
counts. An abort is asked for where the commit was not. At the end each transactional id begins once more, so that its
coordinator ends what is left open, and makes its last transactions: one that is aborted and one that is committed. Then
a reader with read_committed reads each partition up to a record that was acknowledged after that: it gets there only if
no transaction hangs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tidegauge.linearizability.history import Isolation, Kind
from tidegauge.model_tests.harness.recording.clients import Reader, TransactionalProducer, UnavailableError
from tidegauge.model_tests.harness.recording.workload import POLLS, Recording

PROCESSES: Final = 2
"""Of each transactional id."""
LIVES: Final = (0.5, 1.5, 5.0)
"""How many seconds a process lives."""
REST_SECONDS: Final = 0.2
ABORTED_SHARE: Final = 0.2
LEFT_SHARE: Final = 0.5
"""Of the processes that die, those that leave a transaction open."""
MOST_MADE: Final = 3
"""Records that the transformer makes of what it has fetched at once."""
INPUT: Final = 0
GROUP_NUMBER: Final = 0


class TransactionalRecording(Recording):
    """One run of a workload whose producers are transactional."""

    def _tasks(self) -> Sequence[tuple[Callable[[int], None], int]]:
        work = self._workload
        transformers = int(work.partitions > 1)
        return (
            (self._write, work.transactions * PROCESSES),
            (self._transform, transformers),
            (self._read, work.readers),
        )

    @property
    def _writing(self) -> int:
        """The transformer is the last one of them."""
        return self._workload.transactions * PROCESSES + 1

    def _isolation(self, process: int) -> Isolation:
        is_reader = self._writing <= process < self._writing + self._workload.readers
        careless = is_reader and (process - self._writing) % 2 == 1
        return Isolation.READ_UNCOMMITTED if careless else Isolation.READ_COMMITTED

    @property
    def _group(self) -> str:
        return f"{self._workload.topic}-transformer"

    def _begun(self, transactional_id: str) -> TransactionalProducer:
        """A process that begins; its name is the topic's and its own, so that runs do not meet. UnavailableError."""
        work = self._workload
        name = f"{work.topic}-{transactional_id}"
        return self._library.transactional(work.bootstrap, name, self._group, work.properties)

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self, process: int) -> None:
        rng = random.Random(f"{self._workload.seed}/writer/{process}")
        while not self._stopped.is_set():
            with suppress(UnavailableError):
                producer = self._begun(f"writer-{process // PROCESSES}")
                try:
                    self._live(producer, process, rng)
                finally:
                    producer.close()
            self._stopped.wait(rng.uniform(0, 2 * REST_SECONDS))

    def _live(self, producer: TransactionalProducer, process: int, rng: random.Random) -> None:
        """Until the time is over; then, perhaps, in the midst of a transaction. Raises UnavailableError."""
        until = time.monotonic() + rng.choice(LIVES)
        while not self._stopped.is_set():
            number = self._recorder.next_transaction()
            producer.begin()
            for _ in range(rng.choice((1, 2, 2, 3))):
                self._send_in(producer, process, rng.randrange(self._workload.partitions), number)
            is_over = time.monotonic() >= until
            if is_over and rng.random() < LEFT_SHARE:
                return
            self._finish(producer, process, number, aborts=rng.random() < ABORTED_SHARE)
            if is_over:
                return
            self._stopped.wait(1 / self._workload.rate)

    def _send_in(self, producer: TransactionalProducer, process: int, partition: int, number: int) -> None:
        value = next(self._values)
        index = self._recorder.produce(process, partition, value, -1, number)
        try:
            offset = producer.send(self._workload.topic, partition, b"%d" % value)
        except UnavailableError as error:
            self._recorder.unknown(index, str(error))
            self._give_up(producer, process, number)
            raise
        self._recorder.offset_known(index, offset)

    def _finish(self, producer: TransactionalProducer, process: int, number: int, *, aborts: bool) -> None:
        """Raises UnavailableError."""
        if aborts:
            self._end_with(producer.abort, process, Kind.ABORT, number)
        else:
            self._end_with(producer.commit, process, Kind.COMMIT, number)

    def _give_up(self, producer: TransactionalProducer, process: int, number: int) -> None:
        with suppress(UnavailableError):
            self._end_with(producer.abort, process, Kind.ABORT, number)

    def _end_with(self, end: Callable[[], None], process: int, kind: Kind, number: int) -> None:
        index = self._recorder.end(process, kind, number)
        try:
            end()
        except UnavailableError as error:
            self._recorder.unknown(index, str(error))
            raise
        self._recorder.done(index)

    # --- consuming, transforming, producing --------------------------------------------------------------------------

    def _transform(self, _: int) -> None:
        process = self._writing - 1
        rng = random.Random(f"{self._workload.seed}/transformer")
        reader = self._reader(process)
        try:
            while not self._stopped.is_set():
                with suppress(UnavailableError):
                    producer = self._begun("transformer")
                    try:
                        self._transform_on(producer, reader, process, rng)
                    finally:
                        producer.close()
                self._stopped.wait(rng.uniform(0, REST_SECONDS))
        finally:
            reader.close()

    def _transform_on(self, producer: TransactionalProducer, reader: Reader, process: int, rng: random.Random) -> None:
        """From where the group is, until nobody knows what became of a transaction. Raises UnavailableError."""
        topic = self._workload.topic
        position = producer.committed(topic, INPUT)
        reader.seek(topic, INPUT, position)
        while not self._stopped.is_set():
            aborts = rng.random() < ABORTED_SHARE
            position = self._transform_once(producer, reader, process, position, rng, aborts=aborts)

    def _transform_once(
        self,
        producer: TransactionalProducer,
        reader: Reader,
        process: int,
        position: int,
        rng: random.Random,
        *,
        aborts: bool,
    ) -> int:
        """One transaction from a position on; returns where the next one begins. Raises UnavailableError."""
        number = self._recorder.next_transaction()
        producer.begin()
        records = self._fetch(reader, process, INPUT, position, number)
        if not records:
            self._end_with(producer.abort, process, Kind.ABORT, number)
            return position
        for _ in records[:MOST_MADE]:
            self._send_in(producer, process, rng.randrange(INPUT + 1, self._workload.partitions), number)
        after = records[-1].offset + 1
        self._commit_offset(producer, process, after, number)
        self._finish(producer, process, number, aborts=aborts)
        if aborts:
            reader.seek(self._workload.topic, INPUT, position)
        return position if aborts else after

    def _commit_offset(self, producer: TransactionalProducer, process: int, offset: int, number: int) -> None:
        index = self._recorder.commit_offset(process, INPUT, offset, number, GROUP_NUMBER)
        try:
            producer.commit_offset(self._workload.topic, INPUT, offset)
        except UnavailableError as error:
            self._recorder.unknown(index, str(error))
            self._give_up(producer, process, number)
            raise
        self._recorder.done(index)

    # --- the end -----------------------------------------------------------------------------------------------------

    def _settle(self) -> tuple[int, ...]:
        """What is left open is aborted first; returns the partitions that could not be read to the end."""
        deadline = time.monotonic() + self._workload.settle_seconds
        for number in range(self._workload.transactions):
            self._again(partial(self._last_of_a_writer, number), deadline)
        if self._workload.partitions > 1:
            self._again(self._last_of_the_transformer, deadline)
        return super()._settle()

    def _again(self, act: Callable[[], None], deadline: float) -> None:
        """Until it is done, or nobody waits any more."""
        while time.monotonic() < deadline:
            try:
                act()
            except UnavailableError:
                time.sleep(REST_SECONDS)
            else:
                return

    def _last_of_a_writer(self, number: int) -> None:
        """One transaction that is aborted, and one that is committed."""
        process = number * PROCESSES
        producer = self._begun(f"writer-{number}")
        try:
            for aborts in (True, False):
                transaction = self._recorder.next_transaction()
                producer.begin()
                self._send_in(producer, process, INPUT, transaction)
                self._finish(producer, process, transaction, aborts=aborts)
        finally:
            producer.close()

    def _last_of_the_transformer(self) -> None:
        process = self._writing - 1
        reader = self._reader(process)
        try:
            producer = self._begun("transformer")
            try:
                position = producer.committed(self._workload.topic, INPUT)
                reader.seek(self._workload.topic, INPUT, position)
                rng = random.Random(f"{self._workload.seed}/last")
                for _ in range(POLLS):
                    if self._transform_once(producer, reader, process, position, rng, aborts=False) > position:
                        return
                raise UnavailableError("nothing comes")
            finally:
                producer.close()
        finally:
            reader.close()

    def _end(self, reader: Reader, process: int, partition: int) -> int | None:
        """After the last record; markers behind it are no records, and no position gets beyond them."""
        return self._ends.get(partition)
