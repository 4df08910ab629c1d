"""An election in one partition: one that was requested, or one that moves a leader back to the preferred replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from tidegauge.impl.server import trace

if TYPE_CHECKING:
    from tidegauge.impl.server.controller.decisions import Decisions

PREFERRED: Final = 0
UNCLEAN: Final = 1


async def elect(decisions: Decisions, topic: str, partition: int, election_type: int) -> ErrorCode:
    """Hold one election."""
    preferred = election_type == PREFERRED
    async with decisions.turn() as turn:
        elections = turn.controller.elections
        proposal = (elections.elect_preferred if preferred else elections.elect_uncleanly)(topic, partition)
        error = await turn.commit(proposal)
        if error is ErrorCode.none and turn.is_traced:
            kind = trace.events.PreferredElection if preferred else trace.events.UncleanElection
            turn.tracer.record(kind, topic=topic, partition=partition, changed=turn.changed())
    return error
