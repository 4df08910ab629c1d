"""Every code block of README.md and docs/ does what its page says."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from tidegauge.model_tests.docs.code_blocks import (
    ROOT,
    Block,
    blocks,
    commands,
    first_line_not_printed,
    pages,
    run_console,
    run_python,
)

BLOCKS = [
    block
    for page in pages()
    for block in blocks(page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8"))
    if block.runs
]


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "python"], ids=str)
def test_python_block_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(block)


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "console"], ids=str)
def test_console_block_ends_and_prints_as_shown(block: Block) -> None:
    run_console(block)


def only_block(text: str) -> Block:
    (block,) = blocks("page.md", text)
    return block


def test_blocks_are_found_with_their_lines_and_marks() -> None:
    text = (
        "# Page\n\n```python\nx = 1\n```\n\n"
        "<!-- no-run -->\n```python\n…\n```\n"
        "<!-- exit: 1 -->\n```console\n$ make\n```\n"
    )
    first, second, third = blocks("page.md", text)
    assert (first.line, first.text, first.runs) == (4, "x = 1\n", True)
    assert not second.runs
    assert (third.language, third.runs, third.exit_status) == ("console", True, 1)


def test_a_failing_python_block_fails_with_the_line_of_its_page() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_python(only_block("# Page\n\n```python\nx = 1\ny = x / 0\n```\n"))
    assert caught.traceback[-1].lineno == 4  # counted from 0


def test_a_block_with_top_level_await_runs_under_trio() -> None:
    run_python(only_block("```python\nimport trio\nawait trio.sleep(0)\nassert trio.current_time() > 0\n```\n"))
    with pytest.raises(AssertionError):
        run_python(only_block("```python\nimport trio\nawait trio.sleep(0)\nassert False\n```\n"))


def test_a_block_may_continue_the_one_before_it() -> None:
    first, second, third = blocks(
        "page.md",
        "```python\nx = 1\n```\n"
        "<!-- continues -->\n```python\nx += 1\n```\n"
        "<!-- continues -->\n```python\nassert x == 2\n```\n",
    )
    assert (first.before, second.before, third.before) == (None, first, second)
    run_python(third)
    with pytest.raises(NameError):
        run_python(attrs.evolve(third, before=None))


def test_console_commands_are_split_from_their_output() -> None:
    block = only_block("```console\n$ tidegauge check \\\n  'a file'  # comment\nok\n$ make test\n3 passed\n```\n")
    first, second = commands(block)
    assert (first.words, first.shown) == (("tidegauge", "check", "a file"), ("ok",))
    assert (second.words, second.shown) == (("make", "test"), ("3 passed",))


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        (("states 39,619", "done in 0.8 s"), None),
        (("states 7",), None),
        (("…", "done in …"), None),
        (("done in 0.8 s", "states 7"), "states 7"),
        (("stotes 7",), "stotes 7"),
    ],
)
def test_shown_output_is_compared_line_by_line(shown: tuple[str, ...], missing: str | None) -> None:
    assert first_line_not_printed(shown, "seed 1\n  states   104,488\ndone in 12.25 s\n") == missing


def test_a_console_command_that_ends_otherwise_fails() -> None:
    block = only_block("```console\n$ python -c 'raise SystemExit(3)'\n```\n")
    with pytest.raises(AssertionError, match="exit status 3, not 0"):
        run_console(block)
    run_console(only_block("<!-- exit: 3 -->\n```console\n$ python -c 'raise SystemExit(3)'\n```\n"))
