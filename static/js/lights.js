/**
 * When a word reaches the ear. The server tells how far its track has come; from there the sound has still to pass our jitter
 * buffer and the loudspeaker's own delay, and a word must not light up before it is heard.
 */
export class Lights {
  /**
   * @param {() => Promise<number>} delay ms from the server's track to the ear
   * @param {(response: string, characters: number) => void} light
   */
  constructor(delay, light) {
    this.delay = delay;
    this.light = light;
  }

  /**
   * So many characters of a response have left the server's track, just now.
   * @param {string} response
   * @param {number} characters
   */
  async pass(response, characters) {
    const due = performance.now() + (await this.delay());
    setTimeout(() => this.light(response, characters), due - performance.now());
  }
}
