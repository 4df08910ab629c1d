"""A page to walk through a state space by hand: choose what happens, see what it changes, go back.

It is one HTML file that needs no network. States, steps and drawings are data in it, each piece of markup once; the
script puts them together as the sequence diagram of what was chosen, or as one lane of it. The way that was taken is in
the address behind `#`, so that a link shows it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tidegauge.linearizability.report.document import definitions, document
from tidegauge.linearizability.report.markup import Html, element
from tidegauge.model_tests.harness.report.diagram import arrow, card, header, lanes_of, legend
from tidegauge.model_tests.harness.report.model import Step
from tidegauge.model_tests.harness.report.page import own_file
from tidegauge.model_tests.harness.report.state_space import Broken, Choice, Place, StateSpace
from tidegauge.spec.kernel.explaining import told


def render_walk(space: StateSpace, *, title: str, reproduce: str) -> str:
    """The page as one HTML document; `reproduce` is the command that writes it again."""
    lanes = lanes_of(tuple(_steps(space)))
    pieces = _Pieces()
    data = {
        "states": [_place(place, lanes, pieces) for place in space.places],
        "initial": space.initial,
        "paths": [
            {"name": one.name, "initial": one.initial, "choices": one.choices, "cycle": one.cycle}
            for one in space.paths
        ],
        "pieces": pieces.all,
        "ending": space.ending,
    }
    size = f"{len(space.places):,}" + ("" if space.is_whole else ", those nearest: more are reachable")
    return document(
        title,
        element(
            "header",
            element("div", element("h1", title), class_="title"),
            definitions({"machine": space.machine, **space.constants, "states here": size}),
            element("p", "The same again: ", element("code", reproduce)),
        ),
        element("noscript", element("p", "This page needs its script: allow it, or open the file in another browser.")),
        element("main", _controls(space, lanes), _diagram(space, lanes), class_="walk"),
        element("script", _embedded(data), type="application/json", id="state-space"),
        element("script", Html(own_file("walk.js"))),
        styles=own_file("page.css") + own_file("walk.css"),
    )


def _controls(space: StateSpace, lanes: tuple[str, ...]) -> Html:
    ways = [element("option", path.name, value=number) for number, path in enumerate(space.paths)]
    starts = [element("option", f"initial state {number}", value=number) for number in range(len(space.initial))]
    return element(
        "aside",
        element(
            "div",
            element("button", "Back", type="button", id="back", title="Backspace"),
            element("button", "Start over", type="button", id="start-over"),
            element("select", starts, id="initial", aria_label="initial state") if len(starts) > 1 else None,
            class_="buttons",
        ),
        element(
            "label",
            "Show a trace: ",
            element("select", element("option", "…", value=""), ways, id="paths"),
        )
        if ways
        else None,
        element(
            "label",
            "Show of it: ",
            element(
                "select",
                element("option", "all lanes", value=""),
                [element("option", each) for each in lanes],
                id="lane",
            ),
        ),
        element("h2", "What may happen now"),
        element("p", "Keys 1 to 9 choose, Backspace goes back.", class_="hint"),
        element("ol", id="choices"),
        class_="choose",
    )


def _diagram(space: StateSpace, lanes: tuple[str, ...]) -> Html:
    return element(
        "div",
        element("div", legend(tuple(_steps(space))), class_="legend"),
        element(
            "div",
            header(lanes),
            element("div", id="bands"),
            class_="sequence",
            style=f"--lanes: {len(lanes)}",
        ),
        class_="diagram",
    )


def _steps(space: StateSpace) -> Iterable[Step]:
    for place in space.places:
        yield place.step
        yield from (choice.after for choice in place.choices)


class _Pieces:
    """Pieces of markup and text by number, each once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, piece: str) -> int:
        """Of a piece, which is new or was there before."""
        number = self._numbers.setdefault(piece, len(self.all))
        if number == len(self.all):
            self.all.append(piece)
        return number


def _place(place: Place, lanes: tuple[str, ...], pieces: _Pieces) -> dict[str, Any]:
    return {
        "cards": [pieces.number(card(lane, None, place.step)) for lane in lanes],
        "broken": [_broken(one, pieces) for one in place.broken],
        "choices": [_choice(choice, lanes, pieces) for choice in place.choices],
    }


def _choice(choice: Choice, lanes: tuple[str, ...], pieces: _Pieces) -> dict[str, Any]:
    moved = "".join(arrow(lanes, each) for each in choice.after.arrows)
    return {
        "action": pieces.number(choice.after.action),
        "detail": pieces.number(choice.after.detail),
        "arrows": pieces.number(moved) if moved else None,
        "cards": [pieces.number(card(lane, choice.before, choice.after)) for lane in lanes],
        "changes": [pieces.number(one) for one in choice.changes],
        "target": choice.target,
        "broken": [_broken(one, pieces) for one in choice.broken],
    }


def _broken(broken: Broken, pieces: _Pieces) -> int:
    values = [element("dd", element("code", line)) for line in told(broken.values)]
    markup = element(
        "div",
        element("h3", f"{broken.name} is violated"),
        element("p", broken.meaning) if broken.meaning else None,
        element("dl", values) if values else None,
        class_="violation",
    )
    return pieces.number(markup)


def _embedded(data: object) -> Html:
    """JSON that no text in it can end: markup begins with `<`, which JSON may write as an escape."""
    return Html(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))
