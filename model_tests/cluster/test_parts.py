"""`Cluster` has the methods of its parts, and its fault log lists every call of a fault."""

from __future__ import annotations

import inspect

import pytest

from tidegauge.impl.cluster.admin import Admin
from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.disk_faults import DiskFaults
from tidegauge.impl.cluster.injections import RequestInjections
from tidegauge.impl.cluster.network_faults import NetworkFaults
from tidegauge.impl.cluster.process_faults import ProcessFaults
from tidegauge.model_tests.simulated import simulated

FAULTS = (ProcessFaults, NetworkFaults, DiskFaults, RequestInjections)
INTERNAL = {"end_slowness"}
"""What a part does for the cluster itself."""


def methods(part: type) -> dict[str, object]:
    return {name: value for name, value in vars(part).items() if inspect.isfunction(value) and name[0] != "_"}


@pytest.mark.parametrize("part", [Admin, *FAULTS], ids=lambda part: part.__name__)
def test_the_cluster_has_every_method_of_the_part(part: type) -> None:
    for name, method in methods(part).items():
        if name not in INTERNAL:
            assert inspect.unwrap(getattr(Cluster, name)) is method, f"Cluster.{name} is not {part.__name__}.{name}"


@simulated
async def test_the_fault_log_lists_the_calls_of_faults_and_no_others() -> None:
    async with Cluster(brokers=1) as cluster:
        await cluster.create_topic("t")
        cluster.isolate(0, inbound=False)
        cluster.heal()
        with cluster.hold_acks("t"):
            cluster.clear_faults()
        assert [entry.call for entry in cluster.fault_log.entries] == [
            "isolate(0, inbound=False)",
            "heal()",
            "hold_acks('t')",
            "clear_faults()",
        ]


def test_a_cluster_that_was_not_entered_says_so() -> None:
    with pytest.raises(RuntimeError, match="async with Cluster"):
        Cluster(brokers=1).leader("t")
    with pytest.raises(RuntimeError, match="async with Cluster"):
        Cluster(brokers=1).pause(0)
