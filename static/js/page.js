/** The page: what the person does goes to the talker, what the talker tells is shown. */
import { drawAbilities, reads } from "./abilities.js";
import { Booth } from "./booth.js";
import { drawTranscript } from "./bubbles.js";
import { drawCards } from "./cards.js";
import { Compare } from "./compare.js";
import { Crowd } from "./crowd.js";
import { Dashboard } from "./dashboard.js";
import { write } from "./element.js";
import { expose } from "./exposed.js";
import { Feed } from "./feed.js";
import { Meter } from "./meter.js";
import { Models } from "./models.js";
import { drawDevices } from "./panel.js";
import { Push } from "./push.js";
import { tellWhoAnswers } from "./replies.js";
import { drawChoices, drawChosen, drawSuggestion, drawVoices } from "./shelf.js";
import { drawComparison, drawSideChoices, SIDES } from "./sides.js";
import { Speaker } from "./speaker.js";
import { drawSend, drawStage, isBusy } from "./stage.js";
import { Talker } from "./talker.js";
import { drawWaterfall } from "./waterfall.js";
import { COMPARE, EXAMPLES, SHELF } from "./words.js";

const GESTURES = ["pointerup", "click", "keydown"]; // in which browsers let sound begin

const base = new URL("../../", import.meta.url);
const talker = new Talker(base);
const feed = new Feed(base);
const models = new Models(base, feed);
const compare = new Compare(talker);
const booth = new Booth(base, () => talker.devices.get("microphone"), () => (talker.deafen(), stop()));
const dashboard = new Dashboard(feed, talker.line, talker.voice);
const crowd = new Crowd(base, feed, () => talker.voice.response);
const meter = new Meter(talker.voice.speaker, () => talker.state === "speaking");
const push = new Push(
  () => talker.input.mode === "push" && !obstacle(),
  () => (talker.press(wish("text")), showLevel()),
  () => talker.release(),
);
/** What the person chose, so that a page rendered anew shows it again. @type {Record<string, string>} */
const chosen = {};
/** @type {Element} */ let root;
let frame = 0;

/**
 * What there is to choose from, as `voxrtc/ui/page.py` gives it.
 * @typedef {{models: import("./models.js").Model[]}} Offer
 */

talker.addEventListener("change", onTalk);
talker.transcript.addEventListener("change", () => drawTranscript(part("lines"), talker.transcript.lines));
talker.devices.addEventListener("change", paintDevices);
models.addEventListener("change", paintModels);
compare.addEventListener("change", onCompare);
booth.addEventListener("change", paintModels);
booth.addEventListener("made", ({ detail }) => (chosen.voice = detail));
for (const type of GESTURES) addEventListener(type, () => talker.gear.wake(), true);
addEventListener("pagehide", () => talker.hangUp());

window.voxrtc = expose({ talker, compare, booth, dashboard });

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
  part("examples").replaceChildren(...Object.entries(EXAMPLES.texts).map(example));
  field("text").value = chosen.text ?? EXAMPLES.first;
  field("message").value = chosen.message ?? "";
  field("instructions").value = chosen.instructions ?? "";
  field("sentence").value = chosen.sentence ?? COMPARE.sentence;
  root.querySelector(`[name=mode][value=${talker.input.mode}]`).checked = true;
  models.begin(offer.models);
  part("shortcut").textContent = /Mac|iP(hone|ad)/.test(navigator.platform) ? "⌘ ↵" : "Ctrl ↵";
  meter.adopt(part("meter"));
  push.adopt(part("talk"));
  crowd.adopt(part("crowd"));
  booth.adopt(part("own"));
  drawTranscript(part("lines"), talker.transcript.lines);
  dashboard.adopt(root);
  paintModels();
  openDevices(Boolean(chosen.devices));
  models.look();
  tellWhoAnswers(() => part("replies"), base);
}

function example([title, text]) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", name: "example", value: text, textContent: title });
  return button;
}

function onClick({ target }) {
  const button = target.closest("button");
  if (button?.name === "speak") speak();
  else if (button?.name === "stop") stop();
  else if (button?.name === "talk" && talker.input.mode === "free") talk();
  else if (button?.name === "close") talker.deafen();
  else if (button?.name === "devices") openDevices(part("devices").hidden);
  else if (button?.name === "send") busy() && !field("message").value ? stop() : send();
  else if (button?.name === "example") choose("text", button.value);
  else if (button?.name === "load") load(button.value || field("model").value);
  else if (button?.name === "cancel") models.cancel(button.value || field("model").value);
  else if (button?.name === "unload") models.unload(button.value || field("model").value);
  else if (button?.name === "use") use(button.value);
  else if (button?.name === "compare") compare.running ? compare.stop() : startComparison();
  else if (button?.name === "save") dashboard.save(button.value);
}

function openDevices(open) {
  chosen.devices = open ? "open" : "";
  part("devices").hidden = !open;
  part("devices-open").ariaExpanded = `${open}`;
  talker.devices.look();
}

/** It is chosen at once, unless the server refuses it. */
async function load(name) {
  const before = field("model").value;
  use(name);
  await models.load(name);
  if (models.refusal(name) && field("model").value === name) use(before);
}

function use(name) {
  choose("model", name);
  paintModels();
}

/** What is said from now on is for the model chosen, once it can answer; a comparison chooses for itself. */
function prefer() {
  if (!obstacle() && !compare.running) talker.prefer(wish("text"));
}

function startComparison() {
  const text = field("sentence").value;
  const wishes = SIDES.map((side) => ({ text, model: field(`model-${side}`).value, voice: field(`voice-${side}`).value }));
  const absent = wishes.map(({ model }) => models.get(model)).find((model) => (model?.state ?? "ready") !== "ready");
  const alike = JSON.stringify(wishes[0]) === JSON.stringify(wishes[1]);
  const why = !text.trim() ? COMPARE.text : absent ? COMPARE.ready(absent.title) : alike ? COMPARE.same : "";
  write(part("compare-why"), why);
  if (!why) compare.run(wishes);
}

function onKey(event) {
  if (event.target.name === "message" && event.key === "Enter" && !event.isComposing) return send();
  const asked = event.key === "Enter" && (event.ctrlKey || event.metaKey);
  if (asked) event.preventDefault();
  if (asked && !event.repeat) speak();
  if (event.key === "Escape" && busy()) stop();
}

/** Whether there is something to stop, be it that a comparison is silent between its two. */
function busy() {
  return compare.running || isBusy(talker);
}

/** Silence at once, and nothing more comes of what was wished for. */
function stop() {
  if (compare.running) compare.stop();
  else talker.stop();
}

function onInput({ target }) {
  chosen[target.name] = target.value;
  if (/^(model|voice)(-|$)/.test(target.name)) paintModels();
  if (target.name === "instructions") prefer();
  if (target.name === "mode") talker.choose(target.value);
  else if (target.name === "microphone" || target.name === "speaker") talker.gear.choose(target.name, target.value);
  else if (target.name === "message") paint();
}

function choose(name, value) {
  field(name).value = chosen[name] = value;
}

function wish(text) {
  const how = part("manner").hidden ? "" : field("instructions").value;
  return { text: field(text).value, model: field("model").value, voice: field("voice").value, how };
}

function speak() {
  if (!obstacle() && reads(models.get(field("model").value))) talker.speak(wish("text"));
}

function send() {
  if (obstacle()) return;
  talker.write(wish("message"));
  choose("message", "");
}

function talk() {
  if (talker.input.listening) return talker.deafen();
  if (obstacle()) return;
  talker.listen(wish("text"));
  showLevel();
}

/** The microphone's level, on the button, for as long as it is on. */
function showLevel() {
  cancelAnimationFrame(frame);
  part("talk").style.setProperty("--level", talker.input.microphone.level.toFixed(2));
  if (talker.input.listening) frame = requestAnimationFrame(showLevel);
}

function onTalk() {
  if (talker.trouble?.code === "model_not_found") models.look(); // somebody unloaded it
  if (talker.trouble?.code === "voice_gone") booth.look();
  prefer();
  paint();
}

function onCompare() {
  paintComparison();
  prefer();
  paint();
}

/** What there is to choose from, and all of the chosen model. */
function paintModels() {
  drawChoices(field("model"), models.list);
  if (models.get(chosen.model)) field("model").value = chosen.model;
  const model = models.get(field("model").value);
  drawVoices(field("voice"), model, booth.voices.list, chosen.voice);
  booth.draw(field("voice").value, Boolean(model?.clones));
  part("manner").hidden = !model?.instructed;
  drawChosen(part, model, models.refusal(model?.name), models.machine?.shared ?? true);
  drawAbilities(root, model);
  const suggested = models.suggested?.name === model?.name ? undefined : models.suggested;
  drawSuggestion(part, suggested, models.refusal(suggested?.name));
  drawCards(part("models"), models, model?.name);
  if (models.machine) write(part("machine"), SHELF.machine(models.machine.words, models.machine.room));
  drawSideChoices(field, models, booth.voices.list, { ...chosen, model: model?.name });
  paintComparison();
  prefer();
  paint();
}

function paintComparison() {
  drawComparison(part, compare, models);
}

/** Why the chosen model cannot speak, in words; empty when it can. */
function obstacle() {
  const { title, state = "ready" } = models.get(field("model").value) ?? {};
  return SHELF.obstacles[state]?.(title) ?? "";
}

function paintDevices() {
  drawDevices(part, field, talker.devices, Speaker.canRoute);
}

function paint() {
  const why = obstacle();
  root.querySelector(".vx").dataset.state = talker.state;
  drawStage(part, talker, why);
  drawSend(part("send"), busy() && !field("message").value, why);
  root.querySelector("[name=speak]").disabled = Boolean(why);
  root.querySelector("[name=stop]").disabled = !busy();
  drawWaterfall(part("stages"), part("total"), talker.voice.journey);
  meter.wake();
}

/** @returns {HTMLElement} */
function part(name) {
  return root.querySelector(`[data-part="${name}"]`);
}

/** @returns {HTMLInputElement & HTMLSelectElement} */
function field(name) {
  return root.querySelector(`[name="${name}"]`);
}
