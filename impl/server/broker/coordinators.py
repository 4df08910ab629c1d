"""The coordinators of one broker, each made when it is first asked for.

Most clusters that a test embeds have no groups and no transactions. Their code is a tenth of all that a broker imports,
so it is imported when a request names a coordinator, or when the broker has to do with a coordinator's internal topic.
Nothing is missed: a coordinator learns of a partition by `leadership_changed`, and the first such call makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from tidegauge.impl.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE

if TYPE_CHECKING:
    from tidegauge.impl.server.broker.groups import Groups
    from tidegauge.impl.server.broker.replica_effects import ReplicaEffects
    from tidegauge.impl.server.broker.transactions import Transactions


class Coordinators:
    """A broker's coordinators of groups and of transactions."""

    def __init__(
        self,
        effects: ReplicaEffects,
        *,
        make_groups: Callable[[], Groups],
        make_transactions: Callable[[], Transactions],
    ) -> None:
        self._make_groups = make_groups
        self._make_transactions = make_transactions
        effects.coordinators[CONSUMER_OFFSETS] = lambda partition: self.groups.log.leadership_changed(partition)
        effects.coordinators[TRANSACTION_STATE] = lambda partition: self.transactions.log.leadership_changed(partition)

    @cached_property
    def groups(self) -> Groups:
        """The groups whose partition of `__consumer_offsets` the broker leads."""
        return self._make_groups()

    @cached_property
    def transactions(self) -> Transactions:
        """The transactional ids whose partition of `__transaction_state` the broker leads."""
        return self._make_transactions()
