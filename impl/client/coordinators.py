"""The coordinator of a transactional id or of a group: found by asking any broker, and found anew when it has moved."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from tidegauge.impl.client.client import RETRIABLE
from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.ports.network import Address
from tidegauge.impl.wire.channel import NoResponseError, UnreachableError
from tidegauge.impl.wire.primitives import i8

if TYPE_CHECKING:
    from tidegauge.impl.client.client import Client

GROUP: Final = 0
TRANSACTION: Final = 1
"""The key types of FindCoordinator."""
MOVED: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)
BUSY: Final = MOVED | {ErrorCode.concurrent_transactions, ErrorCode.unstable_offset_commit}
"""Errors after which a request is sent again."""
PASSING: Final = BUSY | RETRIABLE
"""Errors of requests that a consumer makes by itself, and again however long they last: nobody is told of them."""


class Coordinator:
    """Of one key, as far as one client knows it."""

    def __init__(self, client: Client, key_type: int, key: str) -> None:
        """`key_type`: GROUP or TRANSACTION."""
        self._client = client
        self._key_type = key_type
        self._key = key
        self._address: Address | None = None
        self.lost = 0
        """How many requests had no response, and may yet arrive."""

    async def ask(
        self,
        request: Any,
        error_of: Callable[[Any], ErrorCode],
        timeout_ms: float | None,
        *,
        is_bounded: bool = False,
    ) -> Any:
        """The response without error, after as many attempts as the time allows; with 0 after one.

        `is_bounded`: a caller who says how long waits no longer for the last one, either.

        Raises KafkaError; with `maybe_done` an attempt may have been carried out, though a later one was refused.
        """
        client = self._client
        budget_ms = client.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = trio.current_time() + budget_ms / 1000
        maybe_done = False
        while True:
            error, message = ErrorCode.coordinator_not_available, f"{self._key!r} has no coordinator"
            sent = False
            scope = trio.CancelScope(deadline=deadline if is_bounded and timeout_ms else math.inf)
            try:
                with scope:
                    address = await self._find()
                    sent = True
                    response = await client._ask(address, request)
                    error, message = error_of(response), f"the coordinator of {self._key!r} refused"
                    if error is ErrorCode.none:
                        return response
            except UnreachableError as unreachable:
                error, message, sent = ErrorCode.network_exception, str(unreachable), False
            except NoResponseError as lost:
                self.lost += 1
                error, message = ErrorCode.network_exception, str(lost)
            except KafkaError as refused:
                error, message = refused.code, str(refused)
            if scope.cancelled_caught:
                self.lost += sent
                self._address = None
                message = f"no response within {budget_ms:.0f} ms"
                raise KafkaError(ErrorCode.request_timed_out, message, maybe_done=maybe_done or sent)
            maybe_done |= sent and error in BUSY
            if error in MOVED:
                self._address = None
            backoff = client.config.retry_backoff_ms / 1000
            if error not in BUSY or trio.current_time() + backoff >= deadline:
                raise KafkaError(error, message, maybe_done=maybe_done)
            await trio.sleep(backoff)

    async def ask_once(self, request: Any, wait_ms: float = 0) -> Any:
        """The response to one attempt, which the coordinator may hold for so long; its errors are the caller's.

        Raises KafkaError if there is none.
        """
        client, sent = self._client, False
        try:
            address = await self._find()
            sent = True
            return await client._ask(address, request, client.config.request_timeout_ms + wait_ms)
        except (UnreachableError, NoResponseError) as error:
            self._address = None
            maybe_done = sent and isinstance(error, NoResponseError)
            raise KafkaError(ErrorCode.network_exception, str(error), maybe_done=maybe_done) from error

    def moved(self) -> None:
        """It is somewhere else, or nowhere: it is looked for before the next request."""
        self._address = None

    async def _find(self) -> Address:
        """Raises KafkaError, UnreachableError or NoResponseError."""
        if self._address is None:
            request = FindCoordinatorRequest(key_type=i8(self._key_type), coordinator_keys=(self._key,))
            (found,) = (await self._client.ask_any(request, repeatable=True)).coordinators
            if found.error_code is not ErrorCode.none:
                raise KafkaError(found.error_code, found.error_message or "there is no coordinator")
            self._address = Address(found.host, found.port)
        return self._address
