/** A comparison as it is shown: two choices, their figures and waterfalls side by side, and when each was heard. Keeps nothing. */
import { reads } from "./abilities.js";
import { element, write } from "./element.js";
import { figure } from "./figure.js";
import { drawChoices, drawVoices } from "./shelf.js";
import { drawWaterfall, width } from "./waterfall.js";
import { COMPARE } from "./words.js";

export const SIDES = ["a", "b"];

/**
 * What there is to choose from on each side; at first the model that would speak, and another one that is ready.
 * @param {(name: string) => HTMLSelectElement} field
 * @param {import("./models.js").Models} models
 * @param {import("./own-voices.js").OwnVoice[]} own voices of the person's
 * @param {Record<string, string>} chosen by field
 */
export function drawSideChoices(field, models, own, chosen) {
  const readers = models.list.filter(reads);
  const others = readers.filter(({ name, state }) => name !== chosen.model && state === "ready");
  const first = { a: chosen.model, b: (others[0] ?? readers.find(({ name }) => name !== chosen.model))?.name };
  for (const side of SIDES) {
    const select = field(`model-${side}`);
    drawChoices(select, readers);
    const wanted = chosen[`model-${side}`] ?? first[side];
    if (readers.some(({ name }) => name === wanted)) select.value = wanted;
    drawVoices(field(`voice-${side}`), models.get(select.value), own, chosen[`voice-${side}`]);
  }
}

/**
 * @param {(name: string) => HTMLElement} part
 * @param {import("./compare.js").Compare} compare
 * @param {import("./models.js").Models} models
 */
export function drawComparison(part, { sides, running }, models) {
  part("compare").dataset.on = `${running}`;
  write(part("compare-go"), running ? COMPARE.stop : COMPARE.go);
  const widest = Math.max(...sides.map(({ journey }) => width(journey)), 1);
  for (const [i, side] of SIDES.entries()) {
    const { journey = null, asked, ended } = sides[i] ?? {};
    drawWaterfall(part(`stages-${side}`), part(`ttfa-${side}`), journey, widest);
    write(part(`total-${side}`), ended === undefined ? "–" : figure(ended - asked));
  }
  drawWhen(part("when"), sides, models);
  write(part("verdict"), running ? "" : verdict(sides, models));
}

/** One axis for both, from the first question to the last sound. */
function drawWhen(list, sides, models) {
  const begin = sides[0]?.asked;
  const end = Math.max(...sides.map(({ ended, heard, asked }) => ended ?? heard ?? asked ?? -Infinity));
  list.hidden = !sides.length;
  list.replaceChildren(...sides.map((side) => row(side, begin, end, models)));
}

function row({ wish, state, asked, heard, ended }, begin, end, models) {
  const percent = (moment) => `${((100 * (moment - begin)) / (end - begin || 1)).toFixed(2)}%`;
  const track = element("span", "vx-track");
  if (heard !== undefined && ended !== undefined) {
    const bar = (name, from, to) => {
      const made = element("span", `vx-bar ${name}`);
      Object.assign(made.style, { left: percent(from), width: `${((100 * (to - from)) / (end - begin || 1)).toFixed(2)}%` });
      return made;
    };
    track.append(bar("vx-silent", asked, heard), bar("vx-sounding", heard, ended));
  }
  const words = state === "done" && heard !== undefined ? COMPARE.heard((heard - begin) / 1000, (ended - begin) / 1000) : (COMPARE.states[state] ?? "");
  return element("li", "vx-when-row", {}, element("span", "vx-label", models.get(wish.model)?.title ?? wish.model), track, element("span", "vx-ms", words));
}

function verdict(sides, models) {
  const [a, b] = sides.map(({ journey }) => journey?.total);
  if (a === undefined || b === undefined) return "";
  const title = models.get(sides[a < b ? 0 : 1].wish.model)?.title ?? "";
  return Math.abs(a - b) < 1 ? COMPARE.alike : COMPARE.sooner(title, Math.abs(a - b));
}
