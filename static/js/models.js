/** The server's models: what each is, how far it is, and having it loaded or unloaded. Knows nothing of how they are shown. */
import { Trouble } from "./troubles.js";

const LOOK_EVERY = 1_000; // ms; only while a model is being loaded, the page is seen and the feed is silent

/**
 * A model as `GET /v1/voxrtc/models` tells it; what the page comes with has no `state` yet.
 * @typedef {{name: string, title: string, description: string, kind: string, clones: boolean, languages: string[], voices: string[],
 *   licence: string, link: string, parameters: number, default?: boolean, suggested?: boolean, here?: boolean, download?: number, holds?: number,
 *   sources?: {repo: string, licence: string, link: string, gated: boolean}[],
 *   fit?: {verdict: "fits" | "slow" | "too big", memory: number, speed: number | null, learned: boolean, words: string},
 *   state?: "ready" | "loading" | "failed" | "unloaded", stage?: string, done?: number, total?: number, rate?: number,
 *   message?: string}} Model  `rate`: bytes a second of its download; `holds`: GB
 * @typedef {{words: string, gpu: boolean, room: number, shared: boolean}} Machine  `shared`: with strangers
 */

/** Event: `change`, after which `list`, `machine` and `trouble` are to be read anew. */
export class Models extends EventTarget {
  /** @type {Model[]} the default one first */ list = [];
  /** @type {Machine | null} what they are to run on */ machine = null;
  /** @type {{name: string, words: string} | null} why the latest wish about a model was not granted */ trouble = null;
  #timer = 0;

  /**
   * @param {URL} base where the server's API hangs
   * @param {import("./feed.js").Feed} feed
   */
  constructor(base, feed) {
    super();
    this.base = base;
    this.feed = feed;
    feed.addEventListener("models", ({ detail }) => this.#take(detail));
    feed.addEventListener("change", () => feed.live || this.look());
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

  /** Why the latest wish about this model was not granted; empty, unless it was refused. @param {string | undefined} name */
  refusal(name) {
    return this.trouble && this.trouble.name === name ? this.trouble.words : "";
  }

  /** Ask the server how all are; where the feed does not tell, again as long as one is on its way. */
  async look() {
    clearTimeout(this.#timer);
    const response = await fetch(this.#url("")).catch(() => null);
    if (response?.ok) this.#take(await response.json());
    clearTimeout(this.#timer); // of a look that overtook this one
    const moving = this.list.some(({ state }) => state === "loading");
    if (moving && !document.hidden && !this.feed.live) this.#timer = setTimeout(() => this.look(), LOOK_EVERY);
  }

  /** @param {string} name */
  load(name) {
    return this.#wish(name, "load");
  }

  /** Give up loading; what was downloaded stays. @param {string} name */
  cancel(name) {
    return this.#wish(name, "cancel");
  }

  /** @param {string} name */
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

  /** What was refused is another matter once the model's state is another one. */
  #take({ models, machine }) {
    const before = this.get(this.trouble?.name)?.state;
    this.list = models;
    this.machine = machine;
    if (before && before !== this.get(this.trouble.name)?.state) this.trouble = null;
    this.#tell();
  }

  #url(path) {
    return new URL(`v1/voxrtc/models${path}`, this.base);
  }

  #tell() {
    this.dispatchEvent(new Event("change"));
  }
}
