"""The models of classic groups that are explored to their end; each turns some perturbations on."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.groups.classic.machine import ClassicGroups
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.model import Model

_ALL = (
    Model("groups-leaving", ClassicGroups(bounds=Bounds(Leave=1)), "a member that leaves, at any point of a rebalance"),
    Model(
        "groups-cooperative",
        ClassicGroups(cooperative=True, commits=1, bounds=Bounds(DelayCommit=1)),
        "two members that go on while they rebalance, and a commit that is late (KIP-429)",
    ),
    Model(
        "groups-hanging",
        ClassicGroups(cooperative=True, bounds=Bounds(Hang=1)),
        "an application that does nothing any more, while its heartbeats go on",
    ),
    Model(
        "groups-coordinator",
        ClassicGroups(bounds=Bounds(FailOver=1)),
        "a coordinator that takes over at any point, with what was committed",
    ),
    Model(
        "groups-static",
        ClassicGroups(instances=(0, 1), bounds=Bounds(Crash=1)),
        "a static member that starts again (KIP-345)",
    ),
    Model(
        "groups-slow-static",
        ClassicGroups(instances=(0, 1), cooperative=True, partitions=3, bounds=Bounds(ExpireRebalance=1)),
        "a static member that misses a generation, and says what it owned before",
    ),
    Model(
        "groups-growing",
        ClassicGroups(partitions=1, bounds=Bounds(AddPartition=1)),
        "a partition that is added, and that the leader has to see",
    ),
    Model(
        "groups-subscriptions",
        ClassicGroups(topics=2, cooperative=True, bounds=Bounds(Resubscribe=1)),
        "a member that wants other topics",
    ),
    Model(
        "groups-protocols",
        ClassicGroups(processes=3, protocols=((0,), (0, 1), (1,)), partitions=1),
        "members with different assignors, of which two have none in common",
    ),
    Model(
        "groups-old-clients",
        ClassicGroups(requires_id=False, sync_timeout=False, bounds=Bounds(Crash=1)),
        "members that are in the group before they know their id, and a coordinator that waits for what they ask",
    ),
    Model(
        "groups-crash", ClassicGroups(bounds=Bounds(Crash=1)), "a process that ends without a word, and begins again"
    ),
    Model(
        "groups-zombie",
        ClassicGroups(instances=(0, 0), commits=1, bounds=Bounds(FailOver=1)),
        "two processes of one static member, commits, and a coordinator that takes over",
    ),
    Model(
        "groups-late-joins",
        ClassicGroups(bounds=Bounds(DelayJoin=1, LoseConnection=1)),
        "a JoinGroup that arrives late, and responses that are lost",
    ),
    Model(
        "groups-late-syncs",
        ClassicGroups(cooperative=True, bounds=Bounds(DelaySync=1, LoseConnection=1)),
        "a SyncGroup that arrives late, and responses that are lost",
    ),
    Model(
        "groups-late-heartbeats",
        ClassicGroups(bounds=Bounds(DelayHeartbeat=1, ExpireSession=1)),
        "responses to heartbeats of a membership that is over",
    ),
    Model(
        "groups-offsets",
        ClassicGroups(commits=1, bounds=Bounds(DelayCommit=1, FailOver=1)),
        "commits that are late, and a coordinator that takes over",
    ),
    Model(
        "groups-three",
        ClassicGroups(processes=3, cooperative=True),
        "three members that go on while they rebalance",
    ),
    Model(
        "groups-timeouts",
        ClassicGroups(bounds=Bounds(ExpireRebalance=1, ExpireSync=1)),
        "members that go on, and are taken for gone",
    ),
    Model(
        "groups-nightly-coordinator",
        ClassicGroups(cooperative=True, bounds=Bounds(FailOver=2, LoseConnection=1)),
        "coordinators that take over from each other, and responses that are lost",
    ),
    Model(
        "groups-nightly-growing",
        ClassicGroups(partitions=1, bounds=Bounds(AddPartition=1, FailOver=1, LoseConnection=1)),
        "a partition that is added while a leader loses its connection, and the coordinator fails",
    ),
    Model(
        "groups-nightly-static",
        ClassicGroups(instances=(0, 1), bounds=Bounds(Crash=1, FailOver=1)),
        "static members that start again, and a coordinator that takes over",
    ),
)

GROUP_MODELS: Mapping[str, Model[ClassicGroups]] = {model.name: model for model in _ALL}

QUICK_GROUPS = tuple(
    f"groups-{name}"
    for name in (
        "cooperative",
        "hanging",
        "coordinator",
        "slow-static",
        "growing",
        "subscriptions",
    )
)
"""Two seconds."""
NIGHTLY_GROUPS = tuple(name for name in GROUP_MODELS if "nightly" in name)
"""Minutes."""
