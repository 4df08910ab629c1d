"""A partition's trace as the specification has it: states and actions, as one follows or walks through them."""

from __future__ import annotations

import attrs

from tidegauge.spec.kernel.traces import Trace
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import State


@attrs.frozen(eq=False)
class Behaviour:
    """What the specification did while it followed a partition."""

    machine: Replication
    trace: Trace[State]
    """From the partition's creation on.

    Where an event is no behaviour of the specification, the last steps are what it was taken for, as far as that goes.
    """
