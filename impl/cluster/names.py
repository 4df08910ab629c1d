"""The names of a cluster's nodes: in the network, in directories, in fault injection."""

from __future__ import annotations

from typing import Final, TypeAlias

CONTROLLER: Final = "controller"
BROKER: Final = "broker-"
"""How a broker's name begins; its id follows."""
LOOPBACK: Final = "127.0.0.1"

NodeName: TypeAlias = int | str
"""A broker's id, "controller", or a client's id."""


def broker_name(broker_id: int) -> str:
    """A broker's name, by its id."""
    return f"{BROKER}{broker_id}"
