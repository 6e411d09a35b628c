/** Who answers, under Node: a line and a microphone made up. Run by `tests/ui/test_modules.py`. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

globalThis.CustomEvent ??= class extends Event {
  constructor(type, { detail }) {
    super(type);
    this.detail = detail;
  }
};
globalThis.window = globalThis;
globalThis.Audio = class {
  setAttribute() {}
};
Object.defineProperty(globalThis, "navigator", { value: {}, configurable: true });
globalThis.localStorage = { getItem: () => null, setItem() {} };
globalThis.fetch = async () => ({ ok: true, json: async () => ({ iceServers: [] }) });
const { Talker } = await import("../js/talker.js");

const wish = (model, voice = "", how = "") => ({ text: "Yes.", model, voice, how });
let talker, sent;

beforeEach(() => {
  talker = new Talker(new URL("http://here/"));
  sent = [];
  talker.voice.speaker.unlock = async () => {};
  talker.gear.open = async () => (talker.input.listening = true);
  talker.line.call = { open: true, transmit: (event) => sent.push(event), talk() {}, close() {} };
});

/** Who the server was told is to answer. */
const told = () => sent.filter(({ type }) => type === "session.update").map(({ session }) => session.model);

test("who talks on a line that is open already is answered by the model they want now", async () => {
  talker.prefer(wish("lark"));
  await talker.listen(wish("wren"));
  assert.deepEqual(told(), ["lark", "wren"]);
  await talker.listen(wish("wren"));
  assert.deepEqual(told(), ["lark", "wren"], "what was told is not told again");
});

test("who holds the key, too", async () => {
  talker.prefer(wish("lark"));
  talker.choose("push");
  sent = [];
  await talker.press(wish("wren"));
  assert.deepEqual(told(), ["wren"]);
});
