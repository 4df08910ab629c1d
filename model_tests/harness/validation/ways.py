"""The ways in which a decision of a cluster's trace may be understood as actions of the specification.

`actions_of` has one function for each class of decision. It yields the ways, the most likely first: each a list of
makers of actions, called one after the other with the state that they act in. Where a message is received, there is
one way for each message on its way that fits; if none fits, a process that has died may have left it behind.

The functions stand in `fetch_events`, `leader_events`, `broker_events` and `controller_events`, by what decides;
`observed_events` imports them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import singledispatch
from typing import Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.trace import events
from tidegauge.model_tests.harness.validation.followed import Followed
from tidegauge.spec.replication.actions import ReplicationAction
from tidegauge.spec.replication.state import (
    Error,
    State,
)

Make = Callable[[State], ReplicationAction]
Choice = Sequence[Make]


class Wrong(Exception):  # noqa: N818 - a finding
    """The event is not what the specification says."""


class Untranslatable(Exception):  # noqa: N818 - a finding
    """A decision that the specification has no action for."""


@singledispatch
def actions_of(decision: events.Decision, node: int, followed: Followed) -> Iterator[Choice]:
    """The ways to understand a decision of a node. Raises Untranslatable for one that is registered nowhere."""
    raise Untranslatable(f"the specification knows no {type(decision).__name__}")


def just(action: ReplicationAction) -> Choice:
    return [lambda state: action]


def all_of(*actions: ReplicationAction) -> Choice:
    """One after the other."""
    return [make for action in actions for make in just(action)]


TOPIC_IS_UNKNOWN: Final = frozenset(
    {ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition, ErrorCode.inconsistent_topic_id}
)
"""What a node responds that has not this topic, or another one by its name: the specification has but one topic."""


def error_of(code: ErrorCode) -> Error | None:
    """Kafka's error in the specification's terms; None for those of a topic that a node does not know.

    Raises Untranslatable for any other one that the specification lacks.
    """
    if code is ErrorCode.none:
        return Error.OK
    if code in TOPIC_IS_UNKNOWN:
        return None
    known = Error.__members__.get(code.name.upper())
    if known is None:
        raise Untranslatable(f"the specification knows no error {code.name.upper()}")
    return known
