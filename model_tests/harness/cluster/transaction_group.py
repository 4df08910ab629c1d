"""The group of a lockstep of transactions: its member, its coordinator, and the partition of its offsets.

The partition of offsets is the only one of `__consumer_offsets`. The group has one member, in whose name every process
commits: what tells a former owner of the input from the present one is the generation, and a rebalance is that the
member joins anew. That writes a record of the group, in no transaction: offsets of the log are counted without it.

A TxnOffsetCommit says of which transaction it is by its metadata, and by metadata that are too long that only the
transaction's coordinator is to be asked: the group's looks at them when that has been done.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import timedelta
from typing import Any, Final

import attrs
from kio.schema.errors import ErrorCode
from kio.schema.join_group.v5.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.txn_offset_commit.v3 import request as v3
from kio.schema.txn_offset_commit.v5 import request as v5
from kio.schema.types import GroupId, ProducerId, TransactionalId
from kio.static.primitive import i32Timedelta
from trio.testing import wait_all_tasks_blocked

from tidegauge.impl.partition.log import Buffer
from tidegauge.impl.records.batches import headers
from tidegauge.impl.server.pace import Pace
from tidegauge.impl.wire.primitives import TopicName, i16, i32, i64
from tidegauge.model_tests.harness.cluster.coordinator_brokers import MUCH
from tidegauge.model_tests.harness.cluster.transaction_brokers import INPUT, TransactionBrokers
from tidegauge.spec.transactions import state as spec

GROUP: Final = "group"
NOBODY: Final = "nobody"
OLD: Final = ErrorCode.invalid_producer_epoch
TOO_LONG: Final = "-" * 5_000
LONG: Final = i32Timedelta.parse(timedelta(minutes=29))
OFFERED: Final = JoinGroupRequestProtocol(name="range", metadata=b"")


@attrs.define
class TransactionGroup:
    """One group at the brokers of a lockstep; without one no partition has its offsets."""

    brokers: TransactionBrokers
    member_id: str = ""
    first_generation: int = 0

    @property
    def place(self) -> int:
        return self.brokers.offsets_place

    def is_of(self, request: spec.ProduceRequest) -> bool:
        """Whether a request commits an offset."""
        return request.partition == self.place

    # --- its member ----------------------------------------------------------------------------------------------

    async def join(self) -> int:
        """The member joins anew, and has all; returns the generation, 0 for the first."""
        joined = await self._ask(self._join())
        if joined.error_code is ErrorCode.member_id_required:
            self.member_id = joined.member_id
            joined = await self._ask(self._join())
        assert joined.error_code is ErrorCode.none, joined
        assignment = SyncGroupRequestAssignment(member_id=self.member_id, assignment=b"all")
        generation = i32(joined.generation_id)
        message = SyncGroupRequest(
            group_id=GroupId(GROUP),
            generation_id=generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=OFFERED.name,
            assignments=(assignment,),
        )
        responses = await self.brokers.asked(self.brokers.leader(self.place).address, message)
        await self.brokers.commit(*self.brokers.located(self.place))
        assert responses[0].error_code is ErrorCode.none, responses
        self.first_generation = self.first_generation or int(generation)
        return int(generation) - self.first_generation

    def _join(self) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=GroupId(GROUP),
            session_timeout=LONG,
            rebalance_timeout=LONG,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(OFFERED,),
        )

    async def _ask(self, message: Any) -> Any:
        broker = self.brokers.leader(self.place)
        responses = await self.brokers.asked(broker.address, message)
        if not responses:  # a group that was empty waits for more members: for no time at all here
            await broker.groups.members.meet_deadlines(Pace())
            await wait_all_tasks_blocked()
        return responses[0]

    # --- its offset ----------------------------------------------------------------------------------------------

    def commit(self, name: str, request: spec.ProduceRequest, *, only_asks: bool) -> Any:
        """A TxnOffsetCommit, of a member that adds its partition by that (version 2) or has added it.

        One of an older epoch than the partition knows is refused whole, and nobody is asked about it.
        """
        replica = self.brokers.led(self.place).replica
        is_old = replica.coordinators_batch_error(request.producer_id, request.epoch) is OLD
        of = v5 if request.version >= 2 else v3
        partition = of.TxnOffsetCommitRequestPartition(
            partition_index=i32(0),
            committed_offset=i64(request.offset),
            committed_metadata=TOO_LONG if only_asks and not is_old else str(request.transaction),
        )
        return of.TxnOffsetCommitRequest(
            transactional_id=TransactionalId(name),
            group_id=GroupId(GROUP),
            producer_id=ProducerId(request.producer_id),
            producer_epoch=i16(request.epoch),
            generation_id=i32(request.generation + self.first_generation),
            member_id=self.member_id if request.is_member else NOBODY,
            topics=(of.TxnOffsetCommitRequestTopic(name=TopicName(INPUT), partitions=(partition,)),),
        )

    async def fetch(self) -> int | ErrorCode:
        """The stable offset of the input, 0 if there is none."""
        topic = OffsetFetchRequestTopics(name=TopicName(INPUT), partition_indexes=(i32(0),))
        group = OffsetFetchRequestGroup(group_id=GroupId(GROUP), topics=(topic,))
        response = await self._ask(OffsetFetchRequest(groups=(group,), require_stable=True))
        (found,) = response.groups[0].topics[0].partitions
        error: ErrorCode = found.error_code
        return max(0, int(found.committed_offset)) if error is ErrorCode.none else error

    # --- its log -------------------------------------------------------------------------------------------------

    def offset_without_members(self, offset: int) -> int:
        """An offset in the log of offsets, as if there were no records of the group's members."""
        return bisect_left(transactional(self.brokers.led(self.place).log.read(0, MUCH)), offset)


def transactional(batches: Buffer) -> list[int]:
    """The offsets of what is in a transaction, and of markers."""
    return [header.base_offset for _, header in headers(batches) if header.producer_id >= 0]
