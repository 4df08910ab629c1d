"""The models of consumer groups that are explored to their end; each turns some perturbations on."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.groups.consumer.machine import ConsumerGroups
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.model import Model

_ALL = (
    Model("consumers-leaving", ConsumerGroups(bounds=Bounds(Leave=1)), "a member that leaves, at any point"),
    Model(
        "consumers-hanging",
        ConsumerGroups(bounds=Bounds(Hang=1, ExpireRebalance=1)),
        "an application that gives nothing back while its heartbeats go on, and members that are too slow",
    ),
    Model(
        "consumers-coordinator",
        ConsumerGroups(bounds=Bounds(FailOver=1)),
        "a coordinator that takes over at any point, with what was committed",
    ),
    Model(
        "consumers-lost-responses",
        ConsumerGroups(bounds=Bounds(LoseResponse=1)),
        "a response that is lost, and a member that is behind by an epoch",
    ),
    Model(
        "consumers-growing",
        ConsumerGroups(partitions=1, bounds=Bounds(AddPartition=1)),
        "a partition that is added, and that the coordinator shares out",
    ),
    Model(
        "consumers-racks",
        ConsumerGroups(bounds=Bounds(ChangeRacks=1)),
        "replicas that are in another rack, for which the group begins an epoch (KIP-1101)",
    ),
    Model(
        "consumers-subscriptions",
        ConsumerGroups(topics=2, bounds=Bounds(Resubscribe=1)),
        "a member that wants other topics",
    ),
    Model(
        "consumers-interval",
        ConsumerGroups(spaces_targets=True, bounds=Bounds(Leave=1)),
        "targets that are not made sooner than an interval after the last one (KIP-1263), and a member that leaves",
    ),
    Model(
        "consumers-interval-subscriptions",
        ConsumerGroups(spaces_targets=True, topics=2, bounds=Bounds(Resubscribe=1)),
        "a member that unsubscribes from a topic between two targets, and gives back what it has of it (KAFKA-19431)",
    ),
    Model(
        "consumers-interval-unsubscribing",
        ConsumerGroups(spaces_targets=True, processes=1, topics=3, partitions=3, bounds=Bounds(Resubscribe=3)),
        "one that unsubscribes from another topic while it gives the first one's partitions back, and wants both again",
    ),
    Model(
        "consumers-interval-expression",
        ConsumerGroups(
            spaces_targets=True,
            processes=1,
            partitions=1,
            matches=((0,),),
            expressions=(0,),
            bounds=Bounds(Resubscribe=2),
        ),
        "one that brings its expression again, which is resolved again: the old target gives it nothing, the next does",
    ),
    Model(
        "consumers-interval-expressions",
        ConsumerGroups(
            spaces_targets=True, partitions=1, matches=((0,),), expressions=(0,), bounds=Bounds(Resubscribe=2)
        ),
        "the same, beside a member that names the topic",
    ),
    Model(
        "consumers-interval-owners",
        ConsumerGroups(
            spaces_targets=True,
            topics=3,
            partitions=3,
            matches=((0, 1),),
            expressions=(0,),
            bounds=Bounds(Resubscribe=1),
        ),
        "one that unsubscribes from a topic, and from which the next target takes a partition of another topic, too",
    ),
    Model(
        "consumers-interval-commits",
        ConsumerGroups(spaces_targets=True, topics=2, commits=1, bounds=Bounds(DelayCommit=1, Resubscribe=1)),
        "commits, which may be late, of what a member gives back between two targets",
    ),
    Model(
        "consumers-interval-coordinator",
        ConsumerGroups(spaces_targets=True, partitions=1, bounds=Bounds(FailOver=1)),
        "the same, with a coordinator that takes over meanwhile",
    ),
    Model(
        "consumers-expressions",
        ConsumerGroups(
            topics=2, matches=((0, 1),), expressions=(0,), processes=1, bounds=Bounds(CreateTopic=1, DeleteTopic=1)
        ),
        "a regular expression of topics, one of which comes, and one of which goes",
    ),
    Model(
        "consumers-expressions-due",
        ConsumerGroups(
            topics=2,
            matches=((0, 1),),
            expressions=(0,),
            processes=1,
            partitions=1,
            bounds=Bounds(BecomeDue=1, DeleteTopic=1, FailOver=1),
        ),
        "an expression that is resolved again because it is long ago, and a coordinator that takes over meanwhile",
    ),
    Model(
        "consumers-expressions-named",
        ConsumerGroups(topics=2, matches=((1,),), expressions=(0,), named=(0,), bounds=Bounds(Resubscribe=1)),
        "a member with a topic and an expression, which it brings while another one names both topics",
    ),
    Model(
        "consumers-expressions-two",
        ConsumerGroups(topics=2, matches=((0, 1), (1,)), expressions=(0, 1), bounds=Bounds(CreateTopic=1, FailOver=1)),
        "two members with expressions, a topic that comes, and a coordinator that takes over",
    ),
    Model(
        "consumers-offsets",
        ConsumerGroups(commits=1, bounds=Bounds(DelayCommit=1)),
        "a commit that is late, and the member that goes on (KIP-1251)",
    ),
    Model(
        "consumers-zombie",
        ConsumerGroups(instances=(0, 0), partitions=1, commits=1, bounds=Bounds(Leave=1)),
        "two processes of one static member: the second one takes over what the first one has",
    ),
    Model(
        "consumers-static",
        ConsumerGroups(instances=(0, 1), bounds=Bounds(Leave=1)),
        "a static member that leaves to come back",
    ),
    Model("consumers-crash", ConsumerGroups(bounds=Bounds(Crash=1)), "a process that ends without a word"),
    Model("consumers-three", ConsumerGroups(processes=3), "three members that get to their target by themselves"),
    Model(
        "consumers-late-heartbeats",
        ConsumerGroups(commits=1, bounds=Bounds(DelayHeartbeat=1)),
        "a heartbeat that arrives when its member has been told more",
    ),
    Model(
        "consumers-sessions",
        ConsumerGroups(bounds=Bounds(ExpireSession=1, LoseResponse=1)),
        "members that go on and are taken for gone, and responses that are lost",
    ),
    Model(
        "consumers-failing-over",
        ConsumerGroups(partitions=1, commits=1, bounds=Bounds(FailOver=1, DelayCommit=1)),
        "commits that are late, and a coordinator that takes over",
    ),
    Model(
        "consumers-nightly-offsets",
        ConsumerGroups(commits=1, bounds=Bounds(DelayCommit=1, ExpireSession=1)),
        "commits of members that were taken for gone",
    ),
    Model(
        "consumers-nightly-coordinator",
        ConsumerGroups(instances=(0,), bounds=Bounds(FailOver=1, Leave=1, LoseResponse=1)),
        "a static member that leaves to come back, a coordinator that takes over, and a response that is lost",
    ),
    Model(
        "consumers-nightly-three",
        ConsumerGroups(processes=3, bounds=Bounds(Leave=1)),
        "three members, of which one leaves",
    ),
)

CONSUMER_MODELS: Mapping[str, Model[ConsumerGroups]] = {model.name: model for model in _ALL}

QUICK_CONSUMERS = tuple(
    f"consumers-{name}"
    for name in (
        "hanging",
        "coordinator",
        "lost-responses",
        "growing",
        "racks",
        "interval",
        "interval-subscriptions",
        "interval-unsubscribing",
        "interval-expression",
        "subscriptions",
        "expressions",
        "expressions-due",
        "offsets",
        "zombie",
    )
)
"""Two seconds."""
NIGHTLY_CONSUMERS = tuple(name for name in CONSUMER_MODELS if "nightly" in name)
"""Minutes."""
