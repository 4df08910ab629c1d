"""Canonical messages that no single version of Kafka's schemas holds.

Some fields exist in the middle of a range only (Metadata 8 to 10 asks for the cluster's authorized operations), and
some versions name topics where later ones give ids. What handlers see of these APIs is the highest version with the
fields of the others beside it; where a version names topics, the id is None, and where it gives ids, the name is "".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import MetadataResponse

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
