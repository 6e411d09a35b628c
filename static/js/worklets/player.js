/**
 * Plays packets that come in order over a tunnel, as smoothly as they let it: in the audio thread, so that nothing of the page
 * disturbs it. In: `{number, samples}` (48 kHz; null: 20 ms of silence), and "pause", "play", "clear", "end". Out, ten times a second:
 * `{rendered, waiting, target, dry}`: the number of the last packet that was rendered or dropped, ms, ms, and times it ran dry.
 */
import { Cushion } from "../cushion.js";

const FRAME = 960; // samples
const QUIET = 4e-3; // a packet that stays below is a pause
const REPORT_EVERY = sampleRate / 10;

class Player extends AudioWorkletProcessor {
  #queue = []; // packets
  #at = 0; // in the first of them, in samples; seldom a whole number where the loudspeaker has another rate
  #step = 48_000 / sampleRate;
  #before = 0; // the last sample of the packet before
  #cushion = new Cushion();
  #filling = true;
  #paused = false;
  #rendered = -1;
  #dry = 0;
  #sounds = false; // what was played last
  #since = 0;
  #over = false;

  constructor() {
    super();
    this.port.onmessage = ({ data }) => (typeof data === "string" ? this[data]() : this.#take(data));
  }

  pause() {
    this.#paused = true;
  }

  play() {
    this.#paused = false;
  }

  /** The browser keeps who is not over, and calls it, for as long as the page is there. */
  end() {
    this.#over = true;
  }

  /** Nothing of what waits will be heard. */
  clear() {
    this.#rendered = this.#queue.at(-1)?.number ?? this.#rendered;
    this.#queue = [];
    this.#at = this.#before = 0;
    this.#filling = true;
    this.#paused = this.#sounds = false;
  }

  process(_, [[out]]) {
    this.#filling &&= this.#waiting < this.#cushion.target;
    if (!this.#paused && !this.#filling) for (let i = 0; i < out.length; i++) out[i] = this.#next();
    this.#since += out.length;
    if (this.#since >= REPORT_EVERY) this.#report();
    return !this.#over;
  }

  get #waiting() {
    return (1000 * (this.#queue.length * FRAME - this.#at)) / 48_000;
  }

  #take({ number, samples }) {
    this.#cushion.came(number, 1000 * currentTime);
    this.#queue.push({ number, samples, quiet: !samples || samples.every((sample) => Math.abs(sample) < QUIET) });
  }

  #next() {
    while (this.#at >= FRAME) this.#leave();
    const packet = this.#queue[0];
    if (!packet) return this.#runDry();
    const at = Math.floor(this.#at);
    const [before, after] = [at ? packet.samples?.[at - 1] ?? 0 : this.#before, packet.samples?.[at] ?? 0];
    const part = this.#at - at;
    this.#at += this.#step;
    return before + (after - before) * part;
  }

  /** The first packet was played; a pause behind it may be left out, when too much waits. */
  #leave() {
    this.#at -= FRAME;
    this.#done();
    while (this.#queue[0]?.quiet && this.#cushion.over(this.#waiting)) this.#done();
  }

  #done() {
    const { number, samples, quiet } = this.#queue.shift();
    this.#rendered = number;
    this.#before = samples?.[FRAME - 1] ?? 0;
    this.#sounds = !quiet;
  }

  #runDry() {
    this.#filling = true;
    if (this.#sounds) this.#dry++;
    this.#sounds = false;
    this.#at = this.#before = 0;
    return 0;
  }

  #report() {
    this.#since = 0;
    const { target } = this.#cushion;
    this.port.postMessage({ rendered: this.#rendered, waiting: this.#waiting, target, dry: this.#dry });
  }
}

registerProcessor("voxrtc-player", Player);
