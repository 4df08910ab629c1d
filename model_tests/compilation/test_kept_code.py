"""What numba keeps of a function is used again as long as nothing changed that is compiled into it, and no longer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import attrs
import pytest

from tidegauge.linearizability.compiled_code import columns, fixed
from tidegauge.linearizability.history import History, Kind
from tidegauge.model_tests import tidy

pytest.importorskip("numba", reason="numba is not installed")

HEAD = "from tidegauge.compilation.kept_code import compiled_and_kept\n"
FILES = {
    "inner.py": HEAD
    + """
STEP = 1

@compiled_and_kept()
def more(x):
    return x + STEP
""",
    "middle.py": HEAD
    + """
from {package} import inner

LEAST = (1, 2)

@compiled_and_kept(_nrt=False)
def twice(x):
    return 2 * inner.more(x)
""",
    "outer.py": HEAD
    + """
from {package}.middle import LEAST, twice

@compiled_and_kept(nogil=True)
def asked(x):
    return twice(x) + LEAST[0]
""",
}
"""By name: a file of a package. `asked(20)` is 43."""


class Package:
    """A package of three files, each of which has the one before compiled into it."""

    def __init__(self, folder: Path) -> None:
        self.name = f"kept_{folder.name}"
        self.folder = folder / self.name
        self.folder.mkdir()
        for name, text in FILES.items():
            (self.folder / name).write_text(text.replace("{package}", self.name), encoding="utf-8")

    def edit(self, name: str, before: str, after: str) -> None:
        text = (self.folder / name).read_text(encoding="utf-8")
        assert text.count(before) == 1
        (self.folder / name).write_text(text.replace(before, after), encoding="utf-8")

    def forget(self) -> None:
        """Have no module of it, as a new process has none."""
        for name in [name for name in sys.modules if name.partition(".")[0] == self.name]:
            del sys.modules[name]
        for file in self.folder.glob("__pycache__/*.pyc"):  # an edit in the same second is not noticed otherwise
            file.unlink()
        invalidate_caches()

    def outer(self) -> Any:
        """The function of the last file, as a new process has it."""
        self.forget()
        return import_module(f"{self.name}.outer").asked


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    monkeypatch.syspath_prepend(tmp_path)
    made = Package(tmp_path)
    yield made
    made.forget()


EDITS = {
    "the function itself": ("outer.py", "+ LEAST", "- LEAST", 41),
    "a function that it calls": ("middle.py", "2 *", "3 *", 64),
    "a function that that one calls, in a module": ("inner.py", "x + STEP", "x - STEP", 39),
    "a constant of its own file": ("middle.py", "(1, 2)", "(5, 2)", 47),
    "a constant two files away": ("inner.py", "STEP = 1", "STEP = 2", 45),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_of_what_is_compiled_into_it_is_noticed(edit: tuple[str, str, str, int], package: Package) -> None:
    name, before, after, expected = edit
    assert package.outer()(20) == 43
    package.edit(name, before, after)
    assert package.outer()(20) == expected


def test_what_is_kept_is_used_again(package: Package) -> None:
    first = package.outer()
    assert first(20) == 43
    assert not first.stats.cache_hits
    again = package.outer()
    assert again(20) == 43
    assert again.stats.cache_hits
    assert not again.stats.cache_misses


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("at", [0, 9, 300, -40, -1])
def test_a_damaged_file_is_compiled_again_and_replaced(kind: str, at: int, package: Package) -> None:
    assert package.outer()(20) == 43
    files = [*package.folder.glob(f"__pycache__/outer.*.{kind}")]
    assert len(files) == 1
    content = bytearray(files[0].read_bytes())
    content[min(at, len(content) - 1)] ^= 0x55
    files[0].write_bytes(content)
    again = package.outer()
    assert again(20) == 43
    assert not again.stats.cache_hits
    mended = package.outer()
    assert mended(20) == 43
    assert mended.stats.cache_hits


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("size", [0, 20, 100])
def test_a_file_that_was_cut_is_compiled_again(kind: str, size: int, package: Package) -> None:
    assert package.outer()(20) == 43
    for file in package.folder.glob(f"__pycache__/*.{kind}"):
        file.write_bytes(file.read_bytes()[:size])
    assert package.outer()(20) == 43


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_where_a_folder_is_in_a_files_place_it_is_compiled_each_time(kind: str, package: Package) -> None:
    assert package.outer()(20) == 43
    for file in package.folder.glob(f"__pycache__/outer.*.{kind}"):
        file.unlink()
        file.mkdir()
    for _ in range(2):
        again = package.outer()
        assert again(20) == 43
        assert not again.stats.cache_hits


def test_a_disk_without_room_keeps_nothing_and_ends_nothing(package: Package) -> None:
    asked = package.outer()
    folder = package.folder / "__pycache__"
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.write_text("no folder", encoding="utf-8")
    assert asked(20) == 43
    assert folder.read_text(encoding="utf-8") == "no folder"


def test_without_a_folder_to_write_to_it_is_compiled_each_time(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.write_text("", encoding="utf-8")
    (package.folder / "__pycache__").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere / "below"))
    asked = package.outer()
    assert asked(20) == 43
    assert asked.signatures


def test_another_option_is_noticed(package: Package) -> None:
    assert package.outer()(20) == 43
    package.edit("middle.py", "_nrt=False", "error_model='numpy'")
    again = package.outer()
    assert again(20) == 43
    assert not again.stats.cache_hits


def test_code_of_the_explorer_is_kept_so() -> None:
    kernel, tables = (import_module(f"tidegauge.spec.kernel.fast.{name}") for name in ("kernel", "trie_tables"))
    assert_kept_so(kernel.expanded, kernel.added, tables.walked)


def test_code_of_the_checker_is_kept_so() -> None:
    log, transactions = (import_module(f"tidegauge.linearizability.{name}compiled") for name in ("", "transactions."))
    assert_kept_so(log.screen, log.count, log.are_sound, transactions.suspicious)


def assert_kept_so(*functions: Any) -> None:
    stamps = [str(each._cache._cache_file._source_stamp) for each in functions]
    assert stamps[0] != stamps[-1]
    assert all(len(stamp) == 64 for stamp in stamps)


def test_nothing_else_has_numba_keep_what_it_compiles() -> None:
    """Of its own files a damaged one ends the process."""
    compilers = {"njit", "jit", "vectorize", "guvectorize", "cfunc", "stencil", "generated_jit"}
    using = {
        module.path
        for module in tidy.modules()
        for _, name in module.imports
        if name == "numba" or name in {f"numba.{compiler}" for compiler in compilers}
    }
    assert using == {"compilation/kept_code.py"}


CHECKER = tidy.ROOT / "linearizability" / "compiled_soundness.py"


@pytest.mark.parametrize("at", [9, 2_000, -300])
def test_damaged_code_of_the_checker_is_compiled_again(at: int, package: Package) -> None:
    """The history's record has a place in the log, and then none."""
    (package.folder / "outer.py").write_text(CHECKER.read_text(encoding="utf-8") + "\nasked = are_sound\n", "utf-8")
    written = History(1)
    row = written.invoke(kind=Kind.PRODUCE, process=0, call=0, values=[1], acks=-1)
    written.ok(row, returned=5, offset=0)
    rows = written.operations()
    told = [attrs.evolve(rows, offset=rows.offset + change) for change in (0, -2)]

    def verdicts(sound: Any) -> list[bool]:
        heads = [tuple(map(fixed, (ops.history, ops.index, ops.partition, ops.isolation))) for ops in told]
        return [bool(sound(*head, columns(ops))) for head, ops in zip(heads, told, strict=True)]

    assert verdicts(package.outer()) == [True, False]
    (file,) = package.folder.glob("__pycache__/outer.*.nbc")
    content = bytearray(file.read_bytes())
    content[at] ^= 0x55
    file.write_bytes(content)
    again = package.outer()
    assert verdicts(again) == [True, False]
    assert not again.stats.cache_hits
