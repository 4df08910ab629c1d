"""All decisions of a cluster's trace as actions of the specification."""

from __future__ import annotations

from collections.abc import Iterator

from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.tracer import TraceEvent
from tidegauge.model_tests.harness.validation import (  # noqa: F401 - they register their functions
    broker_events,
    controller_events,
    fetch_events,
    leader_events,
)
from tidegauge.model_tests.harness.validation.followed import Followed
from tidegauge.model_tests.harness.validation.ways import Choice, Untranslatable, actions_of

__all__ = ["Untranslatable", "actions_of", "ways_of"]


def ways_of(event: TraceEvent, followed: Followed) -> Iterator[Choice]:
    """The ways to understand an event; one empty way for an event that does not touch this partition."""
    decision = event.decision
    broker = decision.broker if isinstance(decision, events.BrokerDecision) else event.node
    if isinstance(decision, OF_BROKERS) and broker not in followed.brokers:
        yield []
    else:
        yield from actions_of(decision, event.node, followed)


OF_BROKERS = (
    *(events.SessionDecision, events.UnregisterBroker, events.LearnBrokerEpoch, events.PullMetadata),
    *(events.LogDirectoryFailed, events.DamageFound),
    *(events.Crash, events.Stop, events.Restart, events.Pause, events.Resume),
)
"""Decisions of or about a broker as a whole, which may host the partition or not."""
