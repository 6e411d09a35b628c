/** The dashboard: what the feed and this page's own calls tell goes into the ledger, what the ledger holds is shown. */
import { drawChart, lookOf } from "./chart.js";
import { CHARTS } from "./charts.js";
import { save, tickRows, toCsv, turnRow } from "./export.js";
import { Ledger } from "./ledger.js";
import { Network } from "./network.js";
import { drawNumbers, drawTiles } from "./numbers.js";
import { write } from "./element.js";
import { drawTurns } from "./turns.js";
import { DASHBOARD } from "./words.js";

const BEHIND = 400; // ms that moving pictures lag, so that their right end is always known: a tick, and some
const TOO_SLOW = 6; // ms a picture may take, on average; beyond that they move with the ticks only, for a while
const REST = 20_000; // ms
const SELDOM = 20; // ticks after which charts out of sight are drawn, too: who scrolls to them, or prints, finds something

export class Dashboard {
  ledger = new Ledger();
  /** @type {Element | null} */ #root = null;
  /** @type {Set<Element>} charts in view */ #seen = new Set();
  #watch = new IntersectionObserver((entries) => this.#look(entries));
  #still = matchMedia("(prefers-reduced-motion: reduce)");
  #pictures = {};
  #colors = null;
  #frame = 0;
  #cost = 0;
  #rested = 0; // when pictures may move again
  #ticks = 0;
  #model = "";

  /**
   * @param {import("./feed.js").Feed} feed
   * @param {import("./connection.js").Connection} line
   * @param {import("./voice.js").Voice} voice
   */
  constructor(feed, line, voice) {
    this.feed = feed;
    this.network = new Network(line);
    feed.addEventListener("stats", ({ detail }) => this.ledger.tick(detail, this.network.figures, Date.now()));
    feed.addEventListener("change", () => this.#paintLive());
    line.addEventListener("message", ({ detail }) => this.#take(detail));
    voice.addEventListener("journey", ({ detail }) => this.ledger.heard({ ...detail, at: Date.now(), model: this.#model, network: this.network.figures }));
    this.network.addEventListener("change", () => this.#paintTiles());
    this.ledger.addEventListener("turns", () => this.#paintTurns());
    this.ledger.addEventListener("tick", () => this.#paintTick());
  }

  /** @param {Element} root the page's; it may be another one than before */
  adopt(root) {
    this.#root = root;
    this.#watch.disconnect();
    this.#seen.clear();
    for (const chart of root.querySelectorAll("[data-chart]")) this.#watch.observe(chart);
    root.querySelector("[data-part=numbers]").addEventListener("toggle", () => this.#paintNumbers());
    this.#paintLive();
    this.#paintTurns();
    this.#paintTick();
  }

  /** @param {string} what "turns", "ticks" or "all" */
  save(what) {
    const { turns, ticks } = this.ledger;
    const name = `voxrtc-${what}-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}`;
    if (what === "turns") save(`${name}.csv`, "text/csv", toCsv(turns.map(turnRow)));
    else if (what === "ticks") save(`${name}.csv`, "text/csv", toCsv(ticks.flatMap(tickRows)));
    else save(`${name}.json`, "application/json", JSON.stringify({ saved: new Date().toISOString(), turns, ticks }, null, 1));
  }

  /** @param {{type: string, [field: string]: any}} event the server's, of this page's call */
  #take(event) {
    const { type, session } = event;
    if (type === "session.created" || type === "session.updated") this.#model = session.model;
    else if (type === "response.created") this.ledger.own(event.response.id);
    else if (type === "voxrtc.playout") this.ledger.played(event.response_id, event.underruns);
  }

  #look(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) this.#seen.add(target);
      else this.#seen.delete(target);
    }
    this.#paintCharts();
  }

  #paintTick() {
    this.#colors = null; // light may have become dark
    this.#paintTiles();
    this.#paintNumbers();
    this.#paintCharts(this.#ticks++ % SELDOM ? this.#seen : this.#root?.querySelectorAll("[data-chart]"));
  }

  /** Lines and legends are made once a tick. @param {Iterable<Element>} charts those in view */
  #paintCharts(charts = this.#seen) {
    if (!this.#root) return;
    this.#colors ??= colorsOf(this.#root.querySelector(".vx"));
    for (const chart of charts) {
      const picture = CHARTS[chart.dataset.chart].picture(this.ledger, this.#colors);
      this.#pictures[chart.dataset.chart] = picture;
      drawLegend(chart.querySelector(".vx-legend"), picture.keys);
      this.#drawOne(chart);
    }
    if (!this.#frame && this.#moves) this.#frame = requestAnimationFrame(() => this.#move());
  }

  /** Whether something is to be seen that moves between two ticks, on a machine that can afford it. */
  get #moves() {
    const sounds = this.#pictures.slack?.lines.some(({ points }) => points.at(-1)?.[0] > Date.now() - CHARTS.slack.span);
    return Boolean(sounds) && this.feed.live && this.#slack && !this.#still.matches && performance.now() >= this.#rested;
  }

  get #slack() {
    return [...this.#seen].find(({ dataset }) => dataset.chart === "slack");
  }

  #move() {
    this.#frame = 0;
    if (!this.#moves) return;
    const began = performance.now();
    this.#drawOne(this.#slack);
    this.#cost = 0.95 * this.#cost + 0.05 * (performance.now() - began);
    if (this.#cost > TOO_SLOW) [this.#cost, this.#rested] = [0, began + REST];
    this.#frame = requestAnimationFrame(() => this.#move());
  }

  #drawOne(chart) {
    const kind = chart.dataset.chart;
    const picture = this.#pictures[kind];
    if (!picture) return;
    const to = Date.now() - BEHIND;
    const ends = [DASHBOARD.charts.ago(CHARTS[kind].span / 1000), DASHBOARD.charts.now];
    drawChart(chart.querySelector("canvas"), this.#colors.look, { ...picture, from: to - CHARTS[kind].span, to, ends });
  }

  #paintLive() {
    const live = this.#root?.querySelector("[data-part=live]");
    if (!live) return;
    live.dataset.live = `${this.feed.live}`;
    write(live, DASHBOARD.live[this.feed.live]);
  }

  #paintTiles() {
    if (this.#root) drawTiles(this.#root.querySelector("[data-part=tiles]"), this.ledger, this.network.figures);
  }

  #paintTurns() {
    if (!this.#root) return;
    const { turns } = this.ledger;
    write(this.#root.querySelector("[data-part=no-turns]"), turns.length ? "" : DASHBOARD.turns.none);
    drawTurns(this.#root.querySelector("[data-part=turns]"), turns);
    this.#paintTiles();
  }

  /** Costs nothing while it is closed. */
  #paintNumbers() {
    const numbers = this.#root?.querySelector("[data-part=numbers]");
    if (numbers?.open) drawNumbers(numbers.querySelector("table"), this.ledger.ticks.at(-1));
  }
}

/** @param {Element} element @returns {import("./charts.js").Colors & {look: import("./chart.js").Look}} */
function colorsOf(element) {
  const style = getComputedStyle(element);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    models: ["model-1", "model-2", "model-3", "model-4"].map(color),
    network: ["network", "browser", "queue"].map(color),
    own: color("accent"),
    others: color("others"),
    heard: color("ink"),
    warn: color("dry"),
    look: lookOf(element),
  };
}

/** @param {Element} list @param {import("./charts.js").Key[]} keys */
function drawLegend(list, keys) {
  const drawn = JSON.stringify(keys.map(({ label, color }) => [label, color]));
  if (list.dataset.drawn !== drawn) {
    list.dataset.drawn = drawn;
    list.replaceChildren(...keys.map(key));
  }
  for (const [i, { value }] of keys.entries()) write(list.children[i].lastChild, value);
}

function key({ label, color, stroke = "line" }) {
  const item = document.createElement("li");
  const [swatch, name, value] = [document.createElement("i"), document.createElement("span"), document.createElement("b")];
  swatch.style.setProperty("--color", color);
  swatch.dataset.stroke = stroke;
  name.textContent = label;
  item.append(swatch, name, value);
  return item;
}
