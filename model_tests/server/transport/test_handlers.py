"""The tables of handlers: every API that is advertised has a handler, and gets the collaborators that it names."""

from __future__ import annotations

import ast
import errno
import inspect
import os
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from tidegauge.impl.server.broker.collaborators import BrokerCollaborators
from tidegauge.impl.server.broker_handlers import BROKER_HANDLERS
from tidegauge.impl.server.controller.collaborators import ControllerCollaborators
from tidegauge.impl.server.controller.handlers import CONTROLLER_HANDLERS
from tidegauge.impl.server.transport.handlers import (
    Deferred,
    HandlerFunction,
    Handlers,
    Registered,
    collaborators_of,
    loaded,
)
from tidegauge.impl.wire.apis import BROKER_APIS, CONTROLLER_APIS, ApiKey

BY_THE_SERVER = {ApiKey.API_VERSIONS}
"""Broker and controller respond to these themselves."""

TABLES = [
    pytest.param(BROKER_HANDLERS, BrokerCollaborators, id="broker"),
    pytest.param(CONTROLLER_HANDLERS, ControllerCollaborators, id="controller"),
]


def test_every_api_of_a_broker_and_of_the_controller_has_a_handler() -> None:
    assert set(BROKER_HANDLERS) == set(BROKER_APIS) - BY_THE_SERVER
    assert set(CONTROLLER_HANDLERS) == set(CONTROLLER_APIS) - BY_THE_SERVER


@pytest.mark.parametrize(("table", "collaborators"), TABLES)
def test_every_handler_is_an_async_function_of_a_request_and_its_context(
    table: Mapping[ApiKey, Registered], collaborators: type[Any]
) -> None:
    for key, registered in table.items():
        handler = loaded(registered)
        assert inspect.iscoroutinefunction(handler), key.name
        positional = [
            parameter
            for parameter in inspect.signature(handler).parameters.values()
            if parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        ]
        assert len(positional) == 2, key.name


@pytest.mark.parametrize(("table", "collaborators"), TABLES)
def test_the_collaborators_that_a_handler_names_are_the_servers_and_of_the_types_that_it_says(
    table: Mapping[ApiKey, Registered], collaborators: type[Any]
) -> None:
    module = sys.modules[collaborators.__module__]
    made = {name: _types_of(make, module)["return"] for name, make in _properties_of(collaborators).items()}
    given = _types_of(collaborators, module) | made
    for key, registered in table.items():
        handler = loaded(registered)
        types = _types_of(handler, inspect.getmodule(handler))
        wanted = {name: types[name] for name in collaborators_of(handler)}
        assert wanted == {name: given.get(name) for name in wanted}, key.name


@pytest.mark.parametrize(("table", "collaborators"), TABLES)
def test_every_collaborator_is_wanted_by_some_handler(
    table: Mapping[ApiKey, Registered], collaborators: type[Any]
) -> None:
    wanted = {name for registered in table.values() for name in collaborators_of(loaded(registered))}
    assert _names_of(collaborators) == wanted


def _properties_of(collaborators: type[Any]) -> dict[str, Any]:
    """The collaborators that are made when they are first asked for, and how."""
    return {name: one.fget for name, one in vars(collaborators).items() if isinstance(one, property)}


def _names_of(collaborators: type[Any]) -> set[str]:
    """What a handler may name: public fields and properties."""
    fields = {field.name for field in attrs.fields(collaborators) if not field.name.startswith("_")}
    return fields | _properties_of(collaborators).keys()


def _types_of(annotated: object, module: Any) -> dict[str, Any]:
    """The types of an annotated object's fields or parameters, where some are imported for the type checker only."""
    names: dict[str, Any] = dict(vars(module))
    for statement in ast.parse(Path(module.__file__).read_text()).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(statement.body, []), module.__name__, "exec"), names)
    return typing.get_type_hints(annotated, names)


@attrs.frozen
class _Parts:
    number: int


async def _add(request: int, context: Any, *, number: int) -> int:
    return request + number


def test_a_handler_is_bound_once_and_with_what_it_names() -> None:
    made: list[HandlerFunction] = []

    def wrap(handler: HandlerFunction) -> HandlerFunction:
        made.append(handler)
        return handler

    handlers = Handlers({ApiKey.FETCH: _add}, lambda: _Parts(3), wrap)
    assert not made, "nothing is bound before the first request"
    nothing: Any = None
    coroutine: Any = handlers[ApiKey.FETCH](4, nothing)
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    assert stopped.value.value == 7
    assert handlers[ApiKey.FETCH] is handlers[ApiKey.FETCH] is made[0]
    assert len(made) == 1


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_file_of_the_program_that_cannot_be_read_fails_a_request_and_no_disk(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def unreadable(_: Deferred) -> HandlerFunction:
        raise OSError(number, os.strerror(number), "topics.py")

    handlers = Handlers({ApiKey.FETCH: Deferred("apis.topics", "handle")}, lambda: _Parts(3))
    monkeypatch.setattr(Deferred, "load", unreadable)
    with pytest.raises(ImportError, match=r"topics\.py"):
        handlers[ApiKey.FETCH]
    monkeypatch.setattr(Deferred, "load", lambda _: _add)
    assert handlers[ApiKey.FETCH] is handlers[ApiKey.FETCH], "the next request finds it"


def test_a_deferred_handler_that_is_not_there_is_refused() -> None:
    with pytest.raises(ImportError):
        Deferred("apis.nowhere", "handle").load()
    with pytest.raises(AttributeError):
        Deferred("apis.topics", "handle_nothing").load()
