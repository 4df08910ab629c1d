"""KAFKA-7408: an unclean election loses a marker, and its transaction is open for ever."""

from __future__ import annotations

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.transactions.state import Log
from tidegauge.spec.transactions.unclean import UncleanTransactions


@attrs.frozen
class KeepsWhatIsOpen(UncleanTransactions):
    """A leader keeps all that it has."""

    def log_of_the_unclean(self, log: Log) -> Log:
        return log


BUG = Bug(
    name="kafka_7408",
    title="an unclean election loses a marker, and its transaction is open for ever",
    reference="KAFKA-7408, which is open: a leader keeps all in Kafka 4 too, and here; an operator ends what hangs",
    mechanism=(
        "A replica is elected that has a transaction's records and not its marker. The coordinator, for which the "
        "transaction is complete, sends no other: readers of committed records stop there for good."
    ),
    violates=("OpenIsKnown",),
    buggy=KeepsWhatIsOpen,
    model=UncleanTransactions(transactions=1, partitions=1, incarnations=1, bounds=Bounds(ElectUnclean=1)),
)
