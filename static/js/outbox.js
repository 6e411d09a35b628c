/** The last events that the page has sent: those that a broken line lost are sent once more. Pure. */

const KEPT = 256;

export class Outbox {
  /** @type {object[]} */ #sent = [];
  #count = 0;

  /** @param {object} event @returns {object} the event under a number, to be sent */
  add(event) {
    const numbered = { ...event, event_id: `page_${++this.#count}` };
    this.#sent = [...this.#sent.slice(1 - KEPT), numbered];
    return numbered;
  }

  /** @param {string | null} took the last one that the server has got @returns {object[]} those that it has not */
  after(took) {
    return this.#sent.slice(this.#sent.findIndex(({ event_id: id }) => id === took) + 1);
  }

  clear() {
    this.#sent = [];
  }
}
