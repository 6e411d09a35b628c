/** The sound as a picture: a quiet line of bars that moves while there is something to hear. */

const STEP = 6; // css px from bar to bar
const BAR = 3;
const EVERY = 1 / 30; // s a bar
const FLOOR = 0.02;
const GAIN = 2.2; // speech at a comfortable level fills the height

export class Meter {
  #levels = [];
  #samples = new Float32Array(1024);
  #drawn = 0;
  #frame = 0;
  #still = matchMedia("(prefers-reduced-motion: reduce)");

  /**
   * @param {import("./speaker.js").Speaker} speaker
   * @param {() => boolean} busy whether to keep moving
   */
  constructor(speaker, busy) {
    this.speaker = speaker;
    this.busy = busy;
  }

  /** Draw on `canvas` from now on; a page that rendered anew brings a new one. */
  adopt(canvas) {
    this.canvas = canvas;
    this.resizing?.disconnect();
    this.resizing = new ResizeObserver(() => this.#draw());
    this.resizing.observe(canvas);
  }

  /** Move while busy, then come to rest; nothing runs in between. */
  wake() {
    if (!this.#frame) this.#frame = requestAnimationFrame((now) => this.#tick(now));
  }

  #tick(now) {
    const rate = this.#still.matches ? 8 * EVERY : EVERY;
    this.#frame = 0;
    if (now - this.#drawn >= rate * 1000 - 4) {
      this.#drawn = now;
      this.#levels = [...this.#levels, this.#level()].slice(-512);
      this.#draw();
    }
    if (this.busy() || this.#levels.slice(-200).some((level) => level > FLOOR)) this.wake();
  }

  #level() {
    if (!this.speaker.context) return 0;
    this.speaker.scope(this.#samples);
    return levelOf(this.#samples);
  }

  #draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const scale = devicePixelRatio;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.fillStyle = getComputedStyle(this.canvas).color;
    const count = Math.floor(width / STEP);
    const newest = this.#levels.at(-1) ?? 0;
    for (let i = 0; i < count; i++) {
      // people who want no motion get the present level only, the same in every bar
      const level = this.#still.matches ? newest : (this.#levels.at(i - count) ?? 0);
      const tall = Math.max(BAR, level * (height - 4));
      pen.globalAlpha = level > FLOOR ? 0.35 + 0.65 * (i / count) : 0.22;
      pen.beginPath();
      pen.roundRect(i * STEP + (STEP - BAR) / 2, (height - tall) / 2, BAR, tall, BAR / 2);
      pen.fill();
    }
  }
}

/** How loud samples are, 0 to 1, as an ear would say. @param {Float32Array} samples */
export function levelOf(samples) {
  const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
  return Math.min(1, GAIN * Math.sqrt(power) ** 0.7);
}
