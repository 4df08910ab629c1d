"""The trio cluster in lockstep with the specification, and what the lockstep finds when a bug is switched on."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.bugs import BUGS
from tidegauge.model_tests.harness.counterexamples.files import replay_line, save
from tidegauge.model_tests.harness.lockstep.checked import CheckedLockstep
from tidegauge.model_tests.harness.lockstep.hypothesis_machine import LockstepRun, drive
from tidegauge.model_tests.harness.lockstep.replication_rules import ReplicationRules
from tidegauge.model_tests.harness.registry import HARNESS, Side
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.replication.control import (
    ApplyMetadata,
    ReceiveAlterPartition,
    ReceiveAlterPartitionResponse,
    ShrinkIsr,
)
from tidegauge.spec.replication.faults import ControllerFailover
from tidegauge.spec.replication.machine import Replication

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
EXAMPLES = 5_000 if NIGHTLY else amount(40, deep=200)
SEEDS = (1, 4)
"""With both a few examples take every action."""
FAILURES = Path(".hypothesis") / "counterexamples"


def assert_holds(run: LockstepRun, name: str) -> None:
    """Else save the shortest list of actions, and say how to replay it."""
    if run.counterexample is not None:
        path = FAILURES / f"{name}.json"
        save(run.counterexample, path)
        pytest.fail(f"{run.difference}\nreplay: {replay_line(path)}")


def test_the_cluster_is_in_every_state_as_the_specification_says() -> None:
    taken = Counter[str]()
    for seed in (int.from_bytes(os.urandom(4)),) if NIGHTLY else SEEDS:
        run = drive(
            ReplicationRules,
            HARNESS["replication"].bind(Side.CLUSTER),
            name="cluster lockstep",
            examples=EXAMPLES,
            seed=seed,
        )
        assert_holds(run, f"cluster-{seed}")
        taken += run.actions
    never = {kind.__name__ for kind in Replication.action_types} - {"PullMetadata"} - set(taken)
    assert not never, "too little was tried"


LONG = ("kafka_1211", "kafka_14139")
"""Found and minimised in many seconds; `make verify` shows the first."""


@pytest.mark.parametrize("bug", ["last_replica_standing", *(pytest.param(bug, marks=pytest.mark.deep) for bug in LONG)])
def test_a_bug_that_is_switched_on_is_found_and_minimised(bug: str, tmp_path: Path) -> None:
    bind = HARNESS["replication"].bind(Side.CLUSTER, BUGS[bug].roles)
    run = drive(ReplicationRules, bind, name="cluster lockstep", examples=100, seed=1, bug=bug)
    assert run.counterexample is not None, f"{bug} was not found in {run.examples} examples"
    assert len(run.counterexample.actions) <= 20
    assert save(run.counterexample, tmp_path / f"{bug}.json").startswith("tidegauge replay ")


def test_no_isr_is_proposed_to_a_new_controller_while_a_response_of_the_old_one_is_on_its_way() -> None:
    """It would go by the connection that the old one has closed: such a proposal is lost, and sent again later."""
    machine = Replication(brokers=3, bounds=Bounds(ShrinkIsr=2, ControllerFailover=1))
    bind = HARNESS["replication"].bind(Side.CLUSTER)
    with closing(CheckedLockstep(machine, bind(machine))) as lockstep:
        shrink, again = ShrinkIsr(broker=0, lagging=(1,)), ShrinkIsr(broker=0, lagging=(2,))
        assert lockstep.perform(shrink)
        assert lockstep.perform(ReceiveAlterPartition(*lockstep.state.network.alters))
        assert lockstep.perform(ControllerFailover())
        assert lockstep.perform(ApplyMetadata(broker=0))

        assert not lockstep.perform(again)
        assert lockstep.passed_over == [again]

        assert lockstep.perform(ReceiveAlterPartitionResponse(*lockstep.state.network.alter_responses))
        assert lockstep.perform(again)
        assert lockstep.perform(ReceiveAlterPartition(*lockstep.state.network.alters))
        assert lockstep.state.controller.isr == (0,)
