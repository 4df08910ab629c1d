"""The published models, which nothing implements: whom a step of a report is drawn of, for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidegauge.model_tests.harness.report.model import Step
from tidegauge.model_tests.harness.report.plain_steps import PlainSteps
from tidegauge.spec.kernel.traces import Trace

WHY: Final = "a model of others, compared with TLC"
"""Why a published model has no binding."""
_CLIENTS: Final = PlainSteps((("clients", "client"),))
_SERVERS: Final = PlainSteps((("servers", "server"),))
STEPS: Final[Mapping[str, Callable[[Trace[Any]], tuple[Step, ...]]]] = {
    "kip320": PlainSteps((("replicas", "replica"),)),
    "replication-3.5": PlainSteps((("brokers", "broker"),)),
    "kip848": _CLIENTS,
    "kip848-first": _CLIENTS,
    "transactions-diary": PlainSteps((("clients", "client"), ("brokers", "broker"))),
    "kraft": _SERVERS,
    "pull-raft": _SERVERS,
    "pull-raft-2": _SERVERS,
    "kip853": PlainSteps((("max_servers", "server"),)),
    "kip996": PlainSteps((("max_servers", "server"),)),
}
"""By machine."""
