/** The last turns as they are shown: a bar of stages each, which opens to the waterfall and its numbers. Draws, and keeps nothing. */
import { element, write } from "./element.js";
import { figure } from "./figure.js";
import { percent, row } from "./waterfall.js";
import { DASHBOARD } from "./words.js";

const SHOWN = 8;
const TIME = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/**
 * What is there already stays, as it may be open.
 * @param {Element} list an `ol`
 * @param {import("./ledger.js").Turn[]} turns the newest first
 */
export function drawTurns(list, turns) {
  const there = new Map([...list.children].map((item) => [item.dataset.number, item]));
  turns = turns.slice(0, SHOWN);
  const most = Math.max(...turns.map(({ journey }) => journey.total), 1);
  const items = turns.map((turn) => there.get(`${turn.number}`) ?? item(turn));
  if (items.some((each, i) => each !== list.children[i]) || items.length !== list.children.length) list.replaceChildren(...items);
  for (const [i, turn] of turns.entries()) update(items[i], turn, most);
}

function item({ number, at, model, journey }) {
  const made = element("li", "");
  made.dataset.number = number;
  const kind = DASHBOARD.kinds[journey.spoken ? "spoken" : "typed"];
  const time = TIME.format(at);
  const summary = element("summary", "");
  summary.ariaLabel = DASHBOARD.turns.label(kind, figure(journey.total), time);
  const bar = element("span", "vx-turn-bar");
  bar.append(...journey.stages.map(segment));
  summary.append(element("span", "vx-turn-when", time), element("span", "vx-turn-kind", `${kind} · ${model}`), bar, element("span", "vx-ms", figure(journey.total)));
  const details = element("details", "vx-turn");
  const stages = element("ol", "");
  stages.append(...journey.stages.map((stage) => row(stage, extent(journey))));
  const clocks = DASHBOARD.turns.clocks(figure(journey.server), figure(journey.after), figure(journey.within));
  details.append(summary, stages, element("p", "vx-clocks", Number.isNaN(journey.after) ? "" : clocks), element("p", "vx-dry"));
  made.append(details);
  return made;
}

function segment({ name, label, ms }) {
  const made = element("span", `vx-stage-${name}`);
  made.append(element("span", "vx-bar"));
  made.dataset.ms = ms;
  made.title = `${label}: ${figure(ms)}`;
  return made;
}

/** All turns on one scale: that of the longest. */
function update(item, { underruns }, most) {
  for (const part of item.querySelectorAll(".vx-turn-bar > span")) part.style.width = `${percent(Number(part.dataset.ms), most)}%`;
  write(item.querySelector(".vx-dry"), underruns ? DASHBOARD.turns.dry(underruns) : "");
  item.querySelector("details").dataset.dry = `${Boolean(underruns)}`;
}

/** To the end of the last stage, which may lie beyond the total. */
function extent({ stages }) {
  const { start, ms } = stages.at(-1);
  return start + ms;
}
