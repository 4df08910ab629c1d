"""KAFKA-8069: an offset for which no client has asked a time is gone at once when its log is loaded."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.offsets.machine import Offsets
from tidegauge.spec.offsets.state import NONE, Entry


@attrs.frozen
class TakesNoneForATime(Offsets):
    """A load takes an expiry of -1 for a time, which is long over: here 0."""

    def read(self, entry: Entry) -> Entry:
        return evolve(entry, expires_at=0) if entry.expires_at == NONE else entry


BUG = Bug(
    name="kafka_8069",
    title="an offset for which no client has asked a time is gone at once when its log is loaded",
    reference="KAFKA-8069",
    mechanism=(
        "Brokers that keep to the format of before 2.1 write -1 as the expiry of an offset that is to be kept as long "
        "as the setting says. The next coordinator takes that for a time, and lets all such offsets go."
    ),
    violates=("LoadedIsKept", "OnlyOldExpires"),
    buggy=TakesNoneForATime,
    model=Offsets(producers=1, max_entries=2, max_time=0, is_old_format=True),
)
