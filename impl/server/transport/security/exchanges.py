"""What the SASL mechanisms have in common: a server's half of an exchange of tokens with a client."""

from __future__ import annotations

from typing import Protocol


class AuthenticationFailedError(Exception):
    """The client has not proved who it is. The text is for the server's log and never for the client."""


class Exchange(Protocol):
    """One attempt of a client to authenticate by one mechanism."""

    user: str | None
    """Who the client is; None until it has been proved."""

    def respond(self, token: bytes) -> bytes:
        """Take the client's next token and give the server's. Raises AuthenticationFailedError."""
        ...
