import assert from "node:assert/strict";
import { test } from "node:test";
import { Ice, gathered } from "../js/ice.js";

const BASE = new URL("http://voxrtc/");
const known = { iceServers: [{ urls: ["turn:relay"] }], keep: 900, gather: true, udp: false, message: "" };

/** What the server answers, by turns; the last for good. */
function answering(...answers) {
  globalThis.fetch = async () => (answers.length > 1 ? answers.shift() : answers[0])();
}

const json = (value) => () => new Response(JSON.stringify(value));

/** A connection, as far as it matters here. */
function connection(refusal = null) {
  const pc = { signalingState: "stable", had: [], setConfiguration: (each) => { if (refusal) throw refusal; pc.had.push(each); } };
  return pc;
}

test("a connection gets the relays that there are", async () => {
  answering(json(known));
  const pc = connection();
  const ice = new Ice(BASE);
  assert.equal(ice.udp, null, "nothing is known yet");
  assert.equal(await ice.settle(pc), true);
  assert.deepEqual(pc.had, [{ iceServers: known.iceServers }]);
  assert.equal(ice.udp, false);
});

test("relays that the browser refuses are done without", async () => {
  answering(json(known));
  await new Ice(BASE).settle(connection(new DOMException("no valid url", "SyntaxError")));
});

test("an answer that cannot be read is none, and is asked for again", async () => {
  answering(() => new Response("<html>"), json(known));
  const ice = new Ice(BASE);
  const pc = connection();
  assert.equal(await ice.settle(pc), false);
  assert.equal(await ice.settle(pc), true);
  assert.equal(pc.had.length, 1);
});

/** When an offer leaves, in ms, if the browser finds these candidates and does not end for 10 s. */
async function leaves(t, found) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const pc = Object.assign(new EventTarget(), { iceGatheringState: "gathering" });
  let left = null;
  gathered(pc).then(() => (left ??= now));
  let now = 0;
  for (; left === null && now < 10_000; now += 10) {
    const line = found[now] && `candidate:1 1 udp 1 192.0.2.1 9 typ ${found[now]} raddr 0.0.0.0 rport 0`;
    if (line) pc.dispatchEvent(Object.assign(new Event("icecandidate"), { candidate: { candidate: line } }));
    t.mock.timers.tick(10);
    await new Promise(setImmediate);
  }
  t.mock.timers.reset();
  return left;
}

test("an offer leaves soon after the first relay, however long the rest would take", async (t) => {
  const left = await leaves(t, { 0: "host", 300: "relay", 600: "relay" });
  assert.ok(left >= 380 && left <= 420, `${left}`);
});

test("it waits two seconds for one, and not for other addresses", async (t) => {
  const left = await leaves(t, { 0: "host", 300: "srflx" });
  assert.ok(left >= 1_980 && left <= 2_020, `${left}`);
});

test("it leaves when all is known", async () => {
  const pc = Object.assign(new EventTarget(), { iceGatheringState: "gathering" });
  const ready = gathered(pc);
  pc.iceGatheringState = "complete";
  pc.dispatchEvent(new Event("icegatheringstatechange"));
  await ready;
});
