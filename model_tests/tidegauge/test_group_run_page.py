"""The page of a simulated group: what coordinators decided, and which time-outs and departures might have come."""

from __future__ import annotations

import html
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tidegauge.__main__ import run
from tidegauge.impl.server.trace import consumer_groups, groups
from tidegauge.model_tests.harness.registry import HARNESS
from tidegauge.model_tests.harness.report.group_run import GroupLife, Moment, besides, life_of
from tidegauge.model_tests.harness.report.group_run_page import first_of, page_of_group_run, space_of
from tidegauge.model_tests.harness.report.run_page import NoSuchStretchError, Stretch
from tidegauge.model_tests.harness.simulation.group_campaign import SimulatedGroup, simulate_group
from tidegauge.model_tests.harness.simulation.group_options import draw_group
from tidegauge.model_tests.harness.simulation.simulated_member import NAME
from tidegauge.model_tests.harness.verification.campaigning import draw_group_with
from tidegauge.model_tests.tidegauge.test_run_page import actions_along, data_of

CLASSIC, MIGRATING = 2, 3
"""Seeds: of a classic group, and of one whose members speak either protocol."""
BUG, BUG_SEED = "kafka_16147", 1
"""A bug that the seed finds at once."""


@cache
def simulated(seed: int) -> SimulatedGroup:
    return simulate_group(draw_group(seed))


@cache
def life(seed: int) -> GroupLife:
    return life_of(simulated(seed).trace, NAME)


def wrong_life() -> GroupLife:
    roles = HARNESS.bug(BUG).roles
    return life_of(simulate_group(draw_group_with(BUG_SEED, BUG), roles, until_wrong=True).trace, NAME)


def data(of: GroupLife, stretch: Stretch) -> dict[str, Any]:
    """What the page's script would read, by names."""
    space = space_of(of, first_of(of, stretch), stretch, {})
    assert space.ending.startswith("Here the page ends: ")  # the group goes on, as far as anybody knows
    return {"places": space.places, "path": space.paths[0], "told": space.constants}


def at_broker(moment: Moment, node: int) -> dict[str, str]:
    return dict(moment.values.get(f"broker {node}", {}))


@pytest.mark.parametrize("seed", [CLASSIC, MIGRATING])
def test_a_group_is_shown_as_its_coordinator_had_it_after_each_decision(seed: int) -> None:
    shown = 0
    for one in life(seed).decided:
        decision = one.event.decision
        if not isinstance(decision, groups.OfGroup | consumer_groups.OfConsumerGroup):
            continue
        values, after = at_broker(one.after, one.event.node), decision.after
        is_consumer = isinstance(after, consumer_groups.GroupSeen)
        if after is None or not after.members or is_consumer != ("epoch" in values):
            continue  # it goes over, or back, with the next decision
        shown += 1
        epoch = after.epoch if isinstance(after, consumer_groups.GroupSeen) else after.generation
        assert values["epoch" if is_consumer else "generation"] == str(epoch)
        assert values["leader epoch"] == str(decision.leader_epoch)
        told = [name for name in values if name.startswith("member ")]
        assert sorted(name[-5:-1] for name in told) == sorted(member.member_id[-4:] for member in after.members)
    assert shown > len(life(seed).decided) // 2


@pytest.mark.parametrize("seed", [CLASSIC, MIGRATING])
def test_every_decision_is_told_that_changes_something_or_refuses_somebody(seed: int) -> None:
    one = life(seed)
    assert not one.wrong
    assert one.decided
    for before, decided in zip(one.moments, one.decided, strict=False):
        refused = any(arrow.target == "members" for arrow in decided.arrows)
        assert before.values != decided.after.values or refused, decided
    of_group = sum(
        isinstance(event.decision, groups.OfGroup | consumer_groups.OfConsumerGroup) for event in simulated(seed).trace
    )
    besides_those = sum(not hasattr(groups, one.name) and not hasattr(consumer_groups, one.name) for one in one.decided)
    assert len(one.decided) - besides_those + one.left_out >= of_group, "of others is told what changes a coordinator"


def test_a_group_of_both_protocols_is_told_in_the_terms_of_each() -> None:
    told = {name for moment in life(MIGRATING).moments for lane in moment.values.values() for name in lane}
    assert {"state", "generation", "epoch", "target of epoch"} <= told
    words = {text for moment in life(MIGRATING).moments for lane in moment.values.values() for text in lane.values()}
    assert any("speaks the classic protocol" in text for text in words)
    assert any("has orders-0 since" in text for text in words)


def test_a_request_and_its_refusal_are_arrows_between_members_and_broker() -> None:
    first = life(CLASSIC).decided[0]
    asked, refused = first.arrows
    assert (asked.source, refused.target) == ("members", "members")
    assert asked.label.endswith(": JoinGroup")
    assert refused.label.endswith(": MEMBER_ID_REQUIRED")


@pytest.mark.parametrize("seed", [CLASSIC, MIGRATING])
def test_a_state_offers_the_time_out_and_the_departure_of_each_member(seed: int) -> None:
    one = life(seed)
    offered = 0
    for moment in one.moments[::7]:
        found = [(name, detail, after) for name, detail, after in besides(moment, one.called)]
        for at in moment.at:
            before = at_broker(moment, at.node)
            for member in (name for name in before if name.startswith("member ")):
                who = member.removeprefix("member ")
                for name, detail, after in found:
                    if name in ("ExpireSession", "ReceiveLeave") and detail == f"{who}, at broker {at.node}":
                        offered += 1
                        assert member not in at_broker(after, at.node)
                        others = {lane: told for lane, told in moment.values.items() if lane != f"broker {at.node}"}
                        assert others.items() <= after.values.items(), "nobody else knows of it"
    assert offered > 10


def test_the_page_leads_along_what_was_decided_and_on_from_what_was_not() -> None:
    stretch = Stretch(None, 3, 20, 60)
    found = data(life(CLASSIC), stretch)
    assert len(found["places"]) == 60
    at, names = 0, []
    for number in found["path"].choices:
        choice = found["places"][at].choices[number]
        names.append(choice.after.action)
        at = choice.target
    assert names == [one.name for one in life(CLASSIC).decided[2:22]]
    beside = [choice.target for place in found["places"][:20] for choice in place.choices[1:] if choice.target]
    assert beside, "who leaves the way finds more to choose"
    assert any(found["places"][target].choices for target in beside)
    assert all(target >= 21 for target in beside), "they lead back to nothing that the run did"
    assert found["told"]["steps here"].startswith("3 to 22 of ")


def test_the_page_of_a_failing_seed_ends_with_the_decision_that_is_wrong() -> None:
    one = wrong_life()
    assert one.wrong.startswith("consumer-groups: the response is Response(epoch=3")
    found = data(one, Stretch(None, None, 5, 1))
    *right, last = (found["places"][number].choices[0] for number in range(5))
    assert not any(choice.broken for choice in right)
    assert [broken.meaning for broken in last.broken] == [one.wrong]
    assert found["path"].name.endswith("until one is no action of the specification")
    assert "until" not in data(one, Stretch(None, 1, 2, 1))["path"].name, "the end is not on a page of the beginning"


def test_a_step_that_is_not_there_is_refused() -> None:
    with pytest.raises(NoSuchStretchError, match=r"step 100000 is behind the end: the group has \d+ steps"):
        first_of(life(CLASSIC), Stretch(None, 100_000, 5, 1))


def test_the_page_is_one_of_the_run_with_its_bug() -> None:
    text = page_of_group_run(
        draw_group_with(BUG_SEED, BUG), Stretch(None, None, 3, 1), "the command", HARNESS.bug(BUG).roles
    )
    assert "is no action of the specification" in text
    assert actions_along(data_of(text)) == [one.name for one in wrong_life().decided[-3:]]


def test_the_command_writes_the_page_and_says_how_to_write_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "group.html"
    words = ["simulate", "--groups", "--seed", str(BUG_SEED), "--bug", BUG, "--page", str(file), "--page-steps", "5"]
    assert run(words) == 1, "the bug is found"
    assert f"page written to {file}: open it in a browser" in capsys.readouterr().out.replace("\n", "")
    told = html.unescape(file.read_text(encoding="utf-8"))
    assert f"<h1>Seed {BUG_SEED}, group {NAME}</h1>" in told
    again = f"tidegauge simulate --groups --seed 1 --bug {BUG} --page {file} --page-steps 5 --page-states 150"
    assert again in told
