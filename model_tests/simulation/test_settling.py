"""A run looks at its cluster when nothing that anybody asked for is under way any more."""

from __future__ import annotations

import trio

from tidegauge.impl.client.topic_requests import delete_topic
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.model_tests.harness.simulation.options import draw
from tidegauge.model_tests.harness.simulation.settling import under_way
from tidegauge.model_tests.harness.simulation.simulation import simulate
from tidegauge.model_tests.simulated import simulated


@simulated
async def test_a_deletion_that_its_operator_gave_up_is_under_way_until_the_controller_has_done_it() -> None:
    async with Cluster(1, seed=1) as cluster:
        await cluster.create_topic("t", 1, 1)
        cluster.isolate("controller")
        async with cluster.client("operator") as client:
            with trio.move_on_after(0.1):
                await client.ask_once(delete_topic("t"))
        assert any("DELETE_TOPICS" in request for request in under_way(cluster))
        cluster.heal()
        while any(under_way(cluster)):
            assert "t" in cluster.controller.controller.image.topics
            await trio.sleep(0.001)
        assert "t" not in cluster.controller.controller.image.topics


def test_a_run_whose_deletion_waits_for_the_controller_creates_the_topic_again_behind_it() -> None:
    run = simulate(draw(247))
    assert run.holds, run.failures
