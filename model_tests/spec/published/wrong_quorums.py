"""Wrong rules of the published models of KIP-853 and KIP-996, by which the invariants are violated that no bug does."""

from __future__ import annotations

from typing import Any, Final

import attrs

from tidegauge.spec.kernel.machine import Machine, constants_of
from tidegauge.spec.published.kip853.machine import Kip853
from tidegauge.spec.published.kip853.rules import Kip853Rules
from tidegauge.spec.published.kip853.state import FetchRequest, Role, Server
from tidegauge.spec.published.kip996.machine import Kip996
from tidegauge.spec.published.kip996.variants import Unattached


class NeedsNoMajority(Kip853Rules):
    """Any server is a majority by itself."""

    def is_majority(self, servers: int, server: Server) -> bool:
        return True


class BelievesFollowers(NeedsNoMajority):
    """And a leader looks at no follower's last entry."""

    def is_valid(self, leader: Server, request: FetchRequest) -> bool:
        return True


class AgreesWithNobody(Kip853Rules):
    """Every leader is another one than this server's."""

    def has_consistent_leader(self, number: int, server: Server, leader: int, epoch: int) -> bool:
        return False


class FollowsUnattached(Kip853Rules):
    """A server that learns of a leader stays unattached."""

    def transitioned(self, number: int, server: Server, leader: int, epoch: int) -> Server:
        return attrs.evolve(super().transitioned(number, server, leader, epoch), role=Role.UNATTACHED)


def of(wrong: type[Any], model: Machine[Any]) -> Machine[Any]:
    """The model with wrong rules."""
    kind = type(f"{wrong.__name__}In{type(model).__name__}", (wrong, type(model)), {"__doc__": wrong.__doc__})
    machine: Machine[Any] = attrs.frozen(kind)(**constants_of(model))
    return machine


_DISRUPTED: Final = Kip996(max_disruptions=1)
WRONG: Final[tuple[tuple[str, Machine[Any], str], ...]] = (
    ("kip853", of(NeedsNoMajority, Kip853()), "AckedValueNotLost"),
    ("kip853", of(BelievesFollowers, Kip853()), "NoLogDivergence"),
    ("kip853", of(AgreesWithNobody, Kip853()), "NoIllegalState"),
    ("kip853", of(FollowsUnattached, Kip853()), "StatesMatchRoles"),
    ("kip996", of(NeedsNoMajority, _DISRUPTED), "LeaderCompleteness"),
    ("kip996", of(NeedsNoMajority, _DISRUPTED), "Durability"),
    ("kip996", of(BelievesFollowers, _DISRUPTED), "LogMatching"),
    ("kip996", of(AgreesWithNobody, Unattached()), "NoIllegalState"),
    ("kip996", of(FollowsUnattached, Unattached()), "ValidRolesAndStates"),
)
"""Machine, as the registry names it; a wrong one of it; what is violated there."""
