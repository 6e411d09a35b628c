/** The models as they are shown: the list to choose from, the chosen one's card, and how far it is. Draws, and keeps nothing. */
import { SHELF } from "./words.js";

/**
 * The choices, those that can speak apart from those that can be loaded. A list that did not change is left alone: it may be open.
 * @param {HTMLSelectElement} select
 * @param {import("./models.js").Model[]} models
 */
export function drawChoices(select, models) {
  const entries = models.map((model) => [can(model), hinted(model), model.name]);
  const drawn = JSON.stringify(entries);
  if (select.dataset.drawn === drawn) return;
  const chosen = select.value;
  const group = (label, able) => {
    const options = entries.filter(([speaks]) => speaks === able).map(([, title, name]) => new Option(title, name));
    const element = Object.assign(document.createElement("optgroup"), { label });
    element.append(...options);
    return options.length ? [element] : [];
  };
  select.replaceChildren(...group(SHELF.ready, true), ...group(SHELF.unloaded, false));
  select.dataset.drawn = drawn;
  if (models.some(({ name }) => name === chosen)) select.value = chosen;
}

const can = ({ state }) => state === undefined || state === "ready";

function hinted({ title, state, suggested }) {
  const hint = SHELF.hints[suggested && state === "unloaded" ? "suggested" : state];
  return hint ? `${title} (${hint})` : title;
}

/**
 * The chosen model's card.
 * @param {(name: string) => HTMLElement} part
 * @param {import("./models.js").Model | undefined} model
 * @param {string} refusal why the latest wish about it was not granted
 */
export function drawCard(part, model, refusal) {
  write(part("about"), model?.description ?? SHELF.none);
  drawFacts(part("facts"), model);
  const { state, total, done, message } = model ?? {};
  part("chosen").dataset.state = state ?? "";
  write(part("progress"), state === "loading" ? progress(model) : "");
  const bar = part("bar");
  if (total) Object.assign(bar, { max: total, value: done });
  else bar.removeAttribute("value");
  write(part("why"), refusal || (state === "failed" ? message : ""));
  write(part("load"), state === "failed" ? SHELF.again : model?.here ? SHELF.load : SHELF.download);
  part("unload").hidden = state !== "ready" || model.default;
}

/** @param {HTMLElement} element @param {import("./models.js").Model | undefined} model */
function drawFacts(element, model) {
  const drawn = model ? `${model.name} ${model.state === undefined}` : "";
  if (element.dataset.drawn === drawn) return;
  element.dataset.drawn = drawn;
  element.replaceChildren(...(model ? facts(model) : []).flatMap((fact, i) => (i ? ["\u00a0· ", fact] : [fact])));
}

/** @param {import("./models.js").Model} model */
function facts({ languages, licence, link, sources = [], parameters, needs }) {
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  const inWords = (code) => (/^[a-z]{2,3}(-|$)/.test(code) ? names.of(code) : code);
  const size = new Intl.NumberFormat("en", { notation: "compact" });
  const gated = sources.find(({ gated }) => gated);
  const all = [languages.map(inWords).join(", "), anchor(licence, link)];
  if (gated) all.push(anchor(SHELF.terms, gated.link));
  if (parameters) all.push(SHELF.parameters(size.format(parameters)));
  if (needs) all.push(SHELF.memory(needs.memory));
  return all;
}

function anchor(text, href) {
  if (!href.startsWith("https://")) return text; // a card's words are not ours to run
  return Object.assign(document.createElement("a"), { textContent: text, href, target: "_blank", rel: "noopener" });
}

/** @param {import("./models.js").Model} model */
function progress({ stage, done, total, rate }) {
  const words = stage.charAt(0).toUpperCase() + stage.slice(1);
  if (!total) return `${words} …`;
  const unit = total < 1e9 ? ["MB", 1e6, 0] : ["GB", 1e9, 2];
  const amount = (bytes) => (bytes / unit[1]).toFixed(total < 1e7 ? 1 : unit[2]);
  const speed = rate === undefined ? "" : `\u00a0· ${(rate / 1e6).toFixed(1)}\u00a0MB/s`;
  return `${words} … ${SHELF.progress(amount(done), amount(total), unit[0])}${speed}`;
}

/**
 * A line that points to a model which suits this machine.
 * @param {(name: string) => HTMLElement} part
 * @param {import("./models.js").Model | undefined} model
 */
export function drawSuggestion(part, model) {
  part("suggestion").hidden = !model;
  write(part("suggestion-words"), model ? SHELF.suits(model.title) : "");
  part("suggestion-load").value = model?.name ?? "";
}

/** Screen readers repeat what is written; so only news is. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
