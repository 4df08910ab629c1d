"use strict";
document.documentElement.classList.add("scripted");

// Only the runs of the campaign that went wrong.
const onlyBad = document.getElementById("only-bad");
if (onlyBad) {
  onlyBad.addEventListener("change", () => {
    document.querySelector(".campaign").classList.toggle("only-bad", onlyBad.checked);
  });
}

// Pointing at a message shows where it was sent and where it arrived.
for (const arrow of document.querySelectorAll(".arrow[data-message]")) {
  const both = document.querySelectorAll(`.arrow[data-message="${arrow.dataset.message}"]`);
  for (const [event, on] of [["mouseenter", true], ["mouseleave", false]]) {
    arrow.addEventListener(event, () => both.forEach((each) => each.classList.toggle("linked", on)));
  }
}

// j and k walk through the steps of the counterexample.
const steps = [...document.querySelectorAll(".band[id]")];
document.addEventListener("keydown", (event) => {
  if (!steps.length || event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
  const move = { j: 1, k: -1 }[event.key];
  if (!move) return;
  const here = steps.findIndex((step) => `#${step.id}` === location.hash);
  location.hash = steps[Math.min(steps.length - 1, Math.max(0, here + move))].id;
});
