"""Send this package to the executors, so that they need nothing but Python with numpy and pyarrow.

What the driver runs is what they run: a file that Spark adds precedes what is installed there. attrs goes along; it is
pure Python too.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from atexit import register
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("tidegauge", "attr", "attrs")
ROOMS = ("spark_check", "linearizability")
"""The parts of this package that executors import."""

_shipped: set[str] = set()
"""Applications that have the package."""


def ship(spark: SparkSession) -> None:
    """Add the package to the session's application, unless its executors are in this process. Done once for each."""
    connected = type(spark).__module__.startswith("pyspark.sql.connect")
    if not connected and (spark.sparkContext.master or "").split("[")[0] == "local":
        return
    application = str(id(spark)) if connected else spark.sparkContext.applicationId
    if application in _shipped:
        return
    folder = tempfile.mkdtemp(prefix="spark_check-")
    register(shutil.rmtree, folder, ignore_errors=True)
    archive = pack(Path(folder, "tidegauge-for-executors.zip"))
    if connected:
        spark.addArtifacts(str(archive), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(archive))
    _shipped.add(application)


def pack(archive: Path) -> Path:
    """Write the package, and attrs, to a zip file; also when they are in one (`--py-files`)."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in PACKAGES:
            for name, source in _sources(files(package), package):
                packed.writestr(name, source.read_bytes())
    return archive


def _sources(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        below = f"{name}/{entry.name}"
        if entry.is_file() and entry.name.endswith(".py"):
            yield below, entry
        elif entry.is_dir() and (name != "tidegauge" or entry.name in ROOMS):
            yield from _sources(entry, below)
