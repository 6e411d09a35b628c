/**
 * The conversation: the person's side, the voice's side, and the line between them. It owns the connection, so that no
 * component of the page does: the page may render anew, the call goes on.
 */
import { Connection } from "./connection.js";
import { Devices } from "./devices.js";
import { Gear } from "./gear.js";
import { Input } from "./input.js";
import { Transcript } from "./transcript.js";
import { Trouble } from "./troubles.js";
import { Voice } from "./voice.js";

const NOT_THE_CALL = /^(no_text|mic_|sound_|speaker_|ending)/; // troubles that leave the connection as it is
// We stop without asking whether there is something to stop, and commit without asking whether it arrived.
const HARMLESS = new Set(["response_cancel_not_active", "input_audio_buffer_commit_empty"]);

/**
 * @typedef {"idle" | "connecting" | "ready" | "waiting" | "speaking" | "disconnected"} State
 * @typedef {{text: string, model: string, voice: string, how?: string}} Wish `how` to speak, where the model can be told
 */

/** Events: `change`, after which `state`, `trouble` and all of `input` and `voice` are to be read anew. */
export class Talker extends EventTarget {
  /** @type {Trouble | null} what to tell the person */ trouble = null;
  transcript = new Transcript();
  devices = new Devices();
  /** @type {State} of the line, while the voice is silent */ #state = "idle";
  /** @type {object | null} the wish that is waiting for the line */ #wish = null;
  #held = false;

  /** @param {URL} base where the server's API hangs */
  constructor(base) {
    super();
    const line = (this.line = new Connection(base, () => this.voice.speaker.context));
    this.input = new Input(line);
    this.voice = new Voice(line, this.transcript);
    this.gear = new Gear(this.voice.speaker, this.input, this.devices, line);
    line.addEventListener("message", ({ detail }) => this.#take(detail));
    line.addEventListener("lost", ({ detail }) => (this.#drop(), this.#fail(detail)));
    line.addEventListener("broken", () => this.#warn(new Trouble("broken")));
    line.addEventListener("mended", () => this.#mended());
    line.addEventListener("way", () => this.#tell());
    line.addEventListener("idle", () => this.hangUp());
    line.addEventListener("place", () => this.#tell());
    this.input.addEventListener("change", () => this.#tell());
    this.input.addEventListener("said", () => this.input.answers && this.voice.request({}, performance.now()));
    this.voice.addEventListener("change", () => this.#tell());
    this.voice.addEventListener("over", () => this.#rest());
    this.voice.addEventListener("trouble", ({ detail }) => this.#fail(detail));
    this.gear.addEventListener("trouble", ({ detail }) => this.#warn(detail));
    this.gear.addEventListener("well", ({ detail }) => this.trouble?.code === detail && this.#warn(null));
  }

  /** @returns {State} */
  get state() {
    return this.voice.state ?? this.#state;
  }

  /** Where we stand in line, for a call or for the engine. */
  get place() {
    return this.voice.place ?? this.line.place;
  }

  /**
   * Say the text word for word, interrupting what is being said. Call it inside the person's gesture.
   * @param {Wish} wish
   * @returns {Promise<import("./voice.js").Turn | undefined>} undefined when it could not be asked for: `trouble` says why
   */
  speak(wish) {
    // As the assistant's: a user's words would be answered, where there is somebody to answer.
    const input = [message("assistant", "output_text", wish.text)];
    return this.#have(wish, (asked) => this.voice.request({ input }, asked));
  }

  /** The next answer is to be with this model and voice. @param {Wish} wish */
  prefer(wish) {
    if (this.line.open) this.line.settle(sessionOf(wish));
  }

  /** Have the line open, so that the next wish need not wait for it. Call it inside the person's gesture. @param {Wish} wish */
  async open(wish) {
    this.stop();
    try {
      this.#unlock();
      await this.#connect(wish);
    } catch (error) {
      this.#fail(error);
    }
    return this.line.open;
  }

  /** Write the text to the voice, as if it had been said. Call it inside the person's gesture. @param {Wish} wish */
  write(wish) {
    return this.#have(wish, (asked) => {
      this.line.send({ type: "conversation.item.create", item: message("user", "input_text", wish.text) });
      this.voice.request({}, asked);
    });
  }

  /**
   * Open the microphone, connecting if need be, so that the person can talk and interrupt. Call it inside the person's gesture.
   * @param {Wish} wish whose model and voice are to answer
   */
  async listen(wish) {
    try {
      this.#unlock();
      const opening = this.gear.open();
      this.#warn(null);
      await opening;
      if (!this.input.listening) return;
      await this.#connect(wish);
      this.line.settle(sessionOf(wish));
      this.input.connect();
      this.#tell();
    } catch (error) {
      this.input.close();
      this.#fail(error);
    }
  }

  /** Close the microphone. What was being said counts as said. */
  deafen() {
    this.input.close();
    this.#warn(null);
  }

  /** Push to talk: the key went down. The voice is silent at once. Call it inside the person's gesture. @param {Wish} wish */
  async press(wish) {
    this.#held = true;
    this.#hush();
    if (!this.input.ready) await this.listen(wish);
    if (!this.#held || !this.input.ready) return; // let go while the browser asked
    this.input.press();
    this.#tell();
  }

  /** And up again. */
  release() {
    this.#held = false;
    this.input.release();
    this.#tell();
  }

  /** @param {"free" | "push"} mode how the person talks */
  choose(mode) {
    this.input.choose(mode);
    this.transcript.forgetUnsaid();
    this.#tell();
  }

  /** Silence at once; then the server is told. */
  stop() {
    this.line.leaveLine();
    this.#hush();
  }

  #hush() {
    this.#wish = null;
    if (!this.line.open) return this.#change(this.#state === "connecting" ? "idle" : this.#state);
    this.voice.stop();
    this.#rest();
  }

  /** Give the call back. The next wish connects again. */
  hangUp() {
    this.#drop();
    this.#change("idle");
  }

  /** Connect if need be, then ask for what the person wants, unless they want something else by then. */
  async #have(wish, ask) {
    this.#hush();
    const asked = performance.now();
    try {
      if (!wish.text.trim()) throw new Trouble("no_text");
      this.#wish = wish;
      this.#unlock();
      await this.#connect(wish);
      if (wish !== this.#wish) return;
      this.#wish = null;
      this.line.settle(sessionOf(wish));
      return ask(asked);
    } catch (error) {
      if (wish === this.#wish || !this.#wish) this.#fail(error);
    }
  }

  async #connect(wish) {
    if (!this.line.open) this.#change("connecting");
    await this.line.ready(sessionOf(wish));
    if (this.#state !== "ready") this.#rest();
  }

  #unlock() {
    this.voice.speaker.unlock().catch(() => {}); // told when there is something to hear
  }

  /** @param {{type: string, [field: string]: any}} event the server's */
  #take(event) {
    this.transcript.take(event);
    this.input.take(event);
    this.voice.take(event);
    if (event.type === "voxrtc.ending") this.#fail(new Trouble("ending", event.message));
    else if (event.type === "error" && !HARMLESS.has(event.error.code)) this.#complain(event.error);
    else if (event.type === "input_audio_buffer.speech_started" && !this.voice.state) this.#rest();
  }

  #complain({ code, message }) {
    this.#hush(); // nothing of this turn shall still come
    this.#fail(new Trouble(code ?? "other", message));
  }

  #fail(error) {
    if (!(error instanceof Trouble)) console.error(error);
    const trouble = error instanceof Trouble ? error : new Trouble("other");
    if (trouble.code === "left_line") return this.#change("idle");
    if (NOT_THE_CALL.test(trouble.code)) return this.#warn(trouble);
    this.#wish = null;
    this.voice.forget();
    if (this.line.open) this.#rest(trouble);
    else this.#change("disconnected", trouble);
  }

  /** Nothing is being said. */
  #rest(trouble = null) {
    this.line.rest();
    this.#change("ready", trouble);
  }

  /** Another line has taken over. */
  #mended() {
    if (this.input.listening) this.input.connect();
    this.#warn(null);
  }

  #drop() {
    this.input.close();
    this.line.drop();
    this.voice.lose();
  }

  #change(state, trouble = null) {
    this.#state = state;
    this.#warn(trouble);
  }

  #warn(trouble) {
    this.trouble = trouble;
    this.#tell();
  }

  #tell() {
    this.dispatchEvent(new Event("change"));
  }
}

/** @param {Wish} wish */
function sessionOf({ model, voice, how = "" }) {
  return { type: "realtime", model, audio: { output: { voice } }, voxrtc: { instructions: how } };
}

function message(role, type, text) {
  return { type: "message", role, content: [{ type, text }] };
}
