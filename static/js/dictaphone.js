/** A recording of the person's voice, by the browser. */
import { levelOf } from "./meter.js";
import { ask } from "./microphone.js";
import { allowRecording } from "./speaker.js";

export const LONGEST = 30; // s that the server takes
const MARGIN = 0.4; // s: a recorder stops late, and encoders add to it
// As it sounds in the room: what makes a call clear takes some of a voice along.
const FAITHFUL = { echoCancellation: false, noiseSuppression: false, autoGainControl: true, channelCount: 1 };

/** One recording at a time. */
export class Dictaphone {
  /** @type {MediaRecorder | null} */ #recorder = null;
  #began = 0;
  #samples = new Float32Array(1024);

  /** Whether this browser can record. */
  static get possible() {
    return "MediaRecorder" in window && "mediaDevices" in navigator;
  }

  /** Whether it runs. */
  get running() {
    return this.#recorder !== null;
  }

  /** How long it has run. */
  get seconds() {
    return this.running ? (performance.now() - this.#began) / 1000 : 0;
  }

  /** How loud it is just now, 0 to 1. */
  get level() {
    if (!this.running) return 0;
    this.scope.getFloatTimeDomainData(this.#samples);
    return levelOf(this.#samples);
  }

  /**
   * Record until `stop`, at most `LONGEST` seconds. Call it inside the person's gesture, before anything is awaited.
   * @param {string} device its id; empty for the system's choice
   * @param {() => void} began
   * @returns {Promise<Blob>}
   * @throws {import("./troubles.js").Trouble}
   */
  async record(device, began) {
    const context = new AudioContext(); // of its own: what the page plays may be stopped meanwhile
    try {
      const stream = await ask(device, FAITHFUL);
      this.scope = new AnalyserNode(context, { fftSize: this.#samples.length });
      context.createMediaStreamSource(stream).connect(this.scope);
      return await this.#take(stream, began).finally(() => stream.getTracks().forEach((track) => track.stop()));
    } finally {
      this.#recorder = null;
      allowRecording(false);
      context.close();
    }
  }

  /** That is it. */
  stop() {
    if (this.#recorder?.state === "recording") this.#recorder.stop();
  }

  #take(stream, began) {
    const recorder = new MediaRecorder(stream, { audioBitsPerSecond: 128_000 });
    const parts = [];
    this.#recorder = recorder;
    this.#began = performance.now();
    recorder.addEventListener("dataavailable", ({ data }) => parts.push(data));
    const over = new Promise((resolve) => recorder.addEventListener("stop", resolve, { once: true }));
    const late = setTimeout(() => this.stop(), 1000 * (LONGEST - MARGIN));
    recorder.start();
    began();
    return over.then(() => (clearTimeout(late), new Blob(parts, { type: recorder.mimeType })));
  }
}
