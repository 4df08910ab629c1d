"""Changes of SCRAM credentials: which are valid, and the records that write them (KIP-554).

Clients send salted passwords. The log has only keys that are derived from them (`impl.metadata.credentials`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.decision import Decision, Proposal
from tidegauge.impl.metadata.credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential,
    hashed,
)
from tidegauge.impl.metadata.image import ClusterImage
from tidegauge.impl.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord


class Upsertion(NamedTuple):
    """A user's new credential for a mechanism, as the client sends it."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class Deletion(NamedTuple):
    """A user's credential that is to be deleted."""

    user: str
    mechanism: int


class AlteredUser(NamedTuple):
    """The outcome of the alterations of one user's credentials: all are written or none."""

    user: str
    error: ErrorCode = ErrorCode.none
    message: str | None = None


class ScramCredentials:
    """Decides about SCRAM credentials."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def alter(self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]) -> Proposal[list[AlteredUser]]:
        """Change credentials; the response has one outcome a user, in the order in which users are first named.

        Errors: DUPLICATE_RESOURCE (a user named twice, if only by two mechanisms), RESOURCE_NOT_FOUND (nothing to
        delete), UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL (no name, salt or password, or iterations out of
        bounds).
        """
        decision = Decision(self._image)
        alterations: list[Deletion | Upsertion] = [*deletions, *upsertions]
        times = Counter(alteration.user for alteration in alterations)
        refusals: dict[str, AlteredUser] = {}
        for alteration in alterations:
            if alteration.user not in refusals:
                refusal = self._refusal(alteration)
                if refusal is None and times[alteration.user] > 1:
                    refusal = AlteredUser(
                        alteration.user,
                        ErrorCode.duplicate_resource,
                        "one credential of a user can be altered in a request: send one for each",
                    )
                if refusal is not None:
                    refusals[alteration.user] = refusal
        for alteration in alterations:
            if alteration.user not in refusals:
                decision.write(_record(alteration))
        return decision.propose([refusals.get(user, AlteredUser(user)) for user in times])

    def _refusal(self, alteration: Deletion | Upsertion) -> AlteredUser | None:
        user, mechanism = alteration.user, alteration.mechanism
        if not user:
            return AlteredUser(user, ErrorCode.unacceptable_credential, "a user name is empty: name the user")
        if mechanism not in set(ScramMechanism):
            known = ", ".join(f"{one.value} ({one.sasl_name})" for one in ScramMechanism)
            return AlteredUser(
                user, ErrorCode.unsupported_sasl_mechanism, f"SCRAM mechanism {mechanism} is not known: use {known}"
            )
        if isinstance(alteration, Deletion):
            if mechanism in self._image.scram_credentials.get(user, {}):
                return None
            return AlteredUser(user, ErrorCode.resource_not_found, "there is no such credential to delete")
        wrong = _unacceptable(alteration)
        return AlteredUser(user, ErrorCode.unacceptable_credential, wrong) if wrong else None

    def install(self, credentials: Sequence[tuple[str, ScramMechanism, ScramCredential]]) -> Proposal[None]:
        """Write credentials (of a user, for a mechanism) that are known to be valid."""
        decision = Decision(self._image)
        for user, mechanism, made in credentials:
            decision.write(_credential_record(user, mechanism, made))
        return decision.propose(None)


def _record(alteration: Deletion | Upsertion) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    if isinstance(alteration, Deletion):
        return RemoveUserScramCredentialRecord(alteration.user, alteration.mechanism)
    mechanism = ScramMechanism(alteration.mechanism)
    made = credential(mechanism.hash_name, alteration.salted_password, alteration.salt, alteration.iterations)
    return _credential_record(alteration.user, mechanism, made)


def _credential_record(user: str, mechanism: ScramMechanism, made: ScramCredential) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        user, int(mechanism), made.salt.hex(), made.stored_key.hex(), made.server_key.hex(), made.iterations
    )


def _unacceptable(upsertion: Upsertion) -> str:
    if not MIN_ITERATIONS <= upsertion.iterations <= MAX_ITERATIONS:
        return f"{upsertion.iterations} iterations: ask for {MIN_ITERATIONS} to {MAX_ITERATIONS}"
    if not upsertion.salt:
        return "the salt is empty: give random bytes"
    size = len(hashed(ScramMechanism(upsertion.mechanism).hash_name, b""))
    if len(upsertion.salted_password) != size:
        return f"the salted password has {len(upsertion.salted_password)} bytes: this mechanism's have {size}"
    return ""
