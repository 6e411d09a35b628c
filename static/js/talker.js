/**
 * The conversation: at most one call, one voice and one turn at a time. It owns the peer connection, so that no component
 * of the page does: the page may render anew, the call goes on.
 */
import { Call } from "./call.js";
import { split } from "./journey.js";
import { Microphone } from "./microphone.js";
import { Speaker } from "./speaker.js";
import { Transcript } from "./transcript.js";
import { Trouble } from "./troubles.js";

const IDLE_FOR = 5 * 60_000; // ms without a word before the call is given back to others
const USUAL_DELAY = 60; // ms in the jitter buffer, where the browser does not say
const NOT_THE_CALL = /^(no_text|mic_)/; // troubles that leave the connection as it is
const HARMLESS = new Set(["response_cancel_not_active"]); // we stop without asking whether there is something to stop

/**
 * @typedef {"idle" | "connecting" | "ready" | "waiting" | "speaking" | "disconnected"} State
 * @typedef {{text: string, model: string, voice: string}} Wish
 * @typedef {{position: number, wait: number}} Place in the queue: 1 is next; ms that it is expected to take
 * @typedef {{number: number, wish: Wish | null, marks: import("./journey.js").Marks, response?: string}} Turn
 */

/** Events: `change`, after which `state`, `listening`, `hearing`, `place`, `trouble` and `journey` are to be read anew. */
export class Talker extends EventTarget {
  /** @type {State} */ state = "idle";
  /** @type {Place | null} while the turn waits for the engine */ place = null;
  /** @type {Trouble | null} what to tell the person */ trouble = null;
  /** @type {ReturnType<typeof split>} the last heard utterance */ journey = null;
  /** Whether the microphone is on. */ listening = false;
  /** Whether the person is speaking, as the server hears it. */ hearing = false;
  /** Whether that is answered; null before the first call. */ answers = null;
  speaker = new Speaker();
  microphone = new Microphone();
  transcript = new Transcript();
  /** @type {Call | null} */ call = null;
  /** @type {Turn | null} */ #turn = null;
  /** @type {Promise<Call> | null} */ #connecting = null;
  #looked = null;
  #session = "";
  #turns = 0;
  #leaving = 0;

  /** @param {URL} base where the server's API hangs */
  constructor(base) {
    super();
    this.base = base;
    this.microphone.addEventListener("lost", () => (this.#deafen(), this.#fail(new Trouble("mic_lost"))));
  }

  /**
   * Say `wish`, interrupting what is being said, connecting if need be. Call it inside the person's gesture.
   * @param {Wish} wish
   */
  async speak(wish) {
    this.stop();
    const turn = { number: ++this.#turns, wish, marks: { asked: performance.now() } };
    try {
      if (!wish.text.trim()) throw new Trouble("no_text");
      clearTimeout(this.#leaving);
      this.#turn = turn;
      this.speaker.unlock().catch(() => {});
      if (!this.call?.open) this.#change("connecting");
      await this.#connected(wish);
      if (turn !== this.#turn) return; // stopped or overtaken meanwhile
      this.#request(turn);
    } catch (error) {
      if (turn === this.#turn || !this.#turn) this.#fail(error);
    }
  }

  /**
   * Open the microphone, connecting if need be, so that the person can talk and interrupt. Call it inside the person's gesture.
   * @param {Wish} wish the model and voice of the call, where there is none yet
   */
  async listen(wish) {
    try {
      clearTimeout(this.#leaving);
      this.listening = true;
      this.speaker.unlock().catch(() => {});
      this.#change(this.state);
      await this.microphone.open(this.speaker.context);
      if (!this.call?.open) this.#change("connecting");
      const call = await this.#connected(wish);
      if (!this.listening) return this.microphone.close(); // changed their mind meanwhile
      call.talk(this.microphone.track);
      if (!this.#turn) this.#rest();
    } catch (error) {
      this.#deafen();
      this.#fail(error);
    }
  }

  /** Close the microphone. What was being said counts as said. */
  deafen() {
    this.#deafen();
    this.#change(this.state);
  }

  /** Silence at once; then the server is told. */
  stop() {
    const asked = this.#turn?.marks.sent !== undefined;
    this.#turn = null;
    if (!this.call?.open) return this.#change(this.state === "connecting" ? "idle" : this.state);
    if (asked) {
      this.speaker.hush();
      this.call.send({ type: "response.cancel" });
      this.call.send({ type: "output_audio_buffer.clear" });
    }
    this.#rest();
  }

  /** Give the call back. The next `speak` connects again. */
  hangUp() {
    this.#drop();
    this.#change("idle");
  }

  /** WebRTC's figures about the sound that comes in (`inbound-rtp`), or null. */
  async stats() {
    const report = this.call ? await this.call.receiver.getStats() : new Map();
    return [...report.values()].find(({ type }) => type === "inbound-rtp") ?? null;
  }

  /** The open call; made anew when there is none, shared by those who ask while it is being made. */
  #connected(wish) {
    if (this.call?.open) return Promise.resolve(this.call);
    this.#connecting ??= this.#dial(wish).finally(() => (this.#connecting = null));
    return this.#connecting;
  }

  async #dial(wish) {
    if (!window.RTCPeerConnection || !window.AudioContext) throw new Trouble("unsupported");
    const call = (this.call = new Call(this.base));
    call.addEventListener("track", ({ detail }) => this.speaker.attach(detail));
    call.addEventListener("message", ({ detail }) => call === this.call && this.#take(detail));
    const session = sessionOf(wish);
    this.#session = JSON.stringify(session);
    try {
      await call.connect(session);
    } catch (error) {
      if (call === this.call) this.#drop();
      throw error;
    }
    call.addEventListener("lost", ({ detail }) => call === this.call && (this.#drop(), this.#fail(detail)));
    if (!this.#turn) this.#rest(); // stopped while it rang: the call is kept for the next time
    return call;
  }

  #request(turn) {
    const session = sessionOf(turn.wish);
    if (JSON.stringify(session) !== this.#session) this.call.send({ type: "session.update", session });
    this.#session = JSON.stringify(session);
    // As the assistant's: a user's words would be answered, where there is somebody to answer.
    const input = [{ type: "message", role: "assistant", content: [{ type: "output_text", text: turn.wish.text }] }];
    this.call.send({ type: "response.create", response: { input, metadata: { turn: `${turn.number}` } } });
    turn.marks.sent = performance.now();
    this.#buffered(); // from here on
    this.#change("waiting");
  }

  /** @param {{type: string, [field: string]: any}} event the server's */
  #take(event) {
    this.transcript.take(event);
    const turn = this.#turn;
    const ours = turn?.response !== undefined && event.response_id === turn.response;
    if (event.type === "error") this.#complain(event.error);
    else if (event.type.startsWith("session.")) this.#settled(event.session);
    else if (event.type === "response.created") this.#recognise(event.response);
    else if (event.type === "response.done" && event.response.id === turn?.response) this.#done(event.response);
    else if (event.type === "voxrtc.queue" && ours) this.#queued(event);
    else if (event.type === "voxrtc.timing" && ours) this.#mark({ server: event });
    else if (event.type === "voxrtc.held" && ours) this.speaker.hush();
    else if (event.type === "voxrtc.resumed" && ours) this.#resume();
    else if (event.type === "input_audio_buffer.speech_started") this.#spokenTo();
    else if (event.type === "input_audio_buffer.speech_stopped") (this.hearing = false), this.#tell();
    else if (event.type === "output_audio_buffer.started" && ours) this.#started(turn);
    else if (event.type === "output_audio_buffer.stopped" && ours) this.#finish();
    else if (event.type === "output_audio_buffer.cleared" && ours) this.#finish();
  }

  #recognise({ id, metadata }) {
    if (metadata?.turn === undefined && !this.#turn) this.#answered(id);
    else if (metadata?.turn === `${this.#turn?.number}`) this.#turn.response = id;
  }

  /** The server answers what the person said. */
  #answered(response) {
    const now = performance.now();
    this.#turn = { number: ++this.#turns, wish: null, marks: { asked: now, sent: now }, response };
    this.#buffered();
    this.#change("waiting");
  }

  #settled({ audio }) {
    this.answers = audio.input.turn_detection?.create_response ?? false;
    this.#tell();
  }

  #queued({ position, wait_ms: wait }) {
    this.place = { position, wait };
    this.#tell();
  }

  /** The person speaks: we are silent at once. The server stops its side by itself. */
  #spokenTo() {
    this.hearing = true;
    const interrupted = this.#turn?.marks.sent !== undefined;
    if (interrupted) this.speaker.hush();
    if (interrupted || !this.#turn) this.#finish();
  }

  /** What interrupted was nothing: the sound goes on. */
  async #resume() {
    const turn = this.#turn;
    const delay = await this.#buffered();
    if (turn === this.#turn) this.speaker.lift((delay || USUAL_DELAY) / 1000);
  }

  async #started(turn) {
    this.#change("speaking", this.speaker.unlocked ? null : new Trouble("sound_blocked"));
    const sound = this.speaker.firstSound();
    const delay = await this.#buffered();
    if (turn === this.#turn) this.speaker.lift((delay || USUAL_DELAY) / 1000);
    const heard = await sound;
    const buffered = await this.#buffered();
    if (turn === this.#turn) this.#mark({ heard, buffered });
  }

  /** ms that a sample spent in the jitter buffer, on average since the last look; NaN when the browser does not say. */
  async #buffered() {
    const before = this.#looked;
    const after = (this.#looked = await this.stats());
    const samples = after?.jitterBufferEmittedCount - (before?.jitterBufferEmittedCount ?? 0);
    return (1000 * (after?.jitterBufferDelay - (before?.jitterBufferDelay ?? 0))) / samples;
  }

  #done({ status, status_details: details }) {
    if (status === "failed") this.#complain(details?.error ?? {});
    else if (status !== "completed") this.#finish(); // what is complete is still being played
  }

  #complain({ code = "other", message = "" }) {
    if (HARMLESS.has(code)) return;
    this.stop(); // nothing of this turn shall still come
    this.#fail(new Trouble(code, message));
  }

  #mark(marks) {
    const turn = this.#turn;
    Object.assign(turn.marks, marks, { roundTrip: this.call.roundTrip });
    this.journey = split(turn.marks) ?? this.journey;
    this.#tell();
  }

  #finish() {
    this.#turn = null;
    this.#rest();
  }

  #fail(error) {
    if (!(error instanceof Trouble)) console.error(error);
    this.#turn = null;
    const trouble = error instanceof Trouble ? error : new Trouble("other");
    if (this.call?.open) this.#rest(trouble);
    else this.#change(NOT_THE_CALL.test(trouble.code) ? this.state : "disconnected", trouble);
  }

  /** Nothing is being said: after a long silence the call is given back. */
  #rest(trouble = null) {
    clearTimeout(this.#leaving);
    this.#leaving = setTimeout(() => this.hangUp(), IDLE_FOR);
    this.#change("ready", trouble);
  }

  #deafen() {
    this.microphone.close();
    this.call?.talk(null);
    this.listening = this.hearing = false;
  }

  #drop() {
    clearTimeout(this.#leaving);
    this.#deafen();
    this.speaker.forgetSound();
    this.call?.close();
    this.call = this.#looked = null;
    this.#turn = null;
  }

  #change(state, trouble = null) {
    this.state = state;
    this.place = null;
    this.trouble = trouble;
    this.#tell();
  }

  #tell() {
    this.dispatchEvent(new Event("change"));
  }
}

/** @param {Wish} wish */
function sessionOf({ model, voice }) {
  return { type: "realtime", model, audio: { output: { voice } } };
}
