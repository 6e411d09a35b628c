/**
 * The way of the sound inside the page: remote track -> our gain -> ears and instruments. Because the gain is ours, Stop
 * is heard at once, while the sound that is already on its way drains unheard.
 */

const RAMP = 0.005; // s: silence that does not click
const UNSURE = 0.03; // s: how far off the given delay of the jitter buffer may be, early
const LATEST = 0.1; // s: and late
const DRAINED = 0.4; // s: no jitter buffer of a call in good order holds more
const QUIET = 4e-3; // full scale is 1; between two responses the line stays below
const PAUSE = 512; // samples below it, about 10 ms, make a pause
const AUDIBLE = 1e-3; // the codec's own silence stays below
const LOOK_EVERY = 20; // ms

/** iOS: be heard though the ring switch is off; and beside a microphone, not in place of it. */
export function allowRecording(allowed) {
  if (navigator.audioSession) navigator.audioSession.type = allowed ? "play-and-record" : "playback";
}

/**
 * Events: `change`, when `unlocked` did, by the browser's or the system's doing: a phone call takes the sound away, on a phone;
 * `blocked`, when the browser does not let the server's sound in.
 */
export class Speaker extends EventTarget {
  /** @type {AudioContext | null} */ context = null;
  /** @type {GainNode | null} What the ear gets: connect instruments here. */ output = null;
  #sink = new Audio();
  #source = null;
  /** @type {number | null} context time */ #hushedAt = null;
  #route = "";
  #draining = 0;
  #waiting = 0;
  #line = new Float32Array(8_192);
  #ear = new Float32Array(16_384);

  constructor() {
    super();
    // Chromium feeds a remote track to Web Audio only while a media element plays it; muted, so that it is heard once.
    this.#sink.muted = true;
    this.#sink.setAttribute("playsinline", "");
  }

  /** Must be called inside a user's gesture, before anything is awaited: mobile browsers start no sound otherwise. */
  unlock() {
    if (!this.context) this.#build();
    this.#play();
    return this.context.resume();
  }

  /** Whether the browser lets us be heard. */
  get unlocked() {
    return this.context?.state === "running" && !(this.#sink.srcObject && this.#sink.paused);
  }

  /** @param {MediaStream | AudioNode} sound the server's; the previous one is let go */
  attach(sound) {
    const stream = sound instanceof MediaStream ? sound : null;
    this.#source?.disconnect();
    this.#sink.srcObject = stream;
    if (stream) this.#play();
    this.#source = stream ? this.context.createMediaStreamSource(stream) : sound;
    this.#source.connect(this.output);
    this.#source.connect(this.lineNode);
    this.#open(); // nothing of an older sound is in it
  }

  /** Whether the page can choose the loudspeaker. */
  static get canRoute() {
    return "setSinkId" in (window.AudioContext?.prototype ?? {});
  }

  /**
   * Be heard on this device, now or as soon as there is sound.
   * @param {string} device its id; empty for the system's choice
   */
  async route(device) {
    if (device === this.#route) return;
    this.#route = device;
    if (this.context) await this.#follow();
  }

  /** s from the gain to the ear, as far as the browser knows: a wireless loudspeaker takes its time. */
  get latency() {
    return this.context?.outputLatency || this.context?.baseLatency || 0;
  }

  /** Silence, now. */
  hush() {
    if (!this.context) return;
    clearInterval(this.#draining);
    this.#hushedAt = this.context.currentTime;
    this.#ramp(0);
  }

  /**
   * Let sound through again: more has left the server, after a silence. What was hushed may still come before it, out of the
   * jitter buffer; a pause at about that buffer's delay tells when it is gone. After a longer silence all of it is.
   * @param {(() => Promise<number>) | null} delay ms that sound spends in the jitter buffer, as far as known; null: it is empty
   */
  async lift(delay) {
    const [hushedAt, now] = [this.#hushedAt, this.context.currentTime];
    if (hushedAt === null) return;
    if (!delay || now - hushedAt > DRAINED) return this.#open();
    const earliest = now + Math.max(0, (await delay()) / 1000 - UNSURE);
    if (hushedAt !== this.#hushedAt) return; // hushed anew meanwhile
    clearInterval(this.#draining);
    this.#draining = setInterval(() => {
      const late = this.context.currentTime - earliest;
      if (late > UNSURE + LATEST || (late >= 0 && this.#pausedSince(earliest))) this.#open();
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
    this.context.addEventListener("statechange", () => this.dispatchEvent(new Event("change")));
    if (this.#route) this.#follow().catch(() => {}); // it is gone: the system's choice will do
    this.output = this.context.createGain();
    this.output.connect(this.context.destination);
    this.lineNode = new AnalyserNode(this.context, { fftSize: this.#line.length });
    this.scopeNode = new AnalyserNode(this.context, { fftSize: 1024 });
    this.earNode = new AnalyserNode(this.context, { fftSize: this.#ear.length });
    this.output.connect(this.scopeNode);
    this.output.connect(this.earNode);
  }

  #play() {
    const tell = (type) => () => this.#sink.srcObject && this.dispatchEvent(new Event(type));
    // Before the first call there is nothing to play; but the gesture counts for what comes.
    this.#sink.play().then(tell("change"), ({ name }) => name === "NotAllowedError" && tell("blocked")());
  }

  #follow() {
    return Speaker.canRoute ? this.context.setSinkId(this.#route) : Promise.resolve();
  }

  #open() {
    clearInterval(this.#draining);
    this.#hushedAt = null;
    this.#ramp(1);
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
