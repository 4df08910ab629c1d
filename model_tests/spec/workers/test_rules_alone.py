"""What the guards of workers say, asked alone."""

from __future__ import annotations

from tidegauge.spec.workers.actions import Commit
from tidegauge.spec.workers.machine import Workers


def test_a_consumer_that_never_had_the_partition_sends_no_commit_that_a_coordinator_would_refuse() -> None:
    machine = Workers()
    (state,) = machine.initial()
    assert Commit(0).guard(machine, state) == "it has nothing to commit for"
