/** A microphone's sound as Opus packets, for a tunnel. */

const BITRATE = 24_000;
const MODULE = new URL("worklets/capture.js", import.meta.url);

export class Capture {
  #source = null;
  #node = null;
  #encoder = null;
  #taken = 0; // samples
  #ends = 0; // so far

  /** Whether this browser can. */
  static get possible() {
    return "AudioEncoder" in window && "AudioWorkletNode" in window;
  }

  /**
   * Take this track's sound, and no other's.
   * @param {AudioContext} context
   * @param {MediaStreamTrack} track
   * @param {(samples: number, opus: Uint8Array) => void} hand told each packet, and when it began in samples at 48 kHz
   */
  async begin(context, track, hand) {
    this.end();
    const ends = this.#ends;
    await context.audioWorklet.addModule(MODULE);
    if (ends !== this.#ends) return; // it was taken away meanwhile, or somebody else wants it
    this.#encoder = new AudioEncoder({ output: (chunk) => hand(...unpacked(chunk)), error: () => ends === this.#ends && this.end() });
    this.#encoder.configure({ codec: "opus", sampleRate: context.sampleRate, numberOfChannels: 1, bitrate: BITRATE });
    this.#node = new AudioWorkletNode(context, "voxrtc-capture", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
    this.#node.port.onmessage = ({ data }) => this.#encode(data, context.sampleRate);
    this.#source = context.createMediaStreamSource(new MediaStream([track]));
    this.#source.connect(this.#node);
  }

  end() {
    this.#ends++;
    this.#source?.disconnect();
    this.#node?.port.postMessage("end");
    if (this.#encoder?.state === "configured") this.#encoder.close();
    this.#source = this.#node = this.#encoder = null;
  }

  #encode(data, sampleRate) {
    if (this.#encoder?.state !== "configured") return;
    const timestamp = Math.round((1e6 * this.#taken) / sampleRate);
    this.#taken += data.length;
    const sound = new AudioData({ format: "f32-planar", sampleRate, numberOfFrames: data.length, numberOfChannels: 1, timestamp, data });
    this.#encoder.encode(sound);
    sound.close();
  }
}

function unpacked(chunk) {
  const opus = new Uint8Array(chunk.byteLength);
  chunk.copyTo(opus);
  return [Math.round((chunk.timestamp * 48) / 1000), opus];
}
