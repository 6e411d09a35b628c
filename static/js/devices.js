/** Microphones and loudspeakers: which there are, and which of them the person wants. This browser remembers it. */

const STORE = "voxrtc.devices";
const ALIASES = new Set(["", "default", "communications"]); // no devices, but Chromium's names for the system's choice

/**
 * @typedef {"microphone" | "speaker"} Kind
 * @typedef {{id: string, label: string}} Device  `label` is empty until the person allowed the microphone
 */

/** Event: `change`, after which all is to be read anew. */
export class Devices extends EventTarget {
  /** @type {Record<Kind, Device[]>} */ list = { microphone: [], speaker: [] };
  /** @type {Record<Kind, Device | null>} */ #wanted = { microphone: null, speaker: null, ...recall() };

  constructor() {
    super();
    navigator.mediaDevices?.addEventListener("devicechange", () => this.look());
  }

  /** Ask the browser what there is. */
  async look() {
    const all = (await navigator.mediaDevices?.enumerateDevices().catch(() => [])) ?? [];
    const of = (wanted) => all.filter(({ kind, deviceId: id }) => kind === wanted && !ALIASES.has(id)).map(({ deviceId: id, label }) => ({ id, label }));
    this.list = { microphone: of("audioinput"), speaker: of("audiooutput") };
    this.dispatchEvent(new Event("change"));
  }

  /** The id of the wanted device, if it is there; empty for the system's choice. @param {Kind} kind */
  get(kind) {
    const wanted = this.#wanted[kind];
    const there = this.list[kind];
    // Some browsers give a device another id on the next visit, but never another name.
    const found = there.find(({ id }) => id === wanted?.id) ?? there.find(({ label }) => label && label === wanted?.label);
    return found?.id ?? "";
  }

  /** @param {Kind} kind @param {string} id empty for the system's choice */
  choose(kind, id) {
    this.#wanted[kind] = this.list[kind].find((device) => device.id === id) ?? null;
    try {
      localStorage.setItem(STORE, JSON.stringify(this.#wanted));
    } catch {} // no room, or not allowed: it holds for this visit
    this.dispatchEvent(new Event("change"));
  }
}

function recall() {
  try {
    return JSON.parse(localStorage.getItem(STORE));
  } catch {
    return null;
  }
}
