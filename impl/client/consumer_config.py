"""How a consumer consumes."""

from __future__ import annotations

import re
from typing import Final

import attrs

from tidegauge.impl.client.assignors.known import assignors_of
from tidegauge.impl.client.assignors.subscription import Assignor
from tidegauge.impl.client.positions import EARLIEST, LATEST

NONE: Final = "none"
BY_DURATION: Final = "by_duration:"
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
GROUP_PROTOCOLS: Final = (CLASSIC, CONSUMER)
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
_DURATION = re.compile(
    r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE | re.ASCII
)


@attrs.frozen(kw_only=True)
class ConsumerConfig:
    """Times in ms, sizes in bytes; Kafka's names and Kafka's defaults. Raises ValueError for what cannot be."""

    group_id: str | None = None
    """Without one it can be assigned partitions, and neither subscribe nor commit."""
    group_instance_id: str | None = None
    """The name of a static member, which no other member of the group may have (KIP-345)."""
    group_protocol: str = CLASSIC
    """classic, or consumer (KIP-848): there the coordinator assigns, and says how often heartbeats are due."""
    group_remote_assignor: str | None = None
    """The coordinator's assignor, uniform or range, in the protocol consumer; None: the coordinator chooses."""
    client_rack: str = ""
    """Where it is; "": nowhere. The assignors but `roundrobin` give a member what has a replica there, if they can
    (KIP-881), and leaders send it to a follower there, with `replica.selector.class` (KIP-392).
    """
    partition_assignment_strategy: tuple[str | Assignor, ...] = ("range",)
    """The assignors that it knows, the best one first."""
    auto_offset_reset: str = "latest"
    """earliest, latest, none, or by_duration:PT1H: where it begins if the group has committed nothing."""
    enable_auto_commit: bool = True
    auto_commit_interval_ms: float = 5_000
    isolation_level: str = "read_uncommitted"
    max_poll_records: int = 500
    max_poll_interval_ms: int = 300_000
    """Who does not poll for so long leaves the group."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: float = 3_000
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 50 << 20
    max_partition_fetch_bytes: int = 1 << 20
    fetch_max_wait_ms: int = 500
    metadata_max_age_ms: float = 300_000
    default_api_timeout_ms: float = 60_000

    def __attrs_post_init__(self) -> None:
        for name, value in attrs.asdict(self, recurse=False).items():
            if isinstance(value, int | float) and name != "enable_auto_commit" and not value >= 0:
                raise ValueError(f"{name} is {value!r}: give a number that is not negative")
        for name in ("max_poll_records", "max_poll_interval_ms", "session_timeout_ms", "heartbeat_interval_ms"):
            if not getattr(self, name):
                raise ValueError(f"{name} is 0: give a positive number")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms is {self.heartbeat_interval_ms}: give less than session_timeout_ms, "
                f"which is {self.session_timeout_ms}"
            )
        if self.isolation_level not in ISOLATION_LEVELS:
            raise ValueError(f"isolation_level is {self.isolation_level!r}: give one of {', '.join(ISOLATION_LEVELS)}")
        if self.group_protocol not in GROUP_PROTOCOLS:
            raise ValueError(f"group_protocol is {self.group_protocol!r}: give one of {', '.join(GROUP_PROTOCOLS)}")
        if self.group_remote_assignor is not None and self.group_protocol != CONSUMER:
            raise ValueError("group_remote_assignor is for the group_protocol consumer: set that, or leave it out")
        if self.group_id == "" or self.group_instance_id == "":
            raise ValueError("the name of a group, or of a static member, is empty: give text, or None")
        if self.group_instance_id is not None and self.group_id is None:
            raise ValueError(f"{self.group_instance_id!r} is a static member of no group: give a group_id")
        self.reset_timestamp(0)
        assignors_of(self.partition_assignment_strategy)

    @property
    def assignors(self) -> tuple[Assignor, ...]:
        """The best one first."""
        return assignors_of(self.partition_assignment_strategy)

    def reset_timestamp(self, now_ms: int) -> int | None:
        """What is to be looked up where there is no position: EARLIEST, LATEST or a moment; None: nothing."""
        policy = self.auto_offset_reset
        if policy in ("earliest", "latest", NONE):
            return {"earliest": EARLIEST, "latest": LATEST, NONE: None}[policy]
        found = _DURATION.fullmatch(policy.removeprefix(BY_DURATION)) if policy.startswith(BY_DURATION) else None
        if found is None:
            raise ValueError(
                f"auto_offset_reset is {policy!r}: give earliest, latest, none, or a duration, as in {BY_DURATION}PT1H"
            )
        days, hours, minutes, seconds = (int(found[group] or 0) for group in range(1, 5))
        millis = int((found[5] or "").ljust(3, "0")[:3])
        return max(0, now_ms - ((days * 24 + hours) * 60 + minutes) * 60_000 - seconds * 1000 - millis)
