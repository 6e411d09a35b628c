/**
 * A conversation over WebSocket, by the stock client: `node websocket.mjs URL SENTENCE FOLDER`. SENTENCE is a file of PCM16 at
 * 24 kHz that is said, and again while it is being answered. Writes what was told to FOLDER/log.json and each response's sound to
 * FOLDER/0.pcm, …
 */
import { readFile, writeFile } from "node:fs/promises";
import * as client from "@openai/agents-realtime";
import { agentOf, record } from "./agent.mjs";

const CHUNK = 0.04; // seconds
const BYTES = 48_000; // a second
const PATIENCE = 40_000; // ms

const [url, sentence, folder] = process.argv.slice(2);
const session = new client.RealtimeSession(agentOf(client), { transport: "websocket", model: "lark", tracingDisabled: true });
const log = record(session);
const responses = new Map(); // pieces of sound, by response
session.on("audio", ({ data, responseId }) => responses.set(responseId, [...(responses.get(responseId) ?? []), Buffer.from(data)]));

/** A microphone: silence, but for what it is given to say. */
const saying = [];
const began = performance.now();
let sent = 0;
const microphone = setInterval(() => {
  for (; sent * CHUNK * 1000 < performance.now() - began; sent++) session.sendAudio(next());
}, 20);

function next() {
  const chunk = new Uint8Array(BYTES * CHUNK);
  if (saying.length) {
    chunk.set(saying[0].subarray(0, chunk.length));
    saying[0] = saying[0].subarray(chunk.length);
    if (!saying[0].length) saying.shift();
  }
  return chunk.buffer;
}

const done = () => log.types.filter((type) => type === "response.done").length;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(holds, what) {
  const late = performance.now() + PATIENCE;
  while (!holds()) {
    if (performance.now() > late) throw new Error(`waited in vain until ${what}: ${JSON.stringify(log)}`);
    await pause(20);
  }
}

await session.connect({ apiKey: "none", url });
saying.push(await readFile(sentence));
await until(() => responses.size === 1, "it answers");
await pause(2_000);
saying.push(await readFile(sentence));
await until(() => log.interruptions, "it is interrupted");
await until(() => log.calls.length, "it calls the tool");
await until(() => responses.size === 2, "it tells the result");
await until(() => done() === 3, "it is done");
session.sendMessage("And tomorrow?");
await until(() => done() === 4, "what is typed is answered");
clearInterval(microphone);
session.close();

for (const [number, pieces] of [...responses.values()].entries()) await writeFile(`${folder}/${number}.pcm`, Buffer.concat(pieces));
await writeFile(`${folder}/log.json`, JSON.stringify(log));
