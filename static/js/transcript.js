/** What was said, by both: one line for each turn, made of the server's events. */

const KEPT = 60; // lines
const ASR = "conversation.item.input_audio_transcription";

/**
 * @typedef {object} Line
 * @property {string} id of the person's item, or of our response
 * @property {"you" | "voice"} who
 * @property {string} text as far as it is known
 * @property {"open" | "whole" | "cut" | "failed"} state `cut`: interrupted; `failed`: `text` says why
 */

/** Events: `change`. */
export class Transcript extends EventTarget {
  /** @type {Line[]} oldest first */ lines = [];

  /** @param {{type: string, [field: string]: any}} event the server's */
  take(event) {
    const { type, item_id: item, response_id: response } = event;
    if (type === "input_audio_buffer.speech_started") this.#add({ id: item, who: "you", text: "", state: "open" });
    else if (type === "input_audio_buffer.committed" && !this.#find(item)) this.#add({ id: item, who: "you", text: "", state: "open" });
    else if (type === "input_audio_buffer.cleared") this.#drop(({ who, state }) => who === "you" && state === "open");
    else if (type === `${ASR}.delta`) this.#change(item, ({ text }) => ({ text: text + event.delta }));
    else if (type === `${ASR}.completed`) this.#understood(item, event.transcript);
    else if (type === `${ASR}.failed`) this.#change(item, () => ({ text: event.error.message, state: "failed" }));
    else if (type === "response.output_audio_transcript.delta") this.#spoken(response, event.delta);
    else if (type === "response.done" && event.response.status === "cancelled") this.#cut(event.response.id);
    else if (type === "output_audio_buffer.cleared") this.#cut(response);
    else if (type === "output_audio_buffer.stopped") this.#change(response, () => ({ state: "whole" }));
  }

  #understood(id, text) {
    if (text) this.#change(id, () => ({ text, state: "whole" }));
    else this.#drop((line) => line.id === id); // a noise
  }

  #spoken(id, delta) {
    if (this.#find(id)) this.#change(id, ({ text }) => ({ text: text + delta }));
    else this.#add({ id, who: "voice", text: delta, state: "open" });
  }

  #cut(id) {
    this.#change(id, () => ({ state: "cut" }));
  }

  #find(id) {
    return this.lines.find((line) => line.id === id);
  }

  #add(line) {
    this.lines = [...this.lines, line].slice(-KEPT);
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

/**
 * Draw the lines as bubbles; those that did not change are left alone, since screen readers repeat what is written.
 * @param {HTMLElement} list
 * @param {Line[]} lines
 */
export function drawTranscript(list, lines) {
  const old = new Map([...list.children].map((element) => [element.dataset.id, element]));
  const elements = lines.map((line) => drawLine(old.get(line.id) ?? document.createElement("li"), line));
  if (elements.length !== list.children.length || elements.some((element, i) => element !== list.children[i])) list.replaceChildren(...elements);
  list.parentElement.dataset.shown = `${lines.length > 0}`;
  list.scrollTop = list.scrollHeight;
}

function drawLine(element, { id, who, text, state }) {
  Object.assign(element.dataset, { id, who, state });
  element.className = "vx-line";
  const shown = text || "…";
  if (element.textContent !== shown) element.textContent = shown;
  return element;
}
