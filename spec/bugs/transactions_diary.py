"""The variants of the published model of transactions as bugs: one rule missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.published.transactions_diary import variants
from tidegauge.spec.published.transactions_diary.machine import TransactionsDiary

_MODELS: Final[Mapping[type[TransactionsDiary], tuple[TransactionsDiary, str]]] = {
    variants.KeepsEpoch: (TransactionsDiary(max_elections=0), "TypeOK"),
    variants.TransitionsAtOnce: (TransactionsDiary(max_elections=0), "ClientsHaveDifferentProducerEpochs"),
    variants.KeepsCoordinatorEpoch: (TransactionsDiary(), "TCsHaveDifferentEpochs"),
}


def _bug(variant: type[TransactionsDiary]) -> Bug[TransactionsDiary]:
    told = " ".join((variant.__doc__ or "").split())
    model, violates = _MODELS[variant]
    return Bug(
        name=variant.__name__,
        title=told.rpartition(": ")[0] or told.rstrip("."),
        reference="github.com/Vanlightly/kafka-tlaplus",
        mechanism=told,
        violates=(violates,),
        buggy=variant,
        model=model,
    )


DIARY_BUGS: Final[Mapping[str, Bug[TransactionsDiary]]] = {variant.__name__: _bug(variant) for variant in _MODELS}
"""By class name."""
