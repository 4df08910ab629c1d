"""The report: every step and replica is there, nothing is loaded, nothing untrusted becomes markup."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import attrs
import pytest

from tidegauge.linearizability.report.markup import Html, element
from tidegauge.model_tests.harness.counterexamples.files import FOLDER, load
from tidegauge.model_tests.harness.counterexamples.replay import Level, replay
from tidegauge.model_tests.harness.report import Report, render, write
from tidegauge.model_tests.harness.report.model import (
    Anomaly,
    Arrow,
    CampaignRun,
    Catch,
    ControllerView,
    Counterexample,
    Coverage,
    Explored,
    Passage,
    Record,
    ReplicaView,
    Stage,
    Step,
    Verdict,
)
from tidegauge.model_tests.harness.report.replayed import report_of
from tidegauge.model_tests.harness.report.replication import counterexample
from tidegauge.spec.bugs import BUGS
from tidegauge.spec.kernel.explorer import explore
from tidegauge.spec.registry import REGISTRY

HOSTILE = "<script>alert('x')</script> & \"quoted\" <img src=http://example.com/x onerror=alert(1)>"
VOID = {"meta", "br", "hr", "input", "wbr"}


class Page(HTMLParser):
    """The elements of a page, and whether they are properly nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"style", "script"}:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def of_class(self, *names: str) -> list[dict[str, str | None]]:
        wanted = set(names)
        return [found for _, found in self.elements if wanted <= set((found.get("class") or "").split())]


def replica(broker: int, **values: Any) -> ReplicaView:
    log = (Record(0, "v0"),)
    return attrs.evolve(ReplicaView(broker, "follower of 0", log, 1, 0), **values)


CONTROLLER = ControllerView(leader=0, leader_epoch=0, partition_epoch=0, isr=(0, 1))
STEPS = (
    Step("initial state", "", (replica(0, role="leader", isr=(0, 1)), replica(1)), CONTROLLER),
    Step(
        "ApplyMetadata",
        "broker 1",
        (replica(0, role="leader", isr=(0, 1)), replica(1, log=(), high_watermark=0)),
        CONTROLLER,
        arrows=(
            Arrow("controller", "broker 1", "metadata"),
            Arrow("broker 1", "broker 0", "fetch from 0", Passage.SENT, 1),
        ),
    ),
)
FIGURE = Counterexample(
    "a loss", "Replication", "StrongIsr", "says what", {"hw": "1"}, STEPS, "tidegauge replay x.json"
)


def report(**changes: Any) -> Report:
    run = CampaignRun(3, {"loss": "2 %"}, {"crash": 2, "pause": 0}, 120, 4, 0, Verdict.HOLDS, Verdict.HOLDS)
    whole = Report(
        title="tidegauge verify",
        version="1.2.3",
        started="2026-01-02 03:04 UTC",
        seed=7,
        options={"quick": "no"},
        stages=(Stage("explore", "3 brokers", "99 states", Verdict.HOLDS, 1.5),),
        reproduce="tidegauge verify --seed 7",
        explored=(
            Explored(
                machine="Replication",
                constants={"brokers": "3"},
                distinct=1234,
                generated=5678,
                depth=9,
                complete=True,
                rate=41_000.0,
                invariants=("StrongIsr",),
                coverage=(Coverage("Append", 10, 20, 5), Coverage("Crash", 0, 0, 0)),
                reached={"a record is committed": 4},
                unreached=("two leaders",),
            ),
        ),
        campaign=(run, attrs.evolve(run, seed=4, verdict=Verdict.VIOLATED, anomalies=(Anomaly("lost-write", "v7"),))),
        bug="KAFKA-1211",
        catches=(Catch("explorer", Verdict.CAUGHT, "after 9 actions", 0.4),),
        counterexample=FIGURE,
    )
    return attrs.evolve(whole, **changes)


def test_every_part_of_a_run_is_on_the_page() -> None:
    text = Page(render(report())).text
    for expected in (
        "seed 7",
        "99 states",
        "1,234",
        "Never enabled: Crash",
        "two leaders not reached",
        "lost-write : v7",
    ):
        assert expected in text, expected


def test_what_a_run_does_not_have_is_left_out() -> None:
    stages = (Stage("explore", "3 brokers", "99 states", Verdict.HOLDS),)
    replayed = Page(render(report(seed=None, started=None, seconds=None, stages=stages, campaign=(), catches=())))
    heads = {"seed", "started", "took", "time"}
    assert heads & set(Page(render(report(seconds=3.0))).words) == heads
    assert heads & set(replayed.words) == set()
    assert "None" not in replayed.text


def test_a_replay_shows_the_seed_of_its_file_if_it_has_one() -> None:
    loaded = load(FOLDER / "minimal_isr.json")
    again = replay(loaded, Level.SPEC)
    for seed in (None, 0, 7):
        found = attrs.evolve(loaded, found=attrs.evolve(loaded.found, seed=seed))
        assert report_of(found, [again], "tidegauge replay x.json", "1.2.3").seed == seed


def test_the_page_is_nested_properly_and_has_each_id_once() -> None:
    ids = Counter(found["id"] for _, found in Page(render(report())).elements if "id" in found)
    assert ids
    assert max(ids.values()) == 1


def test_the_page_loads_nothing() -> None:
    text = render(report())
    assert not re.search(r"https?:|//\w|url\(|@import|<link|<iframe|<img", text)
    assert {tag for tag, found in Page(text).elements if "src" in found} == set()
    policy = [found["content"] for tag, found in Page(text).elements if tag == "meta" and "http-equiv" in found]
    assert policy
    assert (policy[0] or "").startswith("default-src 'none'")


def test_links_stay_on_the_page_and_lead_somewhere() -> None:
    page = Page(render(report()))
    targets = {f"#{found['id']}" for _, found in page.elements if "id" in found}
    links = {found.get("href") for tag, found in page.elements if tag == "a"}
    assert links
    assert links <= targets


def test_untrusted_text_is_escaped_wherever_it_turns_up() -> None:
    hostile_step = Step(HOSTILE, HOSTILE, (replica(0, role=HOSTILE, log=(Record(0, HOSTILE),)), replica(1)), CONTROLLER)
    hostile_run = CampaignRun(
        3, {HOSTILE: HOSTILE}, {HOSTILE: 1}, 1, 0, 0, Verdict.VIOLATED, None, (Anomaly(HOSTILE, HOSTILE),)
    )
    text = render(
        report(
            title=HOSTILE,
            options={HOSTILE: HOSTILE},
            stages=(Stage(HOSTILE, HOSTILE, HOSTILE, Verdict.VIOLATED),),
            campaign=(hostile_run,),
            bug=HOSTILE,
            catches=(Catch(HOSTILE, Verdict.CAUGHT, HOSTILE),),
            counterexample=attrs.evolve(FIGURE, title=HOSTILE, values={HOSTILE: HOSTILE}, steps=(hostile_step,)),
        )
    )
    tags = Counter(tag for tag, _ in Page(text).elements)
    assert tags["script"] == 1
    assert tags["img"] == 0
    assert not any(name.startswith("on") for _, found in Page(text).elements for name in found)


def test_a_failed_stage_fails_the_report() -> None:
    good, bad = report(), report(stages=(Stage("check", "", "", Verdict.VIOLATED),))
    assert good.holds
    assert not bad.holds
    assert not Page(render(report(campaign=()))).of_class("pill", "violated")
    assert len(Page(render(attrs.evolve(bad, campaign=()))).of_class("pill", "violated")) == 2  # the run, and its stage


def test_the_diagram_has_a_band_for_each_step_and_a_card_for_each_replica() -> None:
    page = Page(render(report()))
    assert [found["id"] for found in page.of_class("band") if "id" in found] == ["step-0", "step-1"]
    assert len(page.of_class("card", "replica")) == 2 * len(STEPS)
    assert len(page.of_class("card", "controller")) == len(STEPS)


def test_what_a_step_changed_is_marked_and_what_it_cut_stays_visible() -> None:
    page = Page(render(report()))
    assert [found["title"] for found in page.of_class("changed") if "title" in found] == ["was 1", "was 1"]  # LEO, HW
    cut = [found for found in page.of_class("record", "cut") if "title" in found]
    assert [found["title"] for found in cut] == ["offset 0, leader epoch 0"]
    assert len(page.of_class("card", "same")) == 2  # in the second step: the controller, and broker 0


def test_arrows_run_between_the_middles_of_their_lanes() -> None:
    page = Page(render(report()))
    right, left = page.of_class("arrow")
    assert (right["class"], right["style"]) == ("arrow right delivered", "grid-column: 2 / 6")
    assert (left["class"], left["style"], left["data-message"]) == ("arrow left sent", "grid-column: 4 / 6", "1")


def test_an_arrow_to_a_lane_that_is_not_there_is_refused() -> None:
    lost = attrs.evolve(STEPS[1], arrows=(Arrow("broker 1", "broker 7", "fetch"),))
    with pytest.raises(ValueError, match="'broker 7'"):
        render(report(counterexample=attrs.evolve(FIGURE, steps=(STEPS[0], lost))))


def test_a_report_is_written_whole(tmp_path: Path) -> None:
    path = write(report(), tmp_path / "new" / "report")
    assert path.read_text(encoding="utf-8") == render(report())
    assert [each.name for each in path.parent.iterdir()] == ["index.html"]


def test_elements_escape_text_and_attributes_but_not_markup() -> None:
    assert element("b", "<", Html("<i></i>"), title='"') == '<b title="&quot;">&lt;<i></i></b>'
    assert element("input", disabled=True, id=None) == "<input disabled>"


def test_a_trace_of_the_replication_spec_becomes_a_diagram_with_every_message() -> None:
    bug = BUGS["kafka_1211"]
    violation = explore(bug.machine()).violations[0]
    figure = counterexample(bug.machine(), violation, title=bug.title, replay="tidegauge replay x.json")
    assert [step.action for step in figure.steps[1:]] == [action.name for action in violation.trace.actions]
    page = Page(render(report(counterexample=figure)))
    assert len(page.of_class("card", "replica")) == 3 * len(violation.trace)
    arrows = [arrow for step in figure.steps for arrow in step.arrows]
    sent = [arrow.message for arrow in arrows if arrow.passage is Passage.SENT]
    ended = [arrow.message for arrow in arrows if arrow.passage is not Passage.SENT and arrow.message is not None]
    assert len(sent) == len(set(sent))
    assert ended
    assert set(ended) <= set(sent)
    assert any("acknowledged" in arrow.label and arrow.target == "client" for arrow in arrows)
    assert page.of_class("record", "cut")
    assert figure.explanation


def drawn(bug: str) -> Report:
    """The report of a bug's counterexample at the specification."""
    counterexample = load(FOLDER / f"{bug}.json")
    return report_of(counterexample, (replay(counterexample, Level.SPEC),), "tidegauge replay x.json", "1.0")


def test_a_transactions_life_is_drawn_over_coordinator_and_partitions_with_what_readers_see() -> None:
    figure = drawn("kafka_17754").counterexample
    assert figure is not None
    arrows = {(step.action, arrow.passage): arrow for step in figure.steps for arrow in step.arrows}
    delayed, arrived = arrows["DelayEnd", Passage.SENT], arrows["ReceiveEnd", Passage.DELIVERED]
    assert delayed.message == arrived.message is not None, "the copy that arrives is the one that was put aside"
    assert (arrived.source, arrived.target, arrived.label) == (
        *("producer 0", "coordinator of id 0"),
        "late: commit T0, epoch 0",
    )
    states = [{party.lane: party.values for party in step.parties} for step in figure.steps]
    shown = [(one["coordinator of id 0"]["state"], one["partition 0"]) for one in states]
    open_one = next(partition for state, partition in shown if state == "prepare commit")
    ended = next(partition for state, partition in shown if state == "complete commit")
    expected = {"HW": "1", "LSO": "0", "read_committed": "nothing", "read_uncommitted": "0"}
    assert {name: open_one[name] for name in expected} == expected
    assert ended["log"] == "0: T0, 1: commit of 0, epoch 1"
    assert (ended["LSO"], ended["read_committed"]) == ("2", "0")
    assert "may it begin? T1, epoch 1" in Page(render(drawn("kafka_17754"))).text


@pytest.mark.parametrize("bug", [bug.name for bug in REGISTRY.registration("transactions").bugs])
def test_every_counterexample_of_transactions_is_drawn_with_a_lane_for_each_party(bug: str) -> None:
    figure = drawn(bug).counterexample
    assert figure is not None
    lanes = [party.lane.rstrip("0123456789") for party in figure.steps[0].parties]
    assert lanes == sorted(lanes, key=["producer ", "coordinator of id ", "partition "].index)
    assert len(set(lanes)) == 3
    page = Page(render(drawn(bug)))
    assert sum(tag == "section" and "band" in (names.get("class") or "") for tag, names in page.elements) == len(
        figure.steps
    )
