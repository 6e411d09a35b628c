/** The page: what the person does goes to the talker, what the talker tells is shown. */
import { Meter } from "./meter.js";
import { Models } from "./models.js";
import { drawCard, drawChoices, drawSuggestion, write } from "./shelf.js";
import { Talker } from "./talker.js";
import { drawTranscript } from "./transcript.js";
import { drawWaterfall } from "./waterfall.js";

const WORDS = {
  idle: "Not connected. Speak and Talk connect.",
  connecting: "Connecting …",
  ready: "Ready.",
  waiting: "Waiting for the first sound …",
  speaking: "Speaking.",
  disconnected: "Disconnected. Speak and Talk reconnect.",
};
const HINTS = {
  null: "Talk, and what you say is written down here. It interrupts the voice, too.",
  true: "What you say is written down here, and answered. Speak to interrupt.",
  false: "What you say is written down here, and interrupts the voice. Replies need a chat endpoint: see --chat-url.",
};
const BUSY = new Set(["connecting", "waiting", "speaking"]);

const ORDINALS = new Intl.PluralRules("en", { type: "ordinal" });

const base = new URL("../../", import.meta.url);
const talker = new Talker(base);
const models = new Models(base);
const meter = new Meter(talker.speaker, () => talker.state === "speaking");
/** What the person chose, so that a page rendered anew shows it again. @type {Record<string, string>} */
const chosen = {};
/** @type {Element} */ let root;

/**
 * What there is to choose from, as `voxrtc/ui/page.py` gives it.
 * @typedef {{text: string, examples: {title: string, text: string}[], models: import("./models.js").Model[]}} Offer
 */

talker.addEventListener("change", onTalk);
talker.transcript.addEventListener("change", () => drawTranscript(part("lines"), talker.transcript.lines));
models.addEventListener("change", paintModels);
addEventListener("pagehide", () => talker.hangUp());

/** For tests and curious people. `output` is an AudioNode: the sound after our gain, as it goes to the ear. */
window.voxrtc = {
  get state() {
    return talker.state;
  },
  get journey() {
    return talker.journey;
  },
  get lines() {
    return talker.transcript.lines;
  },
  get listening() {
    return talker.listening;
  },
  get hearing() {
    return talker.hearing;
  },
  get microphone() {
    return talker.microphone.track;
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
 * @param {Offer} offer
 */
export function refresh(offer) {
  part("examples").replaceChildren(...offer.examples.map(example));
  field("text").value = chosen.text ?? offer.text;
  models.begin(offer.models);
  part("shortcut").textContent = /Mac|iP(hone|ad)/.test(navigator.platform) ? "⌘ ↵" : "Ctrl ↵";
  meter.adopt(part("meter"));
  drawTranscript(part("lines"), talker.transcript.lines);
  paintModels();
  models.look();
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
  else if (button?.name === "talk") talk();
  else if (button?.name === "example") choose("text", button.value);
  else if (button?.name === "load") load(button.value || field("model").value);
  else if (button?.name === "unload") models.unload(field("model").value);
}

function load(name) {
  choose("model", name);
  paintModels();
  models.load(name);
}

function onKey(event) {
  const asked = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (asked) event.preventDefault();
  if (asked && !event.repeat) speak();
  if (event.key === "Escape" && BUSY.has(talker.state)) talker.stop();
}

function onInput({ target }) {
  chosen[target.name] = target.value;
  if (target.name === "model") paintModels();
}

function choose(name, value) {
  field(name).value = chosen[name] = value;
}

function speak() {
  if (obstacle()) return;
  talker.speak({ text: field("text").value, model: field("model").value, voice: field("voice").value });
}

function talk() {
  if (talker.listening) return talker.deafen();
  if (obstacle()) return;
  talker.listen({ text: "", model: field("model").value, voice: field("voice").value });
  showLevel();
}

/** The microphone's level, on the button, for as long as it is on. */
function showLevel() {
  if (!talker.listening) return;
  part("talk").style.setProperty("--level", talker.microphone.level.toFixed(2));
  requestAnimationFrame(showLevel);
}

function onTalk() {
  if (talker.trouble?.code === "model_not_found") models.look(); // somebody unloaded it
  paint();
}

/** What there is to choose from, and all of the chosen model. */
function paintModels() {
  drawChoices(field("model"), models.list);
  if (models.get(chosen.model)) field("model").value = chosen.model;
  const model = models.get(field("model").value);
  offerVoices(model?.voices ?? []);
  drawCard(part, model, models.trouble?.name === model?.name ? models.trouble?.words : "");
  drawSuggestion(part, models.suggested?.name === model?.name ? undefined : models.suggested);
  paint();
}

function offerVoices(voices) {
  const select = field("voice");
  if (select.dataset.drawn !== `${voices}`) {
    select.replaceChildren(...voices.map((voice) => new Option(voice.charAt(0).toUpperCase() + voice.slice(1), voice)));
    select.dataset.drawn = `${voices}`;
  }
  if (voices.includes(chosen.voice)) select.value = chosen.voice;
}

/** Why the chosen model cannot speak, in words; empty when it can. */
function obstacle() {
  const { title, state = "ready" } = models.get(field("model").value) ?? {};
  return { loading: `${title} is being loaded …`, failed: `${title} could not be loaded.`, unloaded: `${title} is not loaded yet.` }[state] ?? "";
}

function paint() {
  root.querySelector(".vx").dataset.state = talker.state;
  const why = obstacle();
  write(part("state"), talker.place ? inLine(talker.place) : (!BUSY.has(talker.state) && why) || listeningWords() || WORDS[talker.state]);
  write(part("hint"), HINTS[talker.answers]);
  part("talk").setAttribute("aria-pressed", `${talker.listening}`);
  part("talk").dataset.hearing = `${talker.hearing}`;
  write(part("talk-words"), talker.listening ? "Stop listening" : "Talk");
  part("talk").disabled = Boolean(why) && !talker.listening;
  write(part("trouble-title"), talker.trouble?.title ?? "");
  write(part("trouble-advice"), talker.trouble?.message ?? "");
  part("trouble").dataset.shown = `${talker.trouble !== null}`;
  root.querySelector("[name=speak]").disabled = Boolean(why);
  root.querySelector("[name=stop]").disabled = !BUSY.has(talker.state);
  drawWaterfall(part("stages"), part("total"), talker.journey);
  meter.wake();
}

/** What the microphone does, when nothing else is going on. */
function listeningWords() {
  if (!talker.listening || talker.state !== "ready") return "";
  return talker.hearing ? "Hearing you …" : "Listening. Say something.";
}

/** A place in the queue in words. @param {import("./talker.js").Place} place */
function inLine({ position, wait }) {
  const suffix = { one: "st", two: "nd", few: "rd", other: "th" }[ORDINALS.select(position)];
  const seconds = Math.max(1, Math.round(wait / 1000));
  return `${position}${suffix} in line, about ${seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`} …`;
}

/** @returns {HTMLElement} */
function part(name) {
  return root.querySelector(`[data-part="${name}"]`);
}

/** @returns {HTMLInputElement & HTMLSelectElement} */
function field(name) {
  return root.querySelector(`[name="${name}"]`);
}
