/** Push to talk as a gesture: the space bar, where it means nothing else, or the Talk button, held down. */

const BUTTON = "[name=talk]";
const MEANT_OTHERWISE = "input, textarea, audio, select, button, summary, a, [contenteditable]";

export class Push {
  #holding = new Set(); // what is held: the key, the pointer, or a click that another one ends

  /**
   * @param {() => boolean} wanted whether push to talk is on
   * @param {() => void} press called inside the gesture
   * @param {() => void} release
   */
  constructor(wanted, press, release) {
    Object.assign(this, { wanted, press, release });
    addEventListener("keydown", (event) => this.#key(event, () => event.repeat || this.#hold(event.code)));
    addEventListener("keyup", (event) => this.#key(event, () => this.#let(event.code)));
    addEventListener("blur", () => this.#letAll()); // what is let go elsewhere, nobody tells us
    document.addEventListener("visibilitychange", () => document.hidden && this.#letAll());
  }

  /** @param {HTMLElement} button the page's present one */
  adopt(button) {
    const heed = (type, act) => button.addEventListener(type, (event) => this.wanted() && act(event));
    heed("pointerdown", (event) => event.button === 0 && this.#grasp(button, event));
    for (const type of ["pointerup", "pointercancel", "lostpointercapture"]) heed(type, () => this.#let("pointer"));
    heed("contextmenu", (event) => event.preventDefault()); // of a long touch
    // A click that no pointer made is a switch's, a screen reader's or a voice's: they cannot hold.
    heed("click", (event) => event.detail === 0 && (this.#holding.has("click") ? this.#let("click") : this.#hold("click")));
  }

  #key(event, act) {
    const button = event.target.closest?.(BUTTON);
    const ours = event.code === "Space" || (event.code === "Enter" && button);
    if (!ours || !this.wanted() || event.ctrlKey || event.altKey || event.metaKey) return;
    if (!button && event.target.closest?.(MEANT_OTHERWISE)) return;
    event.preventDefault(); // neither scrolls nor clicks
    act();
  }

  #grasp(button, event) {
    button.setPointerCapture(event.pointerId); // so that we hear of its end outside, too
    this.#hold("pointer");
  }

  #hold(what) {
    const first = this.#holding.size === 0;
    this.#holding.add(what);
    if (first) this.press();
  }

  #let(what) {
    if (this.#holding.delete(what) && this.#holding.size === 0) this.release();
  }

  #letAll() {
    if (this.#holding.size === 0) return;
    this.#holding.clear();
    this.release();
  }
}
