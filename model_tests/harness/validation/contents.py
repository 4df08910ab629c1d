"""Whether records are what they were: a trace names the batches of a log, the specification its records.

Each record of the specification has a value that no other one has. Which place in which batch it stands for is known
from the first decision that tells of it. From then on every log and every response that has the record must have it
from there, under the same leader epoch: records are compared, not counts of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegauge.impl.server.trace import events
from tidegauge.impl.server.trace.contents import LoggedBatch
from tidegauge.model_tests.harness.validation.ways import Wrong
from tidegauge.spec.replication.extensions.retention import log_start_of
from tidegauge.spec.replication.state import Replica


class Contents:
    """Which records of the cluster the specification's records are."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}
        """Value of a record -> (checksum of its batch, its place there)."""

    def compare(self, decision: events.Decision, replica: Replica) -> None:
        """Hold the batches that a replica's decision names against its log right after it. Raises Wrong."""
        start, log = log_start_of(replica), replica.log
        for batch in batches_told(decision):
            for offset in range(max(batch.base_offset, start), batch.end_offset):
                if offset >= len(log):
                    raise Wrong(f"there is a record at offset {offset}, the specification's log ends at {len(log)}")
                record = log[offset]
                if record.epoch != batch.leader_epoch:
                    told = f"the record at offset {offset} is of leader epoch {batch.leader_epoch}"
                    raise Wrong(f"{told}, in the specification of {record.epoch}")
                content = batch.checksum, offset - batch.base_offset
                if self._known.setdefault(record.value, content) != content:
                    checksum, place = self._known[record.value]
                    raise Wrong(
                        f"at offset {offset} is record {content[1]} of the batch with checksum {batch.checksum:08x}, "
                        f"in the specification record {place} of the one with {checksum:08x}"
                    )


def batches_told(decision: events.Decision) -> Sequence[LoggedBatch]:
    """Batches that lie in the replica's log right after a decision of it."""
    match decision:
        case events.Append(batches=batches) | events.Restart(batches=batches):
            return batches
        case events.ReceiveFetch(outcome=outcome) | events.HoldFetch(outcome=outcome):
            return outcome.batches
        case events.ReceiveFetchResponse(outcome=outcome, accepted=True):
            return outcome.batches
        case _:
            return ()
