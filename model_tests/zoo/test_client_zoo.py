"""librdkafka 3575 in the native client: a transaction that ends while a part of it is on its way."""

from __future__ import annotations

import trio

from tidegauge.impl.client.transactional import Transaction, TransactionalProducer
from tidegauge.model_tests.client.test_transactional import read, running
from tidegauge.model_tests.server.apis.test_transactions import described
from tidegauge.model_tests.server.transacting import Transacting
from tidegauge.model_tests.simulated import simulated


class EndsWhileItAdds(Transaction):
    """It looks at what was acknowledged alone."""

    async def landed(self) -> None:
        return


async def state_after_a_commit(kind: type[Transaction]) -> tuple[str, list[bytes | None]]:
    """How the coordinator has the transaction that its client has committed; and what is read of one that follows.

    The request that adds a partition is lost, and sent again a little later.
    """
    async with running(3, level=1) as (cluster, client), trio.open_nursery() as nursery:
        producer = TransactionalProducer(client, "tx")
        async with producer.transaction() as first:
            await first.produce("t", b"1")
        async with kind(producer, None) as transaction:
            await transaction.produce("t", b"2")
            lost = cluster.drop_connections("AddPartitionsToTxn", 1)
            nursery.start_soon(lambda: transaction.produce("t", b"late", partition=1))
            while not lost.hits:  # noqa: ASYNC110 - virtual time
                await trio.sleep(0.001)
        await trio.sleep(3)
        state = (await described(Transacting(cluster, 1))).transaction_state
        await go_on(producer)
        return state, await read(client, partition=1)


async def go_on(producer: TransactionalProducer) -> None:
    async with producer.transaction() as transaction:
        await transaction.produce("t", b"next")


@simulated
async def test_a_transaction_ends_when_all_of_it_has_landed() -> None:
    assert await state_after_a_commit(Transaction) == ("CompleteCommit", [b"late"])


@simulated
async def test_a_client_that_ends_its_transaction_while_it_adds_a_partition_opens_another_one() -> None:
    """Of which it does not know: what it was told is committed goes the way of the next transaction."""
    assert await state_after_a_commit(EndsWhileItAdds) == ("Ongoing", [])
