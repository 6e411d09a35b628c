/** Where the time goes between the click and the first sound: one utterance's marks, and the stages made of them. */
import { STAGES } from "./words.js";

/**
 * @typedef {object} Marks
 * @property {number} asked when the person asked: a `performance.now()`
 * @property {number} [sent] when the request left the page, the call being open
 * @property {number} [heard] when the first audible sample was rendered
 * @property {number} [roundTrip] ms to the server and back
 * @property {number} [buffered] ms that sound spends in the jitter buffer, NaN if the browser does not say
 * @property {{reply: number, queue: number, prompt: number, first_frame: number, first_chunk: number, track: number}} [server]
 *   ms of each stage, as `voxrtc.timing` tells them
 *
 * @typedef {{name: string, label: string, hint: string, start: number, ms: number}} Stage
 */

/** The stages' names and labels, for an empty picture. */
export const EMPTY = Object.entries(STAGES).map(([name, { label, hint }]) => ({ name, label, hint, start: 0, ms: NaN }));

/**
 * Heard time to first audio, split. What the other stages leave, the voice took to begin.
 * @param {Marks} marks
 * @returns {{total: number, stages: Stage[]} | null} null while a mark is missing
 */
export function split({ asked, sent, heard, roundTrip, buffered, server }) {
  if (sent === undefined || heard === undefined || buffered === undefined || !server) return null;
  const total = heard - asked;
  const ms = {
    connect: sent - asked,
    reply: server.reply,
    queue: server.queue,
    prompt: server.prompt,
    chunk: server.first_frame + server.first_chunk,
    track: server.track,
    network: roundTrip || 0,
  };
  const known = Object.values(ms).reduce((sum, each) => sum + each, 0);
  const rest = Math.max(0, total - known);
  ms.browser = Math.min(rest, Number.isNaN(buffered) ? rest : buffered);
  ms.onset = rest - ms.browser;
  let start = 0;
  const stages = Object.entries(STAGES).map(([name, { label, hint }]) => {
    const stage = { name, label, hint, start, ms: ms[name] };
    start += ms[name];
    return stage;
  });
  return { total, stages };
}
