"""Asking a controller which cluster is its: what a broker's process does before it opens its directories.

A broker that is started against the wrong controller, or an empty one, so finds out while nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Final

import trio
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.errors import ErrorCode

from tidegauge.impl.wire.channel import Channel, Handshake, NoResponseError, UnreachableError
from tidegauge.impl.wire.primitives import i8

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.response import DescribeClusterResponse

    from tidegauge.impl.ports.network import Address, Network

CONTROLLERS: Final = 2
RETRY_S: Final = 0.1


async def learn_cluster_id(
    network: Network,
    voters: Sequence[Address],
    client_id: str,
    login: Handshake,
    on_failure: Callable[[str], None] = lambda why: None,
) -> str:
    """The id of the cluster whose controllers these are; asks one after the other until one has responded.

    `on_failure` is called with the reason why one has not.
    """
    async with trio.open_nursery() as nursery:
        for address in cycle(voters):
            channel = Channel(network, address, client_id, nursery, timeout_ms=5_000, handshake=login)
            request = DescribeClusterRequest(
                include_cluster_authorized_operations=False, endpoint_type=i8(CONTROLLERS), include_fenced_brokers=False
            )
            try:
                response: DescribeClusterResponse = await channel.request(request)
            except (UnreachableError, NoResponseError) as error:
                on_failure(str(error))
            else:
                if response.error_code is ErrorCode.none and response.cluster_id:
                    await channel.aclose()
                    break
                on_failure(f"{address} responds with {response.error_code.name} to a question for its cluster's id")
            await channel.aclose()
            await trio.sleep(RETRY_S)
        nursery.cancel_scope.cancel()
    return response.cluster_id
