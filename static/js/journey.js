/** Where the time goes until the first sound, from the end of the person's speech or from the click: marks, and the stages made of them. */
import { STAGES } from "./words.js";

const PACKET = 20; // ms of sound that the microphone gathers before it is sent

/**
 * @typedef {object} Marks
 * @property {number} asked when the person asked, or when we heard that what they said is answered: a `performance.now()`
 * @property {number} [sent] when the request left the page, the call being open
 * @property {number} [heard] when the first audible sample was rendered
 * @property {number} [buffered] ms that sound spends in the jitter buffer, NaN if the browser does not say
 * @property {number} [output] ms that the loudspeaker takes, as far as the browser knows
 * @property {import("./clock.js").Clock} [clock] the server's
 * @property {Server} [server] ms of each stage, as `voxrtc.timing` tells them
 *
 * @typedef {{silence: number | null, words: number | null, token: number, clause: number, queue: number, prompt: number,
 *   first_frame: number, first_chunk: number, track: number, total: number, server_time: number}} Server
 * @typedef {{name: string, label: string, hint: string, start: number, ms: number}} Stage
 * @typedef {{total: number, spoken: boolean, server: number, after: number, within: number, stages: Stage[]}} Journey
 *   `server`: ms of it that the server measured, `after`: from its first packet to the first audible sample, by both clocks,
 *   `within`: how far these may be off
 */

/** The stages' names and labels, for an empty picture. */
export const EMPTY = Object.entries(STAGES)
  .filter(([, { always }]) => always)
  .map(([name, { label, hint }]) => ({ name, label, hint, start: 0, ms: NaN }));

/**
 * Heard time to first audio, split. What the other stages leave, the voice took to begin. The loudspeaker's own delay comes last,
 * and is not in the total: only some browsers know it.
 * @param {Marks} marks
 * @returns {Journey | null} null while a mark is missing
 */
export function split({ asked, sent, heard, buffered, output, clock, server }) {
  if (sent === undefined || heard === undefined || buffered === undefined || !server) return null;
  const spoken = server.silence !== null;
  const trip = clock?.roundTrip || 0;
  const after = heard - (clock?.local(server.server_time) ?? NaN);
  const up = trip / 2 + PACKET;
  const measured = server.total + (spoken ? server.silence + server.words : 0);
  const total = spoken ? up + measured + after : heard - asked;
  if (Number.isNaN(total)) return null;
  const ms = {
    ...(spoken ? { microphone: up, silence: server.silence, words: server.words } : { connect: sent - asked }),
    token: server.token,
    clause: server.clause,
    queue: server.queue,
    prompt: server.prompt,
    chunk: server.first_frame + server.first_chunk,
    track: server.track,
    network: spoken ? trip / 2 : trip,
  };
  const known = Object.values(ms).reduce((sum, each) => sum + each, 0);
  const rest = Math.max(0, total - known);
  ms.browser = Math.min(rest, Number.isNaN(buffered) ? rest : buffered);
  ms.onset = rest - ms.browser;
  ms.output = output ?? 0;
  return { total, spoken, server: measured, after, within: trip / 2, stages: laidOut(ms) };
}

/** Each where the one before ends; those that seldom are, only if they took a while. @returns {Stage[]} */
function laidOut(ms) {
  let start = 0;
  return Object.entries(STAGES).flatMap(([name, { label, hint, always }]) => {
    if (!(name in ms)) return [];
    const stage = { name, label, hint, start, ms: ms[name] };
    start += ms[name];
    return always || stage.ms >= 1 ? [stage] : [];
  });
}
