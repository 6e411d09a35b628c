/** Hands on what a microphone hears: `Float32Array`s of 20 ms, at the context's rate; until it is told "end". */

const LENGTH = Math.round(sampleRate / 50);

class Capture extends AudioWorkletProcessor {
  #block = new Float32Array(LENGTH);
  #filled = 0;
  #over = false;

  constructor() {
    super();
    this.port.onmessage = () => (this.#over = true);
  }

  process([[samples]]) {
    for (let at = 0; samples && at < samples.length; ) {
      const count = Math.min(samples.length - at, LENGTH - this.#filled);
      this.#block.set(samples.subarray(at, at + count), this.#filled);
      this.#filled += count;
      at += count;
      if (this.#filled === LENGTH) this.#hand();
    }
    return !this.#over;
  }

  #hand() {
    this.port.postMessage(this.#block, [this.#block.buffer]);
    this.#block = new Float32Array(LENGTH);
    this.#filled = 0;
  }
}

registerProcessor("voxrtc-capture", Capture);
