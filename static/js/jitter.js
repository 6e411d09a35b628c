/** How long sound waits inside the browser, and how long it should. */

const USUAL_DELAY = 60; // ms, where the browser does not say

const [PACKET, MOST] = [20, 400]; // ms
const CALM = { jitter: 10, loss: 0.01 }; // where less is going on, the browser knows best
const SHRINK = 60; // ms by which less must do before the buffer is made smaller

/**
 * What the buffer is to hold at least, so that packets that are late, or come once more inside the next one, are not missed. Pure.
 * @param {import("./network.js").Figures} figures of the last second
 * @param {number | null} before what it was told last
 * @returns {number | null} ms; null: as the browser likes
 */
export function bufferTarget({ jitter_ms: jitter, loss }, before) {
  const wanted = (jitter ?? 0) < CALM.jitter && (loss ?? 0) < CALM.loss ? 0 : 2 * PACKET + 2 * (jitter ?? 0) + (loss >= CALM.loss ? PACKET : 0);
  const target = Math.min(MOST, PACKET * Math.ceil(wanted / PACKET));
  return (target < (before ?? 0) && (before ?? 0) - target < SHRINK ? before : target) || null;
}

export class JitterBuffer {
  #looked = null;

  /** @param {() => Promise<object | null>} stats WebRTC's `inbound-rtp` */
  constructor(stats) {
    this.stats = stats;
  }

  /** ms that a sample spent in the buffer, on average since the last look; NaN when the browser does not say. */
  async delay() {
    const before = this.#looked;
    const after = (this.#looked = await this.stats());
    const samples = after?.jitterBufferEmittedCount - (before?.jitterBufferEmittedCount ?? 0);
    return (1000 * (after?.jitterBufferDelay - (before?.jitterBufferDelay ?? 0))) / samples;
  }

  /** The same; the usual delay where the browser does not say. */
  async likelyDelay() {
    return (await this.delay()) || USUAL_DELAY;
  }

  /** Begin anew: another call's figures begin at nothing. */
  forget() {
    this.#looked = null;
  }
}
