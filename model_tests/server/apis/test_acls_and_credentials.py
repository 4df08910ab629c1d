"""ACLs and SCRAM credentials over the wire, in every version: what is told, what is refused, what is in force where."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest, UserName
from kio.schema.errors import ErrorCode

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.security import Security, allow, deny
from tidegauge.impl.metadata.access import Operation, ResourceType
from tidegauge.impl.server.controller.acls import PART
from tidegauge.impl.server.controller.decisions import GROUP
from tidegauge.impl.server.transport.authorization import Principal
from tidegauge.impl.wire.apis import ApiKey
from tidegauge.impl.wire.codecs import encode_response
from tidegauge.impl.wire.primitives import i8, i32
from tidegauge.model_tests.server.transport.security.peers import USERS, Peer, empty, one_broker
from tidegauge.model_tests.server.work_in_steps import counted_steps
from tidegauge.model_tests.simulated import simulated

ROOT = Security("SASL_PLAINTEXT", users=USERS, super_users=["User:alice"])


def creation(
    resource: int = 2,
    name: str = "orders",
    pattern: int = 3,
    principal: str = "User:bob",
    host: str = "*",
    operation: int = 3,
    permission: int = 3,
) -> AclCreation:
    return AclCreation(
        resource_type=i8(resource),
        resource_name=name,
        resource_pattern_type=i8(pattern),
        principal=principal,
        host=host,
        operation=i8(operation),
        permission_type=i8(permission),
    )


def filters(
    resource: int = 1,
    name: str | None = None,
    pattern: int = 1,
    principal: str | None = None,
    host: str | None = None,
    operation: int = 1,
    permission: int = 1,
) -> dict[str, Any]:
    return {
        "resource_type_filter": i8(resource),
        "resource_name_filter": name,
        "pattern_type_filter": i8(pattern),
        "principal_filter": principal,
        "host_filter": host,
        "operation": i8(operation),
        "permission_type": i8(permission),
    }


async def described(peer: Peer, version: int = 3, **wanted: Any) -> set[tuple[int, str, int, str, str, int, int]]:
    response = await peer.request(DescribeAclsRequest(**filters(**wanted)), version)
    assert response.error_code is ErrorCode.none, response
    return {
        (one.resource_type, one.resource_name, one.pattern_type, acl.principal, acl.host, acl.operation,
         acl.permission_type)
        for one in response.resources
        for acl in one.acls
    }  # fmt: skip


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_created_described_and_deleted(version: int) -> None:
    @simulated
    async def run() -> None:
        async with one_broker(ROOT) as at:
            root = await at.user("alice")
            sent = [creation(), creation(name="or", pattern=4, permission=2), creation(4, "kafka-cluster", operation=8)]
            response = await root.request(CreateAclsRequest(creations=tuple(sent)), version)
            assert [(one.error_code, one.error_message) for one in response.results] == [(ErrorCode.none, None)] * 3
            await at.cluster.settle_metadata()
            read = (2, "orders", 3, "User:bob", "*", 3, 3)
            denial = (2, "or", 4, "User:bob", "*", 3, 2)
            describe = (4, "kafka-cluster", 3, "User:bob", "*", 8, 3)
            assert await described(root, version) == {read, denial, describe}
            assert await described(root, version, resource=2, name="orders", pattern=2) == {read, denial}
            assert await described(root, version, resource=2, name="orders") == {read}

            wanted = [filters(permission=2), filters(name="orders", pattern=2), filters(principal="User:eve")]
            request = DeleteAclsRequest(filters=tuple(DeleteAclsFilter(**one) for one in wanted))
            response = await root.request(request, version)
            names = [[acl.resource_name for acl in one.matching_acls] for one in response.filter_results]
            assert names == [["or"], ["orders", "or"], []]
            await at.cluster.settle_metadata()
            assert await described(root, version) == {describe}

    run()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"resource": 0}, "resource type 0 is not known"),
        ({"resource": 1}, "resource type ANY"),
        ({"pattern": 2}, "MATCH"),
        ({"operation": 99}, "operation 99"),
        ({"permission": 1}, "permission ANY"),
        ({"name": ""}, "name is empty"),
        ({"resource": 4}, "'kafka-cluster'"),
        ({"principal": "bob"}, "'bob': write Type:name"),
    ],
)
def test_an_acl_that_is_none_is_refused_by_itself(wrong: dict[str, Any], words: str) -> None:
    @simulated
    async def run() -> None:
        async with one_broker(ROOT) as at:
            root = await at.user("alice")
            sent = (creation(operation=4), creation(**wrong), creation(operation=5))
            first, refused, last = (await root.request(CreateAclsRequest(creations=sent))).results
            assert first.error_code is last.error_code is ErrorCode.none
            assert refused.error_code is ErrorCode.invalid_request
            assert words in refused.error_message
            await at.cluster.settle_metadata()
            assert {acl[5] for acl in await described(root)} == {4, 5}

    run()


@simulated
async def test_a_filter_that_is_none_is_refused() -> None:
    async with one_broker(ROOT) as at:
        root = await at.user("alice")
        await root.request(CreateAclsRequest(creations=(creation(),)))
        await at.cluster.settle_metadata()
        response = await root.request(DescribeAclsRequest(**filters(resource=0)))
        assert response.error_code is ErrorCode.invalid_request
        asked = (DeleteAclsFilter(**filters(pattern=0)), DeleteAclsFilter(**filters()))
        refused, fine = (await root.request(DeleteAclsRequest(filters=asked))).filter_results
        assert (refused.error_code, refused.matching_acls) == (ErrorCode.invalid_request, ())
        assert len(fine.matching_acls) == 1


@simulated
async def test_without_an_authorizer_there_are_no_acls() -> None:
    async with one_broker() as at:
        peer = await at.user("alice")
        assert (await peer.request(DescribeAclsRequest(**filters()))).error_code is ErrorCode.security_disabled
        created = await peer.request(CreateAclsRequest(creations=(creation(),)))
        assert created.results[0].error_code is ErrorCode.security_disabled
        deleted = await peer.request(DeleteAclsRequest(filters=(DeleteAclsFilter(**filters()),)))
        assert deleted.filter_results[0].error_code is ErrorCode.security_disabled


@simulated
async def test_an_acl_is_in_force_at_every_broker_and_after_restarts() -> None:
    security = Security("SASL_PLAINTEXT", users=USERS, acls=[*allow("User:bob", "READ", topic="o", prefixed=True)])
    async with Cluster(brokers=3, security=security) as cluster:
        await cluster.create_acls(deny("User:bob", "READ", topic="orders"))

        def decisions() -> set[tuple[bool, bool]]:
            return {
                (
                    broker.authorizer.allowed(bob, "", Operation.READ, ResourceType.TOPIC, "offers"),
                    broker.authorizer.allowed(bob, "", Operation.READ, ResourceType.TOPIC, "orders"),
                )
                for broker in cluster.brokers
            }

        bob = Principal("User", "bob")
        assert decisions() == {(True, False)}
        await cluster.crash(1)
        await cluster.restart_controller()
        await cluster.restart(1)
        await cluster.settle_metadata()
        assert decisions() == {(True, False)}
        await cluster.delete_acls()
        assert decisions() == {(False, False)}


@simulated
async def test_brokers_replicate_whatever_the_acls_say() -> None:
    security = Security("SASL_PLAINTEXT", users=USERS, acls=deny("User:*", topic="*"))
    async with Cluster(brokers=3, security=security) as cluster:
        await cluster.create_topic("orders", config={"min.insync.replicas": 3})
        async with cluster.client() as client:
            assert await client.produce("orders", b"a") == 0
        assert cluster.isr("orders") == (0, 1, 2)


# --- SCRAM credentials ---------------------------------------------------------------------------------------------


def upsertion(user: str, mechanism: int = 1, iterations: int = 4_096) -> ScramCredentialUpsertion:
    size = {1: 32, 2: 64}.get(mechanism, 32)
    return ScramCredentialUpsertion(
        name=user, mechanism=i8(mechanism), iterations=i32(iterations), salt=b"salt", salted_password=bytes(size)
    )


async def users(peer: Peer, *names: str) -> dict[str, Any]:
    asked = tuple(UserName(name=name) for name in names) if names else None
    response = await peer.request(DescribeUserScramCredentialsRequest(users=asked))
    assert response.error_code is ErrorCode.none
    return {
        one.user: {info.mechanism: info.iterations for info in one.credential_infos}
        if one.error_code is ErrorCode.none
        else one.error_code
        for one in response.results
    }


@simulated
async def test_many_users_are_altered_each_by_itself() -> None:
    """More than are committed together; a user that is named twice is refused, and nobody else."""
    names = [f"user-{number}" for number in range(2 * GROUP)]
    async with one_broker(ROOT) as at:
        root = await at.user("alice")
        upsertions = tuple(upsertion(name) for name in (*names, names[3]))
        response = await root.request(AlterUserScramCredentialsRequest(deletions=(), upsertions=upsertions))
        errors = {one.user: one.error_code for one in response.results}
        assert [one.user for one in response.results] == names
        assert errors.pop(names[3]) is ErrorCode.duplicate_resource
        assert set(errors.values()) == {ErrorCode.none}
        assert set(await users(root)) == {"alice", "bob", *errors}


@simulated
async def test_credentials_are_described_and_altered() -> None:
    async with one_broker(ROOT) as at:
        root = await at.user("alice")
        both = {1: 4_096, 2: 4_096}
        assert await users(root) == {"alice": both, "bob": both}
        response = await root.request(
            AlterUserScramCredentialsRequest(
                deletions=(
                    ScramCredentialDeletion(name="bob", mechanism=i8(1)),
                    ScramCredentialDeletion(name="eve", mechanism=i8(1)),
                ),
                upsertions=(upsertion("carol", 2, 8_192), upsertion("dave", iterations=1)),
            )
        )
        assert {one.user: one.error_code for one in response.results} == {
            "bob": ErrorCode.none,
            "eve": ErrorCode.resource_not_found,
            "carol": ErrorCode.none,
            "dave": ErrorCode.unacceptable_credential,
        }
        await at.cluster.settle_metadata()
        assert await users(root) == {"alice": both, "bob": {2: 4_096}, "carol": {2: 8_192}}
        assert await users(root, "carol", "eve", "alice", "alice") == {
            "carol": {2: 8_192},
            "eve": ErrorCode.resource_not_found,
            "alice": ErrorCode.duplicate_resource,
        }


@simulated
async def test_a_refused_description_is_kafkas_to_the_byte() -> None:
    """Kafka repeats the error for each user asked for, without their names; confluent-kafka 2.16.1 ends on that."""
    async with one_broker(ROOT) as at:
        bob = await at.user("bob")
        response = await bob.request(DescribeUserScramCredentialsRequest(users=(UserName(name="alice"),)))
        words = b"Cluster authorization failed."
        error = (31).to_bytes(2, "big")
        text = bytes((len(words) + 1,)) + words
        one = b"\x01" + error + text + b"\x01\x00"
        header = (7).to_bytes(4, "big") + b"\x00"
        assert encode_response(response, 7)[4:] == header + bytes(4) + error + text + b"\x02" + one + b"\x00"


# --- delegation tokens ---------------------------------------------------------------------------------------------


@simulated
async def test_delegation_tokens_are_not_enabled() -> None:
    keys = (
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    )
    async with one_broker(Security("SASL_PLAINTEXT", "PLAINTEXT", users=USERS)) as at:
        friend, nobody = await at.user("alice"), await at.connect("PLAINTEXT")
        for key in keys:
            for version in (1, 2):
                request = empty(key, version)
                assert (await friend.request(request)).error_code is ErrorCode.delegation_token_auth_disabled
                assert (await nobody.request(request)).error_code is ErrorCode.delegation_token_request_not_allowed


@simulated
async def test_many_acls_are_created_and_deleted_and_keep_the_loop_from_nobody() -> None:
    """More than one decision takes, each found by its own filter."""
    count = 3 * PART
    async with one_broker(ROOT) as at:
        alice = await at.user("alice")
        creations = tuple(creation(name=f"t{number}") for number in range(count))
        wanted = tuple(DeleteAclsFilter(**filters(name=f"t{number}")) for number in range(count))
        with counted_steps() as steps:
            created = await alice.request(CreateAclsRequest(creations=creations))
            deleted = await alice.request(DeleteAclsRequest(filters=(*wanted, *wanted[:1])))
    assert [result.error_code for result in created.results] == [ErrorCode.none] * count
    names = [[acl.resource_name for acl in one.matching_acls] for one in deleted.filter_results]
    assert names == [[f"t{number}"] for number in (*range(count), 0)]
    assert steps.most < 25_000


@simulated
async def test_filters_that_match_too_many_acls_remove_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegauge.impl.server.controller.acls.MOST_MATCHES", 4)
    async with one_broker(ROOT) as at:
        alice = await at.user("alice")
        await alice.request(CreateAclsRequest(creations=tuple(creation(name=f"t{number}") for number in range(3))))
        twice = (DeleteAclsFilter(**filters()), DeleteAclsFilter(**filters(resource=2)))
        refused = await alice.request(DeleteAclsRequest(filters=twice))
        assert [one.error_code for one in refused.filter_results] == [ErrorCode.policy_violation] * 2
        assert "match more than 4 ACLs: send several requests" in str(refused.filter_results[0].error_message)
        done = await alice.request(DeleteAclsRequest(filters=twice[:1]))
        assert len(done.filter_results[0].matching_acls) == 3
