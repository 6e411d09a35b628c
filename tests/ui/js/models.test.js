/** The server's models as the page knows them, under Node: a server and a feed made up. Run by `tests/ui/test_modules.py`. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

globalThis.document = { hidden: false };
globalThis.CustomEvent ??= class extends Event {
  constructor(type, { detail }) {
    super(type);
    this.detail = detail;
  }
};
const { Models } = await import("../js/models.js");
const timers = [];
globalThis.setTimeout = (act) => timers.push(act);
globalThis.clearTimeout = () => (timers.length = 0);

let feed, models, asked, answers, changes;
const model = (state) => ({ name: "wren", title: "Wren", state });
const told = (state) => ({ models: [model(state)], machine: { words: "2 cores", room: 3, shared: false } });
globalThis.fetch = async (url, { method = "GET" } = {}) => {
  asked.push(`${method} ${new URL(url).pathname}`);
  const { status = 200, body = told("loading") } = answers.shift() ?? {};
  return { ok: status < 400, status, json: async () => body, headers: new Map() };
};

beforeEach(() => {
  [asked, answers, changes] = [[], [], 0];
  timers.length = 0;
  feed = Object.assign(new EventTarget(), { live: true });
  models = new Models(new URL("http://here/sub/"), feed);
  models.addEventListener("change", () => changes++);
});

test("what the feed tells is known without asking", () => {
  feed.dispatchEvent(new CustomEvent("models", { detail: told("loading") }));
  assert.deepEqual([models.get("wren").state, models.machine.room, changes, asked.length], ["loading", 3, 1, 0]);
});

test("a live feed is relied on; a silent one is asked for as long as something moves", async () => {
  await models.look();
  assert.deepEqual([asked, timers.length], [["GET /sub/v1/voxrtc/models"], 0]);
  feed.live = false;
  feed.dispatchEvent(new Event("change"));
  await new Promise(setImmediate);
  assert.equal(timers.length, 1);
  answers.push({ body: told("ready") });
  timers.pop()();
  await new Promise(setImmediate);
  assert.deepEqual([models.get("wren").state, timers.length, asked.length], ["ready", 0, 3]);
});

test("a wish that is refused says why, and the next one forgets it", async () => {
  const refusal = { error: { code: "no_room", message: "It needs about 9 GB." } };
  answers.push({ status: 409, body: refusal });
  await models.load("wren");
  assert.deepEqual(models.trouble, { name: "wren", words: "It needs about 9 GB." });
  assert.deepEqual([models.refusal("wren"), models.refusal("lark"), models.refusal(undefined)], ["It needs about 9 GB.", "", ""]);
  await models.cancel("wren");
  assert.equal(models.trouble, null);
  assert.deepEqual([models.refusal("wren"), models.refusal(undefined)], ["", ""], "nothing is suggested, and nothing was refused");
  const wishes = asked.filter((each) => each.startsWith("POST"));
  assert.deepEqual(wishes, ["POST /sub/v1/voxrtc/models/wren/load", "POST /sub/v1/voxrtc/models/wren/cancel"]);
});

test("why a wish was refused is told until that model has moved on", async () => {
  const [idle, other] = [model("unloaded"), { ...model("loading"), name: "lark" }];
  const tell = (...models) => feed.dispatchEvent(new CustomEvent("models", { detail: { ...told(), models } }));
  answers.push({ status: 409, body: { error: { code: "no_room", message: "It needs about 9 GB." } } }, { body: { ...told(), models: [idle] } });
  await models.load("wren");
  tell(idle, other);
  assert.equal(models.trouble?.name, "wren");
  tell({ ...idle, state: "loading" }, other); // somebody else had more luck
  assert.equal(models.trouble, null);
});
