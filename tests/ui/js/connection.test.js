import assert from "node:assert/strict";
import { test } from "node:test";
import { Connection } from "../js/connection.js";

class Refusing extends EventTarget {
  addTransceiver() {
    return {};
  }
  createDataChannel() {
    return new EventTarget();
  }
  async setLocalDescription() {
    throw new DOMException("not here", "OperationError");
  }
  close() {}
}

test("a browser whose WebRTC fails in a way of its own goes another way", async () => {
  Object.assign(globalThis, { window: globalThis, AudioContext: class {}, RTCPeerConnection: Refusing });
  globalThis.fetch = async () => new Response("", { status: 404 });
  const line = new Connection(new URL("http://voxrtc/"), () => new AudioContext());
  await assert.rejects(line.ready({}), { code: "no_other_way" }); // it was tried: Node has no WebCodecs
});
