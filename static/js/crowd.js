/** Virtual listeners: how many are wished for, which policy plans, and what comes of it. The server keeps it all; this shows it. */
import { Bars } from "./crowd-bars.js";
import { drawLine } from "./crowd-line.js";
import { mark } from "./mark.js";
import { write } from "./element.js";
import { Trouble } from "./troubles.js";
import { CROWD } from "./words.js";

const SETTLE = 150; // ms without a move, after which the slider's position is wished for
const FORGET = 10_000; // ms after which a stream that is told no more is forgotten
const TELL = 4000; // ms between descriptions for who does not see
const POLICIES = ["fifo", "two_phase", "playout"];

/**
 * A crowd as `GET /v1/voxrtc/crowd` tells it. A voice is [number, phase, slack, spoilt, place, cause].
 * @typedef {{now: number, most: number, listeners: number, most_peers: number, peers: number, model: string, policy: string,
 *   calls: {number: number, phase: string, response: string, cause: string}[], voices: [number, string, number, boolean, number, string][],
 *   figures: Record<string, Figures>, line: import("./crowd-line.js").Point[], trouble: string}} State
 * @typedef {{listeners: number, seconds: number, started: number, dry: number, p50_ttfa: number | null, p90_ttfa: number | null,
 *   refused: number, gave_way: number}} Figures
 */

export class Crowd {
  /** @type {State | null} */ state = null;
  #bars = new Bars();
  #people = [];
  /** @type {Map<string, {slack: number, at: number}>} of all streams, as last told */ #slacks = new Map();
  #paused = 0; // s, as the engine counts
  #pausedAt = -Infinity;
  #wishes = 0; // that the server has not answered, and one that is still being made: until then nothing is moved back
  /** @type {string | null} */ #policyWished = null;
  #described = -Infinity;
  #timer = 0;
  #trouble = "";

  /**
   * @param {URL} base where the server's API hangs
   * @param {import("./feed.js").Feed} feed
   * @param {() => string} response the one that is spoken to the person on this page; empty: none
   */
  constructor(base, feed, response) {
    this.base = base;
    this.feed = feed;
    this.response = response;
    feed.addEventListener("crowd", ({ detail }) => this.#take(detail));
    feed.addEventListener("stats", ({ detail }) => this.#count(detail));
  }

  /** Show it in the element made of `voxrtc/ui/crowd.html`. @param {HTMLElement} element */
  adopt(element) {
    if (this.element !== element) {
      element.addEventListener("input", ({ target }) => this.#onInput(target));
      this.element = element;
    }
    this.#bars.adopt(this.#part("crowd-bars"));
    this.#described = -Infinity;
    if (this.feed.latest.crowd) this.#take(this.feed.latest.crowd);
  }

  #onInput({ name, value }) {
    if (name === "crowd-policy") this.#wishPolicy(value);
    if (name !== "crowd-size" && name !== "crowd-peers") return;
    write(this.#part(name === "crowd-size" ? "crowd-count" : "crowd-peers"), value);
    if (this.#timer) clearTimeout(this.#timer);
    else this.#wishes++;
    const [listeners, peers] = [this.#slider("crowd-size"), this.#slider("crowd-peers")].map(({ value }) => Number(value));
    this.#timer = setTimeout(() => ((this.#timer = 0), this.#wish("crowd", { listeners, peers }, () => this.#wishes--)), SETTLE);
  }

  #wishPolicy(policy) {
    this.#policyWished = policy;
    this.#wish("policy", { policy }, () => (this.#policyWished = this.#policyWished === policy ? null : this.#policyWished));
  }

  /** `answered` is called before what the server says is shown. */
  async #wish(path, body, answered) {
    const headers = { "Content-Type": "application/json" };
    const url = new URL(`v1/voxrtc/${path}`, this.base);
    const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) }).catch(() => null);
    this.#trouble = response?.ok ? "" : (response ? await Trouble.fromResponse(response) : new Trouble("unreachable")).message;
    const state = response?.ok ? await response.json() : this.state;
    answered();
    if (state) this.#take(state);
  }

  /** @param {State} state */
  #take(state) {
    this.state = state;
    if (!this.element) return;
    this.element.hidden = !state.most;
    if (!state.most) return;
    this.#place();
    for (const policy of POLICIES) this.#policy(policy);
    drawLine(this.#part("crowd-line"), state.line, state.now);
    this.#bars.show(this.#glasses());
    this.#say();
  }

  /** Of all streams, those of people. */
  #count({ engines }) {
    const all = Object.values(engines);
    const ours = this.response() && mark(this.response());
    const [streams, at] = [all.flatMap(({ streams }) => streams), performance.now()];
    for (const { stream, slack } of streams) this.#slacks.set(stream, { slack: slack ?? 0, at });
    for (const [stream, { at: told }] of this.#slacks) if (at - told > FORGET) this.#slacks.delete(stream);
    const people = streams.filter(({ background }) => !background);
    this.#people = people.map(({ stream, state, slack }) => ({
      key: stream,
      phase: state === "playing" ? (slack > 0 ? "playing" : "dry") : "waiting",
      slack: slack ?? 0,
      spoilt: false,
      person: stream === ours ? "you" : "other",
    }));
    const paused = all.reduce((sum, { paused }) => sum + paused, 0);
    if (paused > this.#paused + 0.02) this.#pausedAt = performance.now();
    this.#paused = paused;
    if (this.state && this.element && !this.element.hidden) this.#bars.show(this.#glasses());
  }

  #glasses() {
    const virtual = this.state.voices.map(([number, phase, slack, spoilt]) => ({ key: `${number}`, phase, slack, spoilt }));
    const calls = this.state.calls.map((call) => this.#call(call));
    const glasses = virtual.length || calls.length ? [...this.#people, ...calls, ...virtual] : [];
    this.#part("crowd-bars").dataset.you = `${glasses.some(({ person }) => person === "you")}`;
    return glasses;
  }

  /** What a call has at hand the engine knows, as long as it works on it; then it only drains. */
  #call({ number, phase, response }) {
    const told = this.#slacks.get(mark(response)) ?? { slack: 0, at: 0 };
    const slack = Math.max(0, told.slack - (performance.now() - told.at) / 1000);
    return { key: `call ${number}`, phase: phase === "connecting" ? "waiting" : phase, slack, spoilt: false, call: true };
  }

  /** The sliders and their numbers, unless the person holds one. */
  #place() {
    const { most, most_peers, listeners, peers } = this.state;
    this.#part("crowd-calls").hidden = !most_peers;
    this.#slider("crowd-size").max = `${most}`;
    this.#slider("crowd-peers").max = `${most_peers}`;
    if (this.#wishes) return;
    this.#slider("crowd-size").value = `${listeners}`;
    this.#slider("crowd-peers").value = `${peers}`;
    write(this.#part("crowd-count"), `${listeners}`);
    write(this.#part("crowd-peers"), `${peers}`);
  }

  /** @returns {HTMLInputElement} */
  #slider(name) {
    return this.element.querySelector(`[name=${name}]`);
  }

  #policy(policy) {
    const figures = this.state.figures[policy];
    const chosen = policy === (this.#policyWished ?? this.state.policy);
    this.element.querySelector(`[name=crowd-policy][value=${policy}]`).checked = chosen;
    const viable = figures?.started ? 1 - figures.dry / figures.started : null;
    const part = this.#part(`viable-${policy}`);
    write(part, CROWD.viable(viable));
    part.dataset.good = viable === null ? "" : `${viable >= 0.99}`;
    write(this.#part(`facts-${policy}`), figures?.started ? CROWD.facts(figures) : "");
  }

  #say() {
    const { voices, calls, policy, figures, trouble } = this.state;
    const all = [...voices.map(([, phase, , , , cause]) => ({ phase, cause })), ...calls];
    const phases = all.map(({ phase }) => phase);
    const causes = all.flatMap(({ phase, cause }) => (phase === "away" ? [cause] : []));
    const count = (...some) => phases.filter((phase) => some.includes(phase)).length;
    const now = { hear: count("playing"), dry: count("dry"), wait: count("waiting", "connecting"), away: count("away") };
    const words = phases.length ? CROWD.goesOn(now) : CROWD.nobody;
    write(this.#part("crowd-now"), words);
    const paused = phases.length && performance.now() - this.#pausedAt < 3000;
    write(this.#part("crowd-note"), this.#trouble || trouble || (causes.length ? CROWD.away(causes) : paused ? CROWD.paused : ""));
    if (performance.now() - this.#described < TELL) return;
    this.#described = performance.now();
    const started = figures[policy]?.started;
    const share = started ? CROWD.viable(1 - figures[policy].dry / started) : "";
    this.#part("crowd-bars").ariaLabel = words;
    this.#part("crowd-line").ariaLabel = CROWD.minuteInWords(CROWD.names[policy] ?? policy, share);
  }

  /** @returns {HTMLElement} */
  #part(name) {
    return this.element.querySelector(`[data-part="${name}"]`);
  }
}
