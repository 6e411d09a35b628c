/** The journey of the first sound as a picture: one row a stage, each bar where and as long as it took. */
import { element } from "./element.js";
import { figure } from "./figure.js";
import { EMPTY } from "./journey.js";

/**
 * @param {Element} list an `ol`
 * @param {Element} total where the sum goes
 * @param {import("./journey.js").Journey | null} journey null before the first utterance
 * @param {number} [whole] ms that are as wide as the picture
 */
export function drawWaterfall(list, total, journey, whole = width(journey)) {
  total.textContent = journey ? figure(journey.total) : "–";
  list.replaceChildren(...(journey?.stages ?? EMPTY).map((stage) => row(stage, whole)));
}

/** ms that all stages take, some of which are not in the total. @param {import("./journey.js").Journey | null} journey */
export function width(journey) {
  const { start, ms } = (journey?.stages ?? EMPTY).at(-1);
  return start + ms || 1;
}

/** @param {import("./journey.js").Stage} stage @param {number} total ms of the whole width */
export function row({ name, label, hint, start, ms }, total) {
  const item = element("li", `vx-stage vx-stage-${name}`);
  item.title = hint;
  const track = element("span", "vx-track");
  const bar = element("span", "vx-bar");
  bar.style.left = `${percent(start, total)}%`;
  bar.style.width = `${percent(ms || 0, total)}%`;
  track.append(bar);
  item.append(element("span", "vx-label", label), track, element("span", "vx-ms", figure(ms)));
  return item;
}

export function percent(ms, total) {
  return Math.min(100, (100 * ms) / total).toFixed(2);
}
