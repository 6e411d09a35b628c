/** What the dashboard's charts show: lines and legends, made of the ledger. Pure, but for colours that it is given. */
import { figure } from "./figure.js";
import { DASHBOARD } from "./words.js";

const WORDS = DASHBOARD.charts;
const GAP = 1_500; // ms between ticks beyond which a line breaks: the page was hidden
const DASH = [4, 3];
const DRY = 0.02; // s: a packet

/**
 * @typedef {{label: string, value: string, color: string, stroke?: "dash" | "dot"}} Key of a legend
 * @typedef {{least: number, unit: string, lines: import("./chart.js").Line[], keys: Key[]}} Picture
 * @typedef {{span: number, picture(ledger: import("./ledger.js").Ledger, colors: Colors): Picture}} Kind `span`: ms
 * @typedef {{models: string[], own: string, others: string, heard: string, warn: string, network: string[]}} Colors
 */

/** By the name of the chart in `dashboard.html`. @type {Record<string, Kind>} */
export const CHARTS = {
  slack: { span: 30_000, picture: slack },
  latency: { span: 180_000, picture: latency },
  load: { span: 60_000, picture: load },
  steps: { span: 60_000, picture: steps },
  network: { span: 60_000, picture: network },
};

/** The sound that each stream's listener still has to play. */
function slack({ ticks }, colors) {
  /** @type {Map<string, import("./chart.js").Line>} */ const lines = new Map();
  for (const tick of lately(ticks, CHARTS.slack.span)) {
    for (const { mark, seconds, own } of Object.values(tick.models).flatMap((model) => model.slack)) {
      const line = lines.get(mark) ?? { points: [], color: own ? colors.own : colors.others, width: own ? 2.5 : 1.25, alpha: own ? 1 : 0.65, fill: own };
      lines.set(mark, line);
      line.points.push([tick.at, seconds]);
    }
  }
  const now = Object.values(ticks.at(-1)?.models ?? {}).flatMap((model) => model.slack);
  const of = (own) => now.filter((each) => each.own === own).map(({ seconds }) => seconds);
  const least = (all) => (all.length ? `${Math.min(...all).toFixed(1)} s` : "–");
  const keys = [
    { label: WORDS.own, value: least(of(true)), color: colors.own },
    { label: WORDS.others(of(false).length), value: least(of(false)), color: colors.others },
  ];
  const own = (line) => Number(line.fill);
  const drawn = [...lines.values()].sort((a, b) => own(a) - own(b));
  const dry = drawn.flatMap(({ points }) => points.filter(([, seconds]) => seconds < DRY));
  return { least: 4, unit: "s", lines: [...drawn, { points: dry, color: colors.warn, dots: true }], keys };
}

/** Time to the first sound, and from the end of speech, of the last minute's streams; and each turn of this page, as it was heard. */
function latency(ledger, colors) {
  const picture = perModel(ledger, colors, CHARTS.latency.span, { least: 200, unit: "ms" }, [
    { label: WORDS.median, value: (model) => model.ttfa_p50_ms, shown: figure },
    { label: WORDS.late, value: (model) => model.ttfa_p95_ms, shown: figure, dash: DASH, width: 1.25 },
    { label: WORDS.turn, value: (model) => model.turn_p50_ms, shown: figure, dash: [1, 3], width: 2 },
    { label: WORDS.lateTurn, value: (model) => model.turn_p95_ms, shown: figure, dash: [1, 3], width: 1.25 },
  ]);
  const points = ledger.turns.map(({ at, journey }) => [at, journey.total]);
  picture.lines.push({ points, color: colors.heard, dots: true });
  picture.keys.push({ label: WORDS.heard, value: figure(points[0]?.[1]), color: colors.heard, stroke: "dot" });
  return picture;
}

/** How full the engine is. */
function load(ledger, colors) {
  const percent = (value) => `${Math.round(value)}%`;
  return perModel(ledger, colors, CHARTS.load.span, { least: 100, unit: "%" }, [
    { label: WORDS.batch, value: ({ batch, slots }) => (slots ? (100 * batch) / slots : 0), shown: (_, { batch, slots }) => `${Math.round(batch)} / ${slots}` },
    { label: WORDS.cache, value: ({ kv_share: share }) => 100 * share, shown: percent, dash: DASH, width: 1.25 },
    { label: WORDS.queue, value: ({ waiting, slots }) => (slots ? (100 * waiting) / slots : 0), shown: (_, { waiting }) => `${waiting}`, dash: [1, 3], width: 2 },
  ]);
}

/** What a step takes, and what it was expected to. */
function steps(ledger, colors) {
  return perModel(ledger, colors, CHARTS.steps.span, { least: 10, unit: "ms" }, [
    { label: WORDS.took, value: (model) => model.step_ms, shown: figure },
    { label: WORDS.expected, value: (model) => model.expected_ms, shown: figure, dash: DASH, width: 1.25 },
  ]);
}

/** This page's own way to the server. */
function network({ ticks }, colors) {
  const kinds = [
    { label: WORDS.rtt, value: (figures) => figures.rtt_ms },
    { label: WORDS.buffer, value: (figures) => figures.buffer_ms, dash: DASH },
    { label: WORDS.jitter, value: (figures) => figures.jitter_ms, dash: [1, 3], width: 2 },
  ];
  const seen = lately(ticks, CHARTS.network.span);
  const lines = kinds.map(({ value, dash, width }, i) => ({ points: line(seen, (tick) => tick.network && value(tick.network)), color: colors.network[i], dash, width }));
  const now = ticks.at(-1)?.network;
  const keys = kinds.map(({ label, value, dash }, i) => ({ label, value: figure(now && value(now)), color: colors.network[i], stroke: dash && "dash" }));
  return { least: 50, unit: "ms", lines, keys };
}

/** One line a model and kind, its name in front where there are several models. */
function perModel({ ticks }, colors, span, scale, kinds) {
  const seen = lately(ticks, span);
  const names = [...new Set(seen.flatMap(({ models }) => Object.keys(models)))];
  const lines = [];
  const keys = [];
  for (const [i, name] of names.entries()) {
    const color = colors.models[i % colors.models.length];
    const now = ticks.at(-1).models[name];
    for (const { label, value, shown, dash, width } of kinds) {
      lines.push({ points: line(seen, ({ models }) => (models[name] ? value(models[name]) : null)), color, dash, width });
      const words = now ? shown(value(now), now) : "–";
      keys.push({ label: names.length > 1 ? `${name}: ${label}` : label, value: words, color, stroke: dash && "dash" });
    }
  }
  return { ...scale, lines, keys };
}

/** The ticks within so many ms of the last. */
function lately(ticks, span) {
  const from = (ticks.at(-1)?.at ?? 0) - span - GAP;
  let first = ticks.length;
  while (first > 0 && ticks[first - 1].at >= from) first--;
  return ticks.slice(first);
}

/** Its points, broken where the page did not look. @returns {[number, number | null][]} */
function line(ticks, value) {
  const points = [];
  for (const [i, tick] of ticks.entries()) {
    if (i && tick.at - ticks[i - 1].at > GAP) points.push([ticks[i - 1].at, null]);
    points.push([tick.at, value(tick)]);
  }
  return points;
}
