/** Voices of one's own, under Node: with a server made up. Run by `tests/ui/test_modules.py`. */
import assert from "node:assert/strict";
import { test } from "node:test";

const leaving = [];
globalThis.addEventListener = (type, act) => type === "pagehide" && leaving.push(act);
const { OwnVoices } = await import("../js/own-voices.js");

const BASE = new URL("http://voxrtc/");

/** A server that has these voices, and keeps what it is asked. */
function serve(there) {
  const asked = [];
  globalThis.fetch = async (url, { method = "GET", keepalive = false } = {}) => {
    const id = url.pathname.split("/")[4];
    asked.push(`${method} ${id ?? ""}${keepalive ? " keepalive" : ""}`);
    if (there === null) throw new TypeError("no network");
    if (method === "POST") return Response.json({ id: there.shift() });
    if (there.includes(id)) return Response.json({ id });
    return Response.json({ error: { code: "voice_gone", message: "gone" } }, { status: 404 });
  };
  return asked;
}

async function having(...ids) {
  serve([...ids]);
  const voices = new OwnVoices(BASE);
  for (const id of ids) assert.equal((await voices.add(new Blob(), { name: id, text: "", consent: true })).id, id);
  return voices;
}

function ids({ list }) {
  return list.map(({ id }) => id);
}

test("what the server let go is no longer offered, and the person is told", async () => {
  const voices = await having("a", "b");
  const gone = [];
  voices.addEventListener("gone", ({ detail }) => gone.push(detail.id));
  serve(["b"]);
  await voices.look();
  assert.deepEqual([ids(voices), gone], [["b"], ["a"]]);
  serve(null); // a server that does not answer has lost nothing yet
  await voices.look();
  assert.deepEqual(ids(voices), ["b"]);
  await voices.remove("b");
});

test("one that is deleted is gone at once, whatever the server says", async () => {
  const voices = await having("a");
  const asked = serve(null);
  await voices.remove("a");
  assert.deepEqual([ids(voices), asked], [[], ["DELETE a"]]);
});

test("nothing stays behind when the page goes", async () => {
  const voices = await having("a", "b");
  const asked = serve(["a", "b"]);
  leaving.at(-1)();
  assert.deepEqual([ids(voices), asked], [[], ["DELETE a keepalive", "DELETE b keepalive"]]);
});

test("a refusal is told in the server's words", async () => {
  globalThis.fetch = async () => Response.json({ error: { code: "invalid_recording", message: "It is silent." } }, { status: 400 });
  const voices = new OwnVoices(BASE);
  await assert.rejects(voices.add(new Blob(), { name: "", text: "", consent: true }), { code: "invalid_recording", message: "It is silent." });
  assert.deepEqual(voices.list, []);
});
