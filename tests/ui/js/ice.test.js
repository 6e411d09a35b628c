import assert from "node:assert/strict";
import { test } from "node:test";
import { Ice } from "../js/ice.js";

const BASE = new URL("http://voxrtc/");
const known = { iceServers: [{ urls: ["turn:relay"] }], keep: 900, gather: true, message: "" };

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
  assert.equal(await new Ice(BASE).settle(pc), true);
  assert.deepEqual(pc.had, [{ iceServers: known.iceServers }]);
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
