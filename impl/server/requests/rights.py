"""Rights that several APIs ask for. Each function gives the error of a request without the right, else NONE."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from tidegauge.impl.server.transport.authorization import Operation, ResourceType

if TYPE_CHECKING:
    from tidegauge.impl.server.transport.context import RequestContext


def cluster_error(operation: Operation, context: RequestContext) -> ErrorCode:
    """CLUSTER_AUTHORIZATION_FAILED without the right on the cluster."""
    allowed = context.allowed(operation, ResourceType.CLUSTER)
    return ErrorCode.none if allowed else ErrorCode.cluster_authorization_failed


def topic_error(operation: Operation, topic: str, context: RequestContext) -> ErrorCode:
    """TOPIC_AUTHORIZATION_FAILED without the right on the topic."""
    allowed = context.allowed(operation, ResourceType.TOPIC, topic)
    return ErrorCode.none if allowed else ErrorCode.topic_authorization_failed


def group_error(operation: Operation, group_id: str, context: RequestContext) -> ErrorCode:
    """GROUP_AUTHORIZATION_FAILED without the right on the group."""
    allowed = context.allowed(operation, ResourceType.GROUP, group_id)
    return ErrorCode.none if allowed else ErrorCode.group_authorization_failed


def transaction_error(operation: Operation, transactional_id: str, context: RequestContext) -> ErrorCode:
    """TRANSACTIONAL_ID_AUTHORIZATION_FAILED without the right on the transactional id."""
    allowed = context.allowed(operation, ResourceType.TRANSACTIONAL_ID, transactional_id)
    return ErrorCode.none if allowed else ErrorCode.transactional_id_authorization_failed


def denied_topics(operation: Operation, topics: Iterable[str], context: RequestContext) -> set[str]:
    """The topics without the right."""
    return {topic for topic in topics if not context.allowed(operation, ResourceType.TOPIC, topic)}
