/** The voice's side: one response at a time, from the request to its last sound, and where its first sound's time went. */
import { JitterBuffer } from "./jitter.js";
import { split } from "./journey.js";
import { Lights } from "./lights.js";
import { Speaker } from "./speaker.js";
import { Trouble } from "./troubles.js";

/**
 * @typedef {{position: number, wait: number}} Place in the queue: 1 is next; ms that it is expected to take
 * @typedef {{number: number, marks: import("./journey.js").Marks, response?: string, ended?: number}} Turn
 *   `ended`: the `performance.now()` at which its last sound left the server, if it was not cut
 */

/**
 * Events: `change`; `over`, when a response is or was cut; `ended` (detail: its `Turn`); `trouble` (detail: a `Trouble`);
 * `journey`, once for each response that was heard (detail: `{response, journey}`).
 */
export class Voice extends EventTarget {
  /** @type {"waiting" | "speaking" | null} null: nothing is to be heard */ state = null;
  /** Whether the server holds it, while it finds out whether the person means to interrupt. */ held = false;
  /** @type {Place | null} while it waits for the engine */ place = null;
  /** @type {ReturnType<typeof split>} of the last heard response */ journey = null;
  speaker = new Speaker();
  /** @type {Turn | null} */ #turn = null;
  #turns = 0;

  /**
   * @param {import("./connection.js").Connection} line
   * @param {import("./transcript.js").Transcript} transcript
   */
  constructor(line, transcript) {
    super();
    this.line = line;
    this.buffer = new JitterBuffer(() => line.stats());
    const ears = new JitterBuffer(() => line.stats());
    const delay = async () => (await ears.likelyDelay()) + 1000 * this.speaker.latency;
    this.lights = new Lights(delay, (response, characters) => transcript.light(response, characters));
    line.addEventListener("track", ({ detail }) => this.#attach(detail));
  }

  /** The name of the one that is made or heard; empty: none. */
  get response() {
    return this.#turn?.response ?? "";
  }

  /**
   * Have a response made.
   * @param {object} response of `response.create`
   * @param {number} asked when the person asked: a `performance.now()`
   * @returns {Turn} which `ended` names in the end, however it ends
   */
  request(response, asked) {
    const turn = { number: ++this.#turns, marks: { asked } };
    this.line.send({ type: "response.create", response: { ...response, metadata: { turn: `${turn.number}` } } });
    this.#wait(turn);
    return turn;
  }

  /** Silence at once; then the server is told. */
  stop() {
    if (!this.#turn) return;
    this.forget();
    this.speaker.hush();
    this.line.send({ type: "response.cancel" });
    this.line.send({ type: "output_audio_buffer.clear" });
  }

  /** Another line's sound. */
  #attach(sound) {
    this.buffer.forget();
    this.speaker.attach(sound);
    if (this.held) this.speaker.hush();
  }

  /** There is no turn any more. */
  forget() {
    const turn = this.#turn;
    this.#turn = this.state = this.place = null;
    this.held = false;
    if (turn) this.#tell("ended", turn);
  }

  /** The call is gone. */
  lose() {
    this.forget();
    this.speaker.forgetSound();
    this.buffer.forget();
  }

  /** @param {{type: string, [field: string]: any}} event the server's */
  take(event) {
    const { type, response_id: response } = event;
    const turn = this.#turn;
    const ours = turn?.response !== undefined && response === turn.response;
    if (type === "response.created") this.#recognise(event.response);
    else if (type === "response.done" && event.response.id === turn?.response) this.#done(event.response);
    else if (type === "voxrtc.queue" && ours) this.#queued(event);
    else if (type === "voxrtc.timing" && ours) this.#mark({ server: event });
    else if (type === "voxrtc.heard") this.lights.pass(response, event.characters);
    // The person speaks: we are silent at once. Whether that ends the turn or only holds it, the server says.
    else if (type === "input_audio_buffer.speech_started" && turn) this.speaker.hush();
    else if (type === "voxrtc.held") this.#hold();
    else if (type === "voxrtc.resumed") this.#resume(ours);
    else if (type === "output_audio_buffer.started" && ours) this.#started(turn);
    else if (type === "output_audio_buffer.stopped") this.#stopped(response, ours);
    else if (type === "output_audio_buffer.cleared") this.#cleared(ours);
  }

  #recognise({ id, metadata }) {
    const turn = this.#turn;
    if (metadata?.turn === undefined && (!turn || turn.response)) this.#answered(id);
    else if (metadata?.turn === `${turn?.number}`) turn.response = id;
  }

  /** The server answers what the person said. */
  #answered(response) {
    this.#wait({ number: ++this.#turns, marks: { asked: performance.now() }, response });
  }

  #wait(turn) {
    turn.marks.sent = performance.now();
    this.#turn = turn;
    this.buffer.delay(); // from here on
    this.#change("waiting");
  }

  #queued({ position, wait_ms: wait }) {
    this.place = { position, wait };
    this.#tell("change");
  }

  async #started(turn) {
    this.#change("speaking");
    if (!this.speaker.unlocked) this.#tell("trouble", new Trouble("sound_blocked"));
    const sound = this.speaker.firstSound();
    this.#lift();
    const heard = await sound;
    const buffered = await this.buffer.delay();
    if (turn === this.#turn) this.#mark({ heard, buffered });
  }

  /** More sound is on its way. */
  #lift() {
    const delay = this.buffer.likelyDelay();
    this.speaker.lift(this.line.exact ? null : () => delay);
  }

  #hold() {
    this.speaker.hush();
    this.held = true;
    this.#tell("change");
  }

  #resume(ours) {
    if (ours) this.#lift();
    this.held = false;
    this.#tell("change");
  }

  #stopped(response, ours) {
    this.lights.pass(response, Infinity);
    if (!ours) return;
    this.#turn.ended = performance.now();
    this.#finish();
  }

  #cleared(ours) {
    this.speaker.hush(); // what is still on its way
    if (ours) this.#finish();
  }

  #done({ status, status_details: details }) {
    if (status === "completed") return; // it is still being played
    if (status !== "failed") return this.#finish();
    this.stop(); // nothing of it shall still come
    this.#tell("trouble", new Trouble(details?.error?.code ?? "other", details?.error?.message));
  }

  #mark(marks) {
    const turn = this.#turn;
    const before = split(turn.marks);
    Object.assign(turn.marks, marks, { clock: this.line.call.clock, output: 1000 * this.speaker.latency });
    const journey = split(turn.marks);
    this.journey = journey ?? this.journey;
    if (journey && !before) this.#tell("journey", { response: turn.response, journey });
    this.#tell("change");
  }

  #finish() {
    this.forget();
    this.#tell("over");
  }

  #change(state) {
    this.state = state;
    this.place = null;
    this.#tell("change");
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
