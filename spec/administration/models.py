"""The models of administration: settings, moves, removal of brokers, and names that are used again."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.settings import UNCLEAN
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.model import Model

_ALL = (
    Model(
        "administration-settings",
        Administration(max_partitions=1, blocks=0, bounds=Bounds(CreateTopic=1, AlterSettings=2, Fence=1)),
        "min.insync.replicas and unclean elections, of a topic and of all brokers, while a broker is fenced",
    ),
    Model(
        "administration-moves",
        Administration(
            brokers=3,
            max_partitions=1,
            settings=(),
            blocks=0,
            bounds=Bounds(CreateTopic=1, DeleteTopic=1, Reassign=1, Fence=1),
        ),
        "a topic that moves, and is deleted, while a broker is fenced",
    ),
    Model(
        "administration-removal",
        Administration(
            max_partitions=1,
            settings=(UNCLEAN,),
            blocks=1,
            min_insync=2,
            bounds=Bounds(CreateTopic=1, Fence=1, Restart=1, Unregister=1),
        ),
        "brokers restart and are removed, and the last known leader or any replica is elected",
    ),
    Model(
        "administration-names",
        Administration(settings=(), blocks=1, bounds=Bounds(CreateTopic=2, DeleteTopic=1, Grow=1, Reassign=1)),
        "a name is used again, and a topic grows that is not on its way",
    ),
)

ADMINISTRATION_MODELS: Mapping[str, Model[Administration]] = {model.name: model for model in _ALL}
