/**
 * What goes on at the server, as it tells all who look: one connection a page, which all parts of the page share. It is there
 * while the page is seen; a browser has few connections to a server, and hidden pages would take them all.
 */

const AGAIN = [1_000, 2_000, 4_000, 8_000]; // ms until the next try, of the first, second … in a row that fails

/** Events that the server tells (`voxrtc/api/app.py`); `detail` is its data. */
export const TOLD = ["stats", "models", "crowd"];

/** Events: those in `TOLD`; `change`, when `live` did. */
export class Feed extends EventTarget {
  /** Whether the server is heard. */ live = false;
  /** The latest of each event, for who comes later. @type {Record<string, any>} */ latest = {};
  /** @type {EventSource | null} */ #source = null;
  #failed = 0;
  #timer = 0;

  /** @param {URL} base where the server's API hangs */
  constructor(base) {
    super();
    this.base = base;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#close() : this.#open()));
    if (!document.hidden) this.#open();
  }

  #open() {
    this.#close();
    const source = (this.#source = new EventSource(new URL("v1/voxrtc/live", this.base)));
    source.addEventListener("open", () => this.#heard());
    source.addEventListener("error", () => this.#fail());
    for (const type of TOLD) source.addEventListener(type, ({ data }) => this.#take(type, JSON.parse(data)));
  }

  #close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
    this.#tell(false);
  }

  #heard() {
    this.#failed = 0;
    this.#tell(true);
  }

  /** Browsers try again by themselves after some failures, and not after others: so we do it, always. */
  #fail() {
    this.#close();
    const wait = AGAIN[Math.min(this.#failed++, AGAIN.length - 1)];
    this.#timer = setTimeout(() => this.#open(), wait * (0.75 + Math.random() / 2)); // not all pages at once
  }

  #take(type, detail) {
    this.latest[type] = detail;
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  #tell(live) {
    if (live === this.live) return;
    this.live = live;
    this.dispatchEvent(new Event("change"));
  }
}
