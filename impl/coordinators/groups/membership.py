"""Who may commit for a group: its members of the present generation, or anybody while it has none.

A client without a membership names no generation and no member. Groups have members here as far as a log says so that
another broker has written; joining comes on top of it.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tidegauge.impl.coordinators.groups.group_metadata import GroupMetadata
from tidegauge.impl.coordinators.groups.requests import GROUP_NOT_FOUND_FROM, NO_MEMBER, Commit


def commit_error(commit: Commit, metadata: GroupMetadata | None, *, is_known: bool) -> ErrorCode:
    """Why a commit is refused; none if it is taken. `metadata`: what is known of members, if there were any.

    Errors: GROUP_ID_NOT_FOUND and ILLEGAL_GENERATION (a member of a group that is not there), UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, ILLEGAL_GENERATION (of another generation).
    """
    has_no_generation = commit.generation < 0
    if not is_known:
        if has_no_generation:
            return ErrorCode.none
        is_told = not commit.is_transactional and commit.version >= GROUP_NOT_FOUND_FROM
        return ErrorCode.group_id_not_found if is_told else ErrorCode.illegal_generation
    if has_no_generation and is_empty(metadata):
        return ErrorCode.none
    if has_no_generation and commit.member_id == NO_MEMBER and commit.instance_id is None:
        # A transactional producer of before KIP-447 does not say who it is.
        return ErrorCode.none if commit.is_transactional else ErrorCode.unknown_member_id
    return member_error(commit, metadata)


def member_error(commit: Commit, metadata: GroupMetadata | None) -> ErrorCode:
    """Why one that says it is a member is none of the present generation."""
    members = () if metadata is None else metadata.members
    if commit.instance_id is not None:
        known = [member.member_id for member in members if member.instance_id == commit.instance_id]
        if not known:
            return ErrorCode.unknown_member_id
        if known[0] != commit.member_id:
            return ErrorCode.fenced_instance_id
    elif not any(member.member_id == commit.member_id for member in members):
        return ErrorCode.unknown_member_id
    if metadata is None or metadata.generation != commit.generation:
        return ErrorCode.illegal_generation
    return ErrorCode.none


def is_empty(metadata: GroupMetadata | None) -> bool:
    """Whether a group has no members."""
    return metadata is None or not metadata.members
