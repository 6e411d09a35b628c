/** What was said, by both: one line for each turn, made of the server's events. */

const KEPT = 60; // lines
const ASR = "conversation.item.input_audio_transcription";

/**
 * @typedef {object} Line
 * @property {string} id of the person's item, or of our response
 * @property {"you" | "voice"} who
 * @property {string} text as far as it is known
 * @property {"open" | "whole" | "cut" | "failed"} state `cut`: interrupted; `failed`: `text` says why
 * @property {boolean} said the person's: its sound is complete, and its words are on their way
 * @property {number} passed the voice's: characters (Unicode code points) whose sound has left the server
 * @property {number} heard the voice's: characters whose sound has reached the ear; of a line that was cut, the rest never will
 */

/** Events: `change`. */
export class Transcript extends EventTarget {
  /** @type {Line[]} oldest first */ lines = [];

  /** @param {{type: string, [field: string]: any}} event the server's */
  take(event) {
    const { type, item_id: item, response_id: response } = event;
    if (type === "input_audio_buffer.speech_started") this.#add(item, "you");
    else if (type === "input_audio_buffer.committed") this.#said(item);
    else if (type === "input_audio_buffer.cleared") this.forgetUnsaid();
    else if (type === `${ASR}.delta`) this.#change(item, ({ text }) => ({ text: text + event.delta }));
    else if (type === `${ASR}.completed`) this.#understood(item, event.transcript);
    else if (type === `${ASR}.failed`) this.#change(item, () => ({ text: event.error.message, state: "failed" }));
    else if (type === "conversation.item.added") this.#typed(event.item);
    else if (type === "response.output_audio_transcript.delta") this.#spoken(response, event.delta);
    else if (type === "voxrtc.heard") this.#passed(response, event.characters);
    else if (type === "response.done" && event.response.status === "cancelled") this.#cut(event.response.id);
    else if (type === "output_audio_buffer.cleared") this.#cut(response);
    else if (type === "output_audio_buffer.stopped") this.#change(response, () => ({ state: "whole" }));
  }

  /** So much of a response has reached the ear. @param {string} response @param {number} characters */
  light(response, characters) {
    const line = this.#find(response);
    if (line && line.state !== "cut" && characters > line.heard) this.#change(response, () => ({ heard: characters }));
  }

  /** What the person is in the middle of saying will not become a turn. */
  forgetUnsaid() {
    this.#drop(({ who, state, said }) => who === "you" && state === "open" && !said);
  }

  #said(id) {
    if (!this.#find(id)) this.#add(id, "you");
    this.#change(id, () => ({ said: true }));
  }

  #understood(id, text) {
    if (text) this.#change(id, () => ({ text, state: "whole" }));
    else this.#drop((line) => line.id === id); // a noise
  }

  #typed({ id, role, content = [] }) {
    const text = content.find(({ type }) => type === "input_text")?.text;
    if (role === "user" && text) this.#add(id, "you", { text, state: "whole" });
  }

  #spoken(id, delta) {
    if (this.#find(id)) this.#change(id, ({ text }) => ({ text: text + delta }));
    else this.#add(id, "voice", { text: delta });
  }

  /** What the server says last of a response that was cut is what the conversation remembers of it. */
  #passed(id, passed) {
    this.#change(id, ({ state, heard }) => ({ passed, heard: state === "cut" ? passed : heard }));
  }

  #cut(id) {
    this.#change(id, ({ passed }) => ({ state: "cut", heard: passed }));
  }

  #find(id) {
    return this.lines.find((line) => line.id === id);
  }

  #add(id, who, news = {}) {
    this.lines = [...this.lines, { id, who, text: "", state: "open", said: false, passed: 0, heard: 0, ...news }].slice(-KEPT);
    this.#tell();
  }

  #drop(unwanted) {
    this.lines = this.lines.filter((line) => !unwanted(line));
    this.#tell();
  }

  #change(id, news) {
    const line = this.#find(id);
    if (!line) return;
    Object.assign(line, news(line));
    this.#tell();
  }

  #tell() {
    this.dispatchEvent(new Event("change"));
  }
}
