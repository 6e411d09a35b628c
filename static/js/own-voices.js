/** Voices that the person brought along. The server has them as long as this page is there and says so. */
import { Trouble } from "./troubles.js";

const ALIVE_EVERY = 60_000; // ms; the server lets go of what is not asked for in ten minutes

/**
 * @typedef {{id: string, name: string, voxrtc: {text: string, seconds: number, warnings: {code: string, message: string}[]}}} OwnVoice
 */

/** Events: `change`, after which `list` is to be read anew; `gone` (detail: an `OwnVoice`), of one that the server let go. */
export class OwnVoices extends EventTarget {
  /** @type {OwnVoice[]} */ list = [];
  #timer = 0;

  /** @param {URL} base where the server's API hangs */
  constructor(base) {
    super();
    this.base = base;
    addEventListener("pagehide", () => this.#leave());
  }

  /** @param {string} id @returns {OwnVoice | undefined} */
  get(id) {
    return this.list.find((voice) => voice.id === id);
  }

  /**
   * Give the server a recording.
   * @param {Blob} sound
   * @param {{name: string, text: string, consent: boolean}} about
   * @returns {Promise<OwnVoice>}
   * @throws {Trouble}
   */
  async add(sound, { name, text, consent }) {
    const body = new FormData();
    body.append("name", name);
    body.append("ref_text", text);
    body.append("consent", `${consent}`);
    body.append("audio_sample", sound, "recording");
    const voice = await this.#ask("", { method: "POST", body });
    this.#have([...this.list, voice]);
    return voice;
  }

  /** Delete one, here and at the server. @param {string} id */
  async remove(id) {
    this.#have(this.list.filter((voice) => voice.id !== id));
    await this.#ask(`/${id}`, { method: "DELETE" }).catch(() => {}); // it was gone, or goes by itself
  }

  /** Tell the server that they are needed, and learn which it has no longer. */
  async look() {
    for (const voice of this.list) {
      const code = await this.#ask(`/${voice.id}`).then(() => "", (trouble) => trouble.code);
      if (code !== "voice_gone" || !this.get(voice.id)) continue;
      this.#have(this.list.filter(({ id }) => id !== voice.id));
      this.dispatchEvent(new CustomEvent("gone", { detail: voice }));
    }
  }

  #have(list) {
    this.list = list;
    clearInterval(this.#timer);
    if (list.length) this.#timer = setInterval(() => this.look(), ALIVE_EVERY);
    this.dispatchEvent(new Event("change"));
  }

  /** The page goes: nothing stays behind. */
  #leave() {
    for (const { id } of this.list) fetch(this.#url(`/${id}`), { method: "DELETE", keepalive: true }).catch(() => {});
    this.#have([]);
  }

  async #ask(path, request) {
    const response = await fetch(this.#url(path), request).catch(() => null);
    if (!response) throw new Trouble("unreachable");
    if (!response.ok) throw await Trouble.fromResponse(response);
    return response.json();
  }

  #url(path) {
    return new URL(`v1/audio/voices${path}`, this.base);
  }
}
