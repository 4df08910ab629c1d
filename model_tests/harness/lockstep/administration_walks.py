"""Random walks of administration: two names, three brokers, all settings, and as many requests as a walk has."""

from __future__ import annotations

from random import Random
from typing import Final

from tidegauge.model_tests.harness.lockstep.walks import WalkPlan, enabled_candidates
from tidegauge.spec.administration.altering import CheckSettings, ReplaceSettings
from tidegauge.spec.administration.brokers import Fence, Restart, Unregister
from tidegauge.spec.administration.machine import Administration
from tidegauge.spec.administration.settings import MIN_INSYNC, POLICY, RETENTION, SESSION, THREADS, UNCLEAN
from tidegauge.spec.administration.topics import CheckTopic, DeleteTopic
from tidegauge.spec.kernel.bounds import UNBOUNDED, Bounds

ALL_SETTINGS: Final = (MIN_INSYNC, UNCLEAN, POLICY, RETENTION, THREADS, SESSION)


def large_machine(rng: Random) -> Administration:
    """In half of the walks every setting is changed; in the others those by which the controller decides."""
    return Administration(
        names=rng.choice((1, 2)),
        brokers=rng.choice((2, 3)),
        factor=rng.choice((2, 3)),
        max_partitions=rng.choice((1, 2, 3)),
        settings=rng.choice((ALL_SETTINGS, (MIN_INSYNC, UNCLEAN))),
        blocks=rng.choice((0, 1, 3)),
        min_insync=rng.choice((1, 2)),
        bounds=Bounds(dict.fromkeys(Administration().perturbations, UNBOUNDED)),
    )


ADMINISTRATION_WALKS: Final = WalkPlan(
    large_machine,
    frozenset({CheckTopic, CheckSettings, ReplaceSettings, DeleteTopic, Fence, Restart, Unregister}),
    forbidden_share=0.2,
    length=100,
    enabled=enabled_candidates,
)
