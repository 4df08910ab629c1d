"""SASL PLAIN (RFC 4616): the client sends its name and password, and TLS had better hide them."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from tidegauge.impl.server.transport.security.exchanges import AuthenticationFailedError

NUL = b"\x00"


class PlainExchange:
    """One token: authorization id (empty, or the user's name), user name and password, separated by NUL."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None

    def respond(self, token: bytes) -> bytes:
        parts = token.split(NUL)
        if len(parts) != 3:
            raise AuthenticationFailedError(f"a PLAIN token of {len(parts)} parts: it has 3, separated by NUL")
        try:
            authorization_id, user, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise AuthenticationFailedError("a PLAIN token that is not UTF-8") from None
        if not user or not password:
            raise AuthenticationFailedError("a PLAIN token without a user name or without a password")
        expected = self._passwords.get(user)
        # An unknown user costs the same comparison as a wrong password.
        matches = hmac.compare_digest(password.encode(), ("" if expected is None else expected).encode())
        if expected is None or not matches:
            raise AuthenticationFailedError(f"wrong password, or no user {user!r}")
        if authorization_id not in ("", user):
            raise AuthenticationFailedError(f"user {user!r} asks to act as {authorization_id!r}")
        self.user = user
        return b""
