"""The wheel, installed in a project of somebody else's: it takes one name in site-packages and does what README says.

The wheel is built from a copy of what a build reads, so that nothing an earlier build left behind gets into it. The
environment is fresh, and sees the dependencies of the one that runs the tests; `--no-index` keeps pip off the network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from mypy.modulefinder import FindModuleCache, SearchPaths

from tidegauge.model_tests.docs.code_blocks import ROOT, blocks

READ_BY_THE_BUILD = (
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "compilation",
    "impl",
    "linearizability",
    "model_tests",
    "spark_check",
    "spec",
    "tidegauge",
)
OWN_MODULES = ("compilation", "impl", "linearizability", "model_tests", "spark_check", "spec")
"""Names of the project's own packages, which are names of rooms too."""

PATIENCE_S = 60.0


@attrs.frozen
class Project:
    """A project with packages named like the rooms, and an environment into which the wheel is installed."""

    folder: Path
    python: Path
    site_packages: Path

    def run(self, *words: str | Path, status: int = 0) -> str:
        """Run a command in the project's folder and return what it printed; AssertionError for another exit status."""
        return run(words, self.folder, status)


def run(words: Sequence[str | Path], folder: Path, status: int = 0) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == status, f"{' '.join(map(str, words))}: exit status {done.returncode}\n{done.stdout}"
    return done.stdout


def pip(*words: str | Path, folder: Path) -> None:
    run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for name in READ_BY_THE_BUILD:
        if (ROOT / name).is_dir():
            left_out = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=left_out)
        else:
            shutil.copy(ROOT / name, source)
    built = tmp_path_factory.mktemp("wheel")
    pip("wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "-w", built, ".", folder=source)
    (path,) = built.iterdir()
    return path


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False)
    scheme = {"base": str(environment), "platbase": str(environment)}
    python = Path(sysconfig.get_path("scripts", "venv", scheme), "python")
    site_packages = Path(sysconfig.get_path("purelib", "venv", scheme))
    pip("--python", python, "install", "-q", "--no-compile", "--no-deps", "--no-index", wheel, folder=environment)
    # Python searches the folders in a .pth file but does not read theirs: an editable install there stays hidden.
    dependencies = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site_packages / "dependencies.pth").write_text("\n".join(dependencies), encoding="utf-8")
    folder = tmp_path_factory.mktemp("project")
    for name in OWN_MODULES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("OWNER = 'the project'\n", encoding="utf-8")
    return Project(folder, python, site_packages)


def test_the_wheel_takes_one_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tidegauge"}


def test_the_wheel_has_all_rooms_and_no_test(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    parts = {name.split("/")[2] for name in names if name.startswith("tidegauge/model_tests/")}
    assert parts == {"bugs", "harness"}
    assert not [name for name in names if Path(name).name.startswith("test_") or Path(name).name == "conftest.py"]
    rooms = ("compilation", "impl", "linearizability", "model_tests/bugs", "model_tests/harness", "spark_check", "spec")
    for room in rooms:
        files = [path for path in (ROOT / room).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        missing = {f"tidegauge/{path.relative_to(ROOT).as_posix()}" for path in files} - names
        assert not missing, f"{room}: not in the wheel"


def test_the_installation_leaves_other_names_alone(project: Project) -> None:
    found = {path.name for path in project.site_packages.iterdir()}
    assert {name for name in found if not name.endswith((".dist-info", ".pth"))} == {"tidegauge"}
    check = "import {0}; assert {0}.OWNER == 'the project'"
    project.run(project.python, "-c", "import tidegauge; " + "; ".join(check.format(name) for name in OWN_MODULES))


@pytest.mark.parametrize("title", ["Embed a cluster", "Check histories"])
def test_readme_examples_run_in_the_project(project: Project, title: str) -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    examples = [block for block in blocks("README.md", section) if block.language == "python"]
    assert examples, f"README has no example under {title!r}"
    for example in examples:
        script = project.folder / "example.py"
        script.write_text(f"import impl, spec\n{example.text}", encoding="utf-8")
        project.run(project.python, script)


def test_the_pytest_plugin_serves_the_projects_tests(project: Project) -> None:
    test = project.folder / "test_orders.py"
    test.write_text(
        "import spec\n\n\ndef test_orders(kafka_cluster):\n"
        "    kafka_cluster.create_topic('orders')\n"
        "    assert kafka_cluster.leader('orders') == 0\n",
        encoding="utf-8",
    )
    assert "1 passed" in project.run(project.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", test)


def test_the_commands_run_in_the_project(project: Project) -> None:
    command = project.python.with_name("tidegauge")
    assert "verify" in project.run(command, "--help")
    assert "reached" in project.run(command, "explore", "replication", "brokers=1", "max_records=1")
    counterexample = ROOT / "model_tests" / "counterexamples" / "high_watermark_by_majority.json"
    assert "on the cores: " in project.run(command, "replay", counterexample, status=1)
    assert "--out" in project.run(project.python, "-m", "tidegauge.spark_check", "--help")


def test_the_report_finds_its_style_and_script(project: Project) -> None:
    folders = (
        "harness, judge = files('tidegauge.model_tests.harness.report'), files('tidegauge.linearizability.report')"
    )
    check = "assert all(file.read_text() for file in (harness / 'page.css', harness / 'page.js', judge / 'base.css'))"
    project.run(project.python, "-c", f"from importlib.resources import files; {folders}; {check}")


def test_type_checkers_follow_the_names(project: Project) -> None:
    """PEP 561: the package says that it is typed, and its modules are found below it."""
    installed = str(project.site_packages)
    cache = FindModuleCache(SearchPaths((str(project.folder),), (), (installed,), ()), None, None)
    for module in ("tidegauge", "tidegauge.impl.cluster.cluster", "tidegauge.spec.kernel.explorer"):
        assert str(cache.find_module(module)).startswith(installed)
    assert str(cache.find_module("spec")).startswith(str(project.folder))
