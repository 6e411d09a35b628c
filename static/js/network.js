/** What the network does to the sound, as WebRTC's `getStats` has it: looked at once a second while a call is open, and told to the server. */

import { bufferTarget } from "./jitter.js";

const LOOK_EVERY = 1_000; // ms

/**
 * Figures of about a second; null where the browser does not say. Shares are 0 to 1.
 * @typedef {{rtt_ms: number | null, jitter_ms: number | null, loss: number | null, concealed: number | null, buffer_ms: number | null,
 *   target_ms: number | null}} Figures  `target_ms`: what the jitter buffer is to hold at least, or a tunnel's player does
 */

/** Events: `change`, when `figures` are new, or null again since there is no call. */
export class Network extends EventTarget {
  /** @type {Figures | null} */ figures = null;
  /** @type {import("./call.js").Call | null} whose report we have */ #call = null;
  /** @type {RTCStatsReport | null} */ #before = null;

  /** @param {import("./connection.js").Connection} line */
  constructor(line) {
    super();
    this.line = line;
    setInterval(() => this.#look(), LOOK_EVERY);
  }

  async #look() {
    const call = this.line.open ? this.line.call : null;
    if (!call) return this.#forget();
    const report = await call.report();
    const before = call === this.#call ? this.#before : null;
    [this.#call, this.#before] = [call, report];
    if (!before || call !== this.line.call || !call.open) return;
    this.figures = measure(before, report, call.clock.roundTrip);
    call.buffer = bufferTarget(this.figures, call.buffer);
    this.figures.target_ms = call.buffer;
    this.line.send({ type: "voxrtc.network", network: this.figures });
    this.dispatchEvent(new Event("change"));
  }

  #forget() {
    if (!this.#call) return;
    this.#call = this.#before = this.figures = null;
    this.dispatchEvent(new Event("change"));
  }
}

/**
 * The figures between two reports. Pure.
 * @param {Iterable<[string, any]>} before
 * @param {Iterable<[string, any]>} after
 * @param {number} roundTrip over the data channel, ms; where the browser does not measure the path's own
 * @returns {Figures}
 */
export function measure(before, after, roundTrip) {
  const [from, to] = [inbound(before), inbound(after)];
  const since = (name) => (to[name] ?? NaN) - (from[name] ?? 0);
  const received = since("packetsReceived");
  const lost = Math.max(0, since("packetsLost")); // it falls when a late packet comes after all
  const made = since("concealedSamples") - (since("silentConcealedSamples") || 0); // silence that was not sent is none
  const pair = [...after].map(([, each]) => each).find(({ type, nominated, state }) => type === "candidate-pair" && nominated && state === "succeeded");
  return {
    rtt_ms: figure(1000 * (pair?.currentRoundTripTime ?? roundTrip / 1000)),
    jitter_ms: figure(1000 * to.jitter),
    loss: figure(lost / (received + lost)),
    concealed: figure(Math.max(0, made) / since("totalSamplesReceived")),
    buffer_ms: figure((1000 * since("jitterBufferDelay")) / since("jitterBufferEmittedCount")),
  };
}

function inbound(report) {
  return [...report].map(([, each]) => each).find(({ type, kind }) => type === "inbound-rtp" && kind === "audio") ?? {};
}

function figure(value) {
  return Number.isFinite(value) ? Math.round(value * 1e4) / 1e4 : null;
}
