"""TLS: what a server needs, whom it takes, and how a certificate's name becomes a principal."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest
import trio
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tidegauge.impl.ports import tls
from tidegauge.impl.ports.tls import (
    TlsHandshakeError,
    TlsSettings,
    accept,
    distinguished_name,
    peer_name,
    server_context,
)
from tidegauge.impl.server.transport.security.principals import NoPrincipalError, PrincipalMapping
from tidegauge.model_tests.server.transport.security.certificates import Authority

AUTHORITY, UNTRUSTED = Authority(), Authority()
CHAIN, KEY = AUTHORITY.server
SERVER = TlsSettings(CHAIN, KEY)


def client_context(*certificate: str, trusts: Authority = AUTHORITY, directory: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=trusts.certificate)
    if certificate:
        assert directory is not None
        (directory / "client.pem").write_text("".join(certificate))
        context.load_cert_chain(directory / "client.pem")
    return context


def shaken(settings: TlsSettings, client: ssl.SSLContext) -> str | None:
    """The client's name as the server has it after a handshake. Raises what the server's side raises."""
    outcome: list[str | None] = []

    async def connect(stream: trio.abc.Stream) -> None:
        try:
            secured = trio.SSLStream(stream, client, server_hostname="localhost")
            await secured.send_all(b"ping")
            assert await secured.receive_some() == b"pong"
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await stream.aclose()

    async def main() -> TlsHandshakeError | None:
        ours, theirs = trio.testing.memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connect, theirs)
            try:
                secured = await accept(ours, server_context(settings))
            except TlsHandshakeError as error:
                await ours.aclose()
                return error
            assert await secured.receive_some() == b"ping"
            await secured.send_all(b"pong")
            outcome.append(peer_name(secured))
        return None

    if (error := trio.run(main)) is not None:
        raise error
    return outcome[0]


def test_a_server_by_pem_text_and_by_files(tmp_path: Path) -> None:
    store = tmp_path / "store.pem"
    store.write_text(KEY + CHAIN)
    for settings in (SERVER, TlsSettings(CHAIN + "\n", "\n" + KEY), TlsSettings(key_store=str(store))):
        assert shaken(settings, client_context()) is None


def test_an_encrypted_key_needs_its_password(tmp_path: Path) -> None:
    key = load_pem_private_key(KEY.encode(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open")).decode()
    assert shaken(TlsSettings(CHAIN, encrypted, key_password="open"), client_context()) is None
    for password in ("", "shut"):
        with pytest.raises(ValueError, match=r"ssl\.key\.password"):
            server_context(TlsSettings(CHAIN, encrypted, key_password=password))
    store = tmp_path / "store.pem"
    store.write_text(encrypted + CHAIN)
    with pytest.raises(ValueError, match=r"ssl\.keystore\.location.*ssl\.key\.password"):
        server_context(TlsSettings(key_store=str(store)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (TlsSettings(), "needs a certificate"),
        (TlsSettings(CHAIN), "needs a certificate"),
        (TlsSettings("a chain", "a key"), "no private key and its certificate"),
        (TlsSettings(CHAIN, UNTRUSTED.server[1]), "no private key and its certificate"),
        (TlsSettings(key_store="/nowhere.pem"), "'/nowhere.pem'"),
        (TlsSettings(CHAIN, KEY, client_auth="required"), "ssl.truststore.certificates"),
        (TlsSettings(CHAIN, KEY, trusted="nothing", client_auth="required"), "ssl.truststore.certificates"),
        (TlsSettings(CHAIN, KEY, trust_store="/nowhere.pem", client_auth="requested"), "ssl.truststore.location"),
        (TlsSettings(CHAIN, KEY, protocols=()), "ssl.enabled.protocols"),
        (TlsSettings(CHAIN, KEY, ciphers=("NONE",)), "ssl.cipher.suites"),
    ],
)
def test_settings_that_are_wrong_are_named(settings: TlsSettings, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        server_context(settings)


def test_the_client_of_another_authority_does_not_come_to_terms() -> None:
    with pytest.raises(TlsHandshakeError):
        shaken(SERVER, client_context(trusts=UNTRUSTED))


def test_what_is_not_tls_does_not_come_to_terms() -> None:
    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        await theirs.send_all(b"\0\0\0\x0a no TLS...")
        with pytest.raises(TlsHandshakeError):
            await accept(ours, server_context(SERVER))

    trio.run(main)


def test_a_peer_that_says_nothing_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    async def main() -> None:
        ours, _theirs = trio.testing.memory_stream_pair()
        with pytest.raises(TlsHandshakeError, match="took too long"):
            await accept(ours, server_context(SERVER))
        assert trio.current_time() - began == pytest.approx(tls.HANDSHAKE_TIMEOUT_S)

    began = autojump_clock.current_time()
    trio.run(main, clock=autojump_clock)


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    return trio.testing.MockClock(autojump_threshold=0)


def test_clients_certificates_none_requested_required(tmp_path: Path) -> None:
    def settings(client_auth: str) -> TlsSettings:
        return TlsSettings(CHAIN, KEY, trusted=AUTHORITY.certificate, client_auth=client_auth)

    named = client_context(*AUTHORITY.issue("alice@orders", common_name="alice"), directory=tmp_path)
    untrusted = client_context(*UNTRUSTED.issue("eve@orders", common_name="alice"), directory=tmp_path)
    nameless = client_context()
    name = r"CN=alice,OU=tests,O=Orders\, Inc."
    assert shaken(settings("none"), named) is None
    assert shaken(settings("requested"), named) == name
    assert shaken(settings("required"), named) == name
    assert shaken(settings("none"), nameless) is None
    assert shaken(settings("requested"), nameless) is None
    for client, auth in ((nameless, "required"), (untrusted, "requested"), (untrusted, "required")):
        with pytest.raises(TlsHandshakeError):
            shaken(settings(auth), client)


def test_the_version_of_tls_is_held_to(tmp_path: Path) -> None:
    old = client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert shaken(SERVER, old) is None
    with pytest.raises(TlsHandshakeError):
        shaken(TlsSettings(CHAIN, KEY, protocols=("TLSv1.3",)), old)


def test_distinguished_names_are_written_as_in_rfc_2253() -> None:
    subject = (
        (("countryName", "DE"),),
        (("organizationName", 'a "b"; <c>\\+'),),
        (("organizationalUnitName", " #x "), ("commonName", "#y")),
        (("emailAddress", "a@b"),),
    )
    assert distinguished_name(subject) == (r"emailAddress=a@b,OU=\ #x\ +CN=\#y,O=a \"b\"\; \<c\>\\\+,C=DE")


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", "CN=a,OU=b", "CN=a,OU=b"),
        ("RULE:^CN=(.*?),OU=tests.*$/$1/", "CN=Alice,OU=tests,O=x", "Alice"),
        ("RULE:^CN=(.*?),OU=tests.*$/$1/L", "CN=Alice,OU=tests,O=x", "alice"),
        ("RULE:^CN=(.*?),OU=tests.*$/$1/U , DEFAULT", "CN=Alice,OU=tests,O=x", "ALICE"),
        ("RULE:^CN=(.*?),OU=tests.*$/$1/,DEFAULT", "CN=Alice,OU=others", "CN=Alice,OU=others"),
        (r"RULE:CN=(\w+)\/(\w+)/$2@$1/,DEFAULT", "CN=a/b", "b@a"),
        ("RULE:CN=a,OU=b/first/,RULE:.*/second/", "CN=a,OU=b", "first"),
        ("RULE:CN=a,OU=b/first/,RULE:.*/second/", "CN=a,OU=c", "second"),
    ],
)
def test_a_principal_by_mapping_rules(rules: str, name: str, principal: str) -> None:
    """KIP-371."""
    assert PrincipalMapping(rules).name(name) == principal


def test_a_name_that_no_rule_matches_is_no_principal() -> None:
    for name in ("CN=b", "CN=ab", "OU=x,CN=a"):
        with pytest.raises(NoPrincipalError, match=f"'{name}'"):
            PrincipalMapping("RULE:CN=a/a/").name(name)


@pytest.mark.parametrize("rules", ["DEFAUL", "RULE:a/b", "RULE:(/b/", "RULE:a/$1/", "DEFAULT;DEFAULT", "RULE:a/b/X"])
def test_a_rule_that_is_none_is_named(rules: str) -> None:
    with pytest.raises(ValueError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
