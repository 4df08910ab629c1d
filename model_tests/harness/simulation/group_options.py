"""What a run of a group depends on besides the code: who its members are, and what happens to them."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

import attrs

from tidegauge.model_tests.harness.simulation.options import Fault, Losses, Options, sparse
from tidegauge.model_tests.harness.simulation.processors import with_time_for_transactions
from tidegauge.model_tests.harness.simulation.transacting_options import transacting

INTERVAL_SHARE: Final = 0.35
INTERVALS_MS: Final = (200, 1_000)
"""`consumer.assignment.interval.ms`: some heartbeats, and Kafka's own."""
MOVES_SHARE: Final = 0.5
"""Of runs with a broker that the log of groups may be moved to."""
HANGS_SHARE: Final = 0.3
"""Of runs of the classic protocol."""
SLOW_SHARE: Final = 0.3
"""Of runs of KIP-848."""
REPEATS_SHARE: Final = 0.5
WANDERS_SHARE: Final = 0.3
RARE_SHARE: Final = 0.3
"""Of runs in which what is rare has room."""
NO_PART: Final = (Fault.CLOCK,)
"""Faults by which offsets expire."""
MIGRATES_EACH: Final = 3
"""Of so many seeds one has a group that goes over."""
OF_CONSUMERS: Final = (Fault.GROWTH,)
"""Faults by which partitions come, which no member of a classic group looks for here."""


@attrs.frozen
class GroupOptions:
    """What a run depends on besides the code."""

    cluster: Options
    dynamic: int = 2
    static: int = 1
    """Static members, each with two processes at times."""
    is_consumer: bool = False
    """Whether its members speak the protocol of KIP-848."""
    migrates: bool = False
    """Whether each life draws its protocol: `is_consumer` is what the cluster is prepared for then."""
    is_cooperative: bool = False
    loads_slowly: bool = False
    """Whether coordinators take their time to load, while the cleaner runs."""
    repeats: bool = False
    """Whether heartbeats arrive once more when their epoch is over."""
    hangs: bool = False
    """Whether members of the classic protocol hang between JoinGroup and SyncGroup, while their heartbeats go on."""
    moves: bool = False
    """Whether the log of groups is moved away from its leader now and then: there is a broker without it."""
    wanders: bool = False
    """Whether members of KIP-848 want other topics for a while."""
    fences: bool = False
    """Whether followers of the log of groups are fenced, and who has long been out joins again."""
    interval_ms: int = 0
    """The least time between two targets of the group, if it is of KIP-848."""
    exactly_once: bool = False
    """Whether members process what they consume in transactions."""
    rest_s: float = 0.05

    def described(self) -> dict[str, str]:
        """Who the members are, as text."""
        classic = "cooperative" if self.is_cooperative else "eager"
        protocol = f"KIP-848 and {classic}" if self.migrates else "KIP-848" if self.is_consumer else classic
        late = {
            "slow loads": self.loads_slowly,
            "repeated heartbeats": self.repeats,
            "late SyncGroups": self.hangs,
            "a log that moves": self.moves,
            "other topics": self.wanders,
            "fenced followers": self.fences,
            "transactions": self.exactly_once,
        }
        late[f"{self.interval_ms} ms between targets"] = bool(self.interval_ms)
        more = ", ".join(what for what, there_is in late.items() if there_is) or "nothing more"
        return {"members": f"{self.dynamic} dynamic, {self.static} static", "protocol": protocol, "besides": more}


def draw_group(seed: int, *, is_consumer: bool | None = None, exactly_once: bool = False) -> GroupOptions:
    """The options of a seed; those of members that process exactly once are the same but for that.

    `is_consumer`: whether members speak KIP-848's protocol. By default those of every third seed speak either, and of
    the others those of odd ones do. A static member that crashes may leave a partition to nobody where it is
    cooperative.
    """
    migrates = is_consumer is None and seed % MIGRATES_EACH == 0
    is_consumer = migrates or (seed % 2 == 1 if is_consumer is None else is_consumer)
    rng = Random(f"options/{seed}/groups")
    options = transacting(sparse(seed))
    has_classic = migrates or not is_consumer
    left_out = (*NO_PART, *OF_CONSUMERS) if has_classic else NO_PART
    faults: Mapping[Fault, int] = {fault: weight for fault, weight in options.faults.items() if fault not in left_out}
    is_cooperative = rng.random() < 0.5
    losses, dynamic = rng.choice((Losses.NONE, Losses.SPARED)), rng.choice((2, 3))
    if exactly_once:
        options = with_time_for_transactions(options)
    besides = Random(f"besides-18/{seed}")
    loads_slowly, repeats = (besides.random() < share for share in (SLOW_SHARE, REPEATS_SHARE))
    hangs = has_classic and not migrates and Random(f"hangs-17/{seed}").random() < HANGS_SHARE
    moves = options.brokers > options.replication_factor and Random(f"moves-43/{seed}").random() < MOVES_SHARE
    wanders = Random(f"wanders-3771/{seed}").random() < WANDERS_SHARE
    is_rare = not exactly_once and Random(f"rare-2487/{seed}").random() < RARE_SHARE
    hangs |= is_rare and has_classic and not migrates
    timed = Random(f"interval-80/{seed}")
    has_interval = timed.random() < INTERVAL_SHARE
    return GroupOptions(
        attrs.evolve(options, transactions=0, faults=faults, losses=losses),
        dynamic=dynamic + exactly_once,
        static=0 if is_cooperative and has_classic else rng.choice((0, 1, 2)),
        is_consumer=is_consumer,
        migrates=migrates,
        is_cooperative=is_cooperative and has_classic,
        loads_slowly=loads_slowly and is_consumer,
        repeats=repeats and is_consumer,
        hangs=hangs and not exactly_once,
        moves=moves and not exactly_once,
        wanders=wanders and is_consumer and not exactly_once,
        fences=is_rare,
        interval_ms=timed.choice(INTERVALS_MS) if is_consumer and has_interval and not exactly_once else 0,
        exactly_once=exactly_once,
    )
