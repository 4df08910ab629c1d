"""The nodes of the metadata log's quorum, and where each is reached."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tidegauge.impl.ports.network import Address


@attrs.define
class Voters:
    """This node and its peers; a quorum of one has no peers."""

    node_id: int
    """This node."""
    addresses: Mapping[int, Address]
    """By node id."""
