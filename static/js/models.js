/** The server's models: what each is, how far it is, and having it loaded or unloaded. Knows nothing of how they are shown. */
import { Trouble } from "./troubles.js";

const LOOK_EVERY = 1_000; // ms; only while a model is being loaded and the page is seen
const STEADY = 0.3; // of the rate that is shown, what the latest second says

/**
 * A model as `GET /v1/voxrtc/models` tells it; what the page comes with has no `state` yet.
 * @typedef {{name: string, title: string, description: string, languages: string[], voices: string[], licence: string,
 *   link: string, parameters: number, default?: boolean, suggested?: boolean, here?: boolean,
 *   sources?: {repo: string, licence: string, link: string, gated: boolean}[], needs?: {memory: number} | null,
 *   state?: "ready" | "loading" | "failed" | "unloaded", stage?: string, done?: number, total?: number, message?: string,
 *   rate?: number}} Model  `rate`: bytes a second of its download
 */

/** Event: `change`, after which `list` and `trouble` are to be read anew. */
export class Models extends EventTarget {
  /** @type {Model[]} the default one first */ list = [];
  /** @type {{name: string, words: string} | null} why the latest wish about a model was not granted */ trouble = null;
  #looked = 0;
  #timer = 0;

  /** @param {URL} base where the server's API hangs */
  constructor(base) {
    super();
    this.base = base;
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
  }

  /** What is known before the server was asked. @param {Model[]} models */
  begin(models) {
    if (!this.list.length) this.list = models;
  }

  /** @param {string} name @returns {Model | undefined} */
  get(name) {
    return this.list.find((model) => model.name === name);
  }

  /** The model that a person is pointed to on this machine, as long as it is not loaded. */
  get suggested() {
    return this.list.find(({ suggested, state }) => suggested && state === "unloaded");
  }

  /** Ask the server how all are, and again as long as one is on its way. */
  async look() {
    clearTimeout(this.#timer);
    const response = await fetch(this.#url("")).catch(() => null);
    if (response?.ok) this.#take((await response.json()).models);
    clearTimeout(this.#timer); // of a look that overtook this one
    const moving = this.list.some(({ state }) => state === "loading");
    if (moving && !document.hidden) this.#timer = setTimeout(() => this.look(), LOOK_EVERY);
  }

  /** @param {string} name */
  load(name) {
    return this.#wish(name, "load");
  }

  /** Also gives up loading. @param {string} name */
  unload(name) {
    return this.#wish(name, "unload");
  }

  async #wish(name, verb) {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch(this.#url(`/${encodeURIComponent(name)}/${verb}`), { method: "POST", headers, body: "{}" }).catch(() => null);
    const refused = !response ? new Trouble("unreachable") : response.ok ? null : await Trouble.fromResponse(response);
    this.trouble = refused && { name, words: refused.message };
    await this.look();
    this.#tell();
  }

  #take(list) {
    const now = performance.now();
    const seconds = (now - this.#looked) / 1000;
    for (const model of list) {
      const before = this.get(model.name);
      if (model.stage !== "downloading" || before?.stage !== "downloading" || !before.total) continue;
      const latest = Math.max(0, model.done - before.done) / seconds;
      model.rate = before.rate === undefined ? latest : STEADY * latest + (1 - STEADY) * before.rate;
    }
    this.list = list;
    this.#looked = now;
    this.#tell();
  }

  #url(path) {
    return new URL(`v1/voxrtc/models${path}`, this.base);
  }

  #tell() {
    this.dispatchEvent(new Event("change"));
  }
}
