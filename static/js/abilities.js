/** What the page shows of what a model can do: what it cannot is not there. Keeps nothing. */

/** Whether a text is read out as it is; a model that hears answers instead. @param {import("./models.js").Model | undefined} model */
export const reads = (model) => model?.kind !== "speech to speech";

/** @param {Element} root @param {import("./models.js").Model | undefined} model the chosen one */
export function drawAbilities(root, model) {
  for (const place of root.querySelectorAll("[data-needs=reading]")) place.hidden = !reads(model);
  root.querySelector("[data-needs=voices]").hidden = !reads(model) && model.voices.length < 2 && !model.clones;
}
