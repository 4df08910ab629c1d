"""The transaction coordinator of one broker: the shell around its core.

The core rules on requests and says what to append (`impl.coordinators.transactions`). This shell allocates producer
ids, appends to `__transaction_state` (`CoordinatorLog`), tells the core what is committed, and has markers written
(`MarkerSender`). Its sweepers run while the broker leads a partition of the log, and no longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.transactions.coordinator import TransactionConfig, TransactionCoordinator
from tidegauge.impl.coordinators.transactions.messages import (
    AddPartitions,
    Append,
    EndTxn,
    InitProducerId,
    Outcome,
    Outstanding,
    PartitionErrors,
    ProducerGiven,
    ProducerIdNeeded,
    VerifyPartitions,
)
from tidegauge.impl.coordinators.transactions.metadata import EPOCH_PER_TRANSACTION, NO_PRODUCER_ID, TopicPartition
from tidegauge.impl.coordinators.transactions.rules import CORRECT, TransactionRules
from tidegauge.impl.metadata.features import TRANSACTION_VERSION
from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.server.broker.coordination_trace import CoordinationTrace, Request
from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog, Led, LoggedBatch
from tidegauge.impl.server.broker.marker_sender import MarkerSender
from tidegauge.impl.server.pace import Pace

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.peers import Peers
    from tidegauge.impl.server.broker.producer_ids import ProducerIdAllocator
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.server.trace.tracer import Tracer

R = TypeVar("R")
Logged = dict[bytes, bytes | None]
"""The latest value of each key, while a partition of the log is loaded."""

APPEND_TIMEOUT_MS: Final = 30_000
"""How long a client waits for a record of its coordinator; Kafka takes its `request.timeout.ms`."""
_LOOK_UNITS: Final = 2
"""Of work, as `impl.server.pace` counts it, to look at one id."""
_APPEND_UNITS: Final = 200
"""To append a record, or to send a marker."""


class Transactions:
    """The transactional ids whose partition of `__transaction_state` this broker leads."""

    def __init__(
        self,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        producer_ids: ProducerIdAllocator,
        peers: Peers,
        tasks: BrokerTasks,
        config: DynamicConfig,
        *,
        clock: Clock,
        tracer: Tracer,
        timers: bool,
        rules: TransactionRules | None = None,
    ) -> None:
        """`timers`: whether transactions are swept by time, and markers sent again; else a driver orders it.
        `rules`: None for the correct ones.
        """
        self._core = TransactionCoordinator(rules=rules or CORRECT)
        self._metadata = metadata
        self._producer_ids = producer_ids
        self._tasks = tasks
        self._config = config
        self._clock = clock
        self._trace = CoordinationTrace(self._core, tracer)
        self._replicas = replicas
        self._timers = timers
        self._is_sweeping = False
        self._changed: dict[str, trio.Event] = {}
        """By transactional id, for those who wait until its next record is committed."""
        self.log: CoordinatorLog[Logged] = CoordinatorLog(
            TRANSACTION_STATE,
            self,
            replicas,
            tasks,
            clock,
            lambda: config.current.transaction_state_log_load_buffer_size,
        )
        self.markers = MarkerSender(
            self.core, self._appended_in_the_end, metadata, peers, tasks, clock, self._trace, retry_ms=self._retry_ms
        )

    def core(self) -> TransactionCoordinator:
        """The core, with the settings that are in force."""
        image, config = self._metadata.image, self._config.current
        topic = image.topics.get(TRANSACTION_STATE)
        self._core.config = TransactionConfig(
            partitions=config.transaction_state_log_num_partitions if topic is None else len(topic.partitions),
            max_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            transaction_version=image.feature_level(TRANSACTION_VERSION),
            allows_two_phase=config.transaction_two_phase_commit_enable,
        )
        return self._core

    @property
    def now_ms(self) -> int:
        return self._clock.now_ms()

    # --- requests ------------------------------------------------------------------------------------------------

    async def init_producer_id(self, request: InitProducerId) -> ProducerGiven:
        """A producer begins; the errors are those of the core and of an append."""
        return await self._carried_out(
            request, lambda new_id: self.core().init_producer_id(request, self.now_ms, new_id), ProducerGiven
        )

    async def end(self, request: EndTxn) -> ProducerGiven:
        """A producer commits or aborts: the response comes with the prepare record, before the markers."""
        return await self._carried_out(
            request, lambda new_id: self.core().end(request, self.now_ms, new_id), ProducerGiven
        )

    async def add_partitions(self, request: AddPartitions) -> ErrorCode:
        """Partitions join the transaction.

        Only those that this broker knows: so one that it does not know when a marker is to be written was deleted. A
        leader may know of a new partition first; it is told COORDINATOR_LOAD_IN_PROGRESS, upon which its client tries
        again. Another coordinator knows at least as much: it was elected later.

        A client whose last transaction is being completed waits for that, add.partitions.to.txn.retry.backoff.max.ms
        at most: it would only ask again, later. A leader asks again by itself, for another verification.
        """
        if not all(self._metadata.image.partition(*one) for one in request.partitions):
            return ErrorCode.coordinator_load_in_progress
        waits = self._timers and request.client_version < EPOCH_PER_TRANSACTION
        gives_up = trio.current_time() + self._config.current.add_partitions_to_txn_retry_backoff_max_ms / 1000
        while True:
            error = await self._carried_out(
                request, lambda _: self.core().add_partitions(request, self.now_ms), _itself
            )
            if error is not ErrorCode.concurrent_transactions or not waits:
                return error
            with trio.move_on_at(gives_up) as waiting:
                await self._changed.setdefault(request.transactional_id, trio.Event()).wait()
            waits = not waiting.cancelled_caught
            await self._clock.until_running()

    async def add_offsets(self, transactional_id: str, producer_id: int, epoch: int, group_partition: int) -> ErrorCode:
        """A group's offsets join the transaction: the partition of `__consumer_offsets` that has the group."""
        partitions = frozenset({TopicPartition(CONSUMER_OFFSETS, group_partition)})
        return await self.add_partitions(AddPartitions(transactional_id, producer_id, epoch, partitions))

    def verify(self, request: VerifyPartitions) -> PartitionErrors:
        """Whether partitions are in a transaction, for a leader that asks (version 1)."""
        errors = self.core().verify_partitions(request)
        self._trace.verified(request, errors)
        return errors

    async def _carried_out(
        self, request: Request, ask: Callable[[int], Outcome[R]], failed: Callable[[ErrorCode], R]
    ) -> R:
        """Have the core rule on a request, and do what its ruling needs; `failed` makes the response of an error."""
        outcome = ask(NO_PRODUCER_ID)
        if isinstance(outcome, ProducerIdNeeded):
            allocated = await self._producer_ids.allocate()
            if isinstance(allocated, ErrorCode):
                return failed(allocated)
            outcome = ask(allocated)
            assert not isinstance(outcome, ProducerIdNeeded), "it has one"
        self._trace.ruled(request, outcome)
        if isinstance(outcome, Append):
            error = await self._append(outcome, APPEND_TIMEOUT_MS)
            return outcome.response if error is ErrorCode.none else failed(error)
        response = outcome.response
        told: object = response.error if isinstance(response, ProducerGiven) else response
        if told is ErrorCode.concurrent_transactions and self._commits_nothing(request.transactional_id):
            return failed(ErrorCode.coordinator_not_available)
        return response

    def _commits_nothing(self, transactional_id: str) -> bool:
        """Whether a record in the log of this id has waited for its commit as long as any client would.

        A broker that was cut off from the others does not know that it was replaced. A client that is told
        COORDINATOR_NOT_AVAILABLE looks for its coordinator again; one that is told CONCURRENT_TRANSACTIONS does not.
        """
        led = self.log.led(self.core().partition_of(transactional_id))
        return self._timers and not isinstance(led, ErrorCode) and led.waits_s >= APPEND_TIMEOUT_MS / 1000

    # --- the log -------------------------------------------------------------------------------------------------

    async def _append(self, append: Append[object], timeout_ms: float) -> ErrorCode:
        """Append a record, and tell the core when it is committed, or that it never will be."""
        led = self.log.led(append.partition)
        if isinstance(led, ErrorCode) or led.leader_epoch != append.leader_epoch:
            return ErrorCode.not_coordinator

        def apply(offset: int) -> None:
            committed = self.core().committed(append, self.now_ms)
            if committed.error is ErrorCode.none:
                self._trace.committed(append, offset)
            self._take_up(committed.outstanding)
            if append.transactional_id in self._changed:
                self._changed.pop(append.transactional_id).set()

        def drop() -> None:
            self._trace.failed(append)
            self.core().failed(append)

        if (partition := self._replicas.get(TRANSACTION_STATE, append.partition)) is not None:
            self._trace.appends(append, partition.log.log_end_offset)
        return await self.log.append(led, [(append.key, append.value)], apply, timeout_ms=timeout_ms, drop=drop)

    def _take_up(self, outstanding: Outstanding) -> None:
        """Do what prepared transactions need: markers, and complete records."""
        self.markers.send(outstanding.markers)
        for append in outstanding.appends:
            self._appended_in_the_end(append)

    def _appended_in_the_end(self, append: Append[None]) -> None:
        """Append a complete record, for which nobody waits; what was refused is tried again."""
        self._trace.completes(append)
        self._tasks.start_soon(self._append_in_the_end, append)

    async def _append_in_the_end(self, append: Append[None]) -> None:
        error = await self._append(append, math.inf)
        retry_ms = self._retry_ms()
        if error is ErrorCode.none or retry_ms is None:
            return
        await trio.sleep(retry_ms / 1000)
        await self._clock.until_running()
        self._take_up(self.core().outstanding_of(append.partition, append.transactional_id, self.now_ms))

    def _retry_ms(self) -> int | None:
        """The wait before something is tried again; None where a driver orders it."""
        return self._config.current.retry_backoff_ms if self._timers else None

    # --- loading (`Coordinator`) -----------------------------------------------------------------------------------

    def new_state(self, index: int, leader_epoch: int) -> Logged:
        """A partition is about to be loaded."""
        self.core().begin_loading(index, leader_epoch)
        self._trace.elected(index, leader_epoch)
        return {}

    def replay(self, state: Logged, batch: LoggedBatch) -> int:
        """Take in a batch of the log: of each key the last value counts."""
        for record in batch.records:
            if record.key is not None:
                state[record.key] = record.value
        return 0

    async def load(self, led: Led[Logged], pace: Pace) -> int:
        """Coordinate the partition, from now on. Raises ValueError for a record that is none."""
        records: Sequence[tuple[bytes, bytes | None]] = list(led.state.items())
        led.state.clear()
        await pace.finish(self.core().load(led.index, led.leader_epoch, records))
        self._trace.loaded(led.index)
        found = self.core().partitions.get(led.index)
        return 0 if found is None else found.passed_over

    def loaded(self, led: Led[Logged]) -> None:
        """Take up what was prepared."""
        self._tasks.start_soon(self._send_outstanding_of, led)
        if self._timers and not self._is_sweeping:
            self._is_sweeping = True
            self._tasks.start_soon(self._sweep)

    def resigned(self, led: Led[Logged]) -> None:
        """Forget the partition; who waits for a record of it waits for nothing."""
        self.core().resign(led.index, led.leader_epoch)
        self._trace.resigned(led.index, led.leader_epoch)
        while self._changed:
            self._changed.popitem()[1].set()

    # --- time ------------------------------------------------------------------------------------------------------

    async def abort_overdue(self) -> None:
        """Abort the transactions that their producers have not ended in time."""
        await self._append_each(self.core().overdue(self.now_ms))

    async def expire_ids(self) -> None:
        """Forget the transactional ids that nobody has used for transactional.id.expiration.ms."""
        await self._append_each(self.core().expired(self.now_ms))

    async def _append_each(self, found: Iterator[Append[None] | None]) -> None:
        """Append what is found as it comes, in slices: there may be any number of ids."""
        pace = self._pace()
        for append in found:
            if append is not None:
                self._trace.swept(append)
                self._tasks.start_soon(self._append, append, math.inf)
            await pace.did(_LOOK_UNITS if append is None else _APPEND_UNITS)

    async def _send_outstanding_of(self, led: Led[Logged]) -> None:
        """Write the markers that are outstanding, and complete what has all of them."""
        pace = self._pace()
        for outstanding in self.core().outstanding(led.index, self.now_ms):
            self._take_up(outstanding)
            await pace.did(_LOOK_UNITS if outstanding == Outstanding() else _APPEND_UNITS)

    async def send_outstanding(self) -> None:
        """The same of every partition that is coordinated here."""
        for led in self.log:
            await self._send_outstanding_of(led)

    def _pace(self) -> Pace:
        return Pace(until_running=self._clock.until_running)

    async def _sweep(self) -> None:
        """Look for overdue transactions and for idle ids, as long as there may be any here."""
        config = self._config.current
        overdue_s = config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000
        idle_s = config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000
        expires_at = trio.current_time() + idle_s
        while self._core.partitions:
            await trio.sleep(min(overdue_s, idle_s))
            await self._clock.until_running()
            await self.abort_overdue()
            if trio.current_time() >= expires_at:
                expires_at = trio.current_time() + idle_s
                await self.expire_ids()
        self._is_sweeping = False


def _itself(error: ErrorCode) -> ErrorCode:
    return error
