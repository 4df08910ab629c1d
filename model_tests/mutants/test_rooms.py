"""Every file with a rule is in a room, so that its mutants are tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tidegauge.model_tests.mutants.operators import mutants_of
from tidegauge.model_tests.mutants.patching import ROOT, source_module
from tidegauge.model_tests.mutants.rings import LOCKSTEP_TESTS
from tidegauge.model_tests.mutants.rooms import NO_PROTOCOL, ROOMS, Room
from tidegauge.model_tests.tidy import CORES

WITHOUT_ROOM: Final[Mapping[str, str]] = {
    "spec/bugs": "a bug is a mutant itself",
    "spec/kernel": "it explores protocols, and is none",
    "spec/registry.py": "a list of machines",
}


def files_with_rules() -> Iterator[str]:
    """The files of the specification and of the pure cores of which operators make mutants."""
    for root in (ROOT / "spec", *(ROOT / name.replace(".", "/") for name in CORES)):
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root.with_suffix(".py")]:
            file = path.relative_to(ROOT).as_posix()
            if not file.startswith(tuple(WITHOUT_ROOM)) and next(mutants_of(source_module(file)), None) is not None:
                yield file


def test_every_rule_of_the_specification_and_of_a_pure_core_is_in_a_room() -> None:
    in_rooms = {file for room in ROOMS for file in room.files}
    without = [file for file in files_with_rules() if file not in in_rooms]
    assert without == [], "give these files a room in model_tests/mutants/rooms.py"


def test_a_function_is_in_one_room() -> None:
    for file in {file for room in ROOMS for file in room.files}:
        for function in source_module(file).functions():
            having = [room.name for room in ROOMS if file in room.files and room.changes(function)]
            assert len(having) == 1, f"{file} {function.qualname}: {having}"


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.name))
def test_a_room_names_files_and_tests_that_are_there(room: Room) -> None:
    files, tests = room.files, room.tests
    assert files
    assert all((ROOT / file).exists() for file in files)
    assert all((ROOT / test).exists() or list(ROOT.glob(f"{test}*.py")) for test in tests)


def test_what_is_named_one_by_one_is_there() -> None:
    for test in LOCKSTEP_TESTS:
        file, _, name = test.partition("::")
        assert (f"def {name}(" if name else "def test_") in (ROOT / file).read_text("utf-8"), test
    for path, beginnings in NO_PROTOCOL.items():
        names = [function.qualname for function in source_module(path).functions()]
        for beginning in beginnings:
            assert any(name.startswith(beginning) for name in names), f"{path}: {beginning}"
    assert all(Path(ROOT / path).exists() for path in WITHOUT_ROOM)
