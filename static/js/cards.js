/** The models as cards: what each is, whether it fits this machine, how far it is, and what can be done. Draws, and keeps nothing. */
import { reads } from "./abilities.js";
import { anchor, element, write } from "./element.js";
import { drawProgress } from "./progress.js";
import { offer, sentence } from "./shelf.js";
import { SHELF } from "./words.js";

const LANGUAGES = new Intl.DisplayNames(["en"], { type: "language" });
const COUNT = new Intl.NumberFormat("en", { notation: "compact" });

/**
 * Cards that are there stay, so that nothing jumps and a focus is kept.
 * @param {HTMLElement} list
 * @param {import("./models.js").Models} models
 * @param {string} chosen the name of the model that would speak
 */
export function drawCards(list, models, chosen) {
  const drawn = new Map([...list.children].map((card) => [card.dataset.model, card]));
  const cards = models.list.map((model) => drawn.get(model.name) ?? make(model));
  if (cards.length !== list.children.length || cards.some((card, i) => card !== list.children[i])) list.replaceChildren(...cards);
  models.list.forEach((model, i) => draw(cards[i], model, models, model.name === chosen));
}

/** What never changes of a card. @param {import("./models.js").Model} model */
function make(model) {
  const { name, title, description, kind } = model;
  const part = (tag, part, more = {}) => element(tag, `vx-model-${part}`, { ...more });
  const button = (verb, quiet) => element("button", `vx-small${quiet ? " vx-quiet" : ""}`, { type: "button", name: verb, value: name });
  const head = element("div", "vx-model-head", {}, element("h3", "vx-model-title", title), part("span", "state"));
  const loading = element("div", "vx-loading", {}, element("progress", "", { ariaLabel: SHELF.loading(title) }), part("span", "stage", { role: "status" }), part("span", "bytes"), button("cancel", true));
  const actions = element("div", "vx-model-actions", {}, button("use"), button("load"), button("unload", true));
  const why = element("p", "vx-why", { role: "alert" });
  const tags = element("p", "vx-model-kind", kind.charAt(0).toUpperCase() + kind.slice(1));
  const made = element("li", "vx-model", {}, head, tags, element("p", "vx-model-about", description), element("p", "vx-model-facts", {}, ...facts(model)), part("p", "fit"), part("p", "size"), why, loading, actions);
  made.dataset.model = name;
  return made;
}

/** @param {import("./models.js").Model} model */
function facts(model) {
  const { languages, voices, licence, link, sources = [], parameters, clones } = model;
  const inWords = (code) => (/^[a-z]{2,3}(-|$)/.test(code) ? LANGUAGES.of(code) : code);
  const gated = sources.find(({ gated }) => gated);
  const all = [languages.map(inWords).join(", ")];
  if (reads(model) || voices.length > 1) all.push(SHELF.voices(voices.length));
  if (clones) all.push(SHELF.clones);
  if (parameters) all.push(SHELF.parameters(COUNT.format(parameters)));
  all.push(anchor(licence, link));
  if (gated) all.push(anchor(SHELF.terms, gated.link));
  return all.flatMap((fact, i) => (i ? ["\u00a0· ", fact] : [fact]));
}

/** How it is now. */
function draw(card, model, models, chosen) {
  const { name, state, here, download = 0, fit, holds, suggested } = model;
  const find = (selector) => card.querySelector(selector);
  const hadFocus = card.contains(document.activeElement);
  const shared = models.machine?.shared ?? true;
  const known = JSON.stringify([model.sources, model.clones]); // what was not known at first, or only once it was loaded
  if (card.dataset.known !== known) find(".vx-model-facts").replaceChildren(...facts(model));
  card.dataset.known = known;
  Object.assign(card.dataset, { state: state ?? "", chosen: `${chosen}`, verdict: fit?.verdict ?? "" });
  write(find(".vx-model-state"), suggested && state === "unloaded" ? SHELF.suggested : (SHELF.states[state] ?? ""));
  write(find(".vx-model-fit"), fit ? sentence(fit.words) : "");
  write(find(".vx-model-size"), fit ? sentence([state === "ready" && holds ? SHELF.holds(holds) : SHELF.takes(fit.memory), here ? SHELF.onDisk : download && SHELF.toFetch(download)].filter(Boolean).join(", ")) : "");
  write(find(".vx-why"), models.refusal(name) || (state === "failed" ? model.message : ""));
  drawProgress(find("progress"), find(".vx-model-stage"), find(".vx-model-bytes"), model);
  const buttons = { use: state === "ready", load: state === "unloaded" || state === "failed", unload: state === "ready" && !model.default && !shared, cancel: state === "loading" && !shared };
  for (const [verb, shown] of Object.entries(buttons)) find(`[name=${verb}]`).hidden = !shown;
  write(find("[name=use]"), chosen ? SHELF.used : SHELF.use);
  find("[name=use]").ariaPressed = `${chosen}`;
  write(find("[name=load]"), offer(model));
  write(find("[name=unload]"), SHELF.unload);
  write(find("[name=cancel]"), SHELF.cancel);
  if (hadFocus && document.activeElement?.hidden) find("button:not([hidden])")?.focus(); // what it was on is gone
}
