/** The page: what the person does goes to the talker, what the talker tells is shown. */
import { Meter } from "./meter.js";
import { Talker } from "./talker.js";
import { drawWaterfall } from "./waterfall.js";

const WORDS = {
  idle: "Not connected. Speak connects.",
  connecting: "Connecting …",
  ready: "Ready.",
  waiting: "Waiting for the first sound …",
  speaking: "Speaking.",
  disconnected: "Disconnected. Speak reconnects.",
};
const BUSY = new Set(["connecting", "waiting", "speaking"]);

const ORDINALS = new Intl.PluralRules("en", { type: "ordinal" });

const talker = new Talker(new URL("../../", import.meta.url));
const meter = new Meter(talker.speaker, () => talker.state === "speaking");
/** What the person chose, so that a page rendered anew shows it again. @type {Record<string, string>} */
const chosen = {};
/** @type {Element} */ let root;
/** @type {Offer} */ let offer;

/**
 * What there is to choose from, as `voxrtc/ui/page.py` gives it; a model is a `ModelInfo` of `voxrtc/messages.py`.
 * @typedef {{name: string, title: string, description: string, languages: string[], voices: string[], licence: string,
 *   parameters: number}} Model
 * @typedef {{text: string, examples: {title: string, text: string}[], models: Model[]}} Offer
 */

talker.addEventListener("change", paint);
addEventListener("pagehide", () => talker.hangUp());

/** For tests and curious people. `output` is an AudioNode: the sound after our gain, as it goes to the ear. */
window.voxrtc = {
  get state() {
    return talker.state;
  },
  get journey() {
    return talker.journey;
  },
  get output() {
    return talker.speaker.output;
  },
  stats: () => talker.stats(),
  unlock: () => talker.speaker.unlock(),
};

/**
 * Bring an element rendered from `voxrtc/ui/page.html` to life. Called for each one that Gradio makes.
 * @param {Element} element
 * @param {Offer} offered
 */
export function adopt(element, offered) {
  root = element;
  element.addEventListener("click", onClick);
  element.addEventListener("keydown", onKey);
  element.addEventListener("input", onInput);
  refresh(offered);
}

/**
 * The element's content was rendered anew.
 * @param {Offer} offered
 */
export function refresh(offered) {
  offer = offered;
  part("examples").replaceChildren(...offer.examples.map(example));
  field("model").replaceChildren(...offer.models.map(({ title, name }) => new Option(title, name)));
  field("text").value = chosen.text ?? offer.text;
  if (offer.models.some(({ name }) => name === chosen.model)) field("model").value = chosen.model;
  offerVoices();
  part("shortcut").textContent = /Mac|iP(hone|ad)/.test(navigator.platform) ? "⌘ ↵" : "Ctrl ↵";
  meter.adopt(part("meter"));
  paint();
}

function example({ title, text }) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", name: "example", value: text, textContent: title });
  return button;
}

function onClick({ target }) {
  const button = target.closest("button");
  if (button?.name === "speak") speak();
  else if (button?.name === "stop") talker.stop();
  else if (button?.name === "example") choose("text", button.value);
}

function onKey(event) {
  const asked = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (asked) event.preventDefault();
  if (asked && !event.repeat) speak();
  if (event.key === "Escape" && BUSY.has(talker.state)) talker.stop();
}

function onInput({ target }) {
  chosen[target.name] = target.value;
  if (target.name === "model") offerVoices();
}

function choose(name, value) {
  field(name).value = chosen[name] = value;
}

function speak() {
  talker.speak({ text: field("text").value, model: field("model").value, voice: field("voice").value });
}

/** The voices of the chosen model, and what its card says. */
function offerVoices() {
  const model = offer.models.find(({ name }) => name === field("model").value);
  const voices = model?.voices ?? [];
  field("voice").replaceChildren(...voices.map((voice) => new Option(voice.charAt(0).toUpperCase() + voice.slice(1), voice)));
  if (voices.includes(chosen.voice)) field("voice").value = chosen.voice;
  part("about").textContent = model ? about(model) : "No model is loaded yet.";
}

/** A model's card in a line. @param {Model} model */
function about({ description, languages, licence, parameters }) {
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  const inWords = (code) => (/^[a-z]{2,3}(-|$)/.test(code) ? names.of(code) : code);
  const size = new Intl.NumberFormat("en", { notation: "compact" });
  const facts = [description.replace(/\.$/, ""), languages.map(inWords).join(", "), licence];
  if (parameters) facts.push(`${size.format(parameters)}\u00a0parameters`);
  return facts.join("\u00a0· ");
}

function paint() {
  root.querySelector(".vx").dataset.state = talker.state;
  write(part("state"), talker.place ? inLine(talker.place) : WORDS[talker.state]);
  write(part("trouble-title"), talker.trouble?.title ?? "");
  write(part("trouble-advice"), talker.trouble?.message ?? "");
  part("trouble").dataset.shown = `${talker.trouble !== null}`;
  root.querySelector("[name=stop]").disabled = !BUSY.has(talker.state);
  drawWaterfall(part("stages"), part("total"), talker.journey);
  meter.wake();
}

/** A place in the queue in words. @param {import("./talker.js").Place} place */
function inLine({ position, wait }) {
  const suffix = { one: "st", two: "nd", few: "rd", other: "th" }[ORDINALS.select(position)];
  const seconds = Math.max(1, Math.round(wait / 1000));
  return `${position}${suffix} in line, about ${seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`} …`;
}

/** Screen readers repeat what is written; so only news is. */
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @returns {HTMLElement} */
function part(name) {
  return root.querySelector(`[data-part="${name}"]`);
}

/** @returns {HTMLInputElement & HTMLSelectElement} */
function field(name) {
  return root.querySelector(`[name="${name}"]`);
}
