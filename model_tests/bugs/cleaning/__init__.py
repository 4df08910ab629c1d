"""The zoo's part on the cleaning of logs with transactions, in the implementation."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.model_tests.bugs.bug import CoreBug
from tidegauge.model_tests.bugs.cleaning import kafka_14055
from tidegauge.model_tests.harness.cores.log_cleaning import CleaningRoles

CLEANING_BUGS: Mapping[str, CoreBug[CleaningRoles]] = {kafka_14055.BUG.name: kafka_14055.BUG}
"""By name, in the order of `spec.bugs.cleaning`."""

__all__ = ["CLEANING_BUGS", "CoreBug"]
