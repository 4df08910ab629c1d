"""The models of workers: a partition that comes and goes, and workers that hang."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.workers.machine import Workers

_ALL = (
    Model(
        "workers-asked", Workers(bounds=Bounds(AskBack=1, Hang=1)), "a partition that is asked for, while workers hang"
    ),
    Model("workers-expelled", Workers(bounds=Bounds(Expel=1)), "a partition that is taken away without a word"),
    Model(
        "workers-coming-back",
        Workers(bounds=Bounds(Expel=1, Hang=1)),
        "a partition that comes back, while a worker is at it from before",
    ),
    Model("workers-nightly-twice", Workers(bounds=Bounds(Expel=2)), "a partition that is taken away twice"),
    Model(
        "workers-nightly-everything",
        Workers(bounds=Bounds(AskBack=1, Expel=1, Hang=1)),
        "a partition that is asked for, and taken away, while workers hang",
    ),
)

WORKER_MODELS: Mapping[str, Model[Workers]] = {model.name: model for model in _ALL}
NIGHTLY_WORKERS = tuple(name for name in WORKER_MODELS if "nightly" in name)
"""Half a minute."""
