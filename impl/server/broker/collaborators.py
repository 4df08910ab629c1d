"""What the handlers of a broker's requests may name as their collaborators.

A keyword-only parameter of a handler is bound to the field of the same name, and has its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tidegauge.impl.ports.clock import Clock
    from tidegauge.impl.ports.disk import Disk
    from tidegauge.impl.server.broker.coordinators import Coordinators
    from tidegauge.impl.server.broker.directory_moves import DirectoryMoves
    from tidegauge.impl.server.broker.dynamic_config import DynamicConfig
    from tidegauge.impl.server.broker.fetch_sessions import FetchSessions
    from tidegauge.impl.server.broker.forwarding import Forwarder
    from tidegauge.impl.server.broker.groups import Groups
    from tidegauge.impl.server.broker.internal_topics import InternalTopics
    from tidegauge.impl.server.broker.listeners import BrokerListeners
    from tidegauge.impl.server.broker.metadata_cache import MetadataCache
    from tidegauge.impl.server.broker.metadata_loader import MetadataLoader
    from tidegauge.impl.server.broker.producer_ids import ProducerIdAllocator
    from tidegauge.impl.server.broker.registration import Registration
    from tidegauge.impl.server.broker.replica_manager import ReplicaManager
    from tidegauge.impl.server.broker.transaction_verifier import TransactionVerifier
    from tidegauge.impl.server.broker.transactions import Transactions


@attrs.frozen(eq=False, repr=False)
class BrokerCollaborators:
    """A broker's parts, by the names that handlers call them."""

    registration: Registration
    config: DynamicConfig
    metadata: MetadataCache
    loader: MetadataLoader
    forwarder: Forwarder
    replicas: ReplicaManager
    fetch_sessions: FetchSessions
    directory_moves: DirectoryMoves
    producer_ids: ProducerIdAllocator
    internal_topics: InternalTopics
    _coordinators: Coordinators
    transaction_verifier: TransactionVerifier
    listeners: BrokerListeners
    clock: Clock
    disk: Disk

    @property
    def groups(self) -> Groups:
        """The coordinator of groups, made now if nothing has asked for it yet."""
        return self._coordinators.groups

    @property
    def transactions(self) -> Transactions:
        """The coordinator of transactions, made now if nothing has asked for it yet."""
        return self._coordinators.transactions
