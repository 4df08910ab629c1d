"""An empty fetch that says less than others were told is written down, and judged as stale at the level strict."""

from __future__ import annotations

import pytest

from tidegauge.impl.tap import fetches, produces
from tidegauge.impl.tap.ends import Ends
from tidegauge.impl.tap.exchange import Exchange, Line
from tidegauge.impl.tap.fetches import Sessions
from tidegauge.impl.tap.topic_names import TopicNames
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.fetch_messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionFetched,
    TopicFetched,
)
from tidegauge.impl.wire.produce_messages import PartitionProduced, ProduceResponse, TopicProduced
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import check
from tidegauge.linearizability.log import Level
from tidegauge.linearizability.tapped.lines import parse
from tidegauge.linearizability.tapped.resolving import resolved


class Taps:
    """A producer and a consumer through one tap."""

    def __init__(self) -> None:
        self.ends, self.sessions, self.topics = Ends(), Sessions(), TopicNames()
        self.lines: list[Line] = []

    def produce(self, at: int, offset: int, acks: int) -> None:
        asked = Exchange(len(self.lines), 1, ApiKey.PRODUCE, 13, at)
        asked.asked = [("orders", "", 0)]
        asked.lines = [asked.line("produce", topic="orders", partition=0, acks=acks, values=[at])]
        told = ProduceResponse([TopicProduced("orders", "", [PartitionProduced(0, base_offset=offset)])])
        self.lines += produces.responded(asked, told, at + 1, self.ends)

    def fetch(self, at: int, high_watermark: int) -> int:
        """How many lines an empty fetch is."""
        asked = Exchange(len(self.lines), 2, ApiKey.FETCH, 16, at)
        fetches.note_request(
            asked, FetchRequest([FetchTopic("orders", "", [FetchPartition(0, 0, 1)])], 1, 1), self.sessions
        )
        told = FetchResponse([TopicFetched("orders", "", [PartitionFetched(0, high_watermark=high_watermark)])])
        lines = fetches.responded(asked, told, at + 1, self.topics, self.sessions, self.ends)
        self.lines += lines
        return len(lines)


def test_an_empty_fetch_behind_what_was_acknowledged_is_stale() -> None:
    taps = Taps()
    assert taps.fetch(0, 0) == 1
    assert taps.fetch(10, 0) == 0, "nothing new"
    taps.produce(20, 0, acks=-1)
    assert taps.fetch(30, 0) == 1
    operations = resolved(map(parse, taps.lines)).operations
    assert [one.name for one in check(operations, Level.STRICT).anomalies] == [Name.STALE_READ]
    assert check(operations, Level.KAFKA).valid
    assert taps.fetch(40, 1) == 1
    assert taps.fetch(50, 1) == 0
    assert taps.fetch(60, 0) == 1, "another broker was told less"


@pytest.mark.parametrize("acks", [0, 1])
def test_what_a_leader_alone_has_is_no_end(acks: int) -> None:
    taps = Taps()
    assert taps.fetch(0, 0) == 1
    taps.produce(20, 0, acks=acks)
    assert taps.fetch(30, 0) == 0
