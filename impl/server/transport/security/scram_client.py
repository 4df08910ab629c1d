"""SCRAM: the client's half (RFC 5802), by which one node proves to another that it knows a password.

It is the counterpart of `impl.server.transport.security.scram`. The client verifies the server, too: an impostor that
listens where a node did learns nothing, and is told nothing.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from typing import Final

from tidegauge.impl.metadata.credentials import hashed, keyed
from tidegauge.impl.server.transport.security.exchanges import AuthenticationFailedError

_SERVER_FIRST: Final = re.compile(r"r=(?P<nonce>[^,]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>\d{1,9})")
_SERVER_FINAL: Final = re.compile(r"v=(?P<signature>[A-Za-z0-9+/=]+)")
_NO_BINDING: Final = "biws"
"""The base64 of "n,,": no channel binding."""


class ScramClient:
    """One exchange of a client."""

    def __init__(self, hash_name: str, user: str, nonce: str, salted: Callable[[bytes, int], bytes]) -> None:
        """`nonce` has to be new; `salted` gives the salted password, by the server's salt and iterations.

        It raises AuthenticationFailedError for a salt or iterations that the server cannot have.
        """
        self._hash = hash_name
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._nonce = nonce
        self._salted = salted
        self._server_signature = b""

    def first(self) -> bytes:
        """The client-first message."""
        return f"n,,{self._bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        """The client-final message. Raises AuthenticationFailedError for a server that has another password."""
        text = server_first.decode(errors="replace")
        match = _SERVER_FIRST.fullmatch(text)
        if match is None or not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise AuthenticationFailedError("a SCRAM server-first message that is none of this exchange")
        salted = self._salted(_base64(match["salt"]), int(match["iterations"]))
        without_proof = f"c={_NO_BINDING},r={match['nonce']}"
        said = f"{self._bare},{text},{without_proof}".encode()
        client_key = keyed(self._hash, salted, b"Client Key")
        signature = keyed(self._hash, hashed(self._hash, client_key), said)
        proof = bytes(mine ^ theirs for mine, theirs in zip(client_key, signature, strict=True))
        self._server_signature = keyed(self._hash, keyed(self._hash, salted, b"Server Key"), said)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        """Raises AuthenticationFailedError unless the server has shown that it knows the credential, too."""
        match = _SERVER_FINAL.fullmatch(server_final.decode(errors="replace"))
        if match is None or not hmac.compare_digest(_base64(match["signature"]), self._server_signature):
            raise AuthenticationFailedError("a SCRAM server that does not know the credential")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
