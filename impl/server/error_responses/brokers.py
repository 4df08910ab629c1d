"""Error responses: what brokers ask of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse
from kio.schema.alter_partition.v3.response import AlterPartitionResponse
from kio.schema.broker_heartbeat.v2.response import BrokerHeartbeatResponse
from kio.schema.broker_registration.v4.response import BrokerRegistrationResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse

from tidegauge.impl.records.slices import Sliced, done
from tidegauge.impl.server.error_responses.explanation import explained
from tidegauge.impl.wire.primitives import NO_WAIT, i32

if TYPE_CHECKING:
    from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest
    from kio.schema.alter_partition.v3.request import AlterPartitionRequest
    from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
    from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest
    from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest


def alter_partition_error(
    _: AlterPartitionRequest, error: ErrorCode, _message: str = ""
) -> Sliced[AlterPartitionResponse]:
    """The error alone."""
    return done(AlterPartitionResponse(throttle_time=NO_WAIT, error_code=error, topics=()))


def broker_registration_error(
    _: BrokerRegistrationRequest, error: ErrorCode, _message: str = ""
) -> Sliced[BrokerRegistrationResponse]:
    """The error alone."""
    return done(BrokerRegistrationResponse(throttle_time=NO_WAIT, error_code=error))


def broker_heartbeat_error(
    _: BrokerHeartbeatRequest, error: ErrorCode, _message: str = ""
) -> Sliced[BrokerHeartbeatResponse]:
    """The error alone."""
    return done(BrokerHeartbeatResponse(throttle_time=NO_WAIT, error_code=error, should_shut_down=False))


def unregister_broker_error(
    _: UnregisterBrokerRequest, error: ErrorCode, message: str = ""
) -> Sliced[UnregisterBrokerResponse]:
    """The error alone."""
    return done(
        UnregisterBrokerResponse(throttle_time=NO_WAIT, error_code=error, error_message=explained(error, message))
    )


def allocate_producer_ids_error(
    _: AllocateProducerIdsRequest, error: ErrorCode, _message: str = ""
) -> Sliced[AllocateProducerIdsResponse]:
    """The error alone."""
    return done(
        AllocateProducerIdsResponse(
            throttle_time=NO_WAIT, error_code=error, producer_id_start=ProducerId(0), producer_id_len=i32(0)
        )
    )
