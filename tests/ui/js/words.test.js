/** Sentences that are made of what is told, under Node. Run by `tests/ui/test_modules.py`. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { CROWD } from "../js/words.js";

test("of listeners without sound the commonest cause is told, and that people go first only where they do", () => {
  const told = (...causes) => CROWD.away(causes);
  assert.match(told("gave_way"), /^People go first: one listener was turned away/);
  assert.match(told("engine_lost", "gave_way", "gave_way"), /^People go first: 2 listeners were/);
  assert.match(told("gave_way", "engine_lost", "engine_lost"), /engine is restarting: 2 listeners were/);
  assert.match(told("model_not_found"), /model is not loaded/);
  assert.match(told("some_thing"), /An error \(some thing\)/);
});
