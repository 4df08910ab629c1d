"""Who may do what in an embedded cluster, from outside of the protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidegauge.impl.metadata.access import Acl, AclFilter

if TYPE_CHECKING:
    from tidegauge.impl.server.broker_server import Broker
    from tidegauge.impl.server.config import ServerConfig
    from tidegauge.impl.server.controller.node import ControllerNode


class Access:
    """The cluster's methods about listeners and rights; mixed into `Cluster`."""

    if TYPE_CHECKING:
        config: ServerConfig

        @property
        def brokers(self) -> list[Broker]: ...

        @property
        def controller(self) -> ControllerNode: ...

        async def settle_metadata(self) -> None: ...

    def bootstrap_servers_of(self, listener: str) -> str:
        """Where clients of a listener begin: `host:port` of every broker, separated by commas. Raises ValueError."""
        endpoints = [broker.listeners.advertised for broker in self.brokers]
        if any(listener not in of_one for of_one in endpoints):
            raise ValueError(f"listener {listener!r}: there is {', '.join(endpoints[0])}")
        return ",".join(str(of_one[listener]) for of_one in endpoints)

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        """Add ACLs and wait until they are in force at every broker.

        Raises ValueError for one that cannot be, and where no authorizer looks at them.
        """
        if not self.config.authorizer_class_name:
            raise ValueError("ACLs count for nothing here: make the cluster with security=Security(…, acls=[…])")
        async with self.controller.decisions.turn() as turn:
            refusals = await turn.commit(turn.controller.acls.create(list(acls)))
        await self.settle_metadata()
        if wrong := [refusal for refusal in refusals if refusal]:
            raise ValueError(wrong[0])

    async def delete_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """Remove the ACLs that a filter means (all without one), and wait until no broker knows them any more."""
        async with self.controller.decisions.turn() as turn:
            (found,) = await turn.commit(turn.controller.acls.delete([wanted or AclFilter()]))
        await self.settle_metadata()
        return found
