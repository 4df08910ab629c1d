"""TLS over any of the network's streams: what a server or client shows, whom it trusts, and who the peer is.

Certificates and keys are PEM, as text or as the path of a file (KIP-651). A peer that shows a certificate is known by
its distinguished name, written as RFC 2253 does: the last part first, separated by commas.
"""

from __future__ import annotations

import re
import ssl
import tempfile
from typing import Any, Final

import attrs
import trio

HANDSHAKE_TIMEOUT_S: Final = 10.0
"""A peer that has not finished the handshake by then is not served."""

CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
PROTOCOLS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_SHORT_NAMES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_SPECIAL: Final = re.compile(r'([,+"\\<>;])')


@attrs.frozen
class TlsSettings:
    """A listener's `ssl.*` settings; certificates and keys are PEM."""

    certificate_chain: str = attrs.field(default="", repr=False)
    """The server's certificate and those between it and the root."""
    key: str = attrs.field(default="", repr=False)
    """The server's private key (PKCS #8)."""
    key_store: str = ""
    """The path of a file with key and certificates, in place of the two above."""
    key_password: str = attrs.field(default="", repr=False)
    trusted: str = attrs.field(default="", repr=False)
    """Certificates of those who may sign clients' certificates."""
    trust_store: str = ""
    """The path of a file with them."""
    client_auth: str = "none"
    """Whether clients show a certificate: none, requested, required."""
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: tuple[str, ...] = ()
    """Cipher suites of TLS 1.2, by OpenSSL's names; none are OpenSSL's choice."""


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """What accepts TLS connections by these settings. Raises ValueError naming the setting that is wrong."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, settings)
    _load_identity(context, settings)
    context.verify_mode = CLIENT_AUTH[settings.client_auth]
    if context.verify_mode is not ssl.CERT_NONE or settings.trusted or settings.trust_store:
        _load_trusted(context, settings)
    return context


def client_context(settings: TlsSettings, *, checks_host: bool = True) -> ssl.SSLContext:
    """What opens TLS connections by these settings. Raises ValueError naming the setting that is wrong.

    It shows the settings' certificate to a server that asks for one. Without trusted certificates the operating
    system's count. With `checks_host` the server's certificate has to be for the host that was connected to.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_host
    _restrict(context, settings)
    if settings.key_store or settings.certificate_chain:
        _load_identity(context, settings)
    if settings.trusted or settings.trust_store:
        _load_trusted(context, settings)
    else:
        context.load_default_certs()
    return context


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Speak the versions and cipher suites of the settings only."""
    versions = sorted(PROTOCOLS[name] for name in settings.protocols)
    if not versions:
        raise ValueError("ssl.enabled.protocols is empty: name TLSv1.2, TLSv1.3 or both")
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    if settings.ciphers:
        try:
            context.set_ciphers(":".join(settings.ciphers))
        except ssl.SSLError:
            raise ValueError(f"ssl.cipher.suites is {','.join(settings.ciphers)}: OpenSSL knows none of them") from None


def _load_identity(context: ssl.SSLContext, settings: TlsSettings) -> None:
    # OpenSSL asks on the terminal for the password of an encrypted key unless it is given one.
    password = settings.key_password.encode
    if settings.key_store:
        try:
            context.load_cert_chain(settings.key_store, password=password)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"ssl.keystore.location is {settings.key_store!r}: no key and certificate in PEM can be read from it "
                f"({error}); with an encrypted key, is ssl.key.password right?"
            ) from None
        return
    if not settings.certificate_chain or not settings.key:
        raise ValueError(
            "a TLS listener needs a certificate: set ssl.keystore.certificate.chain and ssl.keystore.key (PEM), "
            "or ssl.keystore.location"
        )
    with tempfile.NamedTemporaryFile() as file:  # the ssl module reads them from files only
        file.write(f"{settings.key.strip()}\n{settings.certificate_chain.strip()}\n".encode())
        file.flush()
        try:
            context.load_cert_chain(file.name, password=password)
        except (ssl.SSLError, ValueError) as error:
            raise ValueError(
                "ssl.keystore.key and ssl.keystore.certificate.chain are no private key and its certificate in PEM "
                f"({error}); with an encrypted key, is ssl.key.password right?"
            ) from None


def _load_trusted(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if not settings.trusted and not settings.trust_store:
        raise ValueError(
            f"ssl.client.auth is {settings.client_auth!r}: say whose certificates are trusted in "
            "ssl.truststore.certificates (PEM) or ssl.truststore.location"
        )
    name = "ssl.truststore.location" if settings.trust_store else "ssl.truststore.certificates"
    try:
        if settings.trust_store:
            context.load_verify_locations(cafile=settings.trust_store)
        else:
            context.load_verify_locations(cadata=settings.trusted)
    except (OSError, ValueError) as error:
        raise ValueError(f"{name}: no certificates in PEM can be read from it ({error})") from None


class TlsHandshakeError(Exception):
    """Server and client did not come to terms."""


async def accept(stream: trio.abc.Stream, context: ssl.SSLContext) -> trio.SSLStream[Any]:
    """The server's half of the handshake. Raises TlsHandshakeError."""
    return await _shaken(trio.SSLStream(stream, context, server_side=True, https_compatible=True))


async def connect(stream: trio.abc.Stream, context: ssl.SSLContext, host: str) -> trio.SSLStream[Any]:
    """The client's half of the handshake with the server at `host`. Raises TlsHandshakeError.

    With TLS 1.3 it is over before the server has looked at the client's certificate.
    """
    return await _shaken(trio.SSLStream(stream, context, server_hostname=host, https_compatible=True))


async def _shaken(secured: trio.SSLStream[Any]) -> trio.SSLStream[Any]:
    try:
        with trio.fail_after(HANDSHAKE_TIMEOUT_S):
            await secured.do_handshake()
    except (trio.BrokenResourceError, trio.TooSlowError) as error:
        reason = error.__cause__ or "it took too long, or the peer went away"
        raise TlsHandshakeError(f"the TLS handshake failed: {reason}") from None
    return secured


def peer_name(stream: trio.SSLStream[Any]) -> str | None:
    """The distinguished name in the peer's certificate, as in `CN=alice,O=Orders`; None when it showed none."""
    certificate = stream.getpeercert()
    if not certificate:
        return None
    return distinguished_name(certificate["subject"])


def distinguished_name(subject: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    """A name as the ssl module gives it, in the form of RFC 2253; names of attributes that the RFC lacks stay long."""
    return ",".join(
        "+".join(f"{_SHORT_NAMES.get(kind, kind)}={_escaped(value)}" for kind, value in part)
        for part in reversed(subject)
    )


def _escaped(value: str) -> str:
    escaped = _SPECIAL.sub(r"\\\1", value)
    if escaped.startswith(("#", " ")):
        escaped = "\\" + escaped
    return escaped[:-1] + "\\ " if escaped.endswith(" ") and len(escaped) > 1 else escaped
