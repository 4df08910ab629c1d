"""What security costs: decisions of the authorizer, logins, and the same stream of records by each protocol.

`python -m benchmarks.security [--quick]` prints two tables. Decisions are compared with a walk over all ACLs; streams
with PLAINTEXT, one after the other with the same client, in one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import trustme
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from benchmarks.options import parser
from tidegauge import Security, running_cluster
from tidegauge.impl.metadata.access import AccessControlLists, Acl, Operation, PatternType, Permission, ResourceType
from tidegauge.impl.metadata.credentials import MIN_ITERATIONS, credential, salted_password
from tidegauge.impl.server.transport.authorization import Principal
from tidegauge.impl.server.transport.security.acl_authorizer import AclAuthorizer, is_about
from tidegauge.impl.server.transport.security.exchanges import AuthenticationFailedError
from tidegauge.impl.server.transport.security.scram import ScramExchange

ACLS = 10_000
RECORD = bytes(1_024)
PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
ALICE = Principal("User", "alice")


def microseconds(call: Callable[[int], object], times: int) -> float:
    """CPU time of one call."""
    began = time.process_time()
    for number in range(times):
        call(number)
    return (time.process_time() - began) / times * 1e6


def lists() -> AccessControlLists:
    """Half of the ACLs on names, half on prefixes of 4 to 7 characters."""
    made = AccessControlLists()
    for number in range(ACLS):
        prefixed = number % 2 == 1
        name = f"{number:07d}"[: 4 + number % 4] if prefixed else f"topic-{number}"
        pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        made.add(Acl(ResourceType.TOPIC, name, pattern, f"User:{number}", "*", Operation.READ, Permission.ALLOW))
    return made


def decisions(times: int) -> list[tuple[str, float]]:
    acls = lists()
    authorizer = AclAuthorizer(lambda: acls)

    def ask(name: str) -> bool:
        return authorizer.allowed(ALICE, "127.0.0.1", Operation.READ, ResourceType.TOPIC, name)

    def walk(number: int) -> bool:
        name = f"{number % ACLS:07d}"
        return any(
            is_about(acl, ALICE, "127.0.0.1", Operation.READ)
            for acl in acls
            if name == acl.resource_name
            or (acl.pattern_type is PatternType.PREFIXED and name.startswith(acl.resource_name))
        )

    return [
        ("a decision that is remembered", microseconds(lambda _: ask("0000001"), times)),
        ("a decision that is not", microseconds(lambda number: ask(f"{number % ACLS:07d}"), min(times, ACLS))),
        ("the same by a walk over all ACLs", microseconds(walk, max(1, times // 2_000))),
        ("a login by SCRAM-SHA-256, at the server", microseconds(lambda _: login(), max(1, times // 100))),
    ]


_SALTED = salted_password("sha256", "secret", b"salt", MIN_ITERATIONS)
_CREDENTIAL = credential("sha256", _SALTED, b"salt", MIN_ITERATIONS)


def login() -> None:
    """Both of the client's messages, the second with a wrong proof of the right size: it costs as much."""
    exchange = ScramExchange("sha256", lambda _: _CREDENTIAL, "server", b"key")
    exchange.respond(b"n,,n=alice,r=client")
    with suppress(AuthenticationFailedError):
        exchange.respond(b"c=biws,r=clientserver,p=" + b"A" * 43 + b"=")


def streams(megabytes: int) -> list[tuple[str, float]]:
    """(protocol, MB/s) of records of 1 KiB with acks=all."""
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    issued = authority.issue_cert("localhost", "127.0.0.1", key_type=trustme.KeyType.ECDSA)
    security = Security(
        *PROTOCOLS,
        certificate=b"".join(pem.bytes() for pem in issued.cert_chain_pems),
        key=issued.private_key_pem.bytes(),
        users={"alice": "secret"},
    )
    rates = []
    with running_cluster(security=security, trace=False) as cluster:
        for protocol in PROTOCOLS:
            cluster.create_topic(protocol)
            settings: dict[str, Any] = {
                "bootstrap.servers": cluster.bootstrap_servers_of(protocol),
                "security.protocol": protocol,
                "ssl.ca.pem": authority.cert_pem.bytes().decode(),
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.username": "alice",
                "sasl.password": "secret",
                "linger.ms": 5,
                "log_level": 0,
                "queue.buffering.max.messages": 1_000_000,
            }
            if "SASL" not in protocol:
                settings = {name: value for name, value in settings.items() if not name.startswith("sasl")}
            producer = Producer(settings)
            producer.produce(protocol, RECORD)
            producer.flush(10)
            count = megabytes * 1_000_000 // len(RECORD)
            began = time.perf_counter()
            for _ in range(count):
                producer.produce(protocol, RECORD)
            assert producer.flush(120) == 0
            rates.append((protocol, count * len(RECORD) / 1e6 / (time.perf_counter() - began)))
    return rates


def main(words: Sequence[str] | None = None) -> None:
    quick = parser("security", __doc__, quick="a tenth of it").parse_args(words).quick
    console = Console()
    costs = decisions(20_000 if quick else 200_000)
    table = Table(title=f"Decisions, {ACLS:,} ACLs")
    for column in ("what", "µs", "ratio"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for what, cost in costs:
        table.add_row(what, f"{cost:,.2f}", f"{cost / costs[0][1]:,.0f}")
    console.print(table)
    rates = streams(20 if quick else 200)
    table = Table(title="Records of 1 KiB, acks=all, one broker")
    for column in ("protocol", "MB/s", "of PLAINTEXT"):
        table.add_column(column, justify="left" if column == "protocol" else "right")
    for protocol, rate in rates:
        table.add_row(protocol, f"{rate:,.0f}", f"{rate / rates[0][1]:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
