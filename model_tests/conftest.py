"""Hypothesis profiles and the --deep switch, for every room.

HYPOTHESIS_PROFILE chooses the profile: "ci" (the default) draws the same examples on every run, "nightly" draws new
ones and many more. Tests marked `deep` are long exhaustive searches; they run only with --deep.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tidegauge.model_tests.harness.repeatable_examples import ignore_constants_of_modules

_PROFILE_VARIABLE = "HYPOTHESIS_PROFILE"
_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True, suppress_health_check=_QUIET)
settings.register_profile("nightly", max_examples=2_000, deadline=None, print_blob=True, suppress_health_check=_QUIET)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="also run the long searches (marked deep)")


def pytest_configure(config: pytest.Config) -> None:
    profile = os.environ.get(_PROFILE_VARIABLE, "ci")
    if profile not in ("ci", "nightly"):
        raise pytest.UsageError(f"{_PROFILE_VARIABLE}={profile!r} is not a profile: use ci or nightly")
    settings.load_profile(profile)
    ignore_constants_of_modules()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--deep"):
        return
    skip = pytest.mark.skip(reason="a long search; run with --deep")
    for item in items:
        if item.get_closest_marker("deep") is not None:
            item.add_marker(skip)
