"""What groups cost: joins, heartbeats and commits at their coordinator, in both protocols, and a fetch through a group.

`python -m benchmarks.groups [--quick] [--data DIR]` prints two tables. The first is CPU time of the coordinator's
core alone, without network and disk: everything that it writes counts as committed at once. *Join* is from the first
member's first request until all of them are stable, over 1,000 partitions: members of a classic group join while the
wait of an empty group lasts, which takes no time here, and their leader gives out equal parts; members of KIP-848
send heartbeats in turn until each has its part, which the coordinator makes anew for each that joins. *Heartbeats*
are of members that have nothing to do, in groups of ten over ten partitions; *commits* are of one offset each. With
--quick a tenth of the members.

The second is confluent-kafka, which reads one partition of a cluster in a process of its own, from start to end, once
by `assign` and once as the only member of a group, after its first record.

The third is a broker beside librdkafka's mock cluster, with the same client in the same run: from the start of four
members until each has a partition, with the wait of an empty group that both have by default, and commits of one offset
each, one after the other. What the mock does not come to is `-`. franz-go's kfake is a Go program, and in no registry
that this project takes anything from: it is not in this run.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import isnan
from time import process_time
from typing import Final

import attrs
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.broker import MEMORY, TOPIC, cluster, cpu_seconds, produce
from benchmarks.options import parser
from benchmarks.reading import RECORD
from tidegauge.impl.coordinators.groups.classic.messages import (
    Heartbeat,
    JoinGroup,
    JoinResponse,
    Moment,
    Outcome,
    SyncGroup,
)
from tidegauge.impl.coordinators.groups.classic.state import ClassicState, Protocol
from tidegauge.impl.coordinators.groups.classic.turn import ClassicLimits
from tidegauge.impl.coordinators.groups.consumer.state import ConsumerHeartbeat, Topic, Topics
from tidegauge.impl.coordinators.groups.coordinator import GroupCoordinator, Limits
from tidegauge.impl.coordinators.groups.migration.coordinator import Decision
from tidegauge.impl.coordinators.groups.requests import Commit, NewOffset

PARTITIONS: Final = 1_000
OF_A_GROUP: Final = 10
"""Members and partitions of each group whose heartbeats are measured."""
TOPIC_ID: Final = "00000000-0000-0000-0000-000000000001"
NOW: Final = Moment(0, 1_000_000)
SESSION_MS: Final = 45_000
SHARED: Final = "tidegauge-groups"
MEMBERS: Final = 4
"""As many as the mock gives a topic partitions."""
PROTOCOLS: Final = ("classic", "consumer")
WITHIN_S: Final = 30.0


@attrs.frozen
class OneTopic:
    """What the coordinator knows of topics."""

    topics: Topics
    version: int = 1
    newest: int = 1
    time_ms: int = 0

    def topic_hash(self, name: str) -> int:
        return hash(name)

    def check(self, expression: str) -> None:
        """Nobody has one."""

    def matching(self, expression: str) -> frozenset[str]:
        return frozenset()


class Classic:
    """The members of a classic group, and what they are told."""

    def __init__(self, core: GroupCoordinator, group: str) -> None:
        self.core, self.group = core, group
        self.told: dict[object, object] = {}

    def carry_out(self, outcome: Outcome) -> None:
        self.told.update(outcome.responses)
        for write in outcome.writes:
            self.carry_out(self.core.group_written(write, 0, NOW))

    def join(self, member_id: str, name: str) -> object:
        token = object()
        asked = JoinGroup(self.group, "consumer", (Protocol("range", b"m"),), member_id, client_id=name, version=3)
        self.carry_out(self.core.classic.join(asked, token, NOW))
        return token

    def stable(self, members: int) -> None:
        """All of them are in one generation, and have their parts."""
        tokens = [self.join("", f"m{number}") for number in range(members)]
        group = self.core.classic.groups[self.group]
        while group.state is ClassicState.PREPARING_REBALANCE:
            for outcome in self.core.classic.time_passed(NOW):
                self.carry_out(outcome)
        share = bytes(4 * PARTITIONS // members)
        for token in sorted(tokens, key=lambda one: self._joined(one).member_id == group.leader):
            joined = self._joined(token)
            given = tuple((one, share) for one in group.members) if joined.member_id == group.leader else ()
            asked = SyncGroup(self.group, joined.generation, joined.member_id, assignments=given)
            self.carry_out(self.core.classic.sync(asked, object(), NOW))
        assert group.state is ClassicState.STABLE

    def _joined(self, token: object) -> JoinResponse:
        told = self.told[token]
        assert isinstance(told, JoinResponse)
        return told


class Consumers:
    """The members of a consumer group."""

    def __init__(self, core: GroupCoordinator, group: str, partitions: int = PARTITIONS) -> None:
        self.core, self.group = core, group
        self.known = OneTopic({"t": Topic(TOPIC_ID, partitions)})

    def beat(self, member_id: str, epoch: int, owned: frozenset[tuple[str, int]] | None) -> int:
        """The epoch of the member after it."""
        is_joining = epoch == 0
        asked = ConsumerHeartbeat(
            self.group,
            member_id,
            epoch,
            rebalance_timeout_ms=SESSION_MS if is_joining else -1,
            topics=("t",) if is_joining else None,
            owned=owned,
        )
        made = self.core.migration.heartbeat(asked, self.known, SESSION_MS, NOW)
        assert isinstance(made, Decision), made
        if made.write.records:
            self.core.consumers_written(made.write, 0)
        return made.write.response.epoch

    def stable(self, members: int) -> None:
        """Each sends heartbeats in its turn until all have their parts."""
        names = [f"m{number}" for number in range(members)]
        for name in names:
            self.beat(name, 0, frozenset())
        while (group := self.core.consumers.groups[self.group]).state != "Stable":
            for name in names:
                member = group.members[name]
                self.beat(name, member.epoch, frozenset(member.assigned))
                group = self.core.consumers.groups[self.group]


def started() -> GroupCoordinator:
    return GroupCoordinator(Limits(classic=ClassicLimits(initial_delay_ms=0)))


def timed(work: Callable[[], object]) -> float:
    """CPU seconds."""
    begun = process_time()
    work()
    return process_time() - begun


def joins(sizes: Sequence[int]) -> Iterator[tuple[str, float, float]]:
    for members in sizes:
        classic = timed(lambda members=members: Classic(started(), "g").stable(members))  # type: ignore[misc]
        consumer = timed(lambda members=members: Consumers(started(), "g").stable(members))  # type: ignore[misc]
        yield f"join of {members:,} members, ms", classic * 1e3, consumer * 1e3


def heartbeats(members: int) -> tuple[str, float, float]:
    """Each sends one."""
    core, other = started(), started()
    groups = [f"g{number}" for number in range(members // OF_A_GROUP)]
    for group in groups:
        Classic(core, group).stable(OF_A_GROUP)
        Consumers(other, group, OF_A_GROUP).stable(OF_A_GROUP)

    def classic() -> None:
        for group in groups:
            known = core.classic.groups[group]
            for member_id in known.members:
                core.classic.heartbeat(Heartbeat(group, known.generation, member_id), NOW)

    def consumer() -> None:
        for group in groups:
            party = Consumers(other, group, OF_A_GROUP)
            for member in list(other.consumers.groups[group].members.values()):
                party.beat(member.member_id, member.epoch, None)

    return (
        f"heartbeats of {members:,} members, µs each",
        timed(classic) / members * 1e6,
        timed(consumer) / members * 1e6,
    )


def commits(count: int) -> tuple[str, float, float]:
    """Of one offset each, of one member."""
    found = []
    for is_classic in (True, False):
        core = started()
        if is_classic:
            Classic(core, "g").stable(1)
            known = core.classic.groups["g"]
            member_id, generation = next(iter(known.members)), known.generation
        else:
            Consumers(core, "g").stable(1)
            member_id, generation = "m0", core.consumers.groups["g"].epoch

        def work(core=core, member_id=member_id, generation=generation) -> None:  # type: ignore[no-untyped-def]
            for number in range(count):
                new = (NewOffset("t", number % PARTITIONS, number),)
                asked = Commit("g", new, generation, member_id, topic_ids={"t": TOPIC_ID})
                ruling = core.commit(asked, NOW.wall_ms)
                assert ruling.offsets, "it is refused"
                core.appended(ruling)
                core.committed(ruling, number)

        found.append(count / timed(work))
    return "commits a second", found[0], found[1]


def consume(bootstrap: str, records: int, *, by_group: bool) -> float:
    """MB/s of values, from the first record on."""
    config = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    client = Consumer({**config, "auto.offset.reset": "earliest"})
    if by_group:
        client.subscribe([TOPIC])
    else:
        client.assign([TopicPartition(TOPIC, 0, 0)])
    read = 0
    while not read:
        read = len(client.consume(1, 10))
    begun = time.perf_counter()
    while read < records:
        read += len(client.consume(min(1_000, records - read), 10))
    seconds = time.perf_counter() - begun
    client.close()
    return (records - 1) * RECORD / seconds / 1e6


# --- beside the mock cluster ------------------------------------------------------------------------------------------


def shared(bootstrap: str) -> None:
    """The topic is there, with as many partitions as members: the mock makes it when it is asked for."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    with suppress(KafkaException, TimeoutError):  # the mock has no such request
        admin.create_topics([NewTopic(SHARED, MEMBERS, 1)])[SHARED].result(WITHIN_S / 10)
    begun = time.perf_counter()
    while len(admin.list_topics(SHARED, timeout=WITHIN_S).topics[SHARED].partitions) < MEMBERS:
        assert time.perf_counter() - begun < WITHIN_S, "the topic has too few partitions"
        time.sleep(0.05)


def beside(bootstrap: str, protocol: str, count: int) -> tuple[float, float]:
    """(seconds until all members have a partition, commits a second); nan for what does not come about."""
    group = {"bootstrap.servers": bootstrap, "group.id": f"beside-{protocol}", "group.protocol": protocol}
    begun = time.perf_counter()
    members = [Consumer({**group, "enable.auto.commit": False, "log_level": 0}) for _ in range(MEMBERS)]
    try:
        for member in members:
            member.subscribe([SHARED])
        while any(len(member.assignment()) != 1 for member in members):
            if time.perf_counter() - begun > WITHIN_S:
                return float("nan"), float("nan")
            for member in members:
                member.poll(0.01)
        joined = time.perf_counter() - begun
        (place,) = members[0].assignment()
        begun = time.perf_counter()
        for offset in range(count):
            members[0].commit(offsets=[TopicPartition(SHARED, place.partition, offset)], asynchronous=False)
        return joined, count / (time.perf_counter() - begun)
    finally:
        for member in members:
            member.close()


def beside_the_mock(data: str, count: int) -> Table:
    """The third table."""
    table = Table(title=f"one broker over TCP, {MEMBERS} members of confluent-kafka, wall time")
    for heading in ("", "ours", "mock"):
        table.add_column(heading, justify="right")
    found = {}
    for kind in ("ours", "mock"):
        with cluster(kind, 1, data) as (bootstrap, _):
            shared(bootstrap)
            found[kind] = [beside(bootstrap, protocol, count) for protocol in PROTOCOLS]
    for number, protocol in enumerate(PROTOCOLS):
        for what, at in (("join until all have a part, s", 0), ("commits a second", 1)):
            figures = (found[kind][number][at] for kind in ("ours", "mock"))
            table.add_row(f"{protocol}: {what}", *("-" if isnan(one) else f"{one:,.1f}" for one in figures))
    return table


def main(words: Sequence[str] | None = None) -> None:
    memory = MEMORY if os.path.isdir(MEMORY) else tempfile.gettempdir()
    options = parser("groups", __doc__, quick="a tenth of the members, and 32 MiB in place of 256")
    options.add_argument("--data", metavar="DIR", default=memory, help="where the cluster's files are")
    chosen = options.parse_args(words)
    part = 10 if chosen.quick else 1
    table = Table(title=f"the coordinator's core, CPU time, {PARTITIONS:,} partitions")
    for heading in ("", "classic", "KIP-848"):
        table.add_column(heading, justify="right")
    rows = [*joins([10, 100, 1_000][: 2 if chosen.quick else 3]), heartbeats(100_000 // part), commits(100_000 // part)]
    for what, classic, consumer in rows:
        table.add_row(what, f"{classic:,.1f}", f"{consumer:,.1f}")
    size = (32 if chosen.quick else 256) << 20
    with cluster("ours", 1, chosen.data) as (bootstrap, process_id):
        produce(bootstrap, RECORD, size // RECORD)
        fetched = Table(title=f"one partition of {size >> 20} MiB, one broker")
        for heading in ("", "read MB/s", "broker CPU s"):
            fetched.add_column(heading, justify="right")
        for what, by_group in (("assign", False), ("a group", True)):
            cpu = cpu_seconds(process_id)
            speed = consume(bootstrap, size // RECORD, by_group=by_group)
            fetched.add_row(what, f"{speed:,.0f}", f"{cpu_seconds(process_id) - cpu:.2f}")
    console = Console(width=100)
    console.print(table)
    console.print(fetched)
    console.print(beside_the_mock(chosen.data, 2_000 // part))
    console.print(f"load of the machine: {', '.join(f'{one:.1f}' for one in os.getloadavg())}")


if __name__ == "__main__":
    main()
