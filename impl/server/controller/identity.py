"""Whose a controller's directory is: the cluster's id, which is made here once.

A controller that starts in a new directory makes the id of its cluster, unless it is given one, and keeps it in
`meta.properties`. From then on the directory must have both, the file and the metadata log: a controller that began
anew where one of them was lost would found a cluster in the place of the one that its brokers belong to.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from uuid import UUID

from tidegauge.impl.ports.log_lines import log_event
from tidegauge.impl.storage.identity import (
    DamagedIdentityError,
    Identity,
    new_cluster_id,
    read_identity,
    write_identity,
)

if TYPE_CHECKING:
    from tidegauge.impl.server.node import Node

LOGGER: Final = logging.getLogger(__name__)


def found_identity(node: Node, *, has_log: bool) -> Identity | None:
    """What the controller's directory says; None when it is new. Raises ForeignLogDirectoryError, DamagedIdentityError.

    `has_log`: whether there is a metadata log with records. Nothing is changed.
    """
    identity = read_identity(
        node.disk, node.directory, node_id=node.id, cluster_id=node.cluster_id, is_data=lambda _: False
    )
    if identity is None and has_log and node.cluster_id is None:
        wanted = (
            f"cluster.id=as in the brokers' files, node.id={node.id}, directory.id=a random uuid in base64, version=1"
        )
        raise DamagedIdentityError(
            f"{node.directory}/meta.properties is missing, though there is a metadata log: nothing was changed. Write "
            f"the file again with the lines {wanted}"
        )
    return identity


def made_identity(node: Node) -> Identity:
    """Make the directory the node's, in the cluster that it is given or in a new one."""
    cluster_id = node.cluster_id or new_cluster_id(node.randomness.token)
    identity = Identity(cluster_id, node.id, UUID(bytes=node.randomness.token(16), version=4))
    write_identity(node.disk, node.directory, identity)
    log_event(LOGGER, logging.INFO, "cluster made", cluster=cluster_id, directory=node.directory)
    return identity
