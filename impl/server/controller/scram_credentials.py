"""AlterUserScramCredentials at the controller (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

from tidegauge.impl.controller.scram_credentials import Deletion, Upsertion
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest

    from tidegauge.impl.server.controller.decisions import Decisions
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_alter_scram_credentials(
    request: AlterUserScramCredentialsRequest, _: RequestContext, *, decisions: Decisions
) -> AlterUserScramCredentialsResponse:
    """Each user's alterations are written, all or none."""
    async with decisions.turn() as turn:
        proposal = turn.controller.scram_credentials.alter(
            [Deletion(one.name, one.mechanism) for one in request.deletions],
            [
                Upsertion(one.name, one.mechanism, one.iterations, one.salt, one.salted_password)
                for one in request.upsertions
            ],
        )
        altered = await turn.commit(proposal)
    return AlterUserScramCredentialsResponse(
        throttle_time=NO_WAIT,
        results=tuple(
            AlterUserScramCredentialsResult(user=one.user, error_code=one.error, error_message=one.message)
            for one in altered
        ),
    )
