"""Runs in which nothing bad happens and something good does not are found, before everything is healed."""

from __future__ import annotations

import pytest
import trio

from tidegauge.impl.client.observer import Operation
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.partition.replica import PartitionReplica
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.harness.cores.replication import Roles
from tidegauge.model_tests.harness.deterministic import run_deterministically
from tidegauge.model_tests.harness.simulation.faults import Injector
from tidegauge.model_tests.harness.simulation.liveness import (
    MARGIN,
    SURVIVORS,
    WithoutALeader,
    replaced_within,
    without_a_leader,
)
from tidegauge.model_tests.harness.simulation.operators import alteration
from tidegauge.model_tests.harness.simulation.options import Options, draw, sparse
from tidegauge.model_tests.harness.simulation.recorder import Recorder
from tidegauge.model_tests.harness.simulation.simulation import Simulated, simulate
from tidegauge.model_tests.harness.simulation.workload import CLIENT, TOPIC

SEEDS = range(5, 11)


class SessionsNeverExpire(Controller):
    """A broker that is down leads on, as far as the controller knows."""

    @property
    def next_deadline_ms(self) -> int | None:
        return None

    def expired_sessions(self, now_ms: int) -> list[int]:
        return []


class NobodyRejoins(PartitionReplica):
    """A leader never proposes a larger ISR."""

    def may_join_isr(self, replica: int) -> bool:
        return False


class UnfollowedWrite(Recorder):
    """The survivors' first write is followed by nobody; `began` says that it is under way."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(0)
        self.began = trio.Event()
        self._cluster = cluster

    def invoked(self, operation: Operation) -> int | None:
        if operation.client_id == SURVIVORS and not self.began.is_set():
            leader = self._cluster.leader(TOPIC, 0)
            survivors = [broker for broker in range(3) if self._cluster.is_alive(broker)]
            self._cluster.pause(*(broker for broker in survivors if broker != leader))
            self.began.set()
        return super().invoked(operation)


def first_with(roles: Roles, words: str, seeds: range = SEEDS, *, validated: bool = False) -> Simulated | None:
    runs = (simulate(draw(seed), validated=validated, roles=roles) for seed in seeds)
    return next((run for run in runs if any(words in problem for problem in run.problems)), None)


def test_a_session_that_never_expires_is_found_by_this_alone_and_told_with_the_seed() -> None:
    run = first_with(Roles(controller=SessionsNeverExpire), "has no live leader (candidates [", validated=True)
    assert run is not None
    assert not run.holds
    assert all("has no live leader" in problem and " s after broker " in problem for problem in run.problems)
    assert all(each.holds for each in run.validated), "its trace is a behaviour of the specification"
    assert run.reproduce == f"tidegauge simulate --seed {run.seed}"


def test_a_majority_that_takes_no_writes_is_found() -> None:
    run = first_with(Roles(replica=NobodyRejoins), "has taken no write", range(18, 20))
    assert run is not None
    assert not run.holds


def test_a_leader_is_replaced_and_writes_are_taken_in_most_runs() -> None:
    seeds = SEEDS[: amount(3, deep=len(SEEDS))]
    runs = [simulate(sparse(seed), validated=False) for seed in seeds]
    assert all(not run.problems for run in runs)
    assert sum(run.sometimes["a crashed leader was replaced in time"] > 0 for run in runs) > len(seeds) / 2
    assert sum(run.sometimes["a partition took writes without its leader"] > 0 for run in runs) > len(seeds) / 2


@pytest.mark.parametrize(("wanted", "problems"), [(2, 1), (3, 0)])
def test_a_write_is_not_asked_of_fewer_replicas_than_the_settings_want_by_then(wanted: int, problems: int) -> None:
    async def run() -> WithoutALeader:
        options = Options(0, partitions=1)
        without = WithoutALeader()
        async with Cluster(options.brokers, 0, options.config()) as cluster:
            await cluster.create_topic(TOPIC, 1, 3, config=options.topic_config())
            recorder = UnfollowedWrite(cluster)

            async def go_on() -> None:
                nonlocal without
                without = await without_a_leader(cluster, options, recorder, Injector(cluster, options))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(go_on)
                await recorder.began.wait()
                async with cluster.client("operator", config=CLIENT) as client:
                    await client.ask_leader(TOPIC, 0, alteration({"min.insync.replicas": str(wanted)}))
        return without

    without = run_deterministically(run, seed=0)
    assert (len(without.problems), without.replaced, without.written) == (problems, 1, 0)


@pytest.mark.parametrize(
    ("session_ms", "request_ms", "within"), [(9_000, 2_000, 9.0 + MARGIN), (1_000, 2_000, 2.4 + MARGIN)]
)
def test_the_time_is_that_of_the_session_or_of_a_lost_fetch_of_metadata(
    session_ms: int, request_ms: int, within: float
) -> None:
    config = ServerConfig.from_properties(
        {
            "broker.session.timeout.ms": session_ms,
            "controller.quorum.request.timeout.ms": request_ms,
            "metadata.fetch.wait.max.ms": 400,
        }
    )
    assert replaced_within(config) == pytest.approx(within)
