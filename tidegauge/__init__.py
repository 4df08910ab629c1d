"""tidegauge: Kafka's replicated log as an executable specification, a cluster to embed, and a checker of histories.

    from tidegauge import running_cluster    # a cluster for any Kafka client, in a thread (impl.cluster)
    from tidegauge import Cluster            # a simulated or real cluster inside a trio program (impl.cluster)
    from tidegauge import Security           # its listeners, certificates, users and rights (impl.cluster)
    from tidegauge import explore            # exhaustive search of a specification (spec.kernel)
    from tidegauge import History, check     # record what clients saw, and check it (linearizability)

Names are loaded when they are first used, so that importing this package costs next to nothing, and embedding a
cluster needs neither Spark nor Hypothesis.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegauge.impl.cluster.cluster import Cluster
    from tidegauge.impl.cluster.process_cluster import ProcessCluster
    from tidegauge.impl.cluster.running_cluster import RunningCluster, running_cluster
    from tidegauge.impl.cluster.security import Security, allow, deny
    from tidegauge.linearizability.check import Verdict, Verdicts, check
    from tidegauge.linearizability.history import History, Operation, Operations
    from tidegauge.spec.kernel.bounds import Bounds
    from tidegauge.spec.kernel.explorer import Exploration, explore
    from tidegauge.spec.kernel.machine import Action, Machine
    from tidegauge.spec.replication.machine import Replication

__all__ = [
    "Action",
    "Bounds",
    "Cluster",
    "Exploration",
    "History",
    "Machine",
    "Operation",
    "Operations",
    "ProcessCluster",
    "Replication",
    "RunningCluster",
    "Security",
    "Verdict",
    "Verdicts",
    "allow",
    "check",
    "deny",
    "explore",
    "running_cluster",
]

_HOMES = {
    "Action": "tidegauge.spec.kernel.machine",
    "Bounds": "tidegauge.spec.replication.machine",
    "Cluster": "tidegauge.impl.cluster.cluster",
    "Exploration": "tidegauge.spec.kernel.explorer",
    "History": "tidegauge.linearizability.history",
    "Machine": "tidegauge.spec.kernel.machine",
    "Operation": "tidegauge.linearizability.history",
    "Operations": "tidegauge.linearizability.history",
    "ProcessCluster": "tidegauge.impl.cluster.process_cluster",
    "Replication": "tidegauge.spec.replication.machine",
    "RunningCluster": "tidegauge.impl.cluster.running_cluster",
    "Security": "tidegauge.impl.cluster.security",
    "Verdict": "tidegauge.linearizability.check",
    "Verdicts": "tidegauge.linearizability.check",
    "allow": "tidegauge.impl.cluster.security",
    "check": "tidegauge.linearizability.check",
    "deny": "tidegauge.impl.cluster.security",
    "explore": "tidegauge.spec.kernel.explorer",
    "running_cluster": "tidegauge.impl.cluster.running_cluster",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, "__version__"])


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tidegauge")
    except PackageNotFoundError:
        return "not installed"
