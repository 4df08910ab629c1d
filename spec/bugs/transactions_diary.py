"""The variants of the published model of transactions as bugs: one rule missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.published import variants_as_bugs
from tidegauge.spec.published.transactions_diary import variants
from tidegauge.spec.published.transactions_diary.machine import TransactionsDiary

DIARY_BUGS: Final[Mapping[str, Bug[TransactionsDiary]]] = variants_as_bugs(
    "github.com/Vanlightly/kafka-tlaplus",
    {
        variants.KeepsEpoch: (TransactionsDiary(max_elections=0), "TypeOK"),
        variants.TransitionsAtOnce: (TransactionsDiary(max_elections=0), "ClientsHaveDifferentProducerEpochs"),
        variants.KeepsCoordinatorEpoch: (TransactionsDiary(), "TCsHaveDifferentEpochs"),
    },
)
"""By class name."""
