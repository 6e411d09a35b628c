/** Opus packets from a tunnel, made into the sound of an audio node. */

const OPUS = { codec: "opus", sampleRate: 48_000, numberOfChannels: 1 };
const FRAME_US = 20_000;
const MODULE = new URL("worklets/player.js", import.meta.url);

/** Events: `report` (detail: as the worklet tells it). */
export class Player extends EventTarget {
  #decoder = null;
  #numbers = []; // of the packets that are being decoded
  #over = false;

  /** Whether this browser can. */
  static get possible() {
    return "AudioDecoder" in window && "AudioWorkletNode" in window;
  }

  /** @param {AudioContext} context @returns {Promise<AudioNode | null>} null: it was closed meanwhile */
  async begin(context) {
    await context.audioWorklet.addModule(MODULE);
    if (this.#over) return null;
    this.node = new AudioWorkletNode(context, "voxrtc-player", { numberOfInputs: 0, outputChannelCount: [1] });
    this.node.port.onmessage = ({ data }) => this.dispatchEvent(new CustomEvent("report", { detail: data }));
    this.#open();
    return this.node;
  }

  /** @param {number} number @param {Uint8Array} opus empty: silence */
  take(number, opus) {
    if (!opus.length) return this.#hand(number, null);
    this.#numbers.push(number);
    this.#decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: number * FRAME_US, duration: FRAME_US, data: opus }));
  }

  /** @param {"pause" | "play" | "clear" | "end"} what */
  tell(what) {
    this.node?.port.postMessage(what);
  }

  close() {
    this.#over = true;
    this.tell("end");
    if (this.#decoder?.state === "configured") this.#decoder.close();
    this.node?.disconnect();
  }

  #open() {
    this.#decoder = new AudioDecoder({
      output: (sound) => this.#decoded(sound),
      error: () => {
        this.#numbers.splice(0).forEach((number) => this.#hand(number, null)); // they are gone, but count as played
        if (!this.#over) this.#open();
      },
    });
    this.#decoder.configure(OPUS);
  }

  #decoded(sound) {
    const samples = new Float32Array(sound.numberOfFrames);
    sound.copyTo(samples, { planeIndex: 0, format: "f32-planar" });
    sound.close();
    this.#hand(this.#numbers.shift(), samples);
  }

  #hand(number, samples) {
    this.node?.port.postMessage({ number, samples }, samples ? [samples.buffer] : []);
  }
}
