/** Glasses in rows, under Node: with a pen that remembers. Run by `tests/ui/test_modules.py`. */
import assert from "node:assert/strict";
import { test } from "node:test";

const idle = class {
  observe() {}
  disconnect() {}
};
Object.assign(globalThis, { devicePixelRatio: 1, IntersectionObserver: idle, ResizeObserver: idle });
globalThis.matchMedia = () => ({ matches: true }); // so that all is drawn at once
globalThis.getComputedStyle = () => ({ getPropertyValue: () => "" });
const { Bars } = await import("../js/crowd-bars.js");

/** What is drawn of these glasses: each vessel as a box, and the middle of each mark. */
function drawn(clientWidth, clientHeight, glasses) {
  const [boxes, marks] = [[], []];
  const known = { roundRect: (x, y, wide, tall) => boxes.push({ x, y, wide, tall }), arc: (x, y) => marks.push({ x, y }) };
  const pen = new Proxy({}, { get: (_, name) => known[name] ?? (() => {}), set: () => true });
  const bars = new Bars();
  bars.adopt({ clientWidth, clientHeight, getContext: () => pen });
  bars.show(glasses);
  return { boxes, marks };
}

const glass = (key, more) => ({ key: `${key}`, phase: "playing", slack: 0, spoilt: false, ...more });
const crowd = (count, people, calls) => Array.from({ length: count }, (_, i) => glass(i, i < people ? { person: i ? "other" : "you" } : i < people + calls ? { call: true } : {}));

test("people's and calls' marks are in sight, whatever the size and however many rows", () => {
  for (const [width, height] of [[326, 120], [326, 132], [900, 132]]) {
    for (const count of [1, 24, 46, 47, 80, 128, 300]) {
      const [people, calls] = [Math.min(count, 3), Math.min(Math.max(0, count - 3), 60)];
      const { boxes, marks } = drawn(width, height, crowd(count, people, calls));
      assert.equal(marks.length, 2 * people + 3 * calls);
      assert.equal(boxes.length, count);
      const hidden = ({ x, y }) => y > height || boxes.some((box) => y > box.y && y < box.y + box.tall && x > box.x && x < box.x + box.wide);
      assert.deepEqual(marks.filter(hidden), [], `${count} glasses on ${width} x ${height}`);
      assert(boxes.every(({ y, wide, tall }) => wide > 0 && tall > 0 && y + tall <= height + 1e-9), `${count} glasses on ${width} x ${height}`);
    }
  }
});

test("nothing jumps when the first person comes", () => {
  assert.deepEqual(drawn(326, 120, crowd(24, 1, 0)).boxes, drawn(326, 120, crowd(24, 0, 0)).boxes);
  assert.deepEqual(drawn(326, 120, crowd(60, 1, 0)).boxes, drawn(326, 120, crowd(60, 0, 0)).boxes);
});
