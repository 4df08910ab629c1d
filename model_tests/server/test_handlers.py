"""The registries of handlers: every API that is advertised has one, and what is deferred is there."""

from __future__ import annotations

import inspect

import pytest

from tidegauge.impl.server.broker.handlers import HANDLERS
from tidegauge.impl.server.controller.requests import CONTROLLER_HANDLERS
from tidegauge.impl.server.transport.deferred import Deferred
from tidegauge.impl.wire.apis import BROKER_APIS, CONTROLLER_APIS, ApiKey

BY_THE_SERVER = {ApiKey.API_VERSIONS}
"""Answered by broker and controller themselves."""


def test_every_api_of_a_broker_and_of_the_controller_has_a_handler() -> None:
    assert set(HANDLERS) == set(BROKER_APIS) - BY_THE_SERVER
    assert set(CONTROLLER_HANDLERS) == set(CONTROLLER_APIS) - BY_THE_SERVER


@pytest.mark.parametrize("registry", [HANDLERS, CONTROLLER_HANDLERS], ids=["broker", "controller"])
def test_what_is_deferred_is_an_async_function_of_three(registry: dict[ApiKey, object]) -> None:
    for key, registered in registry.items():
        handler = registered.handler if isinstance(registered, Deferred) else registered
        assert inspect.iscoroutinefunction(handler), key.name
        assert len(inspect.signature(handler).parameters) == 3, key.name
