"""SCRAM: the RFCs' own exchanges, an independent client, and everything that a server has to refuse."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.net.sasl.scram import ScramClient  # kafka-python's own half of the exchange

from tidegauge.impl.metadata.credentials import (
    MIN_ITERATIONS,
    ScramCredential,
    credential,
    hashed,
    keyed,
    salted_password,
)
from tidegauge.impl.ports.randomness import SeededRandomness, SystemRandomness
from tidegauge.impl.server.transport.security.exchanges import AuthenticationFailedError
from tidegauge.impl.server.transport.security.plain import PlainExchange
from tidegauge.impl.server.transport.security.scram import ScramExchange
from tidegauge.model_tests.amounts import amount

SALT = b"salt of alice"
DECOY_KEY = b"a secret of this server"


def made(hash_name: str, password: str, salt: bytes = SALT, iterations: int = MIN_ITERATIONS) -> ScramCredential:
    return credential(hash_name, salted_password(hash_name, password, salt, iterations), salt, iterations)


def exchange(hash_name: str = "sha256", nonce: str = "server", **users: ScramCredential) -> ScramExchange:
    return ScramExchange(hash_name, users.get, nonce, DECOY_KEY)


def test_the_exchange_of_rfc_7677() -> None:
    server = exchange(
        nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        user=made("sha256", "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")),
    )
    assert server.respond(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert server.user is None
    assert (
        server.respond(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        )
        == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )
    assert server.user == "user"


def test_the_exchange_of_rfc_5802() -> None:
    """SHA-1 is no mechanism of Kafka's, but the formulas are the same."""
    server = exchange("sha1", "3rfcNHYJY1ZVvWVs7j", user=made("sha1", "pencil", base64.b64decode("QSXCR+Q6sek8bf92")))
    assert server.respond(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL") == (
        b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    )
    assert (
        server.respond(b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=")
        == b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="
    )


def proof_of(server: ScramExchange, password: str, hash_name: str = "sha256", user: str = "alice") -> bytes:
    """Lead kafka-python's client up to its last message."""
    client = ScramClient(user, password, "SCRAM-" + hash_name.upper().replace("SHA", "SHA-"))
    response = server.respond(client.first_message())
    client.process_server_first_message(response)
    final: bytes = client.final_message()
    return final


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(["sha256", "sha512"]),
    st.text(st.characters(exclude_characters=",=", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
)
def test_an_independent_client_is_let_in_and_convinced(hash_name: str, user: str, password: str) -> None:
    server = ScramExchange(hash_name, {user: made(hash_name, password)}.get, "server", DECOY_KEY)
    client = ScramClient(user, password, "SCRAM-" + hash_name.upper().replace("SHA", "SHA-"))
    client.process_server_first_message(server.respond(client.first_message()))
    client.process_server_final_message(server.respond(client.final_message()))  # raises if it lies
    assert server.user == user


def test_names_with_commas_and_equals_signs() -> None:
    server = ScramExchange("sha256", {"a,b=c": made("sha256", "pw")}.get, "server", DECOY_KEY)
    assert server.respond(b"n,a=a=2Cb=3Dc,n=a=2Cb=3Dc,r=client").startswith(b"r=clientserver,")


def test_a_wrong_password_and_an_unknown_user_cannot_be_told_apart() -> None:
    words = []
    for user in ("alice", "mallory"):
        server = exchange(alice=made("sha256", "secret"))
        final = proof_of(server, "guess", user=user)
        with pytest.raises(AuthenticationFailedError) as refused:
            server.respond(final)
        assert server.user is None
        words.append(str(refused.value).replace(user, "…"))
    assert words[0] == words[1]


def test_an_unknown_user_has_the_same_salt_each_time() -> None:
    firsts = {exchange().respond(b"n,,n=mallory,r=c").split(b",")[1] for _ in range(3)}
    assert len(firsts) == 1
    assert exchange().respond(b"n,,n=eve,r=c").split(b",")[1] not in firsts


def test_a_credential_of_too_few_iterations_lets_nobody_in() -> None:
    server = exchange(alice=made("sha256", "secret", iterations=1000))
    with pytest.raises(AuthenticationFailedError):
        server.respond(proof_of(server, "secret"))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff\xfe",
        b"n=alice,r=c",
        b"p=tls-unique,,n=alice,r=c",
        b"n,a=bob,n=alice,r=c",
        b"n,,n=,r=c",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=c",
        b"n,,n=alice",
        b"n,,m=x,n=alice,r=c",
        b"n,,n=alice,r=c,tokenauth=true",
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(AuthenticationFailedError):
        exchange(alice=made("sha256", "secret")).respond(first)


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (b"c=biws", b"c=eSws"),  # "y,,"
        (b"c=biws", b"c=***"),
        (b",r=", b",r=x"),
        (b",p=", b",p=AAAA"),
        (b",p=", b",q="),
        (b"c=", b""),
    ],
)
def test_a_final_message_that_was_tampered_with_is_refused(part: bytes, other: bytes) -> None:
    server = exchange(alice=made("sha256", "secret"))
    final = proof_of(server, "secret")
    assert part in final
    with pytest.raises(AuthenticationFailedError):
        server.respond(final.replace(part, other, 1))
    assert server.user is None


@pytest.mark.parametrize(
    ("without_proof", "admitted"),
    [("c=biws,r=cserver", True), ("c=biws,r=cother", False), ("c=eSws,r=cserver", False)],
)
def test_even_who_knows_the_password_has_to_repeat_nonce_and_binding(without_proof: str, admitted: bool) -> None:
    server = exchange(alice=made("sha256", "secret"))
    server_first = server.respond(b"n,,n=alice,r=c").decode()
    said = f"n=alice,r=c,{server_first},{without_proof}".encode()
    key = keyed("sha256", salted_password("sha256", "secret", SALT, MIN_ITERATIONS), b"Client Key")
    signature = keyed("sha256", hashed("sha256", key), said)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    final = f"{without_proof},p={proof}".encode()
    if admitted:
        assert server.respond(final)
    else:
        with pytest.raises(AuthenticationFailedError, match=r"nonce|binding"):
            server.respond(final)


def test_a_recorded_exchange_cannot_be_replayed() -> None:
    alice = made("sha256", "secret")
    first = b"n,,n=alice,r=client"
    recorded = exchange(nonce="one", alice=alice)
    client = ScramClient("alice", "secret", "SCRAM-SHA-256")
    client.nonce = b"client"
    assert client.first_message() == first
    client.process_server_first_message(recorded.respond(first))
    final = client.final_message()
    assert recorded.respond(final)
    again = exchange(nonce="two", alice=alice)
    again.respond(first)
    for replayed in (final, final.replace(b"r=clientone", b"r=clienttwo")):
        with pytest.raises(AuthenticationFailedError):
            again.respond(replayed)


def test_randomness_of_the_system_is_new_and_that_of_a_seed_the_same() -> None:
    assert SystemRandomness().token(18) != SystemRandomness().token(18)
    seeded = SeededRandomness(7, "broker-1")
    drawn = [seeded.token(100), seeded.token(100)]
    assert drawn[0] != drawn[1]
    assert [len(token) for token in drawn] == [100, 100]
    again = SeededRandomness(7, "broker-1")
    assert [again.token(100), again.token(100)] == drawn
    assert SeededRandomness(8, "broker-1").token(100) not in drawn
    assert SeededRandomness(7, "broker-2").token(100) not in drawn


# --- PLAIN (RFC 4616) ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_plain_lets_in_who_knows_the_password(token: bytes) -> None:
    server = PlainExchange({"alice": "secret"})
    assert server.respond(token) == b""
    assert server.user == "alice"


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice\0secret",
        b"\0alice\0secret\0",
        b"\0alice\0Secret",
        b"\0alice\0",
        b"\0\0secret",
        b"\0bob\0secret",
        b"\0bob\0",
        b"bob\0alice\0secret",
        b"\0alice\0\xff",
    ],
)
def test_plain_refuses_everybody_else(token: bytes) -> None:
    server = PlainExchange({"alice": "secret", "empty": ""})
    with pytest.raises(AuthenticationFailedError):
        server.respond(token)
    assert server.user is None


ALICE = made("sha256", "secret")


@settings(max_examples=amount(40, deep=100), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.text(max_size=20).map(str.encode),
            st.from_regex(r"[nyp],(a=\w*)?,n=[\w=,]*,r=\w*(,\w=\w*)*", fullmatch=True).map(str.encode),
            st.from_regex(r"c=[\w+/=]*,r=\w*(,p=[\w+/=]*)?", fullmatch=True).map(str.encode),
        ),
        max_size=3,
    ),
    st.sampled_from(["plain", "sha256", "sha512"]),
)
def test_every_message_of_a_client_gets_a_response_or_is_refused(tokens: list[bytes], mechanism: str) -> None:
    server = PlainExchange({"alice": "secret"}) if mechanism == "plain" else exchange(mechanism, alice=ALICE)
    for token in tokens:
        try:
            assert isinstance(server.respond(token), bytes)
        except AuthenticationFailedError:
            break
    assert server.user is None
