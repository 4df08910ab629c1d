"""DescribeQuorum, UnregisterBroker and changes of voters at a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.error_responses.brokers import unregister_broker_error
from tidegauge.impl.server.error_responses.cluster import describe_quorum_error
from tidegauge.impl.server.error_responses.features import add_raft_voter_error, remove_raft_voter_error
from tidegauge.impl.server.requests.refusals import on_cluster, refuse
from tidegauge.impl.server.transport.authorization import Operation

if TYPE_CHECKING:
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
    from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse
    from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
    from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

    from tidegauge.impl.server.broker.forwarding import Forwarder
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_describe_quorum(
    request: DescribeQuorumRequest, context: RequestContext, *, forwarder: Forwarder
) -> DescribeQuorumResponse:
    return await forwarder.forward_if_allowed(request, context, Operation.DESCRIBE, describe_quorum_error)


async def handle_unregister_broker(
    request: UnregisterBrokerRequest, context: RequestContext, *, forwarder: Forwarder
) -> UnregisterBrokerResponse:
    return await forwarder.forward_if_allowed(request, context, Operation.ALTER, unregister_broker_error)


ONE_VOTER: Final = "the quorum's voters do not change: kraft.version is 0"

handle_add_raft_voter: Final = refuse(
    add_raft_voter_error, on_cluster(Operation.ALTER), ErrorCode.unsupported_version, ONE_VOTER
)
handle_remove_raft_voter: Final = refuse(
    remove_raft_voter_error, on_cluster(Operation.ALTER), ErrorCode.unsupported_version, ONE_VOTER
)
