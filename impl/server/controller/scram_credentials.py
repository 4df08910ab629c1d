"""AlterUserScramCredentials at the controller (KIP-554)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

from tidegauge.impl.controller.scram_credentials import AlteredUser, Deletion, Upsertion
from tidegauge.impl.server.error_responses.explanation import explain_error
from tidegauge.impl.wire.primitives import NO_WAIT

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest

    from tidegauge.impl.controller.decision import Proposal
    from tidegauge.impl.server.controller.decisions import Decisions, Turn
    from tidegauge.impl.server.transport.context import RequestContext


async def handle_alter_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: RequestContext, *, decisions: Decisions
) -> AlterUserScramCredentialsResponse:
    """Each user's alterations are written, all or none."""
    by_user: dict[str, tuple[list[Deletion], list[Upsertion]]] = {}
    async for deletion in context.pace.each(request.deletions):
        by_user.setdefault(deletion.name, ([], []))[0].append(Deletion(deletion.name, deletion.mechanism))
    async for one in context.pace.each(request.upsertions):
        upsertion = Upsertion(one.name, one.mechanism, one.iterations, one.salt, one.salted_password)
        by_user.setdefault(one.name, ([], []))[1].append(upsertion)
    altered = await decisions.each(by_user.values(), _alter, context.pace)
    return AlterUserScramCredentialsResponse(
        throttle_time=NO_WAIT,
        results=tuple(
            [
                AlterUserScramCredentialsResult(
                    user=one.user, error_code=one.error, error_message=explain_error(one.error, one.message)
                )
                async for one in context.pace.each(altered)
            ]
        ),
    )


def _alter(
    turn: Turn, asked: tuple[Sequence[Deletion], Sequence[Upsertion]]
) -> Generator[Proposal[list[AlteredUser]], list[AlteredUser], AlteredUser]:
    (outcome,) = yield turn.controller.scram_credentials.alter(*asked)
    return outcome
