"""The models of transactions that are explored to their end; each turns some perturbations on."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.transactions.machine import Transactions

_ALL = (
    Model(
        "transactions-two-partitions",
        Transactions(incarnations=1),
        "two transactions over two partitions, in time or too late",
    ),
    Model(
        "transactions-zombie",
        Transactions(transactions=1),
        "a process that was replaced, and does not know it",
    ),
    Model(
        "transactions-late-end",
        Transactions(incarnations=1, bounds=Bounds(DelayEnd=1)),
        "an EndTxn that arrives in the next transaction (KIP-890, version 2)",
    ),
    Model(
        "transactions-late-records",
        Transactions(incarnations=1, partitions=1, bounds=Bounds(DelayProduce=1, GiveUp=1, CrashProducer=1)),
        "records that arrive after their transaction, or in another (KIP-890)",
    ),
    Model(
        "transactions-coordinator",
        Transactions(incarnations=1, partitions=1, bounds=Bounds(DelayMarker=1, FailOver=1)),
        "a coordinator that takes over at any point, with markers of the last one on their way",
    ),
    Model(
        "transactions-leader",
        Transactions(transactions=1, partitions=1, bounds=Bounds(DelayProduce=1, Elect=1)),
        "a partition's leader that loses what was not committed, and finds its memory in the log",
    ),
    Model(
        "transactions-epochs",
        Transactions(transactions=1, partitions=1, max_epoch=3, bounds=Bounds(DelayEnd=1, CrashProducer=1)),
        "epochs that are used up: the producer id changes",
    ),
    Model(
        "transactions-version-1",
        Transactions(transactions=1, partitions=1, version=1, bounds=Bounds(GiveUp=1, FailOver=1)),
        "partitions added by the client and verified by the leader",
    ),
    Model(
        "transactions-version-0",
        Transactions(
            transactions=1,
            incarnations=1,
            partitions=1,
            version=1,
            log_version=0,
            max_epoch=3,
            bounds=Bounds(GiveUp=1, DelayInit=1, FailOver=1),
        ),
        "a log that knows of no producer id but the present one (transaction.version 0)",
    ),
    Model(
        "transactions-recovery",
        Transactions(incarnations=1, partitions=1, version=1, max_epoch=3, bounds=Bounds(GiveUp=1, DelayInit=1)),
        "a producer of version 1 that goes on after a record that it has given up (KIP-360)",
    ),
    Model(
        "transactions-upgrade",
        Transactions(
            incarnations=1,
            partitions=1,
            version=1,
            transactions_before_upgrade=1,
            bounds=Bounds(Upgrade=1, DelayEnd=1, GiveUp=1),
        ),
        "a producer that changes from version 1 to 2 between two transactions",
    ),
    Model(
        "transactions-one-connection",
        Transactions(incarnations=1, partitions=1, version=1, one_connection=True, bounds=Bounds(DelayAdd=1, GiveUp=1)),
        "a producer of version 1 that waits for every partition that it adds",
    ),
    Model(
        "transactions-mistaken-epoch",
        Transactions(incarnations=1, partitions=1, transactions=1, guesses_epochs=True, bounds=Bounds(DelayEnd=1)),
        "a client that ends its transaction under an epoch that nobody gave it",
    ),
    Model(
        "transactions-group",
        Transactions(
            transactional_ids=2, incarnations=1, partitions=1, transactions=1, inputs=2, bounds=Bounds(Rebalance=1)
        ),
        "two members that commit their group's offset, one after the other (KIP-447)",
    ),
    Model(
        "transactions-two-phase",
        Transactions(partitions=1, transactions=1, two_phase=True, bounds=Bounds(CrashProducer=1, FailOver=1)),
        "a database that decides with the producer, and processes that take over (KIP-939)",
    ),
    Model(
        "transactions-clock",
        Transactions(incarnations=1, partitions=1, bounds=Bounds(TurnClockBack=1, FailOver=1)),
        "a coordinator whose clock is set back between two transactions, or in one",
    ),
    Model(
        "transactions-forgotten-id",
        Transactions(transactions=1, partitions=1, bounds=Bounds(ExpireId=1, DelayProduce=1)),
        "a transactional id that is forgotten, while a process and a late record still have it",
    ),
    Model(
        "transactions-nightly-group",
        Transactions(transactional_ids=2, incarnations=1, transactions=1, inputs=2, bounds=Bounds(Rebalance=1)),
        "two members that write to a partition besides",
    ),
    Model(
        "transactions-nightly-coordinator",
        Transactions(transactions=1, bounds=Bounds(DelayMarker=1, DelayEnd=1, FailOver=1)),
        "a zombie and a coordinator that takes over, with two partitions",
    ),
    Model(
        "transactions-nightly-leader",
        Transactions(transactions=1, partitions=1, bounds=Bounds(DelayMarker=1, DelayProduce=1, Elect=1, FailOver=1)),
        "a zombie, a coordinator and a leader that change, with late records and markers",
    ),
    Model(
        "transactions-nightly-forgotten-id",
        Transactions(transactions=1, partitions=1, bounds=Bounds(ExpireId=1, DelayProduce=1, DelayEnd=1)),
        "a transactional id that is forgotten, while late records and ends of it are on their way",
    ),
    Model(
        "transactions-nightly-version-1",
        Transactions(transactions=1, version=1, bounds=Bounds(GiveUp=1, CrashProducer=1)),
        "a zombie of version 1 over two partitions",
    ),
)

TRANSACTION_MODELS: Mapping[str, Model[Transactions]] = {model.name: model for model in _ALL}

QUICK_TRANSACTIONS = tuple(
    f"transactions-{name}" for name in ("two-partitions", "late-end", "late-records", "recovery", "upgrade")
)
"""Two seconds."""
NIGHTLY_TRANSACTIONS = tuple(name for name in TRANSACTION_MODELS if "nightly" in name)
"""Minutes."""
