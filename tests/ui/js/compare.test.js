/** Two models after each other, under Node: with a talker made up, and time that does not pass. Run by `tests/ui/test_modules.py`. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

const { Compare } = await import("../js/compare.js");
globalThis.CustomEvent ??= class extends Event {
  constructor(type, { detail }) {
    super(type);
    this.detail = detail;
  }
};
const later = setImmediate;
globalThis.setTimeout = (act) => later(act); // no pause lasts
const settle = async () => {
  for (let i = 0; i < 6; i++) await new Promise((resolve) => later(resolve));
};

/** Answers every wish with a turn that the test ends. */
class FakeTalker {
  voice = Object.assign(new EventTarget(), { state: null });
  trouble = null;
  opens = true;
  asked = [];
  stopped = 0;
  async open() {
    return this.opens;
  }
  async speak(wish) {
    this.asked.push(wish.model);
    this.voice.state = "waiting";
    return (this.turn = { marks: { asked: 100 * this.asked.length } });
  }
  sound() {
    this.voice.state = "speaking";
    this.voice.dispatchEvent(new Event("change"));
  }
  end(ended, turn = this.turn) {
    this.voice.state = null;
    if (ended) Object.assign(turn, { ended });
    this.voice.dispatchEvent(new CustomEvent("ended", { detail: turn }));
  }
  stop() {
    this.stopped++;
    if (this.voice.state) this.end();
  }
}
const wishes = [
  { text: "Yes.", model: "lark", voice: "a" },
  { text: "Yes.", model: "wren", voice: "b" },
];
const states = () => compare.sides.map(({ state }) => state);
let talker, compare;

beforeEach(() => {
  talker = new FakeTalker();
  compare = new Compare(talker);
});

test("the second is asked when the first was heard to its end", async () => {
  compare.run(wishes);
  await settle();
  assert.deepEqual([states(), talker.asked], [["asked", "waiting"], ["lark"]]);
  talker.sound();
  assert.deepEqual(states(), ["heard", "waiting"]);
  Object.assign(talker.turn.marks, { heard: 250, buffered: 30 });
  talker.end(900);
  await settle();
  assert.deepEqual([states(), talker.asked], [["done", "asked"], ["lark", "wren"]]);
  const [{ asked, heard, ended }] = compare.sides;
  assert.deepEqual([asked, heard, ended], [100, 250, 930], "what had left the server was in the jitter buffer still");
  talker.end(1900);
  await settle();
  assert.deepEqual([states(), compare.running], [["done", "done"], false]);
});

test("a stop ends it at once, and nothing follows", async () => {
  compare.run(wishes);
  await settle();
  compare.stop();
  await settle();
  assert.deepEqual([states(), compare.running, talker.stopped, talker.asked], [["cut", "waiting"], false, 1, ["lark"]]);
});

test("who stops while it connects hears nothing", async () => {
  let opened;
  talker.open = () => new Promise((resolve) => (opened = resolve));
  compare.run(wishes);
  compare.stop();
  opened(true);
  await settle();
  assert.deepEqual([states(), compare.running, talker.stopped, talker.asked], [["waiting", "waiting"], false, 1, []]);
});

test("what the person has said instead ends it", async () => {
  compare.run(wishes);
  await settle();
  talker.end();
  await settle();
  assert.deepEqual([states(), compare.running, talker.asked], [["cut", "waiting"], false, ["lark"]]);
});

test("what is said between the two is not interrupted", async () => {
  compare.run(wishes);
  await settle();
  talker.end(900);
  talker.voice.state = "speaking"; // the person pressed Speak
  await settle();
  assert.deepEqual([states(), compare.running, talker.asked], [["done", "cut"], false, ["lark"]]);
});

test("a trouble is a failure, before the call and in it", async () => {
  talker.opens = false;
  await compare.run(wishes);
  assert.deepEqual([states(), compare.running, talker.asked], [["failed", "waiting"], false, []]);
  talker.opens = true;
  compare.run(wishes);
  await settle();
  talker.trouble = new Error("the engine stopped");
  talker.end();
  await settle();
  assert.deepEqual([states(), compare.running], [["failed", "waiting"], false]);
});

test("a new comparison is not disturbed by the end of an old one", async () => {
  compare.run(wishes);
  await settle();
  const old = talker.turn;
  compare.stop();
  compare.run([...wishes].reverse());
  await settle();
  talker.end(500, old);
  await settle();
  assert.deepEqual(states(), ["asked", "waiting"]);
  assert.deepEqual(talker.asked, ["lark", "wren"]);
});
