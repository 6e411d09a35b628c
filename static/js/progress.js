/** How far a model is, as it is shown: a bar, the stage in words, and bytes, rate and time. Keeps nothing. */
import { write } from "./element.js";
import { SHELF } from "./words.js";

/**
 * @param {HTMLProgressElement} bar
 * @param {HTMLElement} stage which is read out
 * @param {HTMLElement} bytes which are not: they change twice a second
 * @param {import("./models.js").Model | undefined} model
 */
export function drawProgress(bar, stage, bytes, model) {
  const { state, total = 0, done = 0 } = model ?? {};
  const loading = state === "loading";
  write(stage, loading ? `${SHELF.stages[model.stage] ?? model.stage} …` : "");
  write(bytes, loading && total ? figures(model) : "");
  if (loading && total) Object.assign(bar, { max: total, value: done });
  else bar.removeAttribute("value");
}

function figures({ done, total, rate }) {
  const all = [SHELF.progress(done, total)];
  if (rate) all.push(SHELF.rate(rate));
  if (rate && total > done) all.push(SHELF.left((total - done) / rate));
  return all.join(" · ");
}
