"""The requests of transactions on the wire, and what their responses say.

A client of version 1 sends versions from before KIP-890 part 2: EndTxn 4, and Produce 10 as librdkafka does, for which
TRANSACTION_ABORTABLE is INVALID_TXN_STATE.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_partitions_to_txn.v3 import request as client_adds
from kio.schema.add_partitions_to_txn.v4 import request as leader_adds
from kio.schema.end_txn.v4.request import EndTxnRequest as EndTxnRequestV4
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.types import GroupId, ProducerId, TransactionalId
from kio.schema.write_txn_markers.v2 import request as markers

from tidegauge.impl.coordinators.transactions.messages import ProducerGiven
from tidegauge.impl.coordinators.transactions.metadata import TopicPartition
from tidegauge.impl.partition.leader import ACKS_ALL
from tidegauge.impl.wire.primitives import TopicName, i8, i16, i32, millis
from tidegauge.impl.wire.produce_messages import ProducePartition, ProduceRequest, ProduceTopic
from tidegauge.model_tests.harness.cores.transaction_abstraction import produced
from tidegauge.model_tests.harness.cores.transaction_clients import told_version
from tidegauge.spec.transactions import state as spec
from tidegauge.spec.transactions.actions import Waiting, unavailable
from tidegauge.spec.transactions.machine import Transactions

FOR_EVER_MS: Final = 1_000_000_000
OF_TRANSACTIONS: Final = 1
"""The key type in FindCoordinator."""
PRODUCE_OF_VERSION: Final = {1: 10, 2: 12}
"""The version of the protocol -> that of Produce: from 12 on a record adds its partition."""


def find(name: str) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=i8(OF_TRANSACTIONS), coordinator_keys=(name,))


def add_offsets(name: str, group: str, request: spec.AddRequest) -> AddOffsetsToTxnRequest:
    """The group's partition joins the transaction."""
    return AddOffsetsToTxnRequest(
        transactional_id=TransactionalId(name),
        producer_id=ProducerId(request.producer_id),
        producer_epoch=i16(request.epoch),
        group_id=GroupId(group),
    )


def to_coordinator(located: TopicPartition, name: str, timeout_ms: int, request: Waiting, *, two_phase: bool) -> Any:
    """A client's request, or that of a leader that asks about a record; `located` is the partition that it is about."""
    topic, place = TopicName(located.topic), (i32(located.partition),)
    transactional_id, producer_id, epoch = TransactionalId(name), ProducerId(request.producer_id), i16(request.epoch)
    match request:
        case spec.InitRequest(keeps_prepared=keeps):
            return InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout=millis(timeout_ms),
                producer_id=producer_id,
                producer_epoch=epoch,
                enable2_pc=two_phase,
                keep_prepared_txn=keeps,
            )
        case spec.EndRequest():
            kind = EndTxnRequest if request.version >= 2 else EndTxnRequestV4
            return kind(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=request.decision is spec.Decision.COMMIT,
            )
        case spec.AddRequest():
            added = client_adds.AddPartitionsToTxnTopic(name=topic, partitions=place)
            return client_adds.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=(added,),
            )
        case spec.ProduceRequest():
            asked = leader_adds.AddPartitionsToTxnTopic(name=topic, partitions=place)
            transaction = leader_adds.AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=request.version < 2,
                topics=(asked,),
            )
            return leader_adds.AddPartitionsToTxnRequest(transactions=(transaction,))


def said_by_coordinator(request: Waiting, response: Any) -> ProducerGiven | ErrorCode:
    """What the coordinator's response to `to_coordinator` says."""
    match request:
        case spec.InitRequest():
            ongoing = response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch
            return ProducerGiven(response.error_code, response.producer_id, response.producer_epoch, ongoing)
        case spec.EndRequest(version=version) if version >= 2:
            return ProducerGiven(response.error_code, response.producer_id, response.producer_epoch)
        case spec.EndRequest():
            return ProducerGiven(response.error_code)
        case spec.AddRequest() if hasattr(response, "error_code"):
            offsets_error: ErrorCode = response.error_code
            return offsets_error
        case spec.AddRequest():
            topics = response.results_by_topic_v3_and_below
        case spec.ProduceRequest():
            topics = response.results_by_transaction[0].topic_results
    error: ErrorCode = topics[0].results_by_partition[0].partition_error_code
    return error


def produce(topic: str, name: str, request: spec.ProduceRequest, now_ms: int, *, damaged: bool) -> ProduceRequest:
    """A record; a `damaged` one has lost a bit on its way, and its checksum says so."""
    records = bytearray(produced(request, now_ms))
    if damaged:
        records[-1] ^= 1
    parts = [ProducePartition(request.partition, bytes(records))]
    message = ProduceRequest(ACKS_ALL, FOR_EVER_MS, [ProduceTopic(topic, "", parts)])
    message.transactional_id = name
    return message


def said_by_leader(response: Any) -> ErrorCode:
    """What the response to `produce` says."""
    error: ErrorCode = response.topics[0].partitions[0].error_code
    return error


def write_marker(located: TopicPartition, request: spec.MarkerRequest) -> markers.WriteTxnMarkersRequest:
    """A marker that somebody sends who is not the coordinator any more, or not at this time."""
    index = (i32(located.partition),)
    place = markers.WritableTxnMarkerTopic(name=TopicName(located.topic), partition_indexes=index)
    marker = markers.WritableTxnMarker(
        producer_id=ProducerId(request.producer_id),
        producer_epoch=i16(request.epoch),
        transaction_result=request.decision is spec.Decision.COMMIT,
        topics=(place,),
        coordinator_epoch=i32(request.coordinator_epoch),
        transaction_version=i8(told_version(request.version)),
    )
    return markers.WriteTxnMarkersRequest(markers=(marker,))


def said_of_marker(response: Any) -> ErrorCode:
    """What the response to `write_marker` says."""
    error: ErrorCode = response.markers[0].topics[0].partitions[0].error_code
    return error


def is_to_be_verified(machine: Transactions, request: spec.ProduceRequest, before: spec.State) -> bool:
    """Whether the leader asks the coordinator before it looks at a record."""
    leader = before.partitions[request.partition]
    knows = machine.is_repeat(leader.memory, request) or machine.is_open_for(leader.memory, request)
    return not knows and not machine.is_verified(leader, request)


def said_of_record(machine: Transactions, request: spec.ProduceRequest, before: spec.State) -> spec.Error:
    """What the leader makes of the coordinator's response."""
    number = machine.id_of(request.producer)
    cached = before.coordination[number].cached
    if error := unavailable(before, number, pending=request.version >= 2):
        return error
    assert cached is not None, "it is available"
    error = machine.verification_ruling(cached, request).error
    return spec.Error.INVALID_PRODUCER_EPOCH if error is spec.Error.PRODUCER_FENCED else error
