import assert from "node:assert/strict";
import { test } from "node:test";
import { Network } from "../js/network.js";

/** What a browser has for sound, counted: worklets' nodes, and codecs that are not closed. */
class Node {
  static made = [];
  told = [];
  port = { postMessage: (what) => this.told.push(what) };
  constructor() {
    Node.made.push(this);
  }
  connect() {}
  disconnect() {}
}

class Codec {
  static open = 0;
  state = "unconfigured";
  configure() {
    this.state = "configured";
    Codec.open++;
  }
  close() {
    this.state = "closed";
    Codec.open--;
  }
}

class Context {
  sampleRate = 48_000;
  #loaded = [];
  audioWorklet = { addModule: () => new Promise((resolve) => this.#loaded.push(resolve)) };
  createMediaStreamSource() {
    return new Node();
  }
  async load() {
    this.#loaded.splice(0).forEach((resolve) => resolve());
    await new Promise(setImmediate);
  }
}

class Socket extends EventTarget {
  static OPEN = 1;
  readyState = 1;
  bufferedAmount = 0;
  sent = [];
  send(data) {
    this.sent.push(data);
  }
  close() {}
}

Object.assign(globalThis, { window: globalThis, AudioDecoder: Codec, AudioEncoder: Codec, AudioWorkletNode: Node, MediaStream: class {}, WebSocket: Socket });
const { Tunnel } = await import("../js/tunnel.js");
const { Capture } = await import("../js/capture.js");

const ended = () => Node.made.filter(({ told }) => told.at(-1) === "end").length;

function fresh() {
  Node.made = [];
  Codec.open = 0;
  const context = new Context();
  return { context, tunnel: new Tunnel(new URL("http://voxrtc/"), context) };
}

test("a tunnel that ends leaves neither a decoder nor a worklet", async () => {
  const { context, tunnel } = fresh();
  const connected = tunnel.connect({}, {}, 1_000, "");
  await context.load();
  assert.deepEqual([Node.made.length, Codec.open], [1, 1]);
  tunnel.leave();
  await assert.rejects(connected, { code: "udp_blocked" });
  assert.deepEqual([ended(), Codec.open], [1, 0]);
});

test("one that is left while its player begins makes none", async () => {
  const { context, tunnel } = fresh();
  const refused = assert.rejects(tunnel.connect({}, {}, 1_000, ""), { code: "connection_lost" });
  tunnel.leave();
  await context.load();
  await refused;
  assert.deepEqual([Node.made.length, Codec.open], [0, 0]);
});

test("a microphone is taken once, by who asked last, and given back to the last worklet", async () => {
  const { context } = fresh();
  const capture = new Capture();
  const begun = [capture.begin(context, {}, () => {}), capture.begin(context, {}, () => {})];
  await context.load();
  await Promise.all(begun);
  assert.deepEqual([Node.made.length, Codec.open], [2, 1]); // a source and a worklet
  capture.end();
  assert.deepEqual([ended(), Codec.open], [1, 0]);
  const third = capture.begin(context, {}, () => {});
  capture.end();
  await context.load();
  await third;
  assert.deepEqual([Node.made.length, Codec.open], [2, 0]);
});

test("what is kept of a tunnel's sound is its player's choice, and told as such", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const { tunnel } = fresh();
  assert.equal(tunnel.buffer, null);
  tunnel.player.dispatchEvent(new CustomEvent("report", { detail: { rendered: -1, waiting: 0, target: 139.7, dry: 0 } }));
  tunnel.buffer = 300;
  assert.equal(tunnel.buffer, 140);
  Object.defineProperty(tunnel, "open", { value: true });
  const sent = [];
  const network = new Network({ open: true, call: tunnel, send: ({ network }) => sent.push(network.target_ms) });
  for (let second = 0; second < 2; second++) {
    t.mock.timers.tick(1_000);
    await new Promise(setImmediate);
  }
  assert.deepEqual([sent, network.figures.target_ms], [[140], 140]);
});

test("worklets end when they are told to", async () => {
  const made = {};
  class Processor {
    port = { postMessage() {} };
  }
  Object.assign(globalThis, { AudioWorkletProcessor: Processor, sampleRate: 48_000, currentTime: 0, registerProcessor: (name, kind) => (made[name] = kind) });
  await import("../js/worklets/player.js");
  await import("../js/worklets/capture.js");
  const sound = new Float32Array(128);
  for (const name of ["voxrtc-player", "voxrtc-capture"]) {
    const processor = new made[name]();
    assert.equal(processor.process([[sound]], [[sound]]), true, name);
    processor.port.onmessage({ data: "end" });
    assert.equal(processor.process([[sound]], [[sound]]), false, name);
  }
});
