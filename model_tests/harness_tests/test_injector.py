"""A fault that ends early leaves broker 0 to the next ones."""

from __future__ import annotations

from unittest.mock import AsyncMock, Mock, patch

import pytest
import trio

from tidegauge.model_tests.harness.simulation.faults import Injector
from tidegauge.model_tests.harness.simulation.options import DAMAGED, Fault, Options


async def fails_half_way(injector: Injector) -> None:
    """The broker is damaged, and does not come back."""
    async with injector._alone_with_damaged(Fault.LOST_LOG, lambda: True) as is_there:
        assert is_there
        assert DAMAGED in injector._busy
        raise OSError("it does not start")


def test_broker_0_is_free_again_after_a_fault_that_fails_half_way() -> None:
    injector = Injector(Mock(), Options(seed=1))
    injector.disk = Mock()
    with (
        patch.object(injector, "_comes", AsyncMock(return_value=True)),
        pytest.raises(OSError, match="does not start"),
    ):
        trio.run(fails_half_way, injector)
    assert DAMAGED not in injector._busy


def test_nobody_waits_any_more_for_a_moment_that_failed() -> None:
    injector = Injector(Mock(), Options(seed=1))
    with (
        patch.object(injector, "_comes", AsyncMock(side_effect=OSError("no disk"))),
        pytest.raises(OSError, match="no disk"),
    ):
        trio.run(fails_half_way, injector)
    assert not injector._awaited
