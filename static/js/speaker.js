/**
 * The way of the sound inside the page: remote track -> our gain -> ears and instruments. Because the gain is ours, Stop
 * is heard at once, while the sound that is already on its way drains unheard.
 */

const RAMP = 0.005; // s: silence that does not click
const UNSURE = 0.03; // s: how far off the given delay of the jitter buffer may be, early
const LATEST = 0.1; // s: and late
const QUIET = 4e-3; // full scale is 1; between two responses the line stays below
const PAUSE = 512; // samples below it, about 10 ms, make a pause
const AUDIBLE = 1e-3; // the codec's own silence stays below
const LOOK_EVERY = 20; // ms

/** iOS: be heard though the ring switch is off; and beside a microphone, not in place of it. */
export function allowRecording(allowed) {
  if (navigator.audioSession) navigator.audioSession.type = allowed ? "play-and-record" : "playback";
}

export class Speaker {
  /** @type {AudioContext | null} */ context = null;
  /** @type {GainNode | null} What the ear gets: connect instruments here. */ output = null;
  #sink = new Audio();
  #source = null;
  #hushed = false;
  #draining = 0;
  #waiting = 0;
  #line = new Float32Array(8_192);
  #ear = new Float32Array(16_384);

  constructor() {
    // Chromium feeds a remote track to Web Audio only while a media element plays it; muted, so that it is heard once.
    this.#sink.muted = true;
    this.#sink.setAttribute("playsinline", "");
  }

  /** Must be called inside a user's gesture: mobile browsers start no sound otherwise. */
  unlock() {
    if (!this.context) this.#build();
    this.#sink.play().catch(() => {}); // nothing to play before the first call
    return this.context.resume();
  }

  /** Whether the browser lets us be heard. */
  get unlocked() {
    return this.context?.state === "running";
  }

  /** @param {MediaStream} stream the server's sound; the previous one is let go */
  attach(stream) {
    this.#source?.disconnect();
    this.#sink.srcObject = stream;
    this.#sink.play().catch(() => {});
    this.#source = this.context.createMediaStreamSource(stream);
    this.#source.connect(this.output);
    this.#source.connect(this.lineNode);
  }

  /** Silence, now. */
  hush() {
    if (!this.context) return;
    clearInterval(this.#draining);
    this.#hushed = true;
    this.#ramp(0);
  }

  /**
   * Let sound through again: the next response's sound has left the server. What was hushed still comes before it, out of
   * the jitter buffer; a pause at about that buffer's delay tells when it is gone.
   * @param {number} delay s that sound spends in the jitter buffer, as far as known
   */
  lift(delay) {
    if (!this.#hushed) return;
    const earliest = this.context.currentTime + Math.max(0, delay - UNSURE);
    clearInterval(this.#draining);
    this.#draining = setInterval(() => {
      const late = this.context.currentTime - earliest;
      if (late < 0 || (late < UNSURE + LATEST && !this.#pausedSince(earliest))) return;
      clearInterval(this.#draining);
      this.#hushed = false;
      this.#ramp(1);
    }, LOOK_EVERY / 4);
  }

  /**
   * The `performance.now()` at which the first audible sample from now on is rendered. Never settles when nothing comes, or
   * after `forgetSound` or another call.
   * @returns {Promise<number>}
   */
  firstSound() {
    const from = this.context.currentTime;
    this.forgetSound();
    return new Promise((resolve) => {
      this.#waiting = setInterval(() => {
        const at = this.#firstSoundAfter(from);
        if (at === null) return;
        this.forgetSound();
        resolve(performance.now() - (this.context.currentTime - at) * 1000);
      }, LOOK_EVERY);
    });
  }

  /** Wait no longer. */
  forgetSound() {
    clearInterval(this.#waiting);
  }

  /** The newest samples, for pictures. @param {Float32Array} into up to 1024 */
  scope(into) {
    this.scopeNode.getFloatTimeDomainData(into);
  }

  #build() {
    allowRecording(false);
    this.context = new AudioContext({ latencyHint: "interactive" });
    this.output = this.context.createGain();
    this.output.connect(this.context.destination);
    this.lineNode = new AnalyserNode(this.context, { fftSize: this.#line.length });
    this.scopeNode = new AnalyserNode(this.context, { fftSize: 1024 });
    this.earNode = new AnalyserNode(this.context, { fftSize: this.#ear.length });
    this.output.connect(this.scopeNode);
    this.output.connect(this.earNode);
  }

  #ramp(value) {
    const gain = this.output.gain;
    const now = this.context.currentTime;
    gain.cancelScheduledValues(now);
    gain.setTargetAtTime(value, now, RAMP / 4);
    gain.setValueAtTime(value, now + RAMP);
  }

  /** Whether the sound before our gain has paused since that context time. */
  #pausedSince(from) {
    let quiet = 0;
    for (const sample of this.#newest(this.lineNode, this.#line, from - PAUSE / this.context.sampleRate)) {
      quiet = Math.abs(sample) < QUIET ? quiet + 1 : 0;
      if (quiet >= PAUSE) return true;
    }
    return false;
  }

  /** Context time of the first audible sample after `from` that the ear still remembers, or null. */
  #firstSoundAfter(from) {
    const samples = this.#newest(this.earNode, this.#ear, from);
    const first = samples.findIndex((sample) => Math.abs(sample) > AUDIBLE);
    return first < 0 ? null : this.context.currentTime - (samples.length - first) / this.context.sampleRate;
  }

  /** What an analyser remembers since a context time. */
  #newest(node, memory, from) {
    node.getFloatTimeDomainData(memory);
    const count = Math.ceil((this.context.currentTime - from) * this.context.sampleRate);
    return memory.subarray(Math.max(0, memory.length - count));
  }
}
