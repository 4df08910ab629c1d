"""A metadata log in memory that commits at once, for a controller's core without a shell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tidegauge.impl.controller.controller import Controller
from tidegauge.impl.controller.decision import ControllerEffect, MetadataAppended, Proposal
from tidegauge.impl.metadata.records import MetadataRecord
from tidegauge.model_tests.harness.cores.decisions import (
    check_decision,
    check_group,
    check_sessions,
    check_taking_over,
)

T = TypeVar("T")


class MemoryMetadataLog:
    """The records, and the three steps that the shell would take with a proposal."""

    def __init__(self, records: Sequence[MetadataRecord] = ()) -> None:
        self._records = list(records)
        self._effects: list[ControllerEffect] = []

    @property
    def end_offset(self) -> int:
        return len(self._records)

    def read(self, offset: int) -> Sequence[MetadataRecord]:
        """The records from `offset` on."""
        return self._records[offset:]

    def elect(self, controller: Controller, now_ms: int) -> None:
        """Make a new controller, which knows nothing yet, the active one."""
        controller.replay(self._records)
        check_taking_over(controller, self._records, now_ms)
        self.commit(controller, controller.take_over(controller.controller_epoch + 1, now_ms))

    def commit(self, controller: Controller, proposal: Proposal[T]) -> T:
        """Commit and apply a proposal, and check what it says of itself; returns its response."""
        check_decision(controller.image, proposal)
        if proposal.records:
            check_group(controller, proposal)
        self._records.extend(proposal.records)
        end_offset = controller.image.offset + len(proposal.records)  # tests let a former controller go on
        effects = controller.apply(proposal)
        appended = [MetadataAppended(end_offset)] if proposal.records else []
        assert effects == [*proposal.elections, *appended], f"{effects} follow"
        check_sessions(controller)
        self._effects += effects
        return proposal.response

    def take_effects(self) -> list[ControllerEffect]:
        """The effects since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects
