"""Static members (KIP-345): who an instance id belongs to."""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode


def instance_error(instances: Mapping[str, str], instance_id: str, member_id: str) -> ErrorCode:
    """Why a member is not the one of its instance id: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.

    `instances` has the member id of each instance id.
    """
    known = instances.get(instance_id)
    if known is None:
        return ErrorCode.unknown_member_id
    return ErrorCode.none if known == member_id else ErrorCode.fenced_instance_id
