"""Decisions one at a time: the core proposes, the metadata log commits, the core applies.

A request takes a *turn*. In it the core computes a proposal on the image, the log is given its records, and the turn
waits until they are committed; then they are applied and the trace is written. The next turn begins when this one ends,
so that no decision is made on records that are not committed, and none is visible: the image, metadata fetches and
responses all show what is committed. Sessions are in no record: a heartbeat that only renews one takes no turn.

- A log that refuses the records ends the controller, with nothing applied. Its successor replays the log.
- A request whose connection breaks while its records are being committed does not stop the commit: they are applied.
- A node that does not lead the log makes no decision (`NotLeaderError`). One that leads it no more gives up the
  decision that is being committed, and applies nothing of a turn that began before, not even a session.

A log that commits at once costs no scheduling: a turn that need not wait has no checkpoint.

A request of many elements decides about each by itself, and commits them in groups of `GROUP` (`Decisions.each`). A
group has one turn. Each of its decisions is made on what those before it will have left. The log gets the records of
all as one batch, and flushes once: a crash keeps all of the group or nothing. Then the decisions are applied and traced
one by one, in their order: a group is a sequence of decisions with nothing in between. No response is sent before its
decision is committed. If the log refuses the records, nothing of the group is applied.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from tidegauge.impl.metadata.log import NotLeaderError
from tidegauge.impl.ports.log_lines import NODE, log_event, logging_as_its_node
from tidegauge.impl.server import trace
from tidegauge.impl.server.controller.decision_lines import log_decision
from tidegauge.impl.server.pace import DECISION_UNITS

if TYPE_CHECKING:
    from tidegauge.impl.controller.controller import Controller
    from tidegauge.impl.controller.decision import Proposal
    from tidegauge.impl.controller.membership import HeartbeatResponse
    from tidegauge.impl.metadata.log import MetadataLog
    from tidegauge.impl.metadata.records import MetadataRecord
    from tidegauge.impl.server.pace import Pace
    from tidegauge.impl.server.trace.events import ChangedPartition
    from tidegauge.impl.server.trace.tracer import Tracer

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")

LOGGER: Final = logging.getLogger(__name__)

NO_EPOCH = -1
"""The controller epoch of an empty metadata log."""
GROUP: Final = 50
"""So many decisions of one request are committed together at most. Others wait for the turn as long."""
GROUP_RECORDS: Final = 2_000
"""A group takes no further decision when it has so many records."""


class Decisions:
    """The one place where records are appended to the metadata log and applied to the controller's image."""

    def __init__(
        self,
        controller: Controller,
        log: MetadataLog,
        tracer: Tracer,
        *,
        on_commit: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """`on_commit` is called after each turn that has committed records, `on_failure` with the reason when the
        controller cannot go on.
        """
        self._controller = controller
        self._log = log
        self._tracer = tracer
        self._on_commit = on_commit
        self._on_failure = on_failure
        self._turns = trio.Lock()
        self._commit: trio.CancelScope | None = None
        self._ended: str | None = None
        self._traced_epochs: dict[tuple[str, int], int] = {}
        self.log_name = NODE.get()

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller: it leads the log, and has taken over in this epoch."""
        image, leadership = self._controller.image, self._log.leadership
        taken_over = image.controller_id == self._controller.node_id and image.controller_epoch == leadership.epoch
        return taken_over and self._leads

    @property
    def _leads(self) -> bool:
        return self._log.leadership.leader_id == self._controller.node_id

    def _require_leadership(self, *, of_epoch: int) -> None:
        leadership = self._log.leadership
        if not self._leads or leadership.epoch != of_epoch:
            raise NotLeaderError(f"node {self._controller.node_id} is not the controller of epoch {of_epoch} any more")

    async def take_over(self, now_ms: int, endpoint: tuple[str, int]) -> bool:
        """Become the active controller, which the log has elected: replay what others have committed, then decide.

        `endpoint` is where brokers reach this node. Returns whether it is the first controller of its cluster. Raises
        OSError, and NotLeaderError when the log has another leader by now.
        """
        async with self._next_turn():
            self._replay()
            is_first = self._controller.controller_epoch == NO_EPOCH
            epoch = self._log.leadership.epoch
            await self._committed(self._controller.take_over(epoch, now_ms, endpoint), epoch)
            if self._tracer.trace is not None:
                self._changed()
                offset = self._controller.image.offset
                failover = trace.events.ControllerFailover
                self._tracer.record(failover, controller_epoch=epoch, metadata_offset=offset, changed=())
        self._on_commit()
        return is_first

    async def resign(self) -> None:
        """Decide no more: another node leads the log. A decision that is being committed is given up.

        Its request gets NotLeaderError and nothing is applied. Should another controller find it in the log and
        commit it, it is replayed like any of that one's.
        """
        if self._commit is not None:
            self._commit.cancel()
        async with self._next_turn():
            if not self._leads:
                self._controller.resign()

    async def catch_up(self) -> None:
        """Apply what another controller has committed, unless this node is the active one."""
        async with self._next_turn():
            if not self.is_active:
                self._replay()

    def _replay(self) -> None:
        self._controller.replay(self._log.read(self._controller.image.offset))

    @asynccontextmanager
    async def _next_turn(self) -> AsyncIterator[None]:
        try:
            self._turns.acquire_nowait()  # has no checkpoint, as `acquire` has
        except trio.WouldBlock:
            await self._turns.acquire()
        try:
            if self._ended is not None:
                await trio.lowlevel.checkpoint()  # where the node is being cancelled, that comes first
                raise OSError(self._ended)
            yield
        finally:
            self._turns.release()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """The right to decide, until the `async with` ends. Turns are taken in the order in which they are asked for.

        Raises NotLeaderError when another node leads the log, and OSError when the controller has ended.
        """
        turn = None
        try:
            async with self._next_turn():
                if not self.is_active:
                    raise NotLeaderError(f"node {self._controller.node_id} is not the active controller")
                commit = partial(self._committed, epoch=self._log.leadership.epoch)
                turn = Turn(self._controller, self._tracer, commit, self._changed)
                yield turn
        finally:
            if turn is not None and turn.has_committed:
                self._on_commit()

    def renew_session(self, renewal: Callable[[Controller], Proposal[HeartbeatResponse] | None]) -> bool:
        """Renew a broker's session without a turn; False, with nothing done, for a heartbeat that changes more.

        Sessions are not in the log. A decision that is being committed stands: it may have found the session expired.
        """
        if self._ended is not None or not self.is_active:
            return False
        proposal = renewal(self._controller)
        if proposal is None:
            return False
        self._controller.apply(proposal)
        return True

    async def each(
        self, items: Iterable[Item], decide: Callable[[Turn, Item], Generator[Proposal[T], T, Result]], pace: Pace
    ) -> list[Result]:
        """Decide about each item, in groups that are committed together; returns the results in order.

        `decide` yields its proposal, made on `turn.controller`, and gets the response when that is committed and
        applied; what it returns is the result. It may return without a proposal. Raises what `turn` and `Turn.commit`
        raise; what was committed before stays so.
        """
        results: list[Result] = []
        left = iter(items)
        more = True
        while more:
            async with self.turn() as turn:
                count = len(results)
                results += await self._decided(turn, islice(left, GROUP), decide, pace)
                more = len(results) > count
        return results

    @logging_as_its_node
    async def _decided(
        self,
        turn: Turn,
        group: Iterator[Item],
        decide: Callable[[Turn, Item], Generator[Proposal[T], T, Result]],
        pace: Pace,
    ) -> list[Result]:
        """The results of a group. Nobody else decides while its proposals are made, though others do other work."""
        epoch = self._log.leadership.epoch
        results: dict[int, Result] = {}
        records: list[MetadataRecord] = []
        proposals: list[Proposal[T]] = []
        deciding: list[tuple[int, Generator[Proposal[T], T, Result]]] = []
        turn.controller = self._controller.ahead()
        with pace.ahead():  # who waits for the turn waits for these slices
            async for number, item in pace.each(enumerate(group), units=DECISION_UNITS):
                decision = decide(turn, item)
                try:
                    proposal = next(decision)
                except StopIteration as returned:
                    results[number] = returned.value
                else:
                    turn.controller.expect(proposal)
                    records += proposal.records
                    proposals.append(proposal)
                    deciding.append((number, decision))
                if len(records) >= GROUP_RECORDS:
                    break
        turn.controller = self._controller
        await self._group_committed(records, epoch)
        turn.has_committed = bool(records)
        for proposal, (number, decision) in zip(proposals, deciding, strict=True):
            self._apply(proposal, made_ahead=True)
            try:
                decision.send(proposal.response)
            except StopIteration as returned:
                results[number] = returned.value
            else:
                raise AssertionError("a decision has one proposal")
        return [results[number] for number in sorted(results)]

    async def _group_committed(self, records: Sequence[MetadataRecord], epoch: int) -> None:
        """Append the records of a group, and wait until they are committed. Raises as `_committed` does."""
        if self._ended is not None:
            await trio.lowlevel.checkpoint()  # where the node is being cancelled, that comes first
            raise OSError(self._ended)
        self._require_leadership(of_epoch=epoch)
        if records:
            await self._append(records, epoch)

    def end(self, reason: str) -> None:
        """Make no more decisions; one that is being committed is given up."""
        self._ended = reason
        if self._commit is not None:
            self._commit.cancel()

    @logging_as_its_node
    async def _committed(self, proposal: Proposal[object], epoch: int) -> None:
        """Append the proposal's records, wait until they are committed, and apply them.

        Raises NotLeaderError, with nothing applied, when this node leads the log no more in `epoch`, in which the
        proposal was made.
        """
        self._require_leadership(of_epoch=epoch)
        if proposal.records:
            await self._append(proposal.records, epoch)
        self._apply(proposal)

    def _apply(self, proposal: Proposal[object], *, made_ahead: bool = False) -> None:
        try:
            if made_ahead:
                proposal = self._controller.rebased(proposal)
            log_decision(self._controller.image, proposal)
            self._controller.apply(proposal)
        except Exception as error:
            self.fail(f"a committed decision cannot be applied: {error!r}")
            raise

    async def _append(self, records: Sequence[MetadataRecord], epoch: int) -> None:
        with trio.CancelScope(shield=True) as scope:
            self._commit = scope
            try:
                await self._log.append(records)
            except OSError as error:
                self.fail(f"the metadata log cannot be written: {error}")
                raise
            finally:
                self._commit = None
            return
        if self._ended is None:
            self._require_leadership(of_epoch=epoch)
            raise NotLeaderError(f"node {self._controller.node_id} has resigned in epoch {epoch}")
        await trio.lowlevel.checkpoint()  # the node is being cancelled
        raise OSError(self._ended)

    def fail(self, reason: str) -> None:
        """Stop the controller, with words."""
        log_event(LOGGER, logging.ERROR, "controller stopped", why=reason, next="mend that, and start it again")
        self._ended = reason
        self._on_failure(reason)

    def _changed(self) -> tuple[ChangedPartition, ...]:
        """The partitions that changed since the last call; none when no trace is kept."""
        if self._tracer.trace is None:
            return ()
        image, before = self._controller.image, self._traced_epochs
        self._traced_epochs = {(topic, index): r.partition_epoch for topic, index, r in image.partitions()}
        return tuple(
            trace.events.ChangedPartition(topic, index, registration, image.offset)
            for topic, index, registration in image.partitions()
            if before.get((topic, index)) != registration.partition_epoch
        )


class Turn:
    """One request's right to decide."""

    def __init__(
        self,
        controller: Controller,
        tracer: Tracer,
        commit: Callable[[Proposal[object]], Awaitable[None]],
        changed: Callable[[], tuple[ChangedPartition, ...]],
    ) -> None:
        self.controller = controller
        self.tracer = tracer
        self.has_committed = False
        self.changed = changed
        """The partitions that changed since the last call, for the trace."""
        self._commit = commit

    @property
    def is_traced(self) -> bool:
        """Whether a trace is kept: else no event is made."""
        return self.tracer.trace is not None

    async def commit(self, proposal: Proposal[T]) -> T:
        """Commit and apply a proposal that was computed in this turn; returns the response.

        Raises OSError when the log cannot take it, and NotLeaderError when another node leads the log by now. Nothing
        is applied then.
        """
        await self._commit(proposal)
        self.has_committed = self.has_committed or bool(proposal.records)
        return proposal.response
