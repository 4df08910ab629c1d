"""docs/limits.md states the limits that the code has."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from tidegauge.impl.metadata.config_resources import MOST_SETTINGS
from tidegauge.impl.records import compression, walk
from tidegauge.impl.server import pace
from tidegauge.impl.server.apis.configs import MOST_GROUPS
from tidegauge.impl.server.apis.fetch import MOST_OF_CONSUMER
from tidegauge.impl.server.controller.acls import MOST_MATCHES, PART
from tidegauge.impl.server.controller.topics import MAX_PARTITIONS_AT_ONCE
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.transport.security.sasl_gate import SaslServer
from tidegauge.impl.storage import timestamp_search, validation
from tidegauge.impl.storage.config import LogConfig
from tidegauge.impl.wire import budget, element_limits
from tidegauge.impl.wire.apis import INTER_BROKER_APIS, ApiKey

PAGE = (Path(__file__).resolve().parents[2] / "docs/limits.md").read_text(encoding="utf-8")
CONFIG = ServerConfig()
MIB = 1 << 20


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("a *slice* of {} units", pace.SLICE),
        ("and {} such works at once", pace.LANES),
        ("| bytes of a request | {} MiB | `socket.request.max.bytes`", CONFIG.socket_request_max_bytes // MIB),
        (
            "until the client has authenticated | {} | `sasl.server.max.receive.size`",
            attrs.fields(SaslServer).max_frame_bytes.default,
        ),
        ("handled at once | {} | `queued.max.requests`", CONFIG.queued_max_requests),
        ("names in one Fetch | {} |", MOST_OF_CONSUMER),
        ("and between nodes | {} |", budget.MAX_ELEMENTS),
        ("DeleteAcls) | {} |", element_limits.IN_SLICES),
        ("DeleteAcls match together | {} |", MOST_MATCHES),
        ("are carried out {} ACLs at a time", PART),
        ("and AlterReplicaLogDirs | {} |", element_limits.DECIDED),
        ("of all other APIs | {} |", element_limits.AT_ONCE),
        ("AlterConfigs or IncrementalAlterConfigs | {} |", MOST_SETTINGS),
        ("groups that one DescribeConfigs describes | {} |", MOST_GROUPS),
        ("the request's header included | {} |", budget.MAX_TAGS),
        ("that one request creates | {} |", MAX_PARTITIONS_AT_ONCE),
        ("| {} | `max.request.partition.size.limit`", CONFIG.max_request_partition_size_limit),
        ("before its checksum | {} | `max.message.bytes`", LogConfig().max_message_bytes),
        ("decompressed | {} MiB, or", compression.ALWAYS_DECOMPRESSED_BYTES // MIB),
        ("MiB, or {} times the bytes", compression.DECOMPRESSION_RATIO),
        ("in the log included | {} MiB |", compression.MAX_DECOMPRESSED_BYTES // MIB),
        ("a refusal names (KIP-467) | {} |", validation.MAX_RECORD_ERRORS),
        ("from which on it is checked in slices | {} |", validation.FEW_RECORDS),
        ("it is checked {} records at a time |", walk.CHUNK),
        ("holds decompressed records at once | {} |", pace.LANES),
        ("a batch of more than {} records is kept", timestamp_search.FEW_RECORDS),
        ("at most {} records of all batches", timestamp_search.MOST_POINTS),
    ],
)
def test_a_number_is_the_codes(words: str, number: int) -> None:
    pattern = re.escape(words).replace(re.escape("{}"), "([0-9,]+)").replace(r"\ ", r"\s+")
    found = re.search(pattern, PAGE)
    assert found is not None, f"docs/limits.md does not say: {words}"
    assert int(found[1].replace(",", "")) == number


def test_the_apis_with_larger_limits_are_named() -> None:
    said = PAGE.replace("\n", " ")
    for key, limit in element_limits.ELEMENT_LIMITS.items():
        if limit in (budget.MAX_ELEMENTS, element_limits.IN_SLICES) and key not in INTER_BROKER_APIS:
            name = ApiKey(key).name.replace("_", "").lower()
            assert name in said.lower().replace(" ", ""), name
