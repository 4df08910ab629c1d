"""What members of a simulated group do who process exactly once: consume, transform, produce, in transactions.

Each record of the input has one output, whose value is a number of its own; `Outputs` knows of which record it is. A
processor fetches what is committed, produces an output for each record, and commits its group's offset under its
membership, all in one transaction (KIP-447). Whenever that did not come to a known end it asks where to go on, for an
offset that is stable. Now and then it changes its mind, or sleeps in the midst of a transaction: until the coordinator
has aborted it, or until its session is over and another member has its partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count, islice
from random import Random
from typing import TYPE_CHECKING, Final

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.membership import GroupMetadata, Identity
from tidegauge.impl.client.requests import Fetched
from tidegauge.impl.client.transactional import FENCED as FENCED_BY
from tidegauge.impl.client.transactional import Transaction, TransactionalProducer
from tidegauge.linearizability.history import Isolation, Kind
from tidegauge.model_tests.harness.simulation.options import Options
from tidegauge.model_tests.harness.simulation.recorder import Recorder, now_ns
from tidegauge.model_tests.harness.simulation.transacting import ChangedMindError, read

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client
    from tidegauge.model_tests.harness.simulation.group_recorder import GroupRecorder
    from tidegauge.model_tests.harness.simulation.simulated_member import SimulatedMember

OUTPUT: Final = "bills"
OUTPUT_PARTITIONS: Final = 2
TIMEOUTS_MS: Final = (600, 2_500)
"""Of a transaction: shorter than a session, so that one may be over whose member is there still; and longer."""
CHANGES_SHARE: Final = 0.1
SLEEPS_SHARE: Final = 0.25
SLEEPS_S: Final = (0.3, 0.9, 1.8, 1.8)
"""Within a transaction's time, beyond that, and beyond the session."""
BEATS_SHARE: Final = 0.5
BEATS_EACH_S: Final = 0.25

MOST_DELAY_MS: Final = 2.0
"""On each link: a dozen turns of a transaction fit into a session."""
MOST_TOLD: Final = 5
"""Of the records with too many outputs, or none."""

Place = tuple[int, int]
"""The partition and the offset of a record of the input."""

COMMITTED: Final = "a transaction of a member was committed"
UNKNOWN: Final = "a transaction of a member has an unknown outcome"
CHANGED: Final = "a member aborted its transaction"
LATE: Final = "a member's transaction was over before it ended"
OF_FORMER: Final = {
    ErrorCode.unknown_member_id: "offsets of who is no member any more were refused in a transaction",
    ErrorCode.illegal_generation: "offsets of a former member epoch were refused in a transaction",
    ErrorCode.fenced_instance_id: "offsets of a static member's former process were refused in a transaction",
}
"""In classic groups ILLEGAL_GENERATION is rare: who does not join again is soon no member."""
GOALS: Final = (COMMITTED, UNKNOWN, CHANGED, LATE, *OF_FORMER.values())
"""What such members see."""


def with_time_for_transactions(options: Options) -> Options:
    """The same with quicker links, and for longer."""
    return attrs.evolve(options, delay_ms=min(options.delay_ms, MOST_DELAY_MS), duration=2 * options.duration)


async def read_outputs(recorder: Recorder, client: Client, end: Callable[[int], int]) -> list[int]:
    """What read_committed returns of all outputs, once nobody works any more; `end`: where a partition of them ends.

    Raises KafkaError.
    """
    committed: list[int] = []
    for partition in range(OUTPUT_PARTITIONS):
        recorder.history.settled(call=now_ns(), partition=partition, topic=OUTPUT)
        position = 0
        while position < end(partition):
            fetched = await read(recorder, client, OUTPUT, position, partition, Isolation.READ_COMMITTED)
            committed += [int(record.value or b"") for record in fetched.records]
            position = fetched.next_offset
    return committed


@attrs.define
class Outputs:
    """Of which record of the input each output is."""

    made_of: dict[int, Place] = attrs.field(factory=dict)
    _values: Iterator[int] = attrs.field(factory=count)

    def of(self, partition: int, fetched: Fetched) -> list[int]:
        """New values, one for each record."""
        made = [next(self._values) for _ in fetched.records]
        self.made_of |= {value: (partition, one.offset) for value, one in zip(made, fetched.records, strict=True)}
        return made

    def faults(self, committed: Iterable[int], ends: Mapping[int, int]) -> list[str]:
        """The first that is wrong; `committed` and `ends` as for `each_fault`."""
        return list(islice(self.each_fault(committed, ends), MOST_TOLD))

    def each_fault(self, committed: Iterable[int], ends: Mapping[int, int]) -> Iterator[str]:
        """What is wrong with the outputs that read_committed returns: each record of the input has one, below its end.

        `ends`: partition of the input -> its log end offset.
        """
        times = Counter(self.made_of[value] for value in committed)
        for partition, end in ends.items():
            for offset in range(end):
                if (number := times.pop((partition, offset), 0)) != 1:
                    yield f"the record at offset {offset} of partition {partition} has {number} committed outputs"
        for partition, offset in times:
            yield f"there is a committed output of offset {offset} of partition {partition}, where no record is"


@attrs.define(eq=False)
class Processor:
    """What one life of a member does with what it owns."""

    client: Client
    recorder: GroupRecorder
    outputs: Outputs
    group: str
    transactional_id: str
    rng: Random
    seen: Counter[str]
    is_healed: bool = False
    """From then on it sleeps no more, and does not change its mind."""
    _producer: TransactionalProducer | None = None

    @property
    def producer(self) -> TransactionalProducer:
        """That of its transactional id; another one, once it was fenced."""
        if self._producer is None or self._producer.is_fenced:
            self._producer = TransactionalProducer(
                self.client, self.transactional_id, transaction_timeout_ms=self.rng.choice(TIMEOUTS_MS)
            )
        return self._producer

    async def begin(self) -> None:
        """A new epoch, where it has none: what it had left open is aborted before it asks where to go on.

        Raises KafkaError.
        """
        if self.producer.epoch < 0:
            await self.producer.begin()

    async def process(self, member: SimulatedMember, partition: int, position: int) -> int:
        """The records of a partition from there on, in one transaction; returns where it goes on.

        Raises KafkaError: then only the group knows where.
        """
        fetched = await self.client.fetch(
            member.topic, position, partition=partition, max_wait_ms=10, read_committed=True
        )
        if not fetched.records:
            return fetched.next_offset
        number, end = self.recorder.next_transaction(), None
        whose = GroupMetadata(self.group, Identity(member.member_id, member.generation), member.instance)
        try:
            async with self.producer.transaction() as transaction:
                values = self.outputs.of(partition, fetched)
                made = Made(self, member, whose, partition, fetched, values, transaction, number)
                made.note()
                await self._work(made)
                end = self.recorder.called(self.client.client_id, kind=Kind.COMMIT, topic="", transaction=number)
        except ChangedMindError:
            self.seen[CHANGED] += 1
            return position
        except BaseException as error:
            if end is not None:
                self.recorder.failed(end, error)
            if isinstance(error, KafkaError):
                self._count(error, ends=end is not None)
            raise
        self.recorder.ended(end)
        self.seen[COMMITTED] += 1
        return fetched.next_offset

    async def _work(self, made: Made) -> None:
        steps = [made.produce, made.commit_offset]
        if self.rng.random() < 0.5:
            steps.reverse()
        for step in steps:
            await step()
            if not self.is_healed and self.rng.random() < SLEEPS_SHARE:
                await self._sleep(made.member)
        if not self.is_healed and self.rng.random() < CHANGES_SHARE:
            raise ChangedMindError

    async def _sleep(self, member: SimulatedMember) -> None:
        """It takes its time: all of it hangs, or its heartbeats go on as those of real clients do."""
        until = trio.current_time() + self.rng.choice(SLEEPS_S)
        beats = self.rng.random() < BEATS_SHARE
        while trio.current_time() < until:
            await trio.sleep(min(BEATS_EACH_S, until - trio.current_time()) if beats else until - trio.current_time())
            if beats:
                with suppress(KafkaError):
                    await member.beat()

    def _count(self, error: KafkaError, *, ends: bool) -> None:
        self.seen[UNKNOWN] += ends and error.maybe_done
        self.seen[LATE] += error.code in FENCED_BY
        if error.code in OF_FORMER:
            self.seen[OF_FORMER[error.code]] += 1


@attrs.frozen(eq=False)
class Made:
    """What is made of some records in one transaction."""

    processor: Processor
    member: SimulatedMember
    whose: GroupMetadata
    """As it was when the transaction began."""
    partition: int
    """Of the input, as the records are."""
    fetched: Fetched
    values: list[int]
    """The outputs."""
    transaction: Transaction
    number: int
    """That of the transaction in the history."""

    def note(self) -> None:
        """The application is given the records, and what it makes of them is in the transaction."""
        said = {**self.member.said, "isolation": Isolation.READ_COMMITTED, "transaction": self.number}
        self.processor.recorder.delivered(self.member.process, self.partition, self.fetched, **said)

    async def produce(self) -> None:
        """Produce the outputs. Raises KafkaError."""
        to = self.processor.rng.randrange(OUTPUT_PARTITIONS)
        await self.processor.recorder.watched(
            self.processor.client.client_id,
            lambda: self.transaction.produce(OUTPUT, *(b"%d" % value for value in self.values), partition=to),
            lambda base: {"offset": base},
            kind=Kind.PRODUCE,
            topic=OUTPUT,
            partition=to,
            values=self.values,
            transaction=self.number,
        )

    async def commit_offset(self) -> None:
        """Commit the group's offset under that membership. Raises KafkaError."""
        member, offset = self.member, self.fetched.next_offset
        offsets = {(member.topic, self.partition): offset}
        await self.processor.recorder.commit(
            member.process,
            self.partition,
            offset,
            lambda metadata: self.transaction.commit_offsets(self.whose, offsets, metadata=metadata),
            **member.said,
            member=member.member,
            transaction=self.number,
        )
