"""The published KIP-996 model as TLC was run on it otherwise than published, and with a rule taken out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.published.kip853.actions import Kip853Action
from tidegauge.spec.published.kip853.state import Role, Server, State
from tidegauge.spec.published.kip996.actions import OfReasons
from tidegauge.spec.published.kip996.machine import Kip996
from tidegauge.spec.published.kraft.state import NOBODY


@attrs.frozen
class CountedAsByTlc(Kip996):
    """Steps as TLC counts them: one for each reason, where a timeout has several."""

    def candidate_rules(self) -> Sequence[Callable[[State], Iterable[Kip853Action]]]:
        servers = range(self.max_servers)
        actions = [one for number in servers for one in self._of_server(number, self.max_servers)]
        return [
            *super().candidate_rules(),
            *[partial(self._again, one) for one in actions if isinstance(one, OfReasons)],
        ]

    def _again(self, one: OfReasons, state: State) -> list[Kip853Action]:
        """The action once more for each reason but the first one."""
        return [] if one.guard(self, state) else [one] * (one.reasons(self, state) - 1)


@attrs.frozen
class Unattached(CountedAsByTlc):
    """Nobody leads in the beginning: the first election is one of the model."""

    def _begun(self, number: int) -> Server:
        return evolve(super()._begun(number), role=Role.UNATTACHED, leader=NOBODY)

    def _may_elect(self) -> bool:
        return self.servers > 1 and self.max_epoch > 1


@attrs.frozen
class Kip996LeadsWithoutMajority(Kip996):
    """A candidate leads with its own vote: two servers lead in one epoch."""

    def is_elected(self, candidate: Server) -> bool:
        return True


@attrs.frozen
class UnattachedLeadsWithoutMajority(Kip996LeadsWithoutMajority, Unattached):
    """The same rule missing where nobody leads in the beginning, as TLC was run."""
