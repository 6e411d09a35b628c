/** Whether what the person says arrives. Pure: looks about once a second. */

const LOUD = 0.15; // of the microphone's level
const UNHEARD = 3; // looks with sound at the microphone, and none at the server

export class Uplink {
  #arrived = -1;
  #loud = 0;

  /**
   * @param {number} level of the microphone, 0 to 1
   * @param {number} arrived packets of it that have come to the server
   * @returns {boolean} false: there is something in the way
   */
  look(level, arrived) {
    if (arrived !== this.#arrived) this.#loud = 0;
    else if (level > LOUD) this.#loud++;
    this.#arrived = arrived;
    return this.#loud < UNHEARD;
  }
}
