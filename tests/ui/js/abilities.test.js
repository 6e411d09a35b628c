import assert from "node:assert/strict";
import { test } from "node:test";
import { drawAbilities, reads } from "../js/abilities.js";

const place = (needs) => ({ needs, hidden: undefined });

/** A page with two things for who reads and a choice of voices. */
function page() {
  const places = [place("reading"), place("reading"), place("voices")];
  const find = (selector) => places.filter(({ needs }) => selector === `[data-needs=${needs}]`);
  return { places, querySelectorAll: find, querySelector: (selector) => find(selector)[0] };
}

test("a model that hears reads nothing out, and only a choice is offered", () => {
  const cases = [
    [{ kind: "text to speech", voices: ["default"] }, [false, false, false]],
    [{ kind: "speech to speech", voices: ["default"] }, [true, true, true]],
    [{ kind: "speech to speech", voices: ["default", "other"] }, [true, true, false]],
    [undefined, [false, false, false]],
  ];
  for (const [model, hidden] of cases) {
    const root = page();
    drawAbilities(root, model);
    assert.deepEqual(root.places.map((each) => each.hidden), hidden);
    assert.equal(reads(model), !hidden[0]);
  }
});
