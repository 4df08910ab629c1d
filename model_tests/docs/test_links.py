"""Every link of README.md, CONTRIBUTING.md and docs/ leads somewhere, and names what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.model_tests.docs.code_blocks import ROOT
from tidegauge.model_tests.docs.links import Link, linked_pages, links, problem

LINKS = [link for page in linked_pages() for link in links(page)]

README = ROOT / "README.md"


def test_links_lead_somewhere_and_name_what_is_there() -> None:
    problems = [
        f"{link.page.relative_to(ROOT)}:{link.line}: {found}" for link in LINKS if (found := problem(link)) is not None
    ]
    assert not problems, "\n" + "\n".join(problems)


@pytest.mark.parametrize(
    ("text", "target", "found"),
    [
        ("nowhere", "docs/nowhere.md", "docs/nowhere.md does not exist"),
        ("a heading", "docs/history.md#nowhere", "history.md has no heading #nowhere"),
        ("here", "#nowhere", "README.md has no heading #nowhere"),
        ("`Nothing`", "spec/kernel/machine.py", "spec/kernel/machine.py does not define Nothing"),
        ("`Machine.nothing`", "spec/kernel/machine.py", "spec/kernel/machine.py does not define Machine.nothing"),
        ("`explore.step`", "spec/kernel/explorer.py", "spec/kernel/explorer.py does not define explore.step"),
        ("`Machine.step`", "spec/kernel/machine.py", None),
        ("`explore()`", "spec/kernel/explorer.py", None),
        ("`Replication.name`", "spec/replication/machine.py", None),
        ("`machine.py`", "spec/kernel/machine.py", None),
        ("the explorer", "spec/kernel/explorer.py", None),
        ("columns", "docs/history.md#columns", None),
    ],
)
def test_a_link_is_checked(text: str, target: str, found: str | None) -> None:
    assert problem(Link(README, 1, text, target)) == found


def test_links_in_code_blocks_and_to_the_web_are_left_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n[web](https://kafka.apache.org)\n```python\nx = [f](a)\n```\n[one](two.md)\n")
    assert [(link.line, link.text, link.target) for link in links(page)] == [(6, "one", "two.md")]
    assert problem(Link(page, 6, "one", "two.md")) == "two.md does not exist"
    assert problem(Link(page, 6, "top", "#page")) is None


def test_every_page_of_the_documentation_is_linked_from_the_readme() -> None:
    linked = {link.target.partition("#")[0] for link in LINKS if link.page == README}
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages <= linked, f"not linked: {sorted(pages - linked)}"
