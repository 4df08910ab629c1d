"""ACLs and SCRAM credentials at the controller: what is written, what is refused, and that a successor knows it."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tidegauge.impl.controller.scram_credentials import AlteredUser, Deletion, Upsertion
from tidegauge.impl.metadata.access import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from tidegauge.impl.metadata.credentials import ScramMechanism, credential, hashed, salted_password
from tidegauge.model_tests.controller.controlled_cluster import ControlledCluster, successor

READ = Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


def test_an_acl_is_written_once() -> None:
    cluster = ControlledCluster()
    end = cluster.log.end_offset
    assert cluster.commit(cluster.controller.acls.create([READ, READ])) == ["", ""]
    assert cluster.commit(cluster.controller.acls.create([READ])) == [""]
    assert list(cluster.controller.image.acls) == [READ]
    assert cluster.log.end_offset == end + 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resource_type": ResourceType.ANY}, "resource type ANY"),
        ({"pattern_type": PatternType.ANY}, "pattern type ANY"),
        ({"pattern_type": PatternType.MATCH}, "pattern type MATCH"),
        ({"operation": Operation.ANY}, "operation ANY"),
        ({"permission": Permission.ANY}, "permission ANY"),
        ({"resource_name": ""}, "name is empty"),
        ({"resource_type": ResourceType.CLUSTER}, "'kafka-cluster'"),
        ({"principal": "alice"}, "write Type:name"),
        ({"principal": ":alice"}, "write Type:name"),
        ({"host": ""}, "host is empty"),
    ],
)
def test_an_acl_that_cannot_be_is_refused_and_the_others_are_written(change: dict[str, object], words: str) -> None:
    cluster = ControlledCluster()
    wrong = READ._replace(**change)  # type: ignore[arg-type]
    (refusal, fine) = cluster.commit(cluster.controller.acls.create([wrong, READ]))
    assert words in refusal
    assert fine == ""
    assert list(cluster.controller.image.acls) == [READ]


def test_the_response_lists_the_acls_of_each_filter_and_all_of_them_are_removed() -> None:
    cluster = ControlledCluster()
    write = READ._replace(operation=Operation.WRITE)
    other = READ._replace(resource_name="payments")
    cluster.commit(cluster.controller.acls.create([READ, write, other]))
    filters = [AclFilter(resource_name="orders"), AclFilter(operation=Operation.WRITE), AclFilter(host="10.0.0.1")]
    assert cluster.commit(cluster.controller.acls.delete(filters)) == [[READ, write], [write], []]
    assert list(cluster.controller.image.acls) == [other]


def test_a_successor_knows_acls_and_credentials() -> None:
    cluster = ControlledCluster()
    cluster.commit(cluster.controller.acls.create([READ]))
    cluster.commit(cluster.controller.scram_credentials.alter([], [upsertion("alice")]))
    before = cluster.controller.image
    after = successor(cluster.log, now_ms=0).image
    assert after is not before
    assert list(after.acls) == [READ]
    assert after.scram_credentials == before.scram_credentials != {}


def upsertion(
    user: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt", salted: bytes = bytes(32)
) -> Upsertion:
    return Upsertion(user, mechanism, iterations, salt, salted)


def test_what_is_kept_is_derived_from_the_salted_password() -> None:
    """RFC 5802, section 3: a reader of the log cannot log in with what is in it."""
    cluster = ControlledCluster()
    salted = salted_password("sha512", "secret", b"salt", 5000)
    cluster.commit(cluster.controller.scram_credentials.alter([], [upsertion("alice", SHA_512, 5000, salted=salted)]))
    kept = cluster.controller.image.scram_credentials["alice"][SHA_512]
    assert kept == credential("sha512", salted, b"salt", 5000)
    assert salted not in (kept.stored_key, kept.server_key)
    assert kept.stored_key != hashed("sha512", kept.server_key)


@pytest.mark.parametrize(
    ("deletions", "upsertions", "error"),
    [
        ([], [upsertion("")], ErrorCode.unacceptable_credential),
        ([], [upsertion("a", iterations=4095)], ErrorCode.unacceptable_credential),
        ([], [upsertion("a", iterations=16385)], ErrorCode.unacceptable_credential),
        ([], [upsertion("a", salt=b"")], ErrorCode.unacceptable_credential),
        ([], [upsertion("a", salted=bytes(31))], ErrorCode.unacceptable_credential),
        ([], [upsertion("a", 3)], ErrorCode.unsupported_sasl_mechanism),
        ([Deletion("a", 0)], [], ErrorCode.unsupported_sasl_mechanism),
        ([Deletion("a", SHA_256)], [], ErrorCode.resource_not_found),
        ([Deletion("a", SHA_256), Deletion("a", SHA_256)], [], ErrorCode.resource_not_found),
        ([], [upsertion("a"), upsertion("a", iterations=5000)], ErrorCode.duplicate_resource),
    ],
)
def test_alterations_of_a_user_are_refused_together(
    deletions: list[Deletion], upsertions: list[Upsertion], error: ErrorCode
) -> None:
    cluster = ControlledCluster()
    user = (deletions or upsertions)[0].user
    fine = [upsertion(user, SHA_512, salted=bytes(64)), upsertion("bob")]
    outcomes = cluster.commit(cluster.controller.scram_credentials.alter(deletions, [*upsertions, *fine]))
    assert {(outcome.user, outcome.error) for outcome in outcomes} == {(user, error), ("bob", ErrorCode.none)}
    assert all(outcome.message for outcome in outcomes if outcome.error is not ErrorCode.none)
    assert set(cluster.controller.image.scram_credentials) == {"bob"}


def test_one_credential_of_a_user_is_altered_in_a_request_whatever_the_mechanism() -> None:
    cluster = ControlledCluster()

    def alter(deletions: list[Deletion], upsertions: list[Upsertion]) -> list[AlteredUser]:
        return cluster.commit(cluster.controller.scram_credentials.alter(deletions, upsertions))

    both = [upsertion("alice"), upsertion("alice", SHA_512, salted=bytes(64))]
    assert [outcome.error for outcome in alter([], both)] == [ErrorCode.duplicate_resource]
    assert cluster.controller.image.scram_credentials == {}
    alter([], both[:1])
    alter([], both[1:])
    deletions = [Deletion("alice", SHA_256), Deletion("alice", SHA_512)]
    assert [outcome.error for outcome in alter(deletions, [])] == [ErrorCode.duplicate_resource]
    assert [outcome.error for outcome in alter(deletions[:1], [upsertion("alice")])] == [ErrorCode.duplicate_resource]
    assert set(cluster.controller.image.scram_credentials["alice"]) == {SHA_256, SHA_512}


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_a_credential_has_as_few_and_as_many_iterations_as_kafka_allows(iterations: int) -> None:
    cluster = ControlledCluster()
    assert cluster.commit(
        cluster.controller.scram_credentials.alter([], [upsertion("alice", iterations=iterations)])
    ) == [AlteredUser("alice")]


def test_credentials_that_are_known_to_be_valid_are_installed() -> None:
    cluster = ControlledCluster()
    made = credential("sha256", bytes(32), b"salt", 4096)
    cluster.commit(cluster.controller.scram_credentials.install([("alice", ScramMechanism(SHA_256), made)]))
    assert cluster.controller.image.scram_credentials == {"alice": {SHA_256: made}}


def test_a_credential_is_replaced_and_deleted() -> None:
    cluster = ControlledCluster()

    def alter(deletions: list[Deletion], upsertions: list[Upsertion]) -> list[AlteredUser]:
        return cluster.commit(cluster.controller.scram_credentials.alter(deletions, upsertions))

    assert alter([], [upsertion("alice")]) == [AlteredUser("alice")]
    assert alter([], [upsertion("alice", SHA_512, salted=bytes(64))]) == [AlteredUser("alice")]
    assert alter([], [upsertion("alice", iterations=8192)]) == [AlteredUser("alice")]
    assert cluster.controller.image.scram_credentials["alice"][SHA_256].iterations == 8192
    assert alter([Deletion("alice", SHA_256)], []) == [AlteredUser("alice")]
    assert set(cluster.controller.image.scram_credentials["alice"]) == {SHA_512}
    assert alter([Deletion("alice", SHA_512)], []) == [AlteredUser("alice")]
    assert cluster.controller.image.scram_credentials == {}
