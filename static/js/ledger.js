/** What the dashboard holds: the last turns of this page, and the server's ticks of the last minutes. Knows nothing of how they are shown. */

import { mark } from "./mark.js";

const TURNS = 40; // that are kept
const TICKS = 4 * 60 * 5; // five minutes
const SLACK = 4 * 60; // of these, the last, with the slack of every stream

/**
 * One that was heard. `at` is a `Date.now()`; `underruns` come when it was played.
 * @typedef {{number: number, at: number, response: string, model: string, journey: import("./journey.js").Journey,
 *   underruns: number | null, network: import("./network.js").Figures | null}} Turn
 */

/**
 * The server at one moment. `slack` is of each stream that sounds; `own`: it is this page's.
 * @typedef {{ttfa_p50_ms: number | null, ttfa_p95_ms: number | null, turn_p50_ms: number | null, turn_p95_ms: number | null,
 *   streams: number, waiting: number, batch: number, slots: number, kv_share: number, step_ms: number | null,
 *   expected_ms: number | null, underruns: number, least_slack_s: number | null,
 *   slack: {mark: string, seconds: number, own: boolean}[]}} ModelTick
 * @typedef {{at: number, models: Record<string, ModelTick>, peers: number, underruns: number,
 *   network: import("./network.js").Figures | null}} Tick  `at`: our `Date.now()`
 */

/** Events: `turns`, `tick`. */
export class Ledger extends EventTarget {
  /** @type {Turn[]} the newest first */ turns = [];
  /** @type {Tick[]} the newest last */ ticks = [];
  #own = new Set();
  /** @type {Map<string, {model: string, at: number, seconds: number}>} what each stream had when it was seen last */ #seen = new Map();
  #number = 0;

  /** A response of ours is being made: its streams are known by this. @param {string} response */
  own(response) {
    this.#own.add(mark(response));
    if (this.#own.size > TURNS) this.#own.delete(this.#own.values().next().value);
  }

  /** @param {Omit<Turn, "number" | "underruns">} turn */
  heard(turn) {
    this.turns = [{ ...turn, number: ++this.#number, underruns: null }, ...this.turns].slice(0, TURNS);
    this.dispatchEvent(new Event("turns"));
  }

  /** It was played. @param {string} response @param {number} underruns */
  played(response, underruns) {
    const turn = this.turns.find((each) => each.response === response);
    if (!turn) return;
    turn.underruns = underruns;
    this.dispatchEvent(new Event("turns"));
  }

  /** @param {object} stats as the feed's event `stats` @param {import("./network.js").Figures | null} network @param {number} at */
  tick(stats, network, at) {
    const models = Object.fromEntries(Object.entries(stats.engines).map(([name, engine]) => [name, this.#model(engine, stats.media?.models[name])]));
    const { peers = 0, underruns = 0, playing = [] } = stats.media ?? {};
    this.#drain(models, playing, at);
    this.ticks.push({ at, models, peers, underruns, network });
    if (this.ticks.length > TICKS) this.ticks.shift();
    for (const model of Object.values(this.ticks.at(-SLACK - 1)?.models ?? {})) model.slack = [];
    this.dispatchEvent(new Event("tick"));
  }

  /** A stream that is made leaves the engine, and its listener still plays it: what it had goes on to drain. */
  #drain(models, playing, at) {
    const before = this.#seen;
    this.#seen = new Map();
    for (const [model, { slack }] of Object.entries(models)) {
      for (const { mark, seconds } of slack) this.#seen.set(mark, { model, at, seconds });
    }
    for (const mark of playing) {
      const last = before.get(mark);
      if (!last || this.#seen.has(mark) || !models[last.model]) continue;
      const seconds = Math.max(0, last.seconds - Math.max(0, at - last.at) / 1000);
      if (seconds) models[last.model].slack.push({ mark, seconds, own: this.#own.has(mark) });
      this.#seen.set(mark, { model: last.model, at, seconds });
    }
  }

  #model({ ttfa, lately, streams, waiting, slots, kv_pages: pages, kv_pages_used: used }, spoke) {
    const sounding = streams.filter(({ slack }) => slack !== null);
    const slack = sounding.map(({ stream, slack }) => ({ mark: stream, seconds: slack, own: this.#own.has(stream) }));
    return {
      ttfa_p50_ms: ttfa.p50_ms,
      ttfa_p95_ms: ttfa.p95_ms,
      turn_p50_ms: spoke?.turn.p50_ms ?? null,
      turn_p95_ms: spoke?.turn.p95_ms ?? null,
      streams: streams.length - waiting,
      waiting,
      batch: lately.streams,
      slots,
      kv_share: pages ? used / pages : 0,
      step_ms: lately.ms,
      expected_ms: lately.expected_ms,
      underruns: spoke?.underruns ?? 0,
      least_slack_s: slack.length ? Math.min(...slack.map(({ seconds }) => seconds)) : null,
      slack,
    };
  }
}
