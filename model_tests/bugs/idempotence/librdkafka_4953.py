"""librdkafka 4953: a producer that begins a new epoch numbers what was in flight anew, and sends it again."""

from __future__ import annotations

from tidegauge.impl.client.sequencing import AGAIN, COMPLETED, Sequencing
from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.harness.cores.replication import Roles


class SendsAgainUnderANewEpoch(Sequencing):
    """The line goes on."""

    def give_up(self) -> None:
        line = [batch for batch in self.line if batch.sent_to != COMPLETED]
        super().give_up()
        for batch in line:
            batch.epoch, batch.base_sequence, batch.sent_to = self.epoch, self.next_sequence, AGAIN
            self.next_sequence = (self.next_sequence + batch.count) % self.sequences
        self.line.extend(line)


BUG = CoreBug("librdkafka_4953", Roles(sequencing=SendsAgainUnderANewEpoch))
