"""Where `tidegauge explore` keeps states: in memory, in files beyond a limit of it, in a folder with checkpoints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter

from tidegauge.commands.outputs import check_folder
from tidegauge.commands.workers import check_workers
from tidegauge.exits import Unusable, in_one_line
from tidegauge.spec.kernel.explorer import Engine
from tidegauge.spec.kernel.machine import Machine
from tidegauge.spec.kernel.storage import CheckpointError, Storage, StorageError

if TYPE_CHECKING:
    from tidegauge.model_tests.harness.storage.folder import Folder

CHECKPOINT_SECONDS = 60.0
"""Between two checkpoints, unless the user says otherwise."""
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}


@attrs.frozen
class Storing:
    """The options of a search that keeps its states in files."""

    memory: Annotated[
        str | None, Parameter(help="Keep states in files beyond so much memory: a number of k, m or g, such as 2g.")
    ] = None
    checkpoint: Annotated[Path | None, Parameter(help="Save checkpoints in this folder, for --resume.")] = None
    resume: Annotated[Path | None, Parameter(help="Go on from the checkpoint in this folder.")] = None
    checkpoint_seconds: Annotated[float, Parameter(help="Save a checkpoint after so many seconds.")] = (
        CHECKPOINT_SECONDS
    )

    @property
    def named(self) -> str:
        """The options that are given, as words of a command."""
        given = {"--memory": self.memory, "--checkpoint": self.checkpoint, "--resume": self.resume}
        return " ".join(f"{name} {value}" for name, value in given.items() if value is not None)


def chosen_engine(given: Storing, engine: str, workers: int) -> Engine | None:
    """The engine of that name, None for `auto`. Raises Unusable for options with which no states can be kept."""
    check_workers(workers)
    if given.checkpoint is not None and given.resume is not None:
        raise Unusable("--resume goes on saving checkpoints where it resumes: leave out --checkpoint")
    if not given.checkpoint_seconds >= 0:
        raise Unusable(f"--checkpoint-seconds {given.checkpoint_seconds}: give a number of at least 0")
    if given.checkpoint_seconds != CHECKPOINT_SECONDS and given.checkpoint is None and given.resume is None:
        raise Unusable(
            f"--checkpoint-seconds {given.checkpoint_seconds}: name the folder, by --checkpoint DIR or --resume DIR"
        )
    if given.memory is not None:
        size_of(given.memory)
    if given.named and engine == "plain":
        raise Unusable(f"{given.named}: only the fast engine keeps states in files; leave out --engine plain")
    if given.checkpoint is not None:
        check_folder("--checkpoint", given.checkpoint)
    if given.resume is not None:
        check_resumable(given.resume)
    return None if engine == "auto" else Engine(engine)


def check_resumable(folder: Path) -> None:
    """Raises Unusable where no search can go on: it saves its checkpoints there."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "is not there"
        raise Unusable(f"--resume {folder} {what}: name the folder of an earlier --checkpoint")
    check_folder("--resume", folder, "a search saves where it resumes; copy the folder to where it can be written")


@contextmanager
def storage_for(machine: Machine[Any], given: Storing, **how: object) -> Iterator[Storage | None]:
    """The storage that the options ask for; None where states are kept in memory. `how` is part of what is searched.

    Raises Unusable for a checkpoint that cannot be resumed and, in the block, for states that cannot be kept.
    """
    if not given.named:
        yield None
        return
    limit = None if given.memory is None else size_of(given.memory)
    try:
        with ExitStack() as opened:
            try:
                folder = opened.enter_context(_opened(machine, given, limit, how))
            except OSError as error:
                raise StorageError(f"{in_one_line(error)}; name another folder") from error
            yield folder
    except (CheckpointError, StorageError) as error:
        raise Unusable(f"{given.named}: {error}") from error


def size_of(text: str) -> int:
    """Bytes, of a size such as 512m or 2g; a number without a unit is refused. Raises Unusable."""
    found = re.fullmatch(r"([0-9]{1,12})([kmg])b?", text, re.IGNORECASE)
    if found is None or not int(found[1]):
        raise Unusable(f"--memory {text}: give a number of k, m or g (KiB, MiB, GiB), such as 512m or 2g")
    return int(found[1]) * _UNITS[found[2].lower()]


def _opened(
    machine: Machine[Any], given: Storing, memory: int | None, how: dict[str, object]
) -> AbstractContextManager[Folder]:
    try:
        from tidegauge.model_tests.harness.storage import folder
        from tidegauge.model_tests.harness.storage.identity import identity_of
    except ImportError as error:
        raise Unusable(f"states are kept in files only where the system has locks of files ({error})") from error
    if given.resume is not None:
        return folder.resumed(given.resume, identity_of(machine, **how), memory, given.checkpoint_seconds)
    if given.checkpoint is not None:
        return folder.begun(given.checkpoint, identity_of(machine, **how), memory, given.checkpoint_seconds)
    return folder.passing(memory)
