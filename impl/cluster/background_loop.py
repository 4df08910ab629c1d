"""A trio loop in its own thread, with calls into it from other threads.

Theory of operation
-------------------
`start` runs an async context manager (a cluster) in a new thread's trio loop and returns what it yields. `call` runs a
function there and waits for its result. An async function is awaited, and cancelled when the caller is interrupted or
its time is over. `stop` leaves the context manager and waits for the thread to end.

If the loop ends because something in it failed, every call that waits raises `LoopEndedError` with the failure as its
cause, and so do later calls and `stop`. The thread is a daemon: a program that forgets to stop it can end. A forked
child has the object but not the thread, and calls raise an error that says so.

With a `trio.testing.MockClock` time stands still except while a call waits.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from trio.testing import MockClock

T = TypeVar("T")

STOP_TIMEOUT = 30.0


class LoopEndedError(RuntimeError):
    """The loop is not running: not yet, not any more, or because of the failure that is this error's cause."""


class BackgroundLoop(Generic[T]):
    """One run of one context manager in a thread of its own."""

    def __init__(
        self, what: str, context: Callable[[], AbstractAsyncContextManager[T]], clock: MockClock | None = None
    ) -> None:
        """`what` names it in messages; `context` is called in the loop."""
        self._what = what
        self._context = context
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._token: trio.lowlevel.TrioToken
        self._nursery: trio.Nursery
        self._stopping: trio.Event
        self._calls: set[Future[Any]] = set()
        self._waiting_calls = 0
        self._ended = threading.Event()
        self._failure: BaseException | None = None

    def start(self) -> T:
        """Start the thread, and return what the context manager yields. Raises what it raises."""
        if self._thread is not None:
            raise LoopEndedError(f"{self._what} runs once: make a new one")
        ready: Future[T] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name=f"tidegauge-{self._what}", daemon=True)
        self._thread.start()
        try:
            return ready.result()
        except BaseException:
            self._end()
            raise

    def call(self, function: Callable[[], Any], timeout_s: float) -> Any:
        """Run a function in the loop and return its result; what it raises is raised here.

        Raises TimeoutError when it takes longer, LoopEndedError when the loop is not running.
        """
        self._check()
        future: Future[Any] = Future()
        scope = trio.CancelScope()
        self._calls.add(future)
        try:
            self._token.run_sync_soon(self._begin, future, scope, timeout_s, function)
            if self._ended.is_set():
                self._abandon_calls()
            return future.result()
        except trio.RunFinishedError:
            raise self._over() from self._failure
        except BaseException:
            if not future.done():  # the caller was interrupted
                with suppress(trio.RunFinishedError):
                    self._token.run_sync_soon(scope.cancel)
            raise
        finally:
            self._calls.discard(future)

    def stop(self) -> None:
        """End it and wait; calling it again does nothing. Raises LoopEndedError when it had ended by itself."""
        if self._thread is None or not self.is_mine:
            return
        self._end()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise LoopEndedError(f"{self._what} ended by itself: {failure!r}") from failure

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._thread is not None and not self._ended.is_set()

    @property
    def is_mine(self) -> bool:
        """Whether this process runs it; False in a fork."""
        return os.getpid() == self._process

    # --- the caller's side ---------------------------------------------------------------------------------------

    def _check(self) -> None:
        if not self.is_mine:
            raise LoopEndedError(
                f"{self._what} runs in process {self._process}, of which this one is a fork: start one of its own here"
            )
        if self._thread is None or self._ended.is_set():
            raise self._over() from self._failure
        if threading.current_thread() is self._thread:
            raise RuntimeError(f"this is {self._what}'s own thread: await its methods directly")

    def _over(self) -> LoopEndedError:
        if self._failure is not None:
            return LoopEndedError(f"{self._what} ended by itself: {self._failure!r}")
        return LoopEndedError(f"{self._what} is not running: use it as `with … as cluster:`, and inside that block")

    def _end(self) -> None:
        assert self._thread is not None, "only a loop that was started ends"
        with suppress(AttributeError, trio.RunFinishedError):  # it may have failed before it had a token
            self._token.run_sync_soon(self._stop_now)
        self._thread.join(STOP_TIMEOUT)
        if self._thread.is_alive():
            raise RuntimeError(f"{self._what} did not end within {STOP_TIMEOUT:.0f} s")

    def _stop_now(self) -> None:
        self._stopping.set()

    def _abandon_calls(self) -> None:
        for future in list(self._calls):
            error = self._over()
            error.__cause__ = self._failure
            with suppress(InvalidStateError):  # it was done
                future.set_exception(error)

    # --- the loop's side -----------------------------------------------------------------------------------------

    def _run(self, ready: Future[T]) -> None:
        try:
            trio.run(self._main, ready, clock=self._clock)
        except BaseException as error:
            if ready.done():
                self._failure = error
            else:
                ready.set_exception(error)
        finally:
            self._ended.set()
            self._abandon_calls()

    async def _main(self, ready: Future[T]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stopping = trio.Event()
        self._let_time_pass(1)
        async with self._context() as value, trio.open_nursery() as self._nursery:
            self._let_time_pass(-1)
            ready.set_result(value)
            await self._stopping.wait()
            self._let_time_pass(1)
            self._nursery.cancel_scope.cancel()

    def _begin(self, future: Future[Any], scope: trio.CancelScope, timeout_s: float, call: Callable[[], Any]) -> None:
        try:
            result = call()
        except BaseException as error:
            future.set_exception(error)
            return
        if not inspect.isawaitable(result):
            future.set_result(result)
            return
        try:
            self._nursery.start_soon(self._finish, future, scope, timeout_s, result)
        except RuntimeError:  # the nursery is closed: it ends just now, and then the call is told why
            result.close()  # type: ignore[attr-defined]

    async def _finish(self, future: Future[Any], scope: trio.CancelScope, timeout_s: float, result: Any) -> None:
        self._let_time_pass(1)
        try:
            with scope:
                scope.deadline = trio.current_time() + timeout_s
                future.set_result(await result)
            if scope.cancelled_caught:
                future.set_exception(TimeoutError(f"not done within {timeout_s:g} s, the patience_s of this handle"))
        except Exception as error:
            future.set_exception(error)
        finally:
            self._let_time_pass(-1)

    def _let_time_pass(self, change: int) -> None:
        """With a mock clock: let time pass, at once, while any call waits."""
        self._waiting_calls += change
        if self._clock is not None:
            self._clock.autojump_threshold = 0.0 if self._waiting_calls else float("inf")
