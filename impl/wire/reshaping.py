"""Versions that put the same things in another place.

`impl.wire.versions` converts messages by the names of their fields. Here are the fields that it cannot find that way:
where one version has one key, group, member or transaction at the top of the message and later ones have a list of
them, or where a list of names became a list of structures.

Each entry says how a field of the target is made, for sources that have the field named beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.message_classes import blank, item_class

Make = Callable[..., Any]
"""(source message, item=class of the target's items, convert=`impl.wire.versions.convert`) -> the field's value."""


def _blank(item: type, **values: Any) -> Any:
    return dataclasses.replace(blank(item), **values)


def _one_key(message: Any, item: type, convert: Any) -> Any:
    return (message.key,)


def _of_first_coordinator(name: str) -> Make:
    def make(message: Any, item: type, convert: Any) -> Any:
        return getattr(message.coordinators[0], name)

    return make


def _one_group(message: Any, item: type, convert: Any) -> Any:
    topics = message.topics
    hint = item_class(item, "topics")
    named = None if topics is None else tuple(convert(topic, hint) for topic in topics)
    return (_blank(item, group_id=message.group_id, topics=named),)


def _first_groups_topics(message: Any, item: type, convert: Any) -> Any:
    return tuple(convert(topic, item) for topic in message.groups[0].topics)


def _first_groups_error(message: Any, item: type, convert: Any) -> Any:
    return message.groups[0].error_code


def _one_transaction(message: Any, item: type, convert: Any) -> Any:
    hint = item_class(item, "topics")
    return (
        _blank(
            item,
            transactional_id=message.v3_and_below_transactional_id,
            producer_id=message.v3_and_below_producer_id,
            producer_epoch=message.v3_and_below_producer_epoch,
            topics=tuple(convert(topic, hint) for topic in message.v3_and_below_topics),
        ),
    )


def _first_transactions_topics(message: Any, item: type, convert: Any) -> Any:
    return tuple(convert(topic, item) for result in message.results_by_transaction for topic in result.topic_results)


def _topics_by_name(message: Any, item: type, convert: Any) -> Any:
    return tuple(_blank(item, name=name) for name in message.topic_names)


def _any_process_of_each(message: Any, item: type, convert: Any) -> Any:
    """Before version 3 a leader does not say which process of a broker it means: -1 is whichever is registered."""
    return tuple(_blank(item, broker_id=broker, broker_epoch=-1) for broker in message.new_isr)


def _one_member(message: Any, item: type, convert: Any) -> Any:
    return (_blank(item, member_id=message.member_id),)


def _members_error(message: Any, item: type, convert: Any) -> Any:
    """Before version 3 there are no members: the error of the one member stands for the response's."""
    return message.error_code or next((member.error_code for member in message.members), message.error_code)


MADE: Final[dict[tuple[int, str], tuple[str, Make]]] = {
    (ApiKey.FIND_COORDINATOR, "coordinator_keys"): ("key", _one_key),
    (ApiKey.FIND_COORDINATOR, "error_code"): ("coordinators", _of_first_coordinator("error_code")),
    (ApiKey.FIND_COORDINATOR, "error_message"): ("coordinators", _of_first_coordinator("error_message")),
    (ApiKey.FIND_COORDINATOR, "node_id"): ("coordinators", _of_first_coordinator("node_id")),
    (ApiKey.FIND_COORDINATOR, "host"): ("coordinators", _of_first_coordinator("host")),
    (ApiKey.FIND_COORDINATOR, "port"): ("coordinators", _of_first_coordinator("port")),
    (ApiKey.OFFSET_FETCH, "groups"): ("group_id", _one_group),
    (ApiKey.OFFSET_FETCH, "topics"): ("groups", _first_groups_topics),
    (ApiKey.OFFSET_FETCH, "error_code"): ("groups", _first_groups_error),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "transactions"): ("v3_and_below_transactional_id", _one_transaction),
    (ApiKey.ADD_PARTITIONS_TO_TXN, "results_by_topic_v3_and_below"): (
        "results_by_transaction",
        _first_transactions_topics,
    ),
    (ApiKey.DELETE_TOPICS, "topics"): ("topic_names", _topics_by_name),
    (ApiKey.ALTER_PARTITION, "new_isr_with_epochs"): ("new_isr", _any_process_of_each),
    (ApiKey.LEAVE_GROUP, "members"): ("member_id", _one_member),
    (ApiKey.LEAVE_GROUP, "error_code"): ("members", _members_error),
}
"""(API, field of the target) -> the source's field that it is made from, and how; only where the target has no field
of the source's name."""
