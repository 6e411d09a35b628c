/** How long sound waits inside the browser. */

const USUAL_DELAY = 60; // ms, where the browser does not say

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
