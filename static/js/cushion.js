/** How much sound is kept before it is played, so that a late packet leaves no gap. Pure: follows how late packets come. */

const FRAME = 20; // ms of sound in a packet
const [LEAST, MOST] = [60, 400]; // ms
const FORGOTTEN = 0.998; // of the worst gap, a packet later: half of it in 7 s
const TOO_MUCH = 60; // ms over the target, beyond which pauses are left out

export class Cushion {
  /** @type {{number: number, at: number} | null} the last packet */ #last = null;
  #late = 0; // ms

  /** ms that should wait when sound begins. */
  get target() {
    return Math.min(MOST, Math.max(LEAST, this.#late + FRAME));
  }

  /** A packet came. @param {number} number @param {number} at ms */
  came(number, at) {
    const last = this.#last;
    const late = last ? at - last.at - FRAME * (number - last.number) : 0;
    this.#late = Math.max(late, this.#late * FORGOTTEN);
    this.#last = { number, at };
  }

  /** Whether so much waits that a pause may be left out. @param {number} waiting ms */
  over(waiting) {
    return waiting > this.target + TOO_MUCH;
  }
}
