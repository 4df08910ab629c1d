"""One node in a process of its own, to be killed.

    python -m tidegauge.model_tests.cluster.processes.node ROLE DIRECTORY PORT [PORT OF THE CONTROLLER]

ROLE is `controller` or a broker's id. Settings come as JSON in the environment variable NODE_CONFIG. The node prints
the port on which it listens, and serves until it is killed, or until it is sent SIGTERM: then it stops cleanly.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import trio

from tidegauge.impl.ports.clock import SystemClock
from tidegauge.impl.ports.disk import RealDisk
from tidegauge.impl.ports.network import Address, TcpNetwork
from tidegauge.impl.server.broker_server import Broker
from tidegauge.impl.server.controller.node import ControllerNode
from tidegauge.impl.server.node import Node
from tidegauge.impl.server.settings.server_config import ServerConfig
from tidegauge.impl.server.trace.tracer import Tracer
from tidegauge.impl.server.transport.security.cluster_secret import ClusterSecret

CONFIG_VARIABLE = "NODE_CONFIG"
CONTROLLER = "controller"
CONTROLLER_ID = 3000
HOST = "127.0.0.1"


def node(role: str, directory: str, port: int) -> Node:
    """What the process is made of."""
    clock = SystemClock()
    node_id = CONTROLLER_ID if role == CONTROLLER else int(role)
    return Node(
        id=node_id,
        network=TcpNetwork(),
        disk=RealDisk(),
        clock=clock,
        tracer=Tracer(None, node_id, clock),
        directory=directory,
        listen=Address(HOST, port),
        cluster_id="killed",
        secret=ClusterSecret("known to all nodes"),
        config=ServerConfig.from_properties(json.loads(os.environ.get(CONFIG_VARIABLE, "{}"))),
    )


async def serve(role: str, directory: str, port: int, controller: int) -> None:
    """Serve until SIGTERM."""
    made = node(role, directory, port)
    server: Broker | ControllerNode
    server = ControllerNode(made, seed=1) if role == CONTROLLER else Broker(made, [Address(HOST, controller)])
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        print(server.address.port, flush=True)
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            async for _ in signals:
                server.stop()
                nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(serve, sys.argv[1], sys.argv[2], int(sys.argv[3]), int((sys.argv[4:] or ["0"])[0]))
