/** What may happen to microphone and loudspeaker: chosen anew, unplugged, muted, taken away by a phone call. */
import { Trouble } from "./troubles.js";
import { Uplink } from "./uplink.js";
import { DEVICES } from "./words.js";

/** Events: `trouble` (detail: a `Trouble`), and `well` (detail: the code of one that is over). */
export class Gear extends EventTarget {
  #uplink = new Uplink();
  #heard = false; // there was sound once

  /**
   * @param {import("./speaker.js").Speaker} speaker
   * @param {import("./input.js").Input} input
   * @param {import("./devices.js").Devices} devices
   * @param {import("./connection.js").Connection} line
   */
  constructor(speaker, input, devices, line) {
    super();
    Object.assign(this, { speaker, input, devices, line });
    const microphone = input.microphone;
    devices.addEventListener("change", () => this.#route());
    microphone.addEventListener("moved", ({ detail }) => this.#moved(detail));
    microphone.addEventListener("lost", ({ detail }) => (input.close(), this.#trouble(detail)));
    microphone.addEventListener("muted", () => this.#trouble(new Trouble("mic_muted")));
    microphone.addEventListener("unmuted", () => this.#well("mic_muted"));
    speaker.addEventListener("change", () => this.#sound());
    line.addEventListener("arrived", ({ detail }) => this.#listen(detail));
    speaker.addEventListener("blocked", () => this.#trouble(new Trouble("sound_blocked")));
  }

  /** Open the microphone that the person wants. Call it inside their gesture, before anything is awaited. */
  async open() {
    const asked = this.devices.get("microphone");
    await this.input.open(this.speaker.context, asked);
    await this.devices.look(); // which there are, we may be told only now
    const wanted = this.devices.get("microphone");
    if (wanted !== asked) await this.input.change(wanted);
  }

  /** @param {import("./devices.js").Kind} kind @param {string} id empty for the system's choice */
  choose(kind, id) {
    this.devices.choose(kind, id);
    if (kind === "microphone") this.#switch();
  }

  /** What the system took can be had again in a gesture. Call it in each; mostly it does nothing. */
  wake() {
    if (this.speaker.context && !this.speaker.unlocked) this.speaker.unlock().catch(() => {});
    if (this.input.microphone.track?.muted) this.#switch();
  }

  /** @param {number} arrived of the microphone's packets */
  #listen(arrived) {
    if (this.#uplink.look(this.input.microphone.level, arrived)) this.#well("mic_unheard");
    else this.#trouble(new Trouble("mic_unheard"));
  }

  #switch() {
    this.input.change(this.devices.get("microphone")).then(
      () => ["mic_muted", "mic_gone", "mic_moved"].forEach((code) => this.#well(code)),
      (trouble) => this.#trouble(trouble),
    );
  }

  #route() {
    this.speaker.route(this.devices.get("speaker")).then(
      () => this.#well("speaker_gone"),
      () => this.#trouble(new Trouble("speaker_gone")),
    );
  }

  #moved(label) {
    if (!this.input.listening) return this.input.close(); // switched off meanwhile
    this.input.connect();
    this.devices.look();
    this.#trouble(new Trouble("mic_moved", label && DEVICES.moved(label)));
  }

  #sound() {
    if (this.speaker.unlocked) {
      this.#heard = true;
      ["sound_interrupted", "sound_blocked"].forEach((code) => this.#well(code));
    } else if (this.line.open) this.#trouble(new Trouble(this.#heard ? "sound_interrupted" : "sound_blocked"));
  }

  #trouble(detail) {
    this.dispatchEvent(new CustomEvent("trouble", { detail }));
  }

  #well(detail) {
    this.dispatchEvent(new CustomEvent("well", { detail }));
  }
}
