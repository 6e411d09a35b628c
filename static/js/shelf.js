/** The choice of a model and a voice as it is shown where one speaks: the lists, and how far the chosen one is. Keeps nothing. */
import { write } from "./element.js";
import { drawProgress } from "./progress.js";
import { BOOTH, SHELF } from "./words.js";

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
 * A model's voices, and the person's own where it can speak with them.
 * @param {HTMLSelectElement} select
 * @param {import("./models.js").Model | undefined} model
 * @param {import("./own-voices.js").OwnVoice[]} own
 * @param {string | undefined} chosen
 */
export function drawVoices(select, model, own, chosen) {
  const [voices, others] = [model?.voices ?? [], model?.clones ? own : []];
  const drawn = JSON.stringify([voices, others.map(({ id }) => id)]);
  if (select.dataset.drawn !== drawn) {
    const group = Object.assign(document.createElement("optgroup"), { label: BOOTH.group });
    group.append(...others.map(({ id, name }) => new Option(name, id)));
    const options = voices.map((voice) => new Option(voice.charAt(0).toUpperCase() + voice.slice(1), voice));
    select.replaceChildren(...options, ...(others.length ? [group] : []));
    select.dataset.drawn = drawn;
  }
  if ([...voices, ...others.map(({ id }) => id)].includes(chosen)) select.value = chosen;
}

/**
 * What the chosen model is, and how far.
 * @param {(name: string) => HTMLElement} part
 * @param {import("./models.js").Model | undefined} model
 * @param {string} refusal why the latest wish about it was not granted
 * @param {boolean} shared with strangers, who may wait for it, too
 */
export function drawChosen(part, model, refusal, shared) {
  write(part("about"), model?.description ?? SHELF.none);
  write(part("fit"), model?.fit && model.state !== "ready" ? sentence(model.fit.words) : "");
  const { state, message } = model ?? {};
  part("chosen").dataset.state = state ?? "";
  drawProgress(part("bar"), part("progress"), part("bytes"), model);
  write(part("why"), refusal || (state === "failed" ? message : ""));
  write(part("load"), offer(model));
  part("cancel").hidden = shared;
  part("unload").hidden = state !== "ready" || model.default || shared;
}

/** What the button says that loads a model. @param {import("./models.js").Model | undefined} model */
export function offer(model) {
  return model?.state === "failed" ? SHELF.again : model?.here ? SHELF.load : SHELF.download;
}

/** @param {string} words that the server would put into a sentence */
export function sentence(words) {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}

/**
 * A line that points to a model which suits this machine.
 * @param {(name: string) => HTMLElement} part
 * @param {import("./models.js").Model | undefined} model
 * @param {string} refusal why it was not loaded
 */
export function drawSuggestion(part, model, refusal) {
  part("suggestion").hidden = !model;
  write(part("suggestion-words"), model ? SHELF.suits(model.title) : "");
  part("suggestion-load").value = model?.name ?? "";
  write(part("suggestion-why"), model ? refusal : "");
}
