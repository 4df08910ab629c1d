"""A simulated member of a group, of either protocol: a consumer in small, and sequential.

A round looks at each partition that it owns, delivers what is there, commits, and says that it lives. How it comes to
own partitions is its protocol's (`group_members`, `consumer_group_members`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar, Final, Protocol

import attrs
import trio
from kio.schema.errors import ErrorCode

from tidegauge.impl.client.client import Client
from tidegauge.impl.client.coordinators import GROUP, Coordinator
from tidegauge.impl.client.errors import KafkaError
from tidegauge.linearizability.history import UNKNOWN, Isolation
from tidegauge.linearizability.membership import NONE
from tidegauge.model_tests.harness.simulation.group_recorder import GroupRecorder
from tidegauge.model_tests.harness.simulation.recorder import now_ns

NAME: Final = "billing"
SESSION_S: Final = 1.0
REBALANCE_S: Final = 1.5
WAIT_MS: Final = 3_000
"""Longer than a JoinGroup waits, and a little for a coordinator that is looked for."""
COMMITS_SHARE: Final = 0.8


class Processing(Protocol):
    """What a member does with its records in transactions."""

    is_healed: bool
    """From then on it does so without delay."""

    async def begin(self) -> None:
        """Have what was left open aborted. Raises KafkaError."""

    async def process(self, member: SimulatedMember, partition: int, position: int) -> int:
        """The records from there on; returns where the member goes on. Raises KafkaError: then only the group knows."""


@attrs.define(eq=False)
class SimulatedMember(ABC):
    """One life of a client."""

    tells_generation: ClassVar[bool]
    """Whether its rows say their generation: epochs of a member are no generations, for others are in other ones."""

    client: Client
    recorder: GroupRecorder
    topic: str
    partitions: int
    process: int
    member: int
    """Its number in the history; that of all processes of a static member."""
    instance: str | None
    rng: Random
    member_id: str = ""
    generation: int = NONE
    """Or the member's epoch."""
    owned: dict[int, int] = attrs.field(factory=dict)
    """Partition -> where it goes on."""
    is_fenced: bool = False
    is_refused: bool = False
    """Another process of the static member is in its place."""
    paused_until: float = 0.0
    """Until then it does nothing."""
    leaves_at: float = math.inf
    has_left: bool = False
    worked_at: float = 0.0
    """When it had last looked at all that it owns, and said that it lives."""
    processor: Processing | None = None
    """What it does with its records in transactions, if it does."""

    coordinator: Coordinator = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.coordinator = Coordinator(self.client, GROUP, NAME)

    async def live(self, rest: float) -> None:
        """Until it is cancelled, or fenced, or leaves."""
        try:
            while not self.is_fenced:
                await trio.sleep_until(self.paused_until)
                if trio.current_time() >= self.leaves_at:
                    await self.leave()
                    return
                try:
                    await self.act()
                except KafkaError as error:
                    self.after_error(error.code)
                await trio.sleep(self.rng.uniform(0, rest))
        finally:
            self.release(list(self.owned))

    @abstractmethod
    async def act(self) -> None:
        """Do the next thing. Raises KafkaError."""

    @abstractmethod
    async def beat(self) -> None:
        """Say that it lives. Raises KafkaError."""

    @abstractmethod
    async def leave(self) -> None:
        """It ends, and says so; its session ends if nobody understands."""

    @abstractmethod
    def after_error(self, error: ErrorCode) -> None:
        """What it makes of an error."""

    @abstractmethod
    def commit_request(self, partition: int, offset: int, metadata: str) -> Any:
        """OffsetCommit of one partition."""

    @abstractmethod
    def fetch_request(self, partition: int) -> Any:
        """OffsetFetch of one partition, for an offset that is stable."""

    def release(self, partitions: Sequence[int]) -> None:
        """It does not own these any more."""
        for partition in partitions:
            del self.owned[partition]
        self.recorder.released(self.process, partitions)

    @property
    def said(self) -> dict[str, int]:
        """What its rows say of its generation."""
        return {"generation": self.generation} if self.tells_generation else {}

    def assigned(self, call: int, partitions: Sequence[int]) -> None:
        """It asked at `call` what it is to own, and was told."""
        self.recorder.assigned(self.process, call, partitions, **self.said, member=self.member)

    # --- records -----------------------------------------------------------------------------------------------------

    async def consume(self) -> None:
        """Look at each partition once. Raises KafkaError."""
        for partition in list(self.owned):
            if partition not in self.owned:
                continue
            if self.processor is not None:
                await self.processor.begin()
            if self.owned[partition] == UNKNOWN:
                self.owned[partition] = await self._committed(partition)
            position = self.owned[partition]
            if self.processor is not None:
                self.owned[partition] = UNKNOWN
                position = await self.processor.process(self, partition, position)
                if partition in self.owned:
                    self.owned[partition] = position
                await self.beat()
                continue
            fetched = await self.client.fetch(self.topic, position, partition=partition, max_wait_ms=10)
            self.recorder.delivered(self.process, partition, fetched, **self.said)
            self.owned[partition] = fetched.next_offset
            if fetched.next_offset > position and self.rng.random() < COMMITS_SHARE:
                await self.commit(partition, fetched.next_offset)

    async def commit(self, partition: int, offset: int) -> None:
        """Commit where it is. Raises KafkaError."""

        async def run(metadata: str) -> Any:
            return await self.ask(self.commit_request(partition, offset, metadata))

        await self.recorder.commit(self.process, partition, offset, run, **self.said, member=self.member)

    async def _committed(self, partition: int) -> int:
        """Where the group goes on. Raises KafkaError."""
        call = now_ns()
        response = await self.ask(self.fetch_request(partition))
        found = response.groups[0].topics[0].partitions[0]
        offset = int(found.committed_offset)
        commit = None if offset == UNKNOWN else int(found.metadata)
        is_stable = {} if self.processor is None else {"isolation": Isolation.READ_COMMITTED}
        self.recorder.found(self.process, call, partition, offset, commit, **is_stable)
        return max(0, offset)

    async def ask(self, request: Any) -> Any:
        """The coordinator's response. Raises KafkaError."""
        return await self.coordinator.ask(request, error_of, WAIT_MS)


def error_of(response: Any) -> ErrorCode:
    """The error of a response; that an id was given first is none."""
    found = response
    if hasattr(response, "groups"):
        (group,) = response.groups
        found = group.topics[0].partitions[0] if group.error_code is ErrorCode.none else group
    elif hasattr(response, "topics"):
        found = response.topics[0].partitions[0]
    error: ErrorCode = found.error_code
    return ErrorCode.none if error is ErrorCode.member_id_required else error
