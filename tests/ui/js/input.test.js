import assert from "node:assert/strict";
import { test } from "node:test";
import { Input } from "../js/input.js";

const detection = { type: "server_vad", create_response: true };
const session = (answers, turn_detection = null) => ({ audio: { input: { turn_detection } }, voxrtc: { answers } });

/** Push to talk, in a session that began with this to answer. */
function pushing(answers) {
  const input = new Input({ open: true, send() {} });
  const said = [];
  input.addEventListener("said", () => said.push(true));
  input.mode = "push";
  input.take({ type: "session.created", session: session(answers, { ...detection, create_response: answers !== null }) });
  return { input, said };
}

const committed = { type: "input_audio_buffer.committed", item_id: "a" };
const written = { type: "conversation.item.input_audio_transcription.completed", item_id: "a", transcript: "hello" };

test("who reads is asked once the words are known, a model that hears at once, and each a single time", () => {
  for (const [answers, early] of [["replier", 0], ["itself", 1]]) {
    const { input, said } = pushing(answers);
    input.take(committed);
    assert.equal(said.length, early);
    input.take(written);
    assert.equal(said.length, 1);
  }
});

test("another model may be somebody else", () => {
  const { input, said } = pushing(null);
  assert.equal(input.answers, false);
  input.take({ type: "session.updated", session: session("itself") });
  assert.equal(input.answers, true);
  input.take(committed);
  assert.equal(said.length, 1);
  input.take({ type: "session.updated", session: session("replier") });
  input.take({ ...committed, item_id: "b" });
  assert.equal(said.length, 1);
  assert.equal(input.answers, true);
  input.take({ type: "session.updated", session: session("itself") });
  input.take({ type: "session.updated", session: session(null) });
  assert.equal(input.answers, false);
});
