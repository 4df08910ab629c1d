"""What a campaign with transactions must have seen at least once (see `sometimes`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import Trace
from tidegauge.model_tests.harness.simulation.coordination import CUT
from tidegauge.model_tests.harness.simulation.transacting import TOLD

ENDED: Final = "a marker ended a transaction"
AGAIN: Final = "a marker was appended again, where its transaction had ended"
CUT_OFF: Final = "a follower cut off a marker"
FOUND_OPEN: Final = "a replica found an open transaction when it started"
TAKEN_OVER: Final = "a leader took over a partition with an open transaction"
IN_LOGS: Final = (ENDED, AGAIN, CUT_OFF, FOUND_OPEN, TAKEN_OVER)
"""What logs show of transactions."""
GOALS: Final = (*TOLD, *CUT, *IN_LOGS)


def seen(trace: Trace, counted: Mapping[str, int]) -> dict[str, int]:
    """How often each goal was reached in one run; `counted`: what clients and the injector have seen."""
    counts: Counter[str] = Counter({goal: counted.get(goal, 0) for goal in GOALS})
    has: dict[tuple[int, str, int], _Kept] = {}
    for event in trace:
        match event.decision:
            case events.OfReplica(topic=topic, partition=partition) as decision:
                kept = has.setdefault((event.node, topic, partition), _Kept())
                counts.update(kept.take(decision, event.node))
    return {goal: counts[goal] for goal in GOALS}


class _Kept:
    """The markers of one log, and whose transactions are open in it."""

    def __init__(self) -> None:
        self._markers: list[int] = []
        self._open: dict[int, int] = {}
        self._leads = False

    def take(self, decision: events.OfReplica, node: int) -> Counter[str]:
        """What one more decision of the replica has shown."""
        counts: Counter[str] = Counter()
        end = decision.state.log_end_offset
        counts[CUT_OFF] += sum(marker >= end for marker in self._markers)
        self._markers = [marker for marker in self._markers if marker < end]
        self._open = {producer: first for producer, first in self._open.items() if first < end}
        took_over = decision.state.leader == node and not self._leads
        self._leads = decision.state.leader == node
        counts[TAKEN_OVER] += took_over and bool(self._open)
        match decision:
            case events.Restart(batches=batches):
                self._open.clear()
                self._markers.clear()
                self._append(batches)
                counts[FOUND_OPEN] += bool(self._open)
            case events.Append(batches=batches):
                for batch in batches:
                    if batch.is_marker:
                        counts[ENDED if batch.producer_id in self._open else AGAIN] += 1
                self._append(batches)
            case events.ReceiveFetchResponse(accepted=True, outcome=outcome):
                self._append(outcome.batches)
        return counts

    def _append(self, batches: tuple[events.LoggedBatch, ...]) -> None:
        for batch in batches:
            if batch.is_marker:
                self._markers.append(batch.base_offset)
                self._open.pop(batch.producer_id, None)
            elif batch.is_transactional:
                self._open.setdefault(batch.producer_id, batch.base_offset)
