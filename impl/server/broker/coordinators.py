"""The coordinators of one broker, each made when it is first asked for.

Most clusters that a test embeds have no groups and no transactions. Their code is a tenth of all that a broker imports,
so it is imported when a request names a coordinator, or when the broker begins to lead a partition of a coordinator's
internal topic. Where no descriptor is left to import it, the partition waits, and its clients are told that it loads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from tidegauge.impl.ports.disk_errors import Extent, extent_of, told
from tidegauge.impl.ports.log_lines import log_event

if TYPE_CHECKING:
    from tidegauge.impl.server.broker.coordinator_log import CoordinatorLog
    from tidegauge.impl.server.broker.groups import Groups
    from tidegauge.impl.server.broker.partition import Partition, TopicPartition
    from tidegauge.impl.server.broker.replica_effects import ReplicaEffects
    from tidegauge.impl.server.broker.tasks import BrokerTasks
    from tidegauge.impl.server.broker.transactions import Transactions

LOGGER: Final = logging.getLogger(__name__)
RETRY_S: Final = 1.0
"""Between attempts to import a coordinator for want of descriptors."""


class Coordinators:
    """A broker's coordinators of groups and of transactions."""

    def __init__(
        self,
        effects: ReplicaEffects,
        tasks: BrokerTasks,
        *,
        make_groups: Callable[[], Groups],
        make_transactions: Callable[[], Transactions],
    ) -> None:
        self._tasks = tasks
        self._make_groups = make_groups
        self._make_transactions = make_transactions
        self._groups: Groups | None = None
        self._transactions: Transactions | None = None
        self._untold: dict[TopicPartition, Partition] = {}
        """Whose leadership changed when their coordinator could not be imported."""
        for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            effects.coordinators[topic] = self._leadership_changed

    @property
    def groups(self) -> Groups:
        """The groups whose partition of `__consumer_offsets` the broker leads. Raises OSError as an import does."""
        if self._groups is None:
            self._groups = self._make_groups()
        return self._groups

    @property
    def transactions(self) -> Transactions:
        """The transactional ids whose partition of `__transaction_state` the broker leads. Raises OSError likewise."""
        if self._transactions is None:
            self._transactions = self._make_transactions()
        return self._transactions

    def _leadership_changed(self, partition: Partition) -> None:
        """Tell the coordinator; one that is not there yet has nothing to do with what the broker does not lead."""
        is_made = (self._groups if partition.topic == CONSUMER_OFFSETS else self._transactions) is not None
        if not is_made and (partition.is_gone or not partition.replica.is_leader):
            self._untold.pop(partition.key, None)
            return
        was_waiting = bool(self._untold)
        self._tell(partition)
        if self._untold and not was_waiting:
            self._tasks.start_soon(self._tell_later)

    def _tell(self, partition: Partition) -> None:
        """Tell the coordinator, or keep the partition for later where it cannot be imported now."""
        log: CoordinatorLog[Any]
        try:
            log = self.groups.log if partition.topic == CONSUMER_OFFSETS else self.transactions.log
        except OSError as error:
            if extent_of(error) is not Extent.PASSING:
                raise ImportError(f"a file of this program: {told(error)}") from error
            if not self._untold:
                self._tell_waiting(partition, error)
            self._untold[partition.key] = partition
            return
        self._untold.pop(partition.key, None)
        log.leadership_changed(partition)

    async def _tell_later(self) -> None:
        """Try again until every coordinator has been told."""
        while self._untold:
            await trio.sleep(RETRY_S)
            for partition in tuple(self._untold.values()):
                self._tell(partition)

    def _tell_waiting(self, partition: Partition, error: OSError) -> None:
        log_event(
            LOGGER,
            logging.ERROR,
            "coordinator not loaded",
            partition=f"{partition.topic}-{partition.index}",
            why=told(error),
            next="it is tried again until it can be imported, and its keys have no coordinator meanwhile",
        )
