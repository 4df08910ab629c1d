"""Canonical messages that no single version of Kafka's schemas holds.

Some fields exist in the middle of a range only (Metadata 8 to 10 asks for the cluster's authorized operations), and
some versions name topics where later ones give ids. What handlers see of these APIs is the highest version with the
fields of the others beside it; where a version names topics, the id is None, and where it gives ids, the name is "".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import MetadataResponse
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

from impl.wire.apis import ApiKey

UNASKED = -(1 << 31)
"""Authorized operations that were not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyMetadataRequest(MetadataRequest):
    """Metadata of every version."""

    include_cluster_authorized_operations: bool = field(metadata={"kafka_type": "bool"}, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyMetadataResponse(MetadataResponse):
    """Metadata of every version."""

    cluster_authorized_operations: int = field(metadata={"kafka_type": "int32"}, default=UNASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedTopic(OffsetCommitRequestTopic):
    """A topic by name or by id."""

    name: str = field(metadata={"kafka_type": "string"}, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetCommitRequest(OffsetCommitRequest):
    """OffsetCommit of every version."""

    topics: tuple[CommittedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedTopicAnswer(OffsetCommitResponseTopic):
    """A topic by name or by id."""

    name: str = field(metadata={"kafka_type": "string"}, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetCommitResponse(OffsetCommitResponse):
    """OffsetCommit of every version."""

    topics: tuple[CommittedTopicAnswer, ...]


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
class FetchedTopicAnswer(OffsetFetchResponseTopics):
    """A topic by name or by id."""

    name: str = field(metadata={"kafka_type": "string"}, default="")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedGroupAnswer(OffsetFetchResponseGroup):
    """A group's offsets."""

    topics: tuple[FetchedTopicAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOffsetFetchResponse(OffsetFetchResponse):
    """OffsetFetch of every version."""

    groups: tuple[FetchedGroupAnswer, ...]


UNIONS = {
    ApiKey.METADATA: (AnyMetadataRequest, AnyMetadataResponse),
    ApiKey.OFFSET_COMMIT: (AnyOffsetCommitRequest, AnyOffsetCommitResponse),
    ApiKey.OFFSET_FETCH: (AnyOffsetFetchRequest, AnyOffsetFetchResponse),
}
"""(request, response) of the APIs above."""
