// What the page decides of its line, on clocks of ours: `node --test`.
import assert from "node:assert/strict";
import test from "node:test";
import { Cushion } from "../../static/js/cushion.js";
import { bufferTarget } from "../../static/js/jitter.js";
import { Outbox } from "../../static/js/outbox.js";
import { Uplink } from "../../static/js/uplink.js";
import { BEAT, Pulse } from "../../static/js/pulse.js";

test("a line without a sign of life is given up within seconds, and not before", () => {
  const pulse = new Pulse(0);
  let now = 0;
  for (let bytes = 0; bytes < 20; bytes++) assert.ok(pulse.look((now += BEAT), bytes));
  const last = now;
  while (pulse.look((now += BEAT), 19));
  assert.ok(now - last >= 2_000 && now - last <= 3_000);
});

test("messages are signs of life where bytes are not counted", () => {
  const pulse = new Pulse(0);
  for (let now = BEAT; now < 20_000; now += BEAT) {
    if (now % 1_000 === 0) pulse.beat(now);
    assert.ok(pulse.look(now));
  }
});

test("a page that slept could hear nothing", () => {
  const pulse = new Pulse(0);
  assert.ok(pulse.look(BEAT, 1));
  assert.ok(pulse.look(60_000, 1));
  assert.ok(pulse.look(60_000 + BEAT, 1));
  let now = 60_000 + BEAT;
  while (pulse.look((now += BEAT), 1));
  assert.ok(now <= 63_500);
});

test("a microphone that nobody hears is told of, one in a quiet room is not", () => {
  const uplink = new Uplink();
  for (let second = 0; second < 60; second++) assert.ok(uplink.look(0.5, 50 * second));
  for (let second = 0; second < 60; second++) assert.ok(uplink.look(0.01, 2950));
  assert.ok(uplink.look(0.5, 2950) && uplink.look(0.0, 2950) && uplink.look(0.5, 2950));
  assert.ok(!uplink.look(0.5, 2950));
  assert.ok(uplink.look(0.5, 2951));
});

test("what the server did not get is sent again, in order, once", () => {
  const outbox = new Outbox();
  const sent = ["a", "b", "c", "d"].map((type) => outbox.add({ type }));
  assert.deepEqual(outbox.after(sent[1].event_id).map(({ type }) => type), ["c", "d"]);
  assert.deepEqual(outbox.after(sent[3].event_id), []);
  assert.deepEqual(outbox.after(null).map(({ type }) => type), ["a", "b", "c", "d"]);
  for (let i = 0; i < 1_000; i++) outbox.add({ type: "x" });
  assert.equal(outbox.after(null).length, 256);
});

test("steady packets need little waiting, late ones more, and it comes back", () => {
  const cushion = new Cushion();
  let now = 0;
  for (let number = 0; number < 200; number++) cushion.came(number, (now += 20));
  assert.equal(cushion.target, 60);
  now += 150; // TCP stood for a moment, then all came at once
  for (let number = 200; number < 208; number++) cushion.came(number, now);
  assert.ok(cushion.target >= 140 && cushion.target <= 200);
  assert.ok(cushion.over(cushion.target + 61) && !cushion.over(cushion.target));
  for (let number = 208; number < 2_000; number++) cushion.came(number, (now += 20));
  assert.equal(cushion.target, 60);
});

test("packets that are left out are no late ones, and a stall is bounded", () => {
  const cushion = new Cushion();
  cushion.came(0, 0);
  cushion.came(20, 400);
  assert.equal(cushion.target, 60);
  cushion.came(21, 60_000);
  assert.equal(cushion.target, 400);
});

test("the jitter buffer grows with what happens, is the browser's where nothing does, and does not flutter", () => {
  assert.equal(bufferTarget({ jitter_ms: 3, loss: 0 }, null), null);
  assert.equal(bufferTarget({ jitter_ms: null, loss: null }, null), null);
  const bad = bufferTarget({ jitter_ms: 30, loss: 0.02 }, null);
  assert.ok(bad >= 100 && bad <= 160);
  assert.equal(bufferTarget({ jitter_ms: 22, loss: 0.02 }, bad), bad);
  assert.equal(bufferTarget({ jitter_ms: 2, loss: 0 }, bad), null);
  assert.equal(bufferTarget({ jitter_ms: 900, loss: 0.5 }, null), 400);
});
