import assert from "node:assert/strict";
import { test } from "node:test";
import { Call } from "../js/call.js";
import { LINE } from "../js/words.js";

/** A call between these two kinds of addresses. */
function between(localType, remoteType) {
  const report = new Map([
    ["other", { type: "candidate-pair", nominated: false, state: "succeeded", localCandidateId: "l", remoteCandidateId: "r" }],
    ["pair", { type: "candidate-pair", nominated: true, state: "succeeded", localCandidateId: "here", remoteCandidateId: "there" }],
    ["here", { type: "local-candidate", candidateType: localType }],
    ["there", { type: "remote-candidate", candidateType: remoteType }],
  ]);
  globalThis.RTCPeerConnection = class extends EventTarget {
    addTransceiver = () => ({});
    createDataChannel = () => new EventTarget();
    getStats = async () => report;
  };
  return new Call(new URL("http://voxrtc/"), null);
}

test("a relay is one on either side", async () => {
  assert.equal(await between("host", "host").way(), "direct");
  assert.equal(await between("prflx", "srflx").way(), "direct");
  assert.equal(await between("relay", "host").way(), "relay");
  assert.equal(await between("host", "relay").way(), "relay");
});

test("whose network blocks UDP is said where it is known only", () => {
  assert.match(LINE.ways.tunnel(80, null), /^UDP is blocked, here or at the server: connected over WebSocket/);
  assert.match(LINE.ways.tunnel(80, false), /^This server gets no UDP: connected over WebSocket/);
});

test("a round trip is told as one", () => {
  for (const say of [LINE.ways.relay, LINE.ways.tunnel]) {
    assert.match(say(83, null), /, a round trip of about 80\u00a0ms\.$/);
    assert.match(say(NaN, null), /(relay|WebSocket)\.$/);
  }
});
