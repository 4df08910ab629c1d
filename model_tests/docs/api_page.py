"""docs/apis.md, made from the code: `python -m tidegauge.model_tests.docs.api_page` writes it, a test checks it."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any, Final

from tidegauge.impl.metadata.features import FEATURES
from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.server.controller.handlers import CONTROLLER_HANDLERS
from tidegauge.impl.server.transport.handlers import loaded
from tidegauge.impl.wire.apis import (
    BROKER_APIS,
    CONTROLLER_APIS,
    INTER_BROKER_APIS,
    PRODUCE_SERVED_FROM,
    ApiKey,
    canonical_version,
    request_class,
)

PAGE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "apis.md"

HEAD: Final = """\
# APIs and versions

`python -m tidegauge.model_tests.docs.api_page` writes this page from the code; a test fails when it is stale. Another
sends every version of every API to a broker over TCP. What differs from Apache Kafka is in
[differences.md](differences.md).

A broker advertises the APIs and versions of one release, Kafka 4.3, and no others, so that clients know what they talk
to. "Controller" means that a broker authorizes the request and forwards it; "none" that nothing of the kind exists here
yet, and that the broker responds as a Kafka cluster without any of it would.

"""


def page() -> str:
    """The page as it should be."""
    return "".join(
        f"{line}\n"
        for line in (
            *HEAD.splitlines(),
            "| key | API | versions | carried out by | what it does |",
            "|---|---|---|---|---|",
            *(_row(key) for key in BROKER_APIS if key in BROKER_HANDLERS or key is ApiKey.API_VERSIONS),
            "",
            f"Produce 0 to {PRODUCE_SERVED_FROM - 1} are advertised, for librdkafka looks at them, and refused.",
            "",
            "## Between brokers and the controller",
            "",
            "| key | API | versions | what it does |",
            "|---|---|---|---|",
            *(
                f"| {int(key)} | {_name(key)} | {_range(served)} | {_sentence(CONTROLLER_HANDLERS[key])} |"
                for key, served in INTER_BROKER_APIS.items()
                if key in CONTROLLER_HANDLERS
            ),
            "",
            "## Features (KIP-584)",
            "",
            "| feature | supported levels | in force |",
            "|---|---|---|",
            *(
                f"| {name} | {feature.lowest}–{feature.highest} | {feature.default or 'no'} |"
                for name, feature in FEATURES.items()
            ),
        )
    )


def _row(key: ApiKey) -> str:
    by, what = _served(key)
    return f"| {int(key)} | {_name(key)} | {_range(BROKER_APIS[key])} | {by} | {what} |"


def _served(key: ApiKey) -> tuple[str, str]:
    """(Where the API is carried out, what it does)."""
    if key is ApiKey.API_VERSIONS:
        return "broker", "What is served here, and which features are in force."
    if key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        return "broker", "Authentication, on listeners with SASL; elsewhere there is nothing to do: ILLEGAL_SASL_STATE."
    handler = loaded(BROKER_HANDLERS[key])
    refusal = inspect.getclosurevars(handler).nonlocals.get("error")
    if refusal is not None:
        return "none", f"{refusal.name.upper()} for everything that the request names."
    if ".absent_" in handler.__module__:
        return "none", _sentence(handler)
    if key in CONTROLLER_APIS and key is not ApiKey.FETCH:
        documented = handler if handler.__doc__ else CONTROLLER_HANDLERS[key]
        return "controller", _sentence(documented)
    return "broker", _sentence(handler)


def _sentence(handler: Any) -> str:
    """The first sentence of what a handler says of itself."""
    said = inspect.getdoc(loaded(handler))
    assert said, f"{handler} says nothing about itself"
    paragraph = " ".join(said.split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z])", paragraph)[0].replace("|", r"\|")


def _name(key: ApiKey) -> str:
    """Kafka's name of an API."""
    return request_class(key, canonical_version(key)).__name__.removesuffix("Request")


def _range(versions: tuple[int, int]) -> str:
    lowest, highest = versions
    return str(lowest) if lowest == highest else f"{lowest}–{highest}"


def write() -> None:
    """Bring the page up to date."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write()
    sys.stdout.write(f"{PAGE.name} is written\n")
