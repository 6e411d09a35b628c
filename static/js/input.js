/**
 * The person's side: the microphone, and who says when a turn is over. Hands-free the server finds that out; with push to talk
 * the person holds a key or the button meanwhile, and only that is sent.
 */
import { Microphone } from "./microphone.js";

const LEAST = 150; // ms; who holds for less wants to interrupt, or slipped
const TAIL = 250; // ms after letting go that still count: people let go early, and sound takes its time to the server
const ASR = "conversation.item.input_audio_transcription";

/** Events: `change`; `said`, when a turn that the person has ended can be answered: by who reads, once its words are known. */
export class Input extends EventTarget {
  /** @type {"free" | "push"} */ mode = "free";
  /** Whether the microphone is on. */ listening = false;
  /** Whether the person is speaking: as the server hears it, or by the key. */ hearing = false;
  /** Whether that is answered; null before the first call. */ answers = null;
  /** Whether by the model itself, which hears and waits for no words. */ #itself = false;
  microphone = new Microphone();
  #detection = { type: "server_vad" };
  /** @type {number | null} since when the key is held */ #pushed = null;
  #tail = 0;
  #unanswered = new Set();

  /** @param {import("./connection.js").Connection} line */
  constructor(line) {
    super();
    this.line = line;
  }

  /** Whether what is said now is heard. */
  get ready() {
    return this.listening && this.microphone.track !== null && this.line.open;
  }

  /**
   * Open the microphone. Call it inside the person's gesture, before anything is awaited.
   * @param {AudioContext} context
   * @param {string} device
   */
  async open(context, device) {
    this.listening = true;
    await this.microphone.open(context, device);
    if (!this.listening) this.microphone.close(); // changed their mind meanwhile
  }

  /** Use another device. @param {string} device */
  async change(device) {
    if (!this.microphone.track) return;
    await this.microphone.change(device);
    this.connect();
  }

  /** Send what the microphone hears to the call. */
  connect() {
    if (!this.listening) return this.close();
    this.#gate();
    this.line.call?.talk(this.microphone.track);
  }

  /** Close the microphone. What was being said counts as said. */
  close() {
    this.release();
    this.#commit();
    this.microphone.close();
    this.line.call?.talk(null);
    this.listening = this.hearing = false;
  }

  /** @param {"free" | "push"} mode */
  choose(mode) {
    this.release();
    this.#commit();
    this.mode = mode;
    this.hearing = false;
    this.#gate();
    if (this.line.open) this.#settle();
  }

  /** The person begins to say something. */
  press() {
    this.#commit();
    this.#unanswered.clear(); // this one's answer will be to both
    this.#pushed = performance.now();
    this.hearing = true;
    this.line.send({ type: "input_audio_buffer.clear" }); // sound before it is no part of it
    this.#gate();
  }

  /** And has said it. */
  release() {
    if (this.#pushed === null) return;
    const held = performance.now() - this.#pushed;
    this.#pushed = null;
    this.hearing = false;
    if (held >= LEAST) this.#tail = setTimeout(() => this.#commit(), TAIL);
    else this.#gate();
  }

  /** @param {{type: string, [field: string]: any}} event the server's */
  take(event) {
    if (event.type === "session.created") this.#learn(event.session);
    else if (event.type === "session.updated") this.#meet(event.session);
    else if (event.type === "input_audio_buffer.speech_started") this.#hear(true);
    else if (event.type === "input_audio_buffer.speech_stopped") this.#hear(false);
    else if (event.type === "input_audio_buffer.committed" && this.mode === "push") this.#said(event.item_id);
    else if (event.type === `${ASR}.completed` && this.#unanswered.delete(event.item_id) && event.transcript) this.#tell("said");
  }

  /** How the server detects turns, unless it is told otherwise; now it may be. */
  #learn({ audio, voxrtc }) {
    this.#itself = voxrtc?.answers === "itself";
    this.#detection = audio.input.turn_detection ?? this.#detection;
    this.answers = this.#detection.create_response ?? false;
    if (this.mode === "push") this.#settle();
    this.#tell("change");
  }

  /** Who answers from now on: another model may do so itself, or no more. */
  #meet({ voxrtc }) {
    const itself = voxrtc?.answers === "itself";
    if (itself === this.#itself) return;
    this.#itself = itself;
    this.answers = Boolean(voxrtc?.answers);
    this.#tell("change");
  }

  #said(item) {
    if (this.#itself) this.#tell("said");
    else this.#unanswered.add(item);
  }

  #settle() {
    const detection = this.mode === "push" ? null : this.#detection;
    this.line.send({ type: "session.update", session: { type: "realtime", audio: { input: { turn_detection: detection } } } });
  }

  #hear(hearing) {
    this.hearing = hearing;
    this.#tell("change");
  }

  #commit() {
    if (!this.#tail) return;
    clearTimeout(this.#tail);
    this.#tail = 0;
    this.#gate();
    if (this.line.open) this.line.send({ type: "input_audio_buffer.commit" });
  }

  /** With push to talk nothing leaves this computer unless the key is held. */
  #gate() {
    const open = this.mode === "free" || this.#pushed !== null || this.#tail !== 0;
    if (this.microphone.track) this.microphone.track.enabled = open;
  }

  #tell(type) {
    this.dispatchEvent(new Event(type));
  }
}
