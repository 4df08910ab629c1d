"""What a report is made of: plain values, which any caller can fill in without knowing the page."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs


class Verdict(Enum):
    """How a part of the run ended."""

    HOLDS = "holds"
    VIOLATED = "violated"
    CAUGHT = "caught"
    """A bug that was switched on was found: what should happen."""
    MISSED = "missed"
    UNKNOWN = "unknown"
    """Stopped by a limit before it could say."""
    SKIPPED = "skipped"


GOOD = frozenset({Verdict.HOLDS, Verdict.CAUGHT, Verdict.SKIPPED})


@attrs.frozen
class Stage:
    """One line of the verify table."""

    name: str
    what: str
    """What was done, with its numbers."""
    result: str
    verdict: Verdict
    seconds: float | None = None


@attrs.frozen
class Coverage:
    """One kind of action in an exploration: states in which it could happen, steps taken, steps to a new state."""

    action: str
    enabled: int
    taken: int
    found: int


@attrs.frozen
class Explored:
    """An exploration: the machine with its constants and bounds, and what was seen."""

    machine: str
    constants: Mapping[str, str]
    distinct: int
    generated: int
    depth: int
    complete: bool
    rate: float | None
    """Distinct states per second."""
    invariants: tuple[str, ...]
    coverage: tuple[Coverage, ...]
    reached: Mapping[str, int] = attrs.field(factory=dict)
    """Goal → states in a shortest trace to it."""
    unreached: tuple[str, ...] = ()
    components: int | None = None
    """Bottom components of fair steps; None where the machine has no goals that are reached for good."""
    for_good: Mapping[str, str] = attrs.field(factory=dict)
    """Such a goal → how it fails; empty where it is reached in every component."""
    owed: Mapping[str, str] = attrs.field(factory=dict)
    """What comes whenever it is owed → how it fails; empty where it always comes."""


@attrs.frozen
class Anomaly:
    """What a checker found in a history, with a witness in words."""

    kind: str
    witness: str


@attrs.frozen
class CampaignRun:
    """One seed of the campaign."""

    seed: int
    options: Mapping[str, str]
    faults: Mapping[str, int]
    """Kind of fault → times injected."""
    operations: int
    unknown: int
    """Operations whose outcome their client never learned."""
    declared_lost: int
    """Records that unclean elections declared lost."""
    verdict: Verdict
    spark_verdict: Verdict | None
    """None when Spark did not check."""
    anomalies: tuple[Anomaly, ...] = ()


@attrs.frozen
class Catch:
    """How one bug was caught (or not) at one level."""

    level: str
    verdict: Verdict
    how: str
    seconds: float | None = None


@attrs.frozen
class Record:
    """A record in a log: its leader epoch and what it holds."""

    epoch: int
    value: str


@attrs.frozen
class ReplicaView:
    """One broker's replica at one moment."""

    broker: int
    role: str
    """leader, follower, down, paused …"""
    log: tuple[Record, ...]
    high_watermark: int
    leader_epoch: int
    isr: tuple[int, ...] | None = None
    """The ISR that it goes by; None where it keeps none (followers)."""
    pending_isr: tuple[int, ...] | None = None
    """An ISR that it has proposed and that is not decided yet."""
    flushed: int | None = None
    """Offset below which the log survives a crash; None where not told."""
    broker_epoch: int | None = None

    @property
    def log_end_offset(self) -> int:
        return len(self.log)


@attrs.frozen
class ControllerView:
    """The controller's word on the partition at one moment."""

    leader: int | None
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    controller_epoch: int | None = None
    fenced: tuple[int, ...] = ()
    """Brokers that may neither lead nor be in sync."""


@attrs.frozen
class ClientView:
    """What clients know at one moment: each value that was sent, and how it stands (waiting, acknowledged, lost …)."""

    values: Mapping[str, str]


@attrs.frozen
class PartyView:
    """One party of a protocol that is not Kafka's replication, or a part of its state, at one moment."""

    lane: str
    """The party's name, over its lane."""
    values: Mapping[str, str]


class Passage(Enum):
    """What becomes of a message in a step."""

    SENT = "sent"
    DELIVERED = "delivered"
    LOST = "lost"


@attrs.frozen
class Arrow:
    """A message between two lanes: `client`, `controller`, `broker N`, or a party's name."""

    source: str
    target: str
    label: str
    passage: Passage = Passage.DELIVERED
    message: int | None = None
    """The same number where it is sent and where it arrives."""


@attrs.frozen
class Step:
    """An action, the messages that moved in it, and how everything stands after it."""

    action: str
    detail: str
    replicas: tuple[ReplicaView, ...]
    controller: ControllerView | None = None
    client: ClientView | None = None
    arrows: tuple[Arrow, ...] = ()
    parties: tuple[PartyView, ...] = ()
    """The same parties in every step of a trace."""


@attrs.frozen
class Counterexample:
    """A run that ends in a violation, from its initial state (the first step) on."""

    title: str
    machine: str
    invariant: str
    explanation: str
    """What the invariant says, in words."""
    values: Mapping[str, str]
    """The values that make it false in the last state."""
    steps: tuple[Step, ...]
    replay: str
    """The command that replays it."""
    cycle: int | None = None
    """Of a goal that is never reached: how many of the last steps lead round and round; None for anything else."""


@attrs.frozen
class Recorded:
    """A stretch of a recorded history, as steps."""

    title: str
    steps: tuple[Step, ...]
    replay: str
    """The command that records it again."""
    worth: int = 0
    """How much there is to see; of several the most."""


@attrs.frozen
class Stretch:
    """A time in which one member owned a partition by one assignment."""

    partition: int
    member: int
    generation: int
    began: float
    """Seconds, as all times of a figure."""
    ended: float


@attrs.frozen
class Committed:
    """An offset that a member committed, or tried to."""

    partition: int
    at: float
    offset: int
    outcome: str


@attrs.frozen
class Ownership:
    """Who of a group held which partition, and when."""

    partitions: int
    duration: float
    stretches: tuple[Stretch, ...]
    commits: tuple[Committed, ...]
    replay: str
    """The command that records it again."""


@attrs.frozen
class Report:
    """All of a run."""

    title: str
    version: str
    started: str | None
    """None where the report shall be the same whenever it is written, as that of a replay."""
    seed: int | None
    """None where nothing in the run is random."""
    options: Mapping[str, str]
    stages: tuple[Stage, ...]
    reproduce: str
    """The command that runs the same again."""
    explored: tuple[Explored, ...] = ()
    campaign: tuple[CampaignRun, ...] = ()
    bug: str = ""
    catches: tuple[Catch, ...] = ()
    counterexample: Counterexample | None = None
    recorded: Recorded | None = None
    group: Ownership | None = None
    seconds: float | None = None

    @property
    def holds(self) -> bool:
        """Whether every stage ended as it should."""
        return all(stage.verdict in GOOD for stage in self.stages)
