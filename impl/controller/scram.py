"""The controller's part in SCRAM credentials: the rules for changing them (KIP-554).

Clients send salted passwords; what is kept is derived from them here (`impl.metadata.credentials`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.state import ControllerState
from tidegauge.impl.metadata.credentials import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential,
    hashed,
)
from tidegauge.impl.metadata.records import RemoveUserScramCredentialRecord, UserScramCredentialRecord


@attrs.frozen
class Upsertion:
    """A user's new credential for a mechanism, as the client sends it."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@attrs.frozen
class Deletion:
    """A user's credential that is to go."""

    user: str
    mechanism: int


@attrs.frozen
class AlteredUser:
    """What became of the alterations of one user's credentials; they are carried out all or none."""

    user: str
    error: ErrorCode = ErrorCode.none
    message: str | None = None


class ScramCredentials(ControllerState):
    """The controller's part in SCRAM credentials."""

    def alter_scram_credentials(
        self, deletions: Sequence[Deletion], upsertions: Sequence[Upsertion]
    ) -> list[AlteredUser]:
        """Change credentials; one answer a user, in the order in which users are first named.

        Errors: DUPLICATE_RESOURCE (a user named twice, if only by two mechanisms), RESOURCE_NOT_FOUND (nothing to
        delete), UNSUPPORTED_SASL_MECHANISM, UNACCEPTABLE_CREDENTIAL (no name, salt or password, or iterations out of
        bounds).
        """
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
                self._alter(alteration)
        self._commit()
        return [refusals.get(user, AlteredUser(user)) for user in times]

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
            if mechanism in self.image.scram_credentials.get(user, {}):
                return None
            return AlteredUser(user, ErrorCode.resource_not_found, "there is no such credential to delete")
        wrong = _unacceptable(alteration)
        return AlteredUser(user, ErrorCode.unacceptable_credential, wrong) if wrong else None

    def install_scram_credential(self, user: str, mechanism: ScramMechanism, made: ScramCredential) -> None:
        """Give a user a credential that is known to be in order."""
        self._write_credential(user, mechanism, made)
        self._commit()

    def _alter(self, alteration: Deletion | Upsertion) -> None:
        if isinstance(alteration, Deletion):
            self._write(RemoveUserScramCredentialRecord(alteration.user, alteration.mechanism))
            return
        mechanism = ScramMechanism(alteration.mechanism)
        made = credential(mechanism.hash_name, alteration.salted_password, alteration.salt, alteration.iterations)
        self._write_credential(alteration.user, mechanism, made)

    def _write_credential(self, user: str, mechanism: ScramMechanism, made: ScramCredential) -> None:
        self._write(
            UserScramCredentialRecord(
                user,
                int(mechanism),
                made.salt.hex(),
                made.stored_key.hex(),
                made.server_key.hex(),
                made.iterations,
            )
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
