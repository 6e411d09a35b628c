/** The page's one connection to what goes on, under Node: with a browser's parts made up. Run by `tests/ui/test_modules.py`. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

class FakeSource extends EventTarget {
  static all = [];
  closed = false;
  constructor(url) {
    super();
    this.url = `${url}`;
    FakeSource.all.push(this);
  }
  close() {
    this.closed = true;
  }
  say(type, data) {
    this.dispatchEvent(Object.assign(new Event(type), { data: JSON.stringify(data) }));
  }
}
class FakeDocument extends EventTarget {
  hidden = false;
  turn(hidden) {
    this.hidden = hidden;
    this.dispatchEvent(new Event("visibilitychange"));
  }
}
Object.assign(globalThis, { EventSource: FakeSource, document: new FakeDocument(), CustomEvent: globalThis.CustomEvent ?? class extends Event {
  constructor(type, { detail }) {
    super(type);
    this.detail = detail;
  }
} });
const { Feed } = await import("../js/feed.js");
const open = () => FakeSource.all.filter(({ closed }) => !closed);

/** Time that passes when the test says so. */
const timers = new Map();
let now = 0;
let number = 0;
globalThis.setTimeout = (act, wait) => (timers.set(++number, { act, due: now + wait }), number);
globalThis.clearTimeout = (timer) => timers.delete(timer);
function pass(ms) {
  now += ms;
  for (const [timer, { act, due }] of timers) {
    if (due > now) continue;
    timers.delete(timer);
    act();
  }
}

beforeEach(() => {
  timers.clear();
  Math.random = () => 0.5;
  for (const source of FakeSource.all.splice(0)) source.close();
  globalThis.document = new FakeDocument();
});

test("all parts of the page hear one connection, and who comes later finds the latest", () => {
  const feed = new Feed(new URL("http://server/deep/"));
  const heard = [];
  feed.addEventListener("stats", ({ detail }) => heard.push(detail));
  assert.deepEqual(open().map(({ url }) => url), ["http://server/deep/v1/voxrtc/live"]);
  open()[0].say("stats", { at: 1 });
  open()[0].say("models", { models: [] });
  assert.deepEqual([heard, feed.latest], [[{ at: 1 }], { stats: { at: 1 }, models: { models: [] } }]);
});

test("a hidden page lets its connection go, and takes it up again", () => {
  const feed = new Feed(new URL("http://server/"));
  open()[0].dispatchEvent(new Event("open"));
  assert(feed.live);
  document.turn(true);
  assert.deepEqual([open().length, feed.live], [0, false]);
  document.turn(false);
  assert.equal(open().length, 1);
});

test("a connection that fails is made again, ever more seldom, and soon again once it held", () => {
  const feed = new Feed(new URL("http://server/"));
  for (const wait of [1_000, 2_000, 4_000, 8_000, 8_000]) {
    open()[0].dispatchEvent(new Event("error"));
    assert.equal(open().length, 0);
    pass(wait - 1);
    assert.equal(open().length, 0);
    pass(1);
    assert.equal(open().length, 1);
  }
  open()[0].dispatchEvent(new Event("open"));
  assert(feed.live);
  open()[0].dispatchEvent(new Event("error"));
  pass(1_000);
  assert.equal(open().length, 1);
});

test("a page that was hidden meanwhile does not try", () => {
  new Feed(new URL("http://server/"));
  open()[0].dispatchEvent(new Event("error"));
  document.turn(true);
  pass(60_000);
  assert.equal(open().length, 0);
});
