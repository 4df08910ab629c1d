"""KAFKA-18227: an upgrade that joins the last transaction."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.machine import Transactions


@attrs.frozen
class UpgradesUnderTheSameEpoch(Transactions):
    """A client goes on under its epoch when it changes to version 2."""

    def raises_epoch_on_upgrade(self) -> bool:
        return False


BUG = Bug(
    name="kafka_18227",
    title="an upgrade that joins the last transaction",
    reference="KAFKA-18227, KIP-890",
    mechanism=(
        "A client ends a transaction of version 1, and begins one of version 2 under the same epoch; what is "
        "late of the first one is taken for the second."
    ),
    violates=("CommittedAsAsked", "NoLateJoin", "OneOutcome"),
    buggy=UpgradesUnderTheSameEpoch,
    model=Transactions(
        incarnations=1,
        partitions=1,
        version=1,
        transactions_before_upgrade=1,
        bounds=Bounds(Upgrade=1, DelayEnd=1),
    ),
)
