"""Send this package to the executors, so that they need nothing but Python with numpy and pyarrow.

What the driver runs is what they run: a file that Spark adds precedes what is installed there. attrs goes along; it is
pure Python too.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from atexit import register
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES = ("tidegauge", "attr", "attrs")
ROOMS = ("spark_check", "linearizability", "compilation")
"""The parts of this package that executors import."""
EXPLORING = (*ROOMS, "spec")
"""The same, to explore specifications."""

_shipped: set[str] = set()
"""Applications that have the package."""


def ship(spark: SparkSession, rooms: Sequence[str] = ROOMS) -> None:
    """Add the package to the session's application, unless its executors are in this process. Done once for each."""
    connected = type(spark).__module__.startswith("pyspark.sql.connect")
    if not connected and (spark.sparkContext.master or "").split("[")[0] == "local":
        return
    application = f"{id(spark) if connected else spark.sparkContext.applicationId} {rooms}"
    if application in _shipped:
        return
    folder = tempfile.mkdtemp(prefix="spark_check-")
    register(shutil.rmtree, folder, ignore_errors=True)
    archive = pack(Path(folder, f"tidegauge-for-executors-{'-'.join(rooms)}.zip"), rooms)
    if connected:
        spark.addArtifacts(str(archive), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(archive))
    _shipped.add(application)


def pack(archive: Path, rooms: Sequence[str] = ROOMS) -> Path:
    """Write these parts of the package, and attrs, to a zip file; also when they are in one (`--py-files`)."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in PACKAGES:
            for name, source in _sources(files(package), package, rooms):
                packed.writestr(name, source.read_bytes())
    return archive


def _sources(folder: Traversable, name: str, rooms: Sequence[str]) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        below = f"{name}/{entry.name}"
        if entry.is_file() and entry.name.endswith(".py"):
            yield below, entry
        elif entry.is_dir() and (name != "tidegauge" or entry.name in rooms):
            yield from _sources(entry, below, rooms)
