"""An idempotent producer of one partition: what it sends is in the log once, in order, however often it has to be sent.

Theory of operation
-------------------
`Sequencing` decides which batch may be sent when; this is its shell. Every `produce` is a batch and a task of its
caller's: it takes its place in the line in the order of the calls, and sends its batch until it is acknowledged. Up to
five are in flight at once. An attempt without a response is repeated, since a leader knows repeats for what
they are.

A batch whose time is over takes all behind it along: the line is given up and a new epoch begun (KIP-360), and nobody
can say what became of it. So does one that the leader will never take, for what follows it would leave a gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

import trio
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

from tidegauge.impl.client import requests
from tidegauge.impl.client.client import ALL, RETRIABLE
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.observer import Operation
from tidegauge.impl.client.sequencing import MAX_IN_FLIGHT, DesynchronisedError, InFlightBatch, Sequencing
from tidegauge.impl.records.payload import ProducerIdentity, Record, build_batch
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client
    from tidegauge.impl.client.route import Route

LAST_EPOCH: Final = 32_767
_AGAIN: Final = RETRIABLE | {
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.out_of_order_sequence_number,
}
"""Responses after which the same batch may be sent again."""
_WAIT: Final = frozenset({ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available})


class IdempotentProducer:
    """Sends batches to one partition, with acks=all. Any number of tasks may use it at once."""

    def __init__(
        self,
        client: Client,
        topic: str,
        partition: int = 0,
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        sequencing: Callable[[int], Sequencing] = Sequencing,
    ) -> None:
        """`sequencing` makes a line that may be so long; for experiments with one rule changed."""
        if not 1 <= max_in_flight <= MAX_IN_FLIGHT:
            raise ValueError(f"max_in_flight is {max_in_flight}: a leader remembers {MAX_IN_FLIGHT} batches")
        self.producer_id = -1
        self._client = client
        self._topic = topic
        self._partition = partition
        self._sequencing = sequencing
        self._line = sequencing(max_in_flight)
        self._joining = trio.Lock()
        self._moved = trio.Event()

    async def produce(self, *values: bytes, timeout_ms: float | None = None) -> int:
        """Append one batch of records with these values behind those of earlier calls; returns the first one's offset.

        Raises KafkaError; with `maybe_done` the records may be in the log, now or later, but never twice.
        """
        if not values:
            raise ValueError("produce without values: give at least one")
        operation = Operation(self._client.client_id, "produce", self._topic, self._partition, values, ALL)
        budget_ms = self._client.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = trio.current_time() + budget_ms / 1000
        return await self._client._observed(operation, lambda: self._deliver(values, deadline))

    async def _deliver(self, values: tuple[bytes, ...], deadline: float) -> int:
        data = [Record(nth, self._client._clock.now_ms(), None, value) for nth, value in enumerate(values)]
        requests.check_size(len(build_batch(data)), self._client.config.message_max_bytes)
        async with self._joining:
            await self._identify(deadline)
            route = await self._route(deadline)
            await self._until(lambda: self._line.may_send(route.leader), deadline)
            batch = self._line.send(len(values), route.leader)
        identity = ProducerIdentity(self.producer_id, batch.epoch, batch.base_sequence)
        try:
            return await self._send(batch, route, build_batch(data, producer=identity), deadline)
        except BaseException:
            if batch in self._line.line:  # a caller that was cancelled, too, would leave a gap
                self._give_up()
            raise

    async def _send(self, batch: InFlightBatch, route: Route, encoded: bytes, deadline: float) -> int:
        """Send a batch that is in line until it is acknowledged: its offset. Raises KafkaError."""
        while (offset := await self._attempt(batch, route, encoded, deadline)) is None:
            self._client._routes.forget(self._topic)
            await self._sleep(deadline, batch)
            route = await self._route(deadline, batch)
            await self._until(lambda: batch not in self._line.line or self._line.may_retry(batch), deadline, batch)
            self._check_in_line(batch)
            self._line.retry(batch, route.leader)
        return offset

    async def _attempt(self, batch: InFlightBatch, route: Route, encoded: bytes, deadline: float) -> int | None:
        """Send the batch once: its offset, or None when it is to be sent again. Raises KafkaError."""
        attempt = batch.attempt
        left_ms = max(1, math.ceil((deadline - trio.current_time()) * 1000))
        wait_ms = min(left_ms, math.ceil(self._client.config.request_timeout_ms))
        request = requests.produce(route, encoded, ALL, wait_ms)
        offset, error = -1, ErrorCode.none
        try:
            offset = requests.produced(await self._client._ask(route.address, request, wait_ms))
        except (UnreachableError, NoResponseError):
            error = ErrorCode.network_exception
        except KafkaError as refused:
            error = refused.code
            if error not in _AGAIN and error is not ErrorCode.invalid_producer_epoch:
                self._give_up()
                if attempt:  # this one did nothing; of one before it, whose response was lost, nobody can tell
                    message = f"{refused}; an earlier attempt may have been appended"
                    raise KafkaError(error, message, maybe_done=True) from refused
                raise
        self._check_in_line(batch)
        try:
            acknowledged = self._line.complete(batch, attempt, error)
        except DesynchronisedError as lost:
            self._give_up()
            raise KafkaError(error, str(lost), maybe_done=True) from lost
        self._tell()
        return offset if acknowledged else None

    def _check_in_line(self, batch: InFlightBatch) -> None:
        if batch not in self._line.line:
            message = "an earlier batch was given up, and this one with it"
            raise KafkaError(ErrorCode.request_timed_out, message, maybe_done=True)

    # --- who we are, and who leads -----------------------------------------------------------------------------------

    async def _identify(self, deadline: float) -> None:
        """Get a producer id, when there is none yet or its epochs are used up."""
        if self.producer_id >= 0 and self._line.epoch <= LAST_EPOCH:
            return
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout=NO_WAIT)
        while True:
            try:
                response = await self._client.ask_any(request, repeatable=True)
            except (UnreachableError, NoResponseError):
                error = ErrorCode.network_exception
            else:
                error = response.error_code
                if error is ErrorCode.none:
                    break
            if error not in _WAIT and error is not ErrorCode.network_exception:
                raise KafkaError(error, "no producer id was given")
            await self._sleep(deadline)
        self.producer_id = response.producer_id
        self._line = self._sequencing(self._line.max_in_flight)

    async def _route(self, deadline: float, batch: InFlightBatch | None = None) -> Route:
        """The way to the leader, as soon as there is one."""
        while True:
            try:
                return await self._client._routes.leader(self._client, self._topic, self._partition)
            except (UnreachableError, NoResponseError):
                pass
            except KafkaError as error:
                if error.code not in RETRIABLE:
                    raise
            self._client._routes.forget(self._topic)
            await self._sleep(deadline, batch)

    # --- waiting -----------------------------------------------------------------------------------------------------

    async def _until(self, ready: Callable[[], bool], deadline: float, batch: InFlightBatch | None = None) -> None:
        with trio.move_on_at(deadline):
            while not ready():
                await self._moved.wait()
            return
        self._time_is_over(batch)

    async def _sleep(self, deadline: float, batch: InFlightBatch | None = None) -> None:
        backoff = self._client.config.retry_backoff_ms / 1000
        if trio.current_time() + backoff >= deadline:
            self._time_is_over(batch)
        await trio.sleep(backoff)

    def _time_is_over(self, batch: InFlightBatch | None) -> NoReturn:
        """Raises KafkaError; a batch that is in line takes the line along."""
        if batch is None:
            raise KafkaError(ErrorCode.request_timed_out, "the batch was never sent")
        if batch in self._line.line:
            self._give_up()
        raise KafkaError(ErrorCode.request_timed_out, "no leader has acknowledged the batch", maybe_done=True)

    def _give_up(self) -> None:
        self._line.give_up()
        self._tell()

    def _tell(self) -> None:
        """Wake those that wait for the line to move."""
        self._moved.set()
        self._moved = trio.Event()
