"""Which events of a simulated run are about groups, and a trace that ends its run with the first wrong one."""

from __future__ import annotations

import trio

from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS
from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace import groups as decisions
from tidegauge.impl.server.trace.tracer import Trace, TraceEvent
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.validation.coordinated import Following


def is_of_groups(event: TraceEvent) -> bool:
    """Whether it is for the validation of groups."""
    decision = event.decision
    if isinstance(decision, events.RemoveReplica):
        return decision.topic == CONSUMER_OFFSETS
    return isinstance(decision, decisions.OfGroups | events.Crash | events.Stop)


class TraceUntilWrong(Trace):
    """Ends its run with a decision that is no action of the specification. No task is needed: the run is the same."""

    def __init__(self) -> None:
        super().__init__()
        self.run = trio.CancelScope()
        self._following = Following(HARNESS.followers)

    def append(self, event: TraceEvent) -> None:
        super().append(event)
        if is_of_groups(event) and not self.run.cancel_called and self._following.refusal(event):
            self.run.cancel()
