/**
 * How far the server's clock is from ours, by pings. Of the latest, the one that came back soonest says best: whatever else
 * held it up, it held up least (the clock filter of RFC 5905, section 10). Pure; times in ms.
 */

const KEPT = 8; // pings, a second apart: clocks drift by less than 1 ms meanwhile

export class Clock {
  /** @type {{trip: number, offset: number}[]} */ #pings = [];

  /**
   * A ping came back.
   * @param {number} sent by our clock
   * @param {number} server by the server's clock, when it answered
   * @param {number} received by our clock
   */
  observe(sent, server, received) {
    const trip = received - sent;
    this.#pings = [...this.#pings.slice(1 - KEPT), { trip, offset: server - (sent + received) / 2 }];
  }

  /** The least round trip of late; NaN before there was one. */
  get roundTrip() {
    return this.#best.trip;
  }

  /** What to add to a time of ours to have the server's; NaN while it is not known. */
  get offset() {
    return this.#best.offset;
  }

  /** How far that may be off, whichever way of the ping was the slow one. */
  get uncertainty() {
    return this.#best.trip / 2;
  }

  /** When it was by our clock. @param {number} server by the server's */
  local(server) {
    return server - this.offset;
  }

  get #best() {
    const none = { trip: NaN, offset: NaN };
    return this.#pings.reduce((best, each) => (each.trip >= best.trip ? best : each), this.#pings[0] ?? none);
  }
}
