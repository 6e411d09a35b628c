/** Whether a line still lives, by what comes in: a server in good order is never silent for half a second. Pure; times in ms. */

export const BEAT = 500; // between two looks
const SILENT_FOR = 2_000;

export class Pulse {
  /** @param {number} now */
  constructor(now) {
    this.heard = this.looked = now;
    this.bytes = -1;
  }

  /** Something came. @param {number} now */
  beat(now) {
    this.heard = now;
  }

  /**
   * Look: so many bytes have come in all.
   * @param {number} now
   * @param {number} [bytes] where they are counted
   * @returns {boolean} whether it lives
   */
  look(now, bytes = this.bytes) {
    const asleep = now - this.looked > 3 * BEAT; // the browser let the page sleep: then it could hear nothing
    if (bytes !== this.bytes || asleep) this.heard = now;
    [this.looked, this.bytes] = [now, bytes];
    return now - this.heard < SILENT_FOR;
  }
}
