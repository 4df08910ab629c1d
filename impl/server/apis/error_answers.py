"""The answer to a request that fails as a whole: everything that it names, with the error.

Clients look for the error of each item that they asked for; an answer that left them out would read as one about
nothing. Which items of a request become which items of its answer follows from their fields' names: what stands in an
item of the request under the name of a field of the answer's (a topic, a partition, a group) is copied, every error
code and error message is filled in, and the rest has the value that Kafka's schema gives it. `_SHAPES` says which array
is made from which; an API that is not in it is answered at the top alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from tidegauge.impl.wire.apis import ApiKey, canonical_response_class
from tidegauge.impl.wire.fetch_messages import FetchRequest, fetch_error
from tidegauge.impl.wire.produce_messages import ProduceRequest, produce_error
from tidegauge.impl.wire.versions import blank, item_class, plain_fields

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

_ERROR_FIELDS: Final = ("error_code", "partition_error_code")


@attrs.frozen
class _Items:
    """An array of the answer, made from an array of the request."""

    answer: str
    request: str
    """Path of the array in the request, as in "dirs.topics"; of two arrays as in "deletions+upsertions"."""
    names: Mapping[str, str] = attrs.field(factory=dict)
    """Fields of the answer's item -> field of the request's that has another name; "" is the item itself, of an array
    of plain values."""
    items: tuple[_Items, ...] = ()
    values: Mapping[str, Any] = attrs.field(factory=dict)
    """What Kafka answers in fields that nothing was found out for."""


def _items(
    answer: str, request: str = "", *items: _Items, names: Mapping[str, str] | None = None, **values: Any
) -> _Items:
    return _Items(answer, request or answer, names or {}, items, values)


def _named(answer: str, request: str, field: str, **values: Any) -> _Items:
    """An array made from an array of plain values."""
    return _items(answer, request, names={field: ""}, **values)


_PARTITIONS: Final = _items("partitions")
_TOPICS: Final = (_items("topics", "", _PARTITIONS),)
_PLAIN_PARTITIONS: Final = _named("partitions", "partitions", "partition_index")
_CONFIG_RESPONSES: Final = (_items("responses", "resources"),)
_SHARE_STATE: Final = (_items("results", "topics", _PARTITIONS),)

_SHAPES: Final[Mapping[int, tuple[_Items, ...]]] = {
    ApiKey.LIST_OFFSETS: _TOPICS,
    ApiKey.METADATA: (_items("topics"),),
    ApiKey.OFFSET_COMMIT: _TOPICS,
    ApiKey.OFFSET_FETCH: (
        _items(
            "groups",
            "",
            _items(
                "topics",
                "",
                _named("partitions", "partition_indexes", "partition_index", committed_offset=-1, metadata=""),
            ),
        ),
    ),
    ApiKey.FIND_COORDINATOR: (_named("coordinators", "coordinator_keys", "key", node_id=-1, port=-1),),
    ApiKey.LEAVE_GROUP: (_items("members"),),
    ApiKey.DESCRIBE_GROUPS: (_named("groups", "groups", "group_id"),),
    ApiKey.CREATE_TOPICS: (_items("topics", num_partitions=-1, replication_factor=-1),),
    ApiKey.DELETE_TOPICS: (_items("responses", "topics"),),
    ApiKey.DELETE_RECORDS: (_items("topics", "", _items("partitions", low_watermark=-1)),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _TOPICS,
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _items(
            "results_by_transaction",
            "transactions",
            _items("topic_results", "topics", _named("results_by_partition", "partitions", "partition_index")),
        ),
    ),
    ApiKey.WRITE_TXN_MARKERS: (
        _items("markers", "", _items("topics", "", _named("partitions", "partition_indexes", "partition_index"))),
    ),
    ApiKey.TXN_OFFSET_COMMIT: _TOPICS,
    ApiKey.CREATE_ACLS: (_items("results", "creations"),),
    ApiKey.DELETE_ACLS: (_items("filter_results", "filters"),),
    ApiKey.DESCRIBE_CONFIGS: (_items("results", "resources"),),
    ApiKey.ALTER_CONFIGS: _CONFIG_RESPONSES,
    ApiKey.ALTER_REPLICA_LOG_DIRS: (_items("results", "dirs.topics", _PLAIN_PARTITIONS, names={"topic_name": "name"}),),
    ApiKey.CREATE_PARTITIONS: (_items("results", "topics"),),
    ApiKey.DELETE_GROUPS: (_named("results", "groups_names", "group_id"),),
    ApiKey.ELECT_LEADERS: (
        _items(
            "replica_election_results", "topic_partitions", _named("partition_result", "partitions", "partition_id")
        ),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _CONFIG_RESPONSES,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (_items("responses", "topics", _PARTITIONS),),
    ApiKey.OFFSET_DELETE: _TOPICS,
    ApiKey.ALTER_CLIENT_QUOTAS: (_items("entries", "", _items("entity")),),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (_items("results", "users", names={"user": "name"}),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (_items("results", "deletions+upsertions", names={"user": "name"}),),
    ApiKey.DESCRIBE_PRODUCERS: (_items("topics", "", _named("partitions", "partition_indexes", "partition_index")),),
    ApiKey.DESCRIBE_TRANSACTIONS: (_named("transaction_states", "transactional_ids", "transactional_id"),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (_named("groups", "group_ids", "group_id"),),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: (_items("directories", "", *_TOPICS),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (_items("topics"),),
    ApiKey.SHARE_GROUP_DESCRIBE: (_named("groups", "group_ids", "group_id"),),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.READ_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE: _SHARE_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _SHARE_STATE,
    ApiKey.STREAMS_GROUP_DESCRIBE: (_named("groups", "group_ids", "group_id"),),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (_items("groups"),),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (_items("responses", "topics", _PARTITIONS),),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (_items("responses", "topics"),),
}

_TOP_VALUES: Final[Mapping[int, Mapping[str, Any]]] = {
    ApiKey.JOIN_GROUP: {"protocol_name": ""},
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entries": None},
    ApiKey.INIT_PRODUCER_ID: {"producer_epoch": -1},
}
"""What Kafka answers at the top of the message in fields that nothing was found out for."""


def error_answer(request: Any, error_code: ErrorCode, message: str = "") -> Any:
    """The answer to a canonical request that says this error of everything that the request names.

    Without a message the error's name is told in words: at Kafka every error has some, and clients show them.
    """
    text = message or f"{error_code.name.replace('_', ' ').capitalize()}."
    if isinstance(request, ProduceRequest):
        return produce_error(request, error_code, text)
    if isinstance(request, FetchRequest):
        return fetch_error(request, error_code)
    api_key = int(request.__api_key__)
    answer = _with_error(blank(canonical_response_class(api_key)), error_code, text)
    values: dict[str, Any] = dict(_TOP_VALUES.get(api_key, {}))
    for shape in _SHAPES.get(api_key, ()):
        values[shape.answer] = _made(shape, request, type(answer), error_code, text)
    if api_key == ApiKey.METADATA:  # older versions of the answer have no null, so that Kafka's never has one here
        values["topics"] = tuple(dataclasses.replace(topic, name=topic.name or "") for topic in values["topics"])
    return dataclasses.replace(answer, **values)


def _made(
    shape: _Items, source: Any, answer_class: type, error_code: ErrorCode, message: str | None
) -> tuple[Any, ...]:
    kind = item_class(answer_class, shape.answer)
    empty = _with_error(blank(kind), error_code, message)
    copied = [name for name in plain_fields(kind) if name not in {*_ERROR_FIELDS, "error_message", *shape.values}]
    made = []
    for item in _found(source, shape.request):
        values: dict[str, Any] = dict(shape.values)
        for name in copied:
            source_name = shape.names.get(name, name)
            if source_name == "":
                values[name] = item
            elif hasattr(item, source_name):
                values[name] = getattr(item, source_name)
        for inner in shape.items:
            values[inner.answer] = _made(inner, item, kind, error_code, message)
        made.append(dataclasses.replace(empty, **values))
    return tuple(made)


def _found(source: Any, path: str) -> Iterable[Any]:
    """The items at a path; none where the request says "all" by null."""
    if "+" in path:
        return [item for one in path.split("+") for item in _found(source, one)]
    name, _, rest = path.partition(".")
    items = getattr(source, name) or ()
    return items if not rest else [inner for item in items for inner in _found(item, rest)]


def _with_error(message: Any, error_code: ErrorCode, text: str | None) -> Any:
    fields = {field.name for field in dataclasses.fields(message)}
    values: dict[str, Any] = {name: error_code for name in _ERROR_FIELDS if name in fields}
    if "error_message" in fields:
        values["error_message"] = text
    return dataclasses.replace(message, **values)
