"""Transactional clients at work: every transaction is a part of the history, with what became of it.

Each transactional id has two processes. Which of them begins last fences the other, which is a zombie until it finds
out. A *writer* writes to several partitions. A *transformer* consumes partition 0 of the topic, produces what it makes
of it to the others, and commits the group's offset in the same transaction; it goes on from that offset whenever it
does not know what became of the last one. Applications change their minds, and now and then sleep until the coordinator
has aborted for them. *Readers* of both isolation levels read on, or from the beginning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any, Final, TypeVar

import attrs
import trio
from kio.schema.errors import ErrorCode
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.committed_offsets import GroupOffsets
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.requests import Fetched
from tidegauge.impl.client.transactional import FENCED as FENCED_BY
from tidegauge.impl.client.transactional import Transaction, TransactionalProducer
from tidegauge.impl.metadata.features import TRANSACTION_VERSION
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.primitives import i8, i16, millis
from tidegauge.linearizability.history import Isolation, Kind
from tidegauge.model_tests.harness.simulation.options import Losses, Options
from tidegauge.model_tests.harness.simulation.recorder import Recorder, now_ns

T = TypeVar("T")

GROUP: Final = "transformers"
GROUP_NUMBER: Final = 0
INPUT: Final = 0
"""The partition that the group consumes."""
PROCESSES: Final = 2
"""Of each transactional id."""
LIVES: Final = (0.15, 0.4, 2.0)
"""How long a process lives, in durations of the run."""
ABORTED_SHARE: Final = 0.2
SLEPT_SHARE: Final = 0.04
FROM_BEGINNING_SHARE: Final = 0.1
VERSION_MAX_AGE_MS: Final = 200
UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
"""In UpdateFeatures."""
CHANGE_ATTEMPTS: Final = 20
"""To change a level while controllers are gone."""

COMMITTED: Final = "a transaction was committed"
ABORTED: Final = "a transaction was aborted by its producer"
UNKNOWN: Final = "a commit has an unknown outcome"
REFUSED: Final = "a commit was refused"
FENCED: Final = "a zombie was fenced"
LATE: Final = "a transaction whose time was over was refused"
CONSUMED: Final = "a group's offset was committed in a transaction"
RESUMED: Final = "a group went on from an offset that another process had committed"
CHANGED: Final = "the version of the transactions protocol changed"
HELD_BACK: Final = "read_committed was held back by a transaction that was not decided"
TOLD: Final = (COMMITTED, ABORTED, UNKNOWN, REFUSED, FENCED, LATE, CONSUMED, RESUMED, HELD_BACK, CHANGED)
"""What clients see of transactions."""


class ChangedMindError(Exception):
    """The application aborts."""


@attrs.frozen
class Transacted:
    """One transaction, as its process takes part in it and the history has it."""

    recorder: Recorder
    client: Client
    transaction: Transaction
    number: int

    async def produce(self, topic: str, *values: int, partition: int) -> int:
        """Raises KafkaError."""
        return await self.recorder.watched(
            self.client.client_id,
            lambda: self.transaction.produce(topic, *(b"%d" % value for value in values), partition=partition),
            lambda offset: {"offset": offset},
            kind=Kind.PRODUCE,
            topic=topic,
            partition=partition,
            values=values,
            transaction=self.number,
        )

    async def fetch(self, topic: str, position: int, partition: int) -> Fetched:
        """What is committed from there on. Raises KafkaError."""
        return await read(self.recorder, self.client, topic, position, partition, Isolation.READ_COMMITTED, self.number)

    async def commit_offset(self, topic: str, partition: int, offset: int) -> None:
        """Its index in the history is its metadata, by which a read says what it has found. Raises KafkaError."""
        await self.recorder.numbered(
            self.client.client_id,
            lambda token: self.transaction.commit_offsets(GROUP, {(topic, partition): offset}, metadata=str(token)),
            lambda _: {},
            kind=Kind.COMMIT_OFFSETS,
            topic=topic,
            partition=partition,
            position=offset,
            transaction=self.number,
            group=GROUP_NUMBER,
        )


async def read(
    recorder: Recorder,
    client: Client,
    topic: str,
    position: int,
    partition: int,
    isolation: Isolation,
    transaction: int | None = None,
) -> Fetched:
    """Fetch once, and note it. Raises KafkaError."""
    careful = isolation is Isolation.READ_COMMITTED
    return await recorder.watched(
        client.client_id,
        lambda: client.fetch(topic, position, partition=partition, max_wait_ms=50, read_committed=careful),
        seen,
        kind=Kind.FETCH,
        topic=topic,
        partition=partition,
        position=position,
        isolation=isolation,
        transaction=transaction,
    )


async def read_offset(recorder: Recorder, client: Client, topic: str, *, noted: bool) -> int | None:
    """The stable offset of the group, noted in the history or not. Raises KafkaError."""
    group = GroupOffsets(client, GROUP)
    if not noted:
        return await group.committed(topic, INPUT)
    found = await recorder.watched(
        client.client_id,
        lambda: group.committed_with_metadata(topic, INPUT),
        lambda told: {} if told is None else {"offset": told.offset, "found": int(told.metadata)},
        kind=Kind.READ_OFFSETS,
        topic=topic,
        partition=INPUT,
        group=GROUP_NUMBER,
        isolation=Isolation.READ_COMMITTED,
    )
    return None if found is None else found.offset


async def read_in_the_end(recorder: Recorder, client: Client, topic: str) -> list[str]:
    """Read the group's offset when all has healed, and nobody commits any more; returns why it could not be."""
    recorder.history.settled(call=now_ns(), topic=topic, partition=INPUT, group=GROUP_NUMBER, offset=0)
    try:
        await read_offset(recorder, client, topic, noted=True)
    except KafkaError as error:
        return [f"after healing, the offset of {GROUP} in {topic}-{INPUT} is not told: {error}"]
    return []


def keeps_offsets(options: Options) -> bool:
    """Whether no committed offset is lost: where crashes may take some, a history says nothing of them."""
    return options.losses is not Losses.ANY


def seen(fetched: Fetched) -> Mapping[str, Any]:
    """What a history has of a response to a fetch."""
    return {
        "values": [int(record.value or b"") for record in fetched.records],
        "offsets": [record.offset for record in fetched.records],
        "high_watermark": fetched.high_watermark,
        "last_stable_offset": None if fetched.last_stable_offset < 0 else fetched.last_stable_offset,
    }


class Transacting:
    """The transactional clients of one run."""

    def __init__(
        self,
        topic: str,
        options: Options,
        recorder: Recorder,
        client: Callable[[str], Client],
        next_value: Callable[[], int],
    ) -> None:
        """`client` makes one that nobody observes."""
        self.topic = topic
        self.options = options
        self.recorder = recorder
        self.client = client
        self.next_value = next_value
        self.seen: Counter[str] = Counter()
        self._others = range(INPUT + 1, options.partitions)

    def start(self, nursery: trio.Nursery) -> None:
        """Start all processes."""
        if self.options.transaction_versions != (2,):
            nursery.start_soon(self._change_versions)
        for process in range(PROCESSES):
            nursery.start_soon(self._live_again, f"transformer/{process}", "transformer", self._transform)
            for number in range(self.options.transactions):
                nursery.start_soon(self._live_again, f"writer-{number}/{process}", f"writer-{number}", self._write)
        for isolation in Isolation:
            nursery.start_soon(self._read_on, f"{isolation.name.lower()} reader", isolation)

    async def _live_again(
        self, name: str, transactional_id: str, live: Callable[[Client, TransactionalProducer, Random], Awaitable[None]]
    ) -> None:
        """One life after the other; a life ends when its time is over, also in the midst of a transaction."""
        rng = Random(f"{name}/{self.options.seed}")
        for number in count():
            with trio.move_on_after(rng.choice(LIVES) * self.options.duration):
                async with self.client(f"{name}/{number}") as client:
                    timeout_ms = self.options.transaction_timeout_ms
                    producer = TransactionalProducer(
                        client,
                        transactional_id,
                        transaction_timeout_ms=timeout_ms,
                        version_max_age_ms=VERSION_MAX_AGE_MS,
                    )
                    with suppress(KafkaError):
                        await live(client, producer, rng)
                    self.seen[FENCED] += producer.is_fenced
            await trio.sleep(rng.uniform(0.02, 0.4) * self.options.duration)

    async def _change_versions(self) -> None:
        """The cluster has one level of `transaction.version` after the other, each for as long."""
        levels = self.options.transaction_versions
        async with self.client("operator of features") as client:
            for before, level in zip((2, *levels), levels, strict=False):
                changed = level == before or await self._changed(client, level, is_upgrade=level > before)
                self.seen[CHANGED] += changed and level != before
                await trio.sleep(self.options.duration / len(levels))

    async def _changed(self, client: Client, level: int, *, is_upgrade: bool) -> bool:
        update = FeatureUpdateKey(
            feature=TRANSACTION_VERSION,
            max_version_level=i16(level),
            upgrade_type=i8(UPGRADE if is_upgrade else SAFE_DOWNGRADE),
        )
        request = UpdateFeaturesRequest(timeout=millis(1_000), feature_updates=(update,))
        for _ in range(CHANGE_ATTEMPTS):
            with suppress(UnreachableError, NoResponseError):
                response = await client.ask_any(request, repeatable=True)
                if response.error_code is ErrorCode.none:
                    return True
            await trio.sleep(0.05)
        return False

    async def _write(self, client: Client, producer: TransactionalProducer, rng: Random) -> None:
        while not producer.is_fenced:
            await self._transact(client, producer, lambda own: self._write_records(own, rng), rng)
            await self._rest(rng)

    async def _write_records(self, own: Transacted, rng: Random) -> None:
        for _ in range(rng.choice((1, 2, 2, 3))):
            values = [self.next_value() for _ in range(rng.choice((1, 1, 2, 3)))]
            await own.produce(self.topic, *values, partition=rng.randrange(self.options.partitions))

    async def _transform(self, client: Client, producer: TransactionalProducer, rng: Random) -> None:
        """Consume, transform, produce. A new epoch comes first: what is committed then, no zombie can change."""
        position, last, noted = -1, -1, keeps_offsets(self.options)
        while not producer.is_fenced:
            if position < 0:
                with suppress(KafkaError):
                    if producer.epoch < 0:
                        await producer.begin()
                    position = await read_offset(self.recorder, client, self.topic, noted=noted) or 0
                    self.seen[RESUMED] += position > last
            else:
                next_position = await self._transform_once(client, producer, position, rng)
                if next_position > last:
                    last = next_position
                position = next_position
            await self._rest(rng)

    async def _transform_once(self, client: Client, producer: TransactionalProducer, position: int, rng: Random) -> int:
        """The position after one transaction; -1 if nobody here knows it."""
        after = -1

        async def work(own: Transacted) -> None:
            nonlocal after
            fetched = await own.fetch(self.topic, position, INPUT)
            if fetched.records:
                values = [self.next_value() for _ in fetched.records]
                await own.produce(self.topic, *values, partition=rng.choice(self._others))
                await own.commit_offset(self.topic, INPUT, fetched.next_offset)
            after = fetched.next_offset

        committed = await self._transact(client, producer, work, rng)
        self.seen[CONSUMED] += committed and after > position
        return after if committed else -1

    async def _transact(
        self,
        client: Client,
        producer: TransactionalProducer,
        work: Callable[[Transacted], Awaitable[None]],
        rng: Random,
    ) -> bool:
        """One transaction; whether it is known to be committed."""
        slept, commit = False, None
        try:
            async with producer.transaction() as transaction:
                own = Transacted(self.recorder, client, transaction, self.recorder.next_transaction())
                await work(own)
                if rng.random() < ABORTED_SHARE:
                    raise ChangedMindError
                if slept := rng.random() < SLEPT_SHARE:
                    await trio.sleep(1.5 * self.options.transaction_timeout_ms / 1000)
                commit = self.recorder.called(client.client_id, kind=Kind.COMMIT, topic="", transaction=own.number)
        except ChangedMindError:
            self.seen[ABORTED] += 1
            return False
        except BaseException as error:
            if commit is not None:
                self.recorder.failed(commit, error)
            if not isinstance(error, KafkaError):
                raise
            self._count_refusal(error, slept=slept, ends=commit is not None)
            return False
        self.recorder.ended(commit)
        self.seen[COMMITTED] += 1
        return True

    def _count_refusal(self, error: KafkaError, *, slept: bool, ends: bool) -> None:
        self.seen[UNKNOWN] += ends and error.maybe_done
        self.seen[REFUSED] += ends and not error.maybe_done
        self.seen[LATE] += ends and slept and error.code in FENCED_BY

    async def _read_on(self, name: str, isolation: Isolation) -> None:
        rng = Random(f"{name}/{self.options.seed}")
        positions = dict.fromkeys(range(self.options.partitions), 0)
        async with self.client(name) as client:
            while True:
                partition = rng.randrange(self.options.partitions)
                if rng.random() < FROM_BEGINNING_SHARE:
                    positions[partition] = 0
                try:
                    fetched = await read(self.recorder, client, self.topic, positions[partition], partition, isolation)
                except KafkaError as error:
                    if error.code is ErrorCode.offset_out_of_range:
                        positions[partition] = 0
                else:
                    positions[partition] = fetched.next_offset
                    if isolation is Isolation.READ_COMMITTED:
                        self.seen[HELD_BACK] += fetched.last_stable_offset < fetched.high_watermark
                await self._rest(rng)

    async def _rest(self, rng: Random) -> None:
        await trio.sleep(rng.uniform(0, self.options.pause_between_operations))
