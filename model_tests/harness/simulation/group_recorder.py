"""What the members of a simulated group saw, and who writes what they consume, as a history.

A commit's metadata is the index of its row, so that a read says which commit it has found.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from tidegauge.impl.client.errors import KafkaError
from tidegauge.impl.client.requests import Fetched
from tidegauge.linearizability.history import Kind
from tidegauge.model_tests.harness.simulation.recorder import Recorder, now_ns
from tidegauge.model_tests.harness.simulation.workload import TOPIC

T = TypeVar("T")
GROUP: Final = 0
"""The number of the group in the history."""


class GroupRecorder(Recorder):
    """Observes who writes; members tell it themselves what they are told and what they do."""

    def declare(self, kind: Kind, process: int, **said: Any) -> None:
        """A row that takes no time: what a process, or the recorder, knows."""
        self.history.declare(kind, call=now_ns(), process=process, topic=TOPIC, group=GROUP, **said)

    def released(self, process: int, partitions: Sequence[int]) -> None:
        """The process does not own these any more."""
        if partitions:
            self.declare(Kind.RELEASE, process, values=tuple(partitions))

    def assigned(self, process: int, call: int, partitions: Sequence[int], **said: Any) -> None:
        """The process asked at `call` for its assignment, and was told."""
        token = self._of_group(process, Kind.ASSIGN, call, **said)
        self.history.ok(token, returned=now_ns(), values=partitions)

    def delivered(self, process: int, partition: int, fetched: Fetched, **said: Any) -> None:
        """The application is given these records."""
        if not fetched.records:
            return
        token = self._of_group(process, Kind.DELIVER, now_ns(), partition=partition, **said)
        values = [int(record.value or b"") for record in fetched.records]
        offsets = [record.offset for record in fetched.records]
        self.history.ok(token, returned=now_ns(), offset=offsets[0], values=values, offsets=offsets)

    def found(self, process: int, call: int, partition: int, offset: int, commit: int | None, **said: Any) -> None:
        """The process asked at `call` what is committed, and was told; `commit`: the index of the commit."""
        token = self._of_group(process, Kind.READ_OFFSETS, call, partition=partition, **said)
        self.history.ok(token, returned=now_ns(), offset=offset, found=commit)

    def settled(self, partition: int, end: int) -> None:
        """Nobody works on the partition any more, whose records end there."""
        self.history.settled(call=now_ns(), partition=partition, topic=TOPIC, group=GROUP, offset=end)

    async def commit(
        self, process: int, partition: int, offset: int, run: Callable[[str], Awaitable[T]], **said: Any
    ) -> T:
        """Run a commit, with the metadata that it has to have. Raises what it raises."""
        said |= {"partition": partition, "position": offset}
        token = self._of_group(process, Kind.COMMIT_OFFSETS, now_ns(), **said)
        try:
            result = await run(str(token))
        except KafkaError as error:
            if error.maybe_done:
                self.history.info(token)
            else:
                self.history.fail(token, returned=now_ns())
            raise
        self.history.ok(token, returned=now_ns())
        return result

    def _of_group(self, process: int, kind: Kind, call: int, **said: Any) -> int:
        return self.history.invoke(process=process, kind=kind, call=call, topic=TOPIC, group=GROUP, **said)
