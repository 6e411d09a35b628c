/** The present figures as text: tiles, and a table of all models. Draws, and keeps nothing. */
import { element, write } from "./element.js";
import { figure } from "./figure.js";
import { DASHBOARD } from "./words.js";

/**
 * @param {Element} list a `dl`
 * @param {import("./ledger.js").Ledger} ledger
 * @param {import("./network.js").Figures | null} network
 */
export function drawTiles(list, { turns, ticks }, network) {
  const tick = ticks.at(-1);
  const sum = (name) => Object.values(tick?.models ?? {}).reduce((total, model) => total + model[name], 0);
  /** The figure, and what is added in small. @type {Record<string, [string, string?]>} */
  const values = {
    heard: percentiles(turns.filter(({ journey }) => !journey.spoken)),
    turn: percentiles(turns.filter(({ journey }) => journey.spoken)),
    streams: tick ? [`${sum("streams")}`, DASHBOARD.waiting(sum("waiting"))] : ["–"],
    listeners: [tick ? `${tick.peers}` : "–"],
    dry: [tick ? `${tick.underruns}` : "–"],
    rtt: [figure(network?.rtt_ms)],
    loss: [share(network?.loss)],
    concealed: [share(network?.concealed)],
  };
  if (!list.children.length) list.replaceChildren(...Object.keys(values).map(tile));
  for (const [name, [value, more = ""]] of Object.entries(values)) {
    const place = list.querySelector(`[data-tile=${name}]`);
    write(place.querySelector("b"), value);
    write(place.querySelector("small"), more);
  }
}

function tile(name) {
  const made = element("div", "");
  made.dataset.tile = name;
  made.title = DASHBOARD.hints[name];
  const value = element("dd", "");
  value.append(element("b", ""), " ", element("small", ""));
  made.append(element("dt", "", DASHBOARD.tiles[name]), value);
  return made;
}

/** Median and 95th percentile. @param {import("./ledger.js").Turn[]} turns @returns {[string, string?]} */
export function percentiles(turns) {
  const totals = turns.map(({ journey }) => journey.total).sort((a, b) => a - b);
  const at = (share) => figure(totals[Math.min(totals.length - 1, Math.floor(share * totals.length))]);
  return totals.length > 1 ? [at(0.5), DASHBOARD.late(at(0.95))] : [at(0)];
}

function share(part) {
  return part === null || part === undefined ? "–" : `${(100 * part).toFixed(part && part < 0.1 ? 1 : 0)}%`;
}

/** @param {HTMLTableElement} table @param {import("./ledger.js").Tick | undefined} tick */
export function drawNumbers(table, tick) {
  const rows = Object.entries(tick?.models ?? {}).map(([name, model]) => [name, ...cells(model)]);
  const head = element("thead", "");
  head.append(line(DASHBOARD.columns, "col"));
  const body = element("tbody", "");
  body.append(...rows.map((row) => line(row, "row")));
  table.replaceChildren(head, body);
}

/** In the order of `DASHBOARD.columns`. @param {import("./ledger.js").ModelTick} model */
export function cells(model) {
  return [
    figure(model.ttfa_p50_ms),
    figure(model.ttfa_p95_ms),
    figure(model.turn_p50_ms),
    figure(model.turn_p95_ms),
    `${model.streams}`,
    `${model.waiting}`,
    share(model.kv_share),
    figure(model.step_ms),
    figure(model.expected_ms),
    model.least_slack_s === null ? "–" : `${model.least_slack_s.toFixed(1)} s`,
    `${model.underruns}`,
  ];
}

function line(values, scope) {
  const row = element("tr", "");
  row.append(...values.map((value, i) => heading(value, scope === "col" || i === 0 ? scope : "")));
  return row;
}

function heading(text, scope) {
  const cell = element(scope ? "th" : "td", "", text);
  if (scope) cell.scope = scope;
  return cell;
}
