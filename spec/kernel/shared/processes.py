"""Shares of a search in processes, one each: forks of the one that searches, which talks to each over a pipe.

A fork has the machine as it is, and the same hashes of values. The searching process asks, all shares work, and it
collects what they give; so nothing waits for what waits for it. A worker that is gone closes its pipe, which is told as
DiedError; one whose searching process is gone ends by itself.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, MutableSequence, Sequence
from contextlib import suppress
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Self, TypeAlias

from tidegauge.spec.kernel.shared.parcels import loaded_error, packed_error
from tidegauge.spec.kernel.shared.search import DiedError, Watch
from tidegauge.spec.kernel.shared.share import Share

__all__ = ["Processes"]

MakeShare: TypeAlias = Callable[[int, MutableSequence[int]], Share[Any]]
"""A share by its place; the other argument is where it notes the state that it expands."""


class Processes:
    """`count` processes, each with the share that `make` gives it. Raises ValueError where there are no forks."""

    def __init__(self, count: int, make: MakeShare) -> None:
        if "fork" not in get_all_start_methods():
            raise ValueError("workers are forks of this process, and this system has none: explore without workers")
        self.count = count
        context = get_context("fork")
        self._is_over = context.RawValue("b", 0)
        self._at = context.RawArray("q", [-1] * count)
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        try:
            for index in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_work, args=(index, theirs, [*self._pipes, ours], make, self._at, self._is_over), daemon=True
                )
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all of them, whatever they do: they have nothing to save."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        for pipe in self._pipes:
            pipe.close()

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]], watch: Watch | None = None) -> list[Any]:
        """Call a method of each share; what one raises, is raised here, when all are done. Raises DiedError."""
        self._is_over.value = 0
        for index, (pipe, own) in enumerate(zip(self._pipes, arguments, strict=True)):
            try:
                pipe.send((method, own))
            except OSError:
                raise self._died(index) from None
        given: dict[int, Any] = {}
        raised: dict[int, bytes] = {}
        while len(given) < self.count:
            ready = wait([pipe for index, pipe in enumerate(self._pipes) if index not in given])
            for index in [index for index, pipe in enumerate(self._pipes) if pipe in ready]:
                try:
                    how, what = self._pipes[index].recv()
                except (EOFError, OSError):
                    raise self._died(index) from None
                if how == "watch":
                    if watch is not None and watch(index, *what):
                        self._is_over.value = 1
                    continue
                given[index] = what
                if how == "raised":
                    raised[index] = what
        if raised:
            raise loaded_error(raised[min(raised)])
        return [given[index] for index in range(self.count)]

    def _died(self, index: int) -> DiedError:
        process = self._processes[index]
        process.join()
        code = process.exitcode or 0
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        return DiedError(f"worker {index + 1} of {self.count} {how}", self._at[index])


def _work(
    index: int,
    pipe: Connection,
    others: Sequence[Connection],
    make: MakeShare,
    at: MutableSequence[int],
    is_over: Any,
) -> None:
    """Do what is asked, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who searches ends all
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:
        other.close()

    def watch(expanded: int, taken: int) -> bool:
        pipe.send(("watch", (expanded, taken)))
        return bool(is_over.value)

    share: Share[Any] | None = None
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            method, arguments = pipe.recv()
            try:
                if share is None:
                    share = make(index, at)
                    share.watch = watch
                outcome = "given", getattr(share, method)(*arguments)
            except Exception as error:
                outcome = "raised", packed_error(error)
            pipe.send(outcome)
