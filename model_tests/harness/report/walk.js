"use strict";

const space = JSON.parse(document.getElementById("state-space").textContent);
const bands = document.getElementById("bands");
const choices = document.getElementById("choices");
const back = document.getElementById("back");
const initial = document.getElementById("initial");
const paths = document.getElementById("paths");
const lane = document.getElementById("lane");
const sequence = document.querySelector(".sequence");
const names = [...sequence.querySelectorAll(".lane-names div")].slice(1);
const FIRST_CHANGES = 4;

// Where the walk began, and what was chosen in each state since: all that there is to know.
let start = 0;
let chosen = [];
let cycle = 0;
let scrolls = location.hash.length > 1;  // a page that is opened without a way begins with its title

function made(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function markup(className, numbers) {
  const element = made("div", className);
  element.innerHTML = numbers.map((number) => space.pieces[number]).join("");
  return element;
}

// The choices that were made, as far as there are such; a link may be from another page.
function walked() {
  let at = space.initial[start];
  const steps = [];
  for (const number of chosen) {
    const choice = space.states[at].choices[number];
    if (!choice || choice.target === null) break;
    steps.push(choice);
    at = choice.target;
  }
  chosen = chosen.slice(0, steps.length);
  return { at, steps };
}

function band(number, action, detail, arrows, cards, broken, turns) {
  const section = made("section", turns ? "band loop" : "band");
  section.id = `step-${number}`;
  const told = made("div");
  told.append(made("b", "", action));
  if (detail) told.append(made("p", "", detail));
  const label = made("div", "action");
  const again = made("a", "step-number", String(number));
  again.href = link(chosen.slice(0, number));
  again.title = "go back to here";
  label.append(again, told);
  section.append(label);
  if (arrows !== null) section.append(markup("arrows", [arrows]));
  section.append(markup("cards", cards));
  for (const one of broken) section.append(...markup("", [one]).children);
  return section;
}

function shown() {
  const { at, steps } = walked();
  const first = space.states[space.initial[start]];
  const all = [band(0, "initial state", "", null, first.cards, first.broken, false)];
  steps.forEach((choice, index) => {
    const broken = [...choice.broken, ...space.states[choice.target].broken];
    const turns = index >= steps.length - cycle;
    const { pieces } = space;
    all.push(band(index + 1, pieces[choice.action], pieces[choice.detail], choice.arrows, choice.cards, broken, turns));
  });
  bands.replaceChildren(...all);
  project();
  choices.replaceChildren(...space.states[at].choices.map(offered));
  if (!choices.children.length) choices.append(made("li", "hint", space.ending));
  back.disabled = !steps.length;
  if (initial) initial.value = String(start);
  if (scrolls && steps.length) bands.lastElementChild.scrollIntoView({ block: "nearest" });
  scrolls = true;
}

// Of one lane there is shown what changes in it, and the messages that leave or reach it.
function project() {
  const only = lane.value;
  const place = names.findIndex((name) => name.textContent === only);
  sequence.classList.toggle("one", place >= 0);
  sequence.style.setProperty("--lanes", String(place >= 0 ? 1 : names.length));
  names.forEach((name, index) => {
    name.hidden = place >= 0 && index !== place;
  });
  for (const each of bands.children) {
    const cards = [...each.querySelector(".cards").children];
    let touched = place < 0 || each.id === "step-0" || each.querySelector(".violation") !== null;
    cards.forEach((card, index) => {
      card.hidden = place >= 0 && index !== place;
      touched ||= index === place && !card.matches(".same, .empty");
    });
    for (const arrow of each.querySelectorAll(".arrow")) {
      const touches = place < 0 || arrow.dataset.source === only || arrow.dataset.target === only;
      arrow.hidden = !touches;
      touched ||= touches;
    }
    each.hidden = !touched;
  }
}

function offered(choice, index) {
  const button = made("button");
  button.type = "button";
  button.append(made("b", "", space.pieces[choice.action]));
  if (choice.detail !== undefined && space.pieces[choice.detail]) button.append(" ", space.pieces[choice.detail]);
  for (const change of choice.changes.slice(0, FIRST_CHANGES)) {
    button.append(made("small", "change", space.pieces[change]));
  }
  if (choice.changes.length > FIRST_CHANGES) {
    const more = choice.changes.length - FIRST_CHANGES;
    button.append(made("small", "", more === 1 ? "and one change more" : `and ${more} changes more`));
    button.title = choice.changes.map((change) => space.pieces[change]).join("\n");
  }
  if (!choice.changes.length) button.append(made("small", "", "changes nothing"));
  const after = choice.target === null ? [] : space.states[choice.target].broken;
  if (choice.broken.length || after.length) button.append(made("small", "broken", "violates a property"));
  if (choice.target === null) {
    button.append(made("small", "", "leads out of this page: write it with more states"));
    button.disabled = true;
  }
  button.addEventListener("click", () => go(start, [...chosen, index]));
  const item = made("li");
  item.append(button);
  return item;
}

function link(path) {
  return `#${[start, ...path].join(".")}`;
}

function go(from, path, turns = 0, way = "") {
  start = from;
  chosen = path;
  cycle = turns;
  const address = link(chosen);
  if (location.hash !== address) history.pushState(null, "", address);
  if (paths) paths.value = way;
  shown();
}

function goWay(number) {
  const { initial: from, choices: path, cycle: turns } = space.paths[number];
  go(from, path, turns, String(number));
}

function fromAddress() {
  const numbers = location.hash.slice(1).split(".").map(Number);
  const isWay = location.hash.length > 1 && numbers.every((number) => Number.isInteger(number) && number >= 0);
  start = isWay && numbers[0] < space.initial.length ? numbers[0] : 0;
  chosen = isWay ? numbers.slice(1) : [];
  cycle = 0;
  if (paths) paths.value = "";
  shown();
}

back.addEventListener("click", () => go(start, chosen.slice(0, -1)));
document.getElementById("start-over").addEventListener("click", () => go(start, []));
if (initial) initial.addEventListener("change", () => go(Number(initial.value), []));
if (paths) {
  paths.addEventListener("change", () => paths.value !== "" && goWay(Number(paths.value)));
}
lane.addEventListener("change", project);
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Backspace" && chosen.length) {
    event.preventDefault();
    back.click();
  }
  const button = /^[1-9]$/.test(event.key) && choices.querySelectorAll("button")[Number(event.key) - 1];
  if (button) button.click();
});
window.addEventListener("hashchange", fromAddress);
window.addEventListener("popstate", fromAddress);

if (location.hash.length > 1 || !space.paths.length) {
  fromAddress();
} else {
  goWay(0);
}
