"""Canonical messages of OffsetCommit and OffsetFetch, whose versions name topics or give ids (`impl.wire.unions`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from kio.schema.offset_commit.v10.request import OffsetCommitRequest, OffsetCommitRequestTopic
from kio.schema.offset_commit.v10.response import OffsetCommitResponse, OffsetCommitResponseTopic
from kio.schema.offset_fetch.v10.request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kio.schema.offset_fetch.v10.response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from kio.static.primitive import i64Timedelta

NO_RETENTION = i64Timedelta.parse(timedelta(milliseconds=-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedTopic(OffsetCommitRequestTopic):
    """A topic by name or by id."""

    name: str = field(metadata={"kafka_type": "string"}, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetCommitRequest(OffsetCommitRequest):
    """OffsetCommit of every version."""

    topics: tuple[CommittedTopic, ...]
    retention_time: i64Timedelta = field(metadata={"kafka_type": "timedelta_i64"}, default=NO_RETENTION)
    """How long the offsets are to be kept, up to version 4; -1 ms: as long as the broker's settings say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedTopicResponse(OffsetCommitResponseTopic):
    """A topic by name or by id."""

    name: str = field(metadata={"kafka_type": "string"}, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetCommitResponse(OffsetCommitResponse):
    """OffsetCommit of every version."""

    topics: tuple[CommittedTopicResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedTopic(OffsetFetchRequestTopics):
    """A topic by name or by id."""

    name: str = field(metadata={"kafka_type": "string"}, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedGroup(OffsetFetchRequestGroup):
    """A group and its topics, None for all."""

    topics: tuple[FetchedTopic, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetFetchRequest(OffsetFetchRequest):
    """OffsetFetch of every version."""

    groups: tuple[FetchedGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedTopicResponse(OffsetFetchResponseTopics):
    """A topic by name or by id."""

    name: str = field(metadata={"kafka_type": "string"}, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedGroupResponse(OffsetFetchResponseGroup):
    """A group's offsets."""

    topics: tuple[FetchedTopicResponse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetFetchResponse(OffsetFetchResponse):
    """OffsetFetch of every version."""

    groups: tuple[FetchedGroupResponse, ...]
