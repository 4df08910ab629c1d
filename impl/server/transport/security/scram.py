"""SCRAM-SHA-256 and SCRAM-SHA-512: the server's half (RFC 5802, RFC 7677); `impl.metadata.credentials` has the keys.

Theory of operation
-------------------
    C: n,,n=user,r=<client nonce>                                  client-first
    S: r=<client nonce><server nonce>,s=<salt>,i=<iterations>      server-first
    C: c=biws,r=<both nonces>,p=<ClientKey XOR ClientSignature>    client-final
    S: v=<ServerSignature>                                         server-final

Both signatures are over all that was said before, so neither side can be played against another's exchange, and both
nonces are in it, so nothing can be replayed. The server learns ClientKey from the proof, and its hash has to be the
StoredKey of the credential; the server's signature shows the client that the server has its credential too.

A user who does not exist is led through the whole exchange with a salt that is always the same for that name, and fails
at its end like a wrong password does: names cannot be told from non-names.

Channel binding (`p=`) and Kafka's extension for delegation tokens are refused.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable
from typing import Final

from tidegauge.impl.metadata.credentials import MIN_ITERATIONS, ScramCredential, hashed, keyed
from tidegauge.impl.server.transport.security.exchanges import AuthenticationFailedError

CredentialOf = Callable[[str], ScramCredential | None]

NONCE_BYTES: Final = 18

_NAME = r"(?:[^,=]|=2C|=3D)+"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>n=(?P<user>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[A-Za-z]+=[^,]*)*))"
)
_CLIENT_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,]*)*)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


class ScramExchange:
    """One SCRAM exchange."""

    def __init__(self, hash_name: str, credential_of: CredentialOf, server_nonce: str, decoy_key: bytes) -> None:
        """`server_nonce` has to be new; `decoy_key` is a secret of this server, from which non-users get a salt."""
        self.user: str | None = None
        self._hash = hash_name
        self._credential_of = credential_of
        self._server_nonce = server_nonce
        self._decoy_key = decoy_key
        self._claimed: str | None = None
        self._gs2 = ""
        self._nonce = ""
        self._said = ""
        self._credential: ScramCredential

    def respond(self, token: bytes) -> bytes:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise AuthenticationFailedError("a SCRAM message that is not UTF-8") from None
        if self._claimed is None:
            return self._first(text).encode()
        return self._final(text).encode()

    def _first(self, text: str) -> str:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise AuthenticationFailedError("a SCRAM client-first message that is none, or asks for channel binding")
        user = _unescaped(match["user"])
        if match["authzid"] is not None and _unescaped(match["authzid"]) != user:
            raise AuthenticationFailedError(f"user {user!r} asks to act as another")
        if match["extensions"]:
            raise AuthenticationFailedError("SCRAM extensions (delegation tokens) are not served here")
        found = self._credential_of(user)
        usable = found is not None and found.iterations >= MIN_ITERATIONS
        self._credential = found if found is not None and usable else self._decoy(user)
        self._claimed, self._gs2, self._nonce = user, match["gs2"], match["nonce"] + self._server_nonce
        salt = base64.b64encode(self._credential.salt).decode()
        server_first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._said = f"{match['bare']},{server_first}"
        return server_first

    def _final(self, text: str) -> str:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise AuthenticationFailedError("a SCRAM client-final message that is none")
        if match["nonce"] != self._nonce:
            raise AuthenticationFailedError("a SCRAM client-final message of another exchange: its nonce differs")
        if _base64(match["binding"]) != self._gs2.encode():
            raise AuthenticationFailedError("a SCRAM client-final message whose channel binding is not the first's")
        said = f"{self._said},{match['without_proof']}".encode()
        signature = keyed(self._hash, self._credential.stored_key, said)
        proof = _base64(match["proof"])
        if len(proof) != len(signature):
            raise AuthenticationFailedError(f"a SCRAM proof of {len(proof)} bytes: it has {len(signature)}")
        client_key = bytes(mine ^ theirs for mine, theirs in zip(signature, proof, strict=True))
        if not hmac.compare_digest(hashed(self._hash, client_key), self._credential.stored_key):
            raise AuthenticationFailedError(f"wrong password, or no user {self._claimed!r}")
        self.user = self._claimed
        return f"v={base64.b64encode(keyed(self._hash, self._credential.server_key, said)).decode()}"

    def _decoy(self, user: str) -> ScramCredential:
        """A credential that nobody has the password of."""
        drawn = [keyed(self._hash, self._decoy_key, f"{purpose}/{user}".encode()) for purpose in ("salt", "key")]
        return ScramCredential(drawn[0][:16], drawn[1], drawn[1], MIN_ITERATIONS)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailedError("a SCRAM message whose base64 cannot be read") from None
