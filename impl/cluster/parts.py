"""The parts of a running cluster, and how `Cluster` gets its methods from them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

import attrs

from tidegauge.impl.cluster.admin import Admin
from tidegauge.impl.cluster.clients import Clients
from tidegauge.impl.cluster.disk_faults import DiskFaults
from tidegauge.impl.cluster.hosts import Host
from tidegauge.impl.cluster.injections import RequestInjections
from tidegauge.impl.cluster.names import CONTROLLER
from tidegauge.impl.cluster.network_faults import NetworkFaults
from tidegauge.impl.cluster.nodes import Nodes
from tidegauge.impl.cluster.options import ClusterOptions
from tidegauge.impl.cluster.process_faults import ProcessFaults
from tidegauge.impl.faults.fault_log import FaultLog, logged
from tidegauge.impl.server.trace.tracer import Trace

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen(eq=False, repr=False)
class Parts:
    """What a running cluster consists of."""

    host: Host
    fault_log: FaultLog
    nodes: Nodes
    clients: Clients
    admin: Admin
    processes: ProcessFaults
    network: NetworkFaults
    disks: DiskFaults
    requests: RequestInjections

    @classmethod
    def of(cls, options: ClusterOptions, host: Host, trace: Trace | None) -> Parts:
        """The parts of a cluster with these options on this host; `trace` takes the decisions of its nodes."""
        nodes = Nodes(options, host, trace)
        clients = Clients(nodes)
        return cls(
            host,
            FaultLog(host.clock(CONTROLLER).now_ms()),
            nodes,
            clients,
            Admin(nodes, clients),
            ProcessFaults(nodes),
            NetworkFaults(nodes),
            DiskFaults(nodes),
            RequestInjections(nodes),
        )


class HasParts(Protocol):
    """A cluster that may be running."""

    @property
    def parts(self) -> Parts: ...

    @property
    def fault_log(self) -> FaultLog: ...


class Delegate(Generic[S]):
    """Makes methods of a part into methods of the cluster."""

    def __init__(self, part: Callable[[Parts], S]) -> None:
        self._part = part

    def method(self, method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[HasParts, P], R]:
        """The cluster's method that calls this method of the part."""

        @functools.wraps(method)
        def call(self_: HasParts, *args: P.args, **kwargs: P.kwargs) -> R:
            return method(self._part(self_.parts), *args, **kwargs)

        return cast("Callable[Concatenate[HasParts, P], R]", call)

    def fault(self, method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[HasParts, P], R]:
        """The same for a fault: the cluster's fault log lists the call."""
        return logged(self.method(method))
