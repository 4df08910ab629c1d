"""Who gets which API served on which listener: the table of docs/security.md, by rule.

The listeners are those of a cluster with SASL and an authorizer without ACLs, and the one of an open cluster. A peer is
anonymous, a client (who has a user's password where there is SASL), or a node (who has the cluster's secret).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

import attrs
from kio.schema.errors import ErrorCode

from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.wire.apis import BROKER_APIS, CONTROLLER_APIS, ApiKey
from tidegauge.model_tests.server.apis.access_rules import CASES, Case, api_title


class Listener(Enum):
    """A listener, by the words of the table."""

    CLIENTS = "`SASL_PLAINTEXT`, with an authorizer"
    INTERNAL = "`INTERNAL`"
    CONTROLLER = "the controller's"
    PLAINTEXT = "`PLAINTEXT`, without one"


class Who(Enum):
    ANONYMOUS = "anonymous"
    CLIENT = "client"
    NODE = "node"


CLOSED: Final = "closed"
"""The connection is closed without a response."""
NO_LOGIN: Final = "no login"
"""The peer cannot authenticate."""
SERVED: Final = "served"
ABSENT: Final = "–"
"""The API is not served on the listener, to anybody."""

LOGIN: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
"""They are how a peer logs in, and no rows."""


@attrs.frozen
class Row:
    """A request."""

    api: ApiKey
    case: Case | None = None
    """None: a request with nothing in it."""

    def __str__(self) -> str:
        variant = f", {self.case.variant}" if self.case is not None and self.case.variant == BY_A_BROKER else ""
        return f"{api_title(self.api)}{variant}"


BY_A_BROKER: Final = "by a broker"


def rows() -> Iterator[Row]:
    """Each API once; those that brokers send as well as clients do twice."""
    for api in sorted({*BROKER_APIS, *CONTROLLER_APIS} - {*LOGIN}):
        cases = [case for case in CASES if case.api is api]
        chosen = [*cases[:1], *(case for case in cases[1:] if case.variant == BY_A_BROKER)]
        yield from [Row(api, case) for case in chosen] or [Row(api)]


def expected(row: Row, listener: Listener, who: Who) -> str:
    """What comes of the request."""
    served = CONTROLLER_APIS if listener is Listener.CONTROLLER else {*BROKER_HANDLERS, ApiKey.API_VERSIONS}
    if row.api not in served:
        return ABSENT
    if listener is Listener.PLAINTEXT:
        return SERVED
    if who is Who.ANONYMOUS:
        return SERVED if row.api is ApiKey.API_VERSIONS else CLOSED
    if (who is Who.NODE) == (listener is Listener.CLIENTS):
        return NO_LOGIN
    if who is Who.NODE or row.case is None:
        return SERVED
    return refusals(row.case)[0].name.upper()


def refusals(case: Case) -> list[ErrorCode]:
    """The errors of a request of somebody who may do nothing; the first is the one that is told first."""
    return [need.error for need in case.requirements]


def listener_table() -> str:
    """The rules as a table in Markdown: for each listener what comes of the request of each peer."""
    lines = [
        f"| request | {' | '.join(listener.value for listener in Listener)} |",
        "|---" * (len(Listener) + 1) + "|",
    ]
    for row in rows():
        cells = [_cell([expected(row, listener, who) for who in Who]) for listener in Listener]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(outcomes: list[str]) -> str:
    shown = [f"`{one}`" if one.isupper() else one for one in outcomes]
    return shown[0] if len(set(shown)) == 1 else " · ".join(shown)
