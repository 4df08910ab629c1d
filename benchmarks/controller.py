"""What the controller's core takes for a decision: heartbeats, ISR changes, and a topic that is created.

`python -m benchmarks.controller [--quick]` prints µs of CPU for each: the core proposes, a log in memory commits at
once, the core applies. No socket, no file, no loop. The best of five rounds counts. An ISR change costs the same in a
topic of one partition and of 10,000.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge.impl.controller.config import DEFAULT_CONTROLLER_ID, ControllerConfig
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.partition.messages import AlterPartitionRequest
from tidegauge.model_tests.harness.cores.metadata_log import MemoryMetadataLog

ROUNDS = 5
BROKERS = (0, 1, 2)


class Measured:
    """A controller of three live brokers and one topic, and the log in which it commits."""

    def __init__(self, partitions: int) -> None:
        self.log = MemoryMetadataLog()
        self.controller = Controller(DEFAULT_CONTROLLER_ID, ControllerConfig())
        self.log.elect(self.controller, 0)
        members = self.controller.members
        self.epochs = {
            broker: self.log.commit(self.controller, members.register(broker, host="localhost", port=9092))
            for broker in BROKERS
        }
        for broker in BROKERS:
            self.heartbeat(broker)
        self.create("t", partitions)

    def heartbeat(self, broker: int) -> None:
        end, members = self.log.end_offset, self.controller.members
        self.log.commit(self.controller, members.heartbeat(broker, self.epochs[broker], end, 0))

    def create(self, topic: str, partitions: int) -> None:
        replicas = [BROKERS] * partitions
        created = self.log.commit(self.controller, self.controller.topics.create_on(topic, topic, replicas))
        assert not created.message, created.message

    def shrink(self) -> None:
        """The leader of partition 0 takes a replica out of the ISR."""
        self._alter(BROKERS[:2])

    def expand(self) -> None:
        """It takes the replica in again."""
        self._alter(BROKERS)

    def _alter(self, isr: tuple[int, ...]) -> None:
        now = self.controller.image.topics["t"].partitions[0]
        members = tuple((broker, self.epochs[broker]) for broker in isr)
        request = AlterPartitionRequest(0, self.epochs[0], now.leader_epoch, now.partition_epoch, members)
        altered = self.log.commit(self.controller, self.controller.isr_changes.alter("t", 0, request))
        assert altered.registration is not None
        assert altered.registration.isr == set(isr)
        self.log.take_effects()


def cpu_us(count: int, *work: Callable[[], None]) -> float:
    """µs of CPU for one call of these, in turn `count` times; of the best round."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(count):
            for each in work:
                each()
        rounds.append((time.process_time() - start) / count / len(work) * 1e6)
    return min(rounds)


def main(words: Sequence[str] | None = None) -> None:
    options = parser("controller", __doc__, quick="a tenth of the repetitions").parse_args(words)
    count = 2_000 if options.quick else 20_000
    table = Table("decision", "µs of CPU", box=None, pad_edge=False)
    for partitions in (1, 10_000):
        measured = Measured(partitions)
        changed = cpu_us(count // 2, measured.shrink, measured.expand)
        table.add_row(f"ISR change in a topic of {partitions:,} partition(s)", f"{changed:.1f}")
    measured = Measured(1)
    table.add_row("heartbeat", f"{cpu_us(count, lambda: measured.heartbeat(0)):.2f}")
    names = iter(range(ROUNDS))
    created = cpu_us(1, lambda: measured.create(f"topic-{next(names)}", 10_000))
    table.add_row("a topic of 10,000 partitions created", f"{created:,.0f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
