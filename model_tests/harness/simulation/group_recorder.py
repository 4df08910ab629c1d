"""What the members of a simulated group saw, as a history of `linearizability.groups`.

A commit's metadata is the number of its row, so that a read says which commit it has found.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import attrs

from tidegauge.impl.client.errors import KafkaError
from tidegauge.linearizability.groups.history import GroupRow, GroupRows, Kind, group_history
from tidegauge.linearizability.history import Outcome
from tidegauge.model_tests.harness.simulation.recorder import now_ns

T = TypeVar("T")


class GroupRecorder:
    """Rows as they come."""

    def __init__(self) -> None:
        self.rows: list[GroupRow] = []

    def declare(self, kind: Kind, process: int, **said: Any) -> None:
        """A row that takes no time: what a process, or the recorder, knows."""
        at = now_ns()
        returned = at if kind is Kind.DELIVER else None
        self.rows.append(GroupRow(kind, process, at, returned, **said))

    def returned(self, kind: Kind, process: int, call: int, **said: Any) -> None:
        """A row of what has succeeded."""
        self.rows.append(GroupRow(kind, process, call, now_ns(), **said))

    async def commit(self, process: int, run: Callable[[str], Awaitable[T]], **said: Any) -> T:
        """Run a commit, with the metadata that it has to have. Raises what it raises."""
        index = len(self.rows)
        row = GroupRow(Kind.COMMIT, process, now_ns(), outcome=Outcome.INFO, **said)
        self.rows.append(row)
        try:
            result = await run(str(index))
        except KafkaError as error:
            if not error.maybe_done:
                self.rows[index] = attrs.evolve(row, returned=now_ns(), outcome=Outcome.FAIL)
            raise
        self.rows[index] = attrs.evolve(row, returned=now_ns(), outcome=Outcome.OK)
        return result

    def history(self) -> GroupRows:
        """All rows."""
        return group_history(self.rows)
