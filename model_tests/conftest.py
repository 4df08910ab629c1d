"""Hypothesis profiles, the --deep switch, the order of the files and captured log lines, for every room.

HYPOTHESIS_PROFILE chooses the profile: "ci" (the default) draws the same examples on every run, "nightly" draws new
ones and many more. Tests marked `deep` are long exhaustive searches; they run only with --deep. Other searches have an
ordinary `amount` and one for --deep (`amounts.py`).
"""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from tidegauge.model_tests.amounts import amount, choose_deep
from tidegauge.model_tests.harness.repeatable_examples import ignore_constants_of_modules

_PROFILE_VARIABLE = "HYPOTHESIS_PROFILE"
_HERE = Path(__file__).parent
_LONGEST = (
    "tidegauge/test_verifying.py",
    "spark_check/test_job.py",
    "docs/test_code_blocks.py",
    "spark_check/test_catalyst.py",
    "spark_check/test_exploring.py",
    "spark_check/test_huge.py",
    "spark_check/test_judging.py",
    "spark_check/test_streaming.py",
    "simulation/test_consumer_group_validation.py",
    "spec/published/test_tlc.py",
    "simulation/test_exactly_once.py",
    "spec/kernel/fast/test_in_phases.py",
    "spec/kernel/fast/test_search.py",
    "lockstep/test_cluster.py",
    "zoo/test_shortest_counterexamples.py",
    "harness_tests/test_verification.py",
    "spark_check/test_session.py",
    "simulation/test_liveness.py",
    "spec/replication/extensions/test_reassignment.py",
    "storage/test_log_model.py",
)
"""Files that take long: they run first, so that none is left to one worker while the others idle."""
_TOGETHER = {
    "Spark": (
        "docs/test_code_blocks.py",
        *(f"spark_check/test_{name}.py" for name in ("catalyst", "exploring", "huge", "job", "judging", "streaming")),
        *(f"spark_check/test_{name}.py" for name in ("damaged_parquet", "delta", "hdfs", "iceberg")),
    ),
    "groups": tuple(
        f"simulation/test_{name}.py"
        for name in (
            "consumer_group_validation",
            "group_migration_validation",
            "group_validation",
            "groups",
            "offset_validation",
        )
    ),
    "mutants": tuple(f"mutants/test_{name}.py" for name in ("operators", "rooms", "trials")),
}
"""Files that one worker runs, for they share what takes many seconds: a warm JVM, runs of groups, all mutants."""
SECONDS_TO_END = 5.0
_NEED_EVERY_REPORT = ("durations", "xmlpath")
"""Options with which pytest says how long a test was set up, or writes it down when it is taken down."""
_FORMER_RUN = pytest.StashKey[bool]()
_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("nightly", max_examples=2_000, deadline=None, print_blob=True, suppress_health_check=_QUIET)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="also run the long searches (marked deep)")


def pytest_configure(config: pytest.Config) -> None:
    profile = os.environ.get(_PROFILE_VARIABLE, "ci")
    if profile not in ("ci", "nightly"):
        raise pytest.UsageError(f"{_PROFILE_VARIABLE}={profile!r} is not a profile: use ci or nightly")
    if tells_little(config):
        config.pluginmanager.register(FewReports())
    config.stash[_FORMER_RUN] = choose_deep(config.getoption("--deep"))
    _load(profile)
    ignore_constants_of_modules()
    gc.set_threshold(500_000, 20, 100)  # what lives on is no garbage: modules, tests, and most of what a run makes


def _load(profile: str) -> None:
    """Let tests that do not say how many examples they want have the profile's number."""
    examples = amount(50, deep=100)
    settings.register_profile(
        "ci",
        max_examples=examples,
        derandomize=True,
        deadline=None,
        print_blob=True,
        suppress_health_check=_QUIET,
    )
    settings.load_profile(profile)


def pytest_unconfigure(config: pytest.Config) -> None:
    """A run in a test of a run: the outer one goes on as it was."""
    if _FORMER_RUN in config.stash:
        choose_deep(config.stash[_FORMER_RUN])
        _load(os.environ.get(_PROFILE_VARIABLE, "ci"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Look for no garbage meanwhile: nearly all that is made lives on, and each look goes over all of it."""
    gc.disable()
    try:
        _import_from_different_files_on(session)
        return (yield)
    finally:
        gc.enable()


def _import_from_different_files_on(session: pytest.Session) -> None:
    """Have the workers of a whole run import its files from different ones on: each compiles what the others find then.

    In a fresh clone all of them would compile all files. What cannot be imported is told by the collection.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or [Path(arg).resolve() for arg in session.config.args] != [_HERE]:
        return
    files = sorted(_HERE.rglob("test_*.py"))
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in (*files[first:], *files[:first]):
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(_HERE.parent).with_suffix("").parts))


def tells_little(config: pytest.Config) -> bool:
    """Whether this is a worker of a run in which nobody asks for all reports."""
    is_asked = config.getoption("verbose", 0) > 0 or any(config.getoption(name, None) for name in _NEED_EVERY_REPORT)
    return hasattr(config, "workerinput") and not is_asked


class FewReports:
    """In a worker: of a test that passes it says so once, and not how it was set up and taken down as well.

    Each report is packed, sent and unpacked, which takes as long as a small test does.
    """

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed or report.sections:
                item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Spread files over workers, and those that share something as if they were one."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    scheduling = LoadFileScheduling(config, log)
    file_of = scheduling._split_scope

    def scope_of(nodeid: str) -> str:
        file = file_of(nodeid)
        return next((name for name, files in _TOGETHER.items() if file.endswith(files)), file)

    scheduling._split_scope = scope_of
    return scheduling


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> pytest.Item | None:
    """Make one item of a long search that is not run, not one for each of its parameters, unless one is asked for."""
    if collector.config.getoption("--deep") or any("[" in arg for arg in collector.config.args):
        return None
    if not isinstance(collector, pytest.Module | pytest.Class) or isinstance(obj, type):
        return None
    marks = getattr(obj, "pytestmark", ())
    is_deep = any(mark.name == "deep" for mark in marks) or collector.get_closest_marker("deep") is not None
    if not is_deep or not collector.istestfunction(obj, name):
        return None
    return pytest.Function.from_parent(collector, name=name)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Never look for garbage again among what is loaded by now, which is all modules and thousands of tests."""
    _freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Nor among what the tests of a file leave behind, or have made garbage of again, as those of mutants do."""
    ran = yield
    if nextitem is not None and nextitem.path != item.path:
        _freeze()
    return ran


def _freeze() -> None:
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_place)
    if config.getoption("--deep"):
        return
    skip = pytest.mark.skip(reason="a long search; run with --deep")
    for item in items:
        if item.get_closest_marker("deep") is not None:
            item.add_marker(skip)


def _place(item: pytest.Item) -> int:
    """Where the item's file runs: among the longest, or after them."""
    return _place_of(item.path)


@cache
def _place_of(path: Path) -> int:
    name = path.relative_to(_HERE).as_posix() if path.is_relative_to(_HERE) else ""
    return _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """A command that a test ran in this process writes log lines no longer: its standard error is closed by now."""
    logger = logging.getLogger("tidegauge")
    for handler in [handler for handler in logger.handlers if type(handler) is logging.StreamHandler]:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True


@pytest.fixture(autouse=True)
def no_client_is_left() -> Iterator[None]:
    """A test closes its clients: one of kafka-python goes on to connect under all tests that come after.

    One that cannot be closed, or is refused as it is made, belongs into a process of its own.
    """
    before = set(_client_threads())
    yield
    left = set(_client_threads()) - before
    for thread in left:
        thread.join(SECONDS_TO_END)
    assert not any(thread.is_alive() for thread in left), "the test has left a client of kafka-python behind"


def _client_threads() -> Iterator[threading.Thread]:
    return (thread for thread in threading.enumerate() if thread.name.startswith("kafka-io"))


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Our own lines alone: neither those of a client library's thread that an earlier test has left behind, nor those
    of a cluster that serves many tests and runs in a thread of its own."""
    shared = {thread.ident for thread in threading.enumerate() if thread.name.startswith("tidegauge-")}
    caplog.handler.addFilter(logging.Filter("tidegauge"))
    caplog.handler.addFilter(lambda record: record.thread not in shared)
    return caplog
