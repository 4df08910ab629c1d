"""A Spark session for one machine: no web UI, no log output, workers with this process's Python, limited memory.

A program that has a session does not need this module: every function of this package takes the session as an argument.
`cluster_session` is for a master that somebody else runs, and for programs that `spark-submit` started: it changes none
of their settings. Executors run the Python of `spark.pyspark.python` or PYSPARK_PYTHON, and get this package from the
driver (shipping).
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from tidegauge.spark_check.errors import CannotRun
from tidegauge.spark_check.java import java_home
from tidegauge.spark_check.starting import TRACEBACK, JvmOutput, NoSpark, check_master, reason_of, unreachable

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["BadMemory", "NoSpark", "check_pyspark", "cluster_session", "heap", "local_session", "submitted"]

logger = logging.getLogger("tidegauge.spark_check")

NAME = "tidegauge spark_check"
CORES = 2
TRIES = 3
"""How often Spark runs a task that fails; with plain `local[2]` it does not retry."""

JVM_MEMORY = "640m"
"""Heap of the JVM. It holds units and summaries, and operations only when unclustered input is shuffled."""

LEAST_MEMORY = 512
"""MiB; Spark refuses to start with less than 450 for itself."""
_MIB = {"m": 1, "g": 1024}

SETTINGS: Mapping[str, str] = {
    # The JVM runs for seconds and computes little: the second compiler would cost more than it saves.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.worker.reuse": "true",
    # A worker takes as much memory for each unit as for the one before it. Where it keeps some of that, the system need
    # not hand out pages of zeros again, which took an eighth of its time. The first is for Arrow's allocator
    # (milliseconds), the others for that of numpy (bytes).
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "1000",
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.log.level": "ERROR",
}


class BadMemory(CannotRun):
    """A heap size with which a JVM with Spark cannot start."""


def heap(memory: str) -> str:
    """Normalise a heap size such as 640m or 2g. Raises BadMemory if Spark cannot start with it."""
    found = re.fullmatch(r"([0-9]{1,9})([mg])b?", memory, re.IGNORECASE)
    if found is None:
        raise BadMemory(f"memory is {memory!r}: give a whole number of m or g, such as {JVM_MEMORY} or 2g")
    mebibytes = int(found[1]) * _MIB[found[2].lower()]
    if mebibytes < LEAST_MEMORY:
        raise BadMemory(f"memory is {memory!r}: Spark starts with no less than {LEAST_MEMORY}m")
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    if mebibytes > machine:
        raise BadMemory(f"memory is {memory!r}: this machine has {machine}m, give less")
    return f"{found[1]}{found[2].lower()}"


def check_pyspark() -> None:
    """Import what a session needs of pyspark. Raises NoSpark if that fails."""
    try:
        for module in ("pyspark", "pyspark.java_gateway", "pyspark.sql"):
            import_module(module)
    except ImportError as error:
        raise NoSpark(f"pyspark cannot be imported ({error}). Way out: pip install '.[spark]' in a clone") from error


def local_session(
    cores: int = CORES, memory: str = JVM_MEMORY, name: str = NAME, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """The session of this process, or a new one on this machine with `cores` workers.

    Raises BadMemory for an impossible heap, NoJava without a Java, NoSpark if pyspark is missing or does not start.
    """
    memory = heap(memory)
    check_pyspark()
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    ours = {
        **SETTINGS,
        "spark.master": f"local[{cores},{TRIES}]",
        "spark.app.name": name,
        "spark.driver.memory": memory,
    }
    conf = SparkConf().setAll([*{**ours, **(settings or {})}.items()])
    check_master("spark.master", conf.get("spark.master") or "")
    _prepare_environment()
    return _start(conf, is_quiet=True)


def submitted() -> bool:
    """Whether `spark-submit` started this process: its master and settings hold."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def cluster_session(master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A session at `master`, or at the master of `spark-submit`. Raises NoJava, and NoSpark if it does not start."""
    chosen = {**(settings or {}), **({} if master is None else {"spark.master": master})}
    if "spark.master" in chosen:
        check_master("spark.master" if master is None else "master", chosen["spark.master"])
    check_pyspark()
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.ERROR)
    if submitted() or SparkContext._active_spark_context is not None:
        try:
            return SparkSession.builder.config(map=dict(chosen)).getOrCreate()
        except Exception as error:
            raise NoSpark(f"Spark did not start: {reason_of(error)}") from error
    os.environ["JAVA_HOME"] = str(java_home())
    if chosen.get("spark.master", "").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if why := unreachable(chosen.get("spark.master", "")):
        logger.warning("master %s cannot be reached (%s); Spark tries for a minute", chosen["spark.master"], why)
    return _start(SparkConf().setAll([*{"spark.app.name": NAME, **chosen}.items()]), is_quiet=False)


def _start(conf: SparkConf, *, is_quiet: bool) -> SparkSession:
    """Start a JVM, or take that of a session that was stopped. What it prints is dropped if it `is_quiet`."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    printed = JvmOutput()
    try:
        gateway = SparkContext._gateway  # of a session that was stopped: the JVM outlives it
        if gateway is None:
            stderr = {"stderr": printed.descriptor}
            gateway = launch_gateway(conf=conf, popen_kwargs=stderr)  # type: ignore[no-untyped-call]
        session = SparkSession(SparkContext(conf=conf, gateway=gateway))
    except Exception as error:
        lines = printed.lines()
        for line in (*lines, *str(error).splitlines()):
            logger.debug("%s", line)
        raise NoSpark(
            f"Spark did not start on the Java in {os.environ['JAVA_HOME']}: {reason_of(error, lines)}. Way out: look "
            f"at the master and the settings; JAVA_HOME chooses another Java; {TRACEBACK}=1 shows all that the JVM says"
        ) from error
    printed.let_go(goes_on=not is_quiet)
    return session


def _prepare_environment() -> None:
    """Set what the JVM reads when it starts, and the workers when they are forked."""
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging.getLogger("py4j").setLevel(logging.ERROR)
