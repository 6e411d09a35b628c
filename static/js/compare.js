/** The same sentence by two models, one after the other, over the call and the track that Speak uses. Knows nothing of how it is shown. */
import { split } from "./journey.js";

const PAUSE = 900; // ms between the two: so that the second one's first sound is not the first one's last

/**
 * @typedef {"waiting" | "asked" | "heard" | "done" | "cut" | "failed"} State
 * @typedef {{wish: import("./talker.js").Wish, state: State, journey: ReturnType<typeof split>, asked?: number, heard?: number,
 *   ended?: number}} Side  times are a `performance.now()`: when it was asked, and when its first and its last sound were rendered
 */

/** Event: `change`, after which `sides` and `running` are to be read anew. */
export class Compare extends EventTarget {
  /** @type {Side[]} */ sides = [];
  /** Whether there is something to stop. */ running = false;
  /** @type {import("./voice.js").Turn | null} */ #turn = null;
  #run = 0;

  /** @param {import("./talker.js").Talker} talker */
  constructor(talker) {
    super();
    this.talker = talker;
    talker.voice.addEventListener("change", () => this.#follow());
  }

  /**
   * Call it inside the person's gesture. Whatever else they have said meanwhile, or a Stop, ends it.
   * @param {import("./talker.js").Wish[]} wishes
   */
  async run(wishes) {
    const run = ++this.#run;
    this.running = true;
    this.sides = wishes.map((wish) => ({ wish, state: "waiting", journey: null }));
    this.#tell();
    const open = await this.talker.open(wishes[0]); // connecting is nobody's doing
    for (const [i, side] of this.sides.entries()) {
      if (run !== this.#run) return;
      if (!open) side.state = "failed";
      else if (this.talker.voice.state) side.state = "cut"; // something else is being said by now
      else await this.#hear(side, run);
      if (side.state !== "done") break;
      if (i + 1 < this.sides.length) await new Promise((resume) => setTimeout(resume, PAUSE));
    }
    if (run === this.#run) this.#finish();
  }

  /** Silence at once. */
  stop() {
    this.#run++;
    const side = this.sides.find(({ state }) => state === "asked" || state === "heard");
    if (side) side.state = "cut";
    this.talker.stop();
    this.#finish();
  }

  async #hear(side, run) {
    Object.assign(side, { state: "asked" });
    this.#tell();
    const turn = await this.talker.speak(side.wish);
    if (run !== this.#run) return;
    if (!turn) return void (side.state = this.talker.trouble ? "failed" : "cut");
    this.#turn = turn;
    await this.#over(turn);
    this.#turn = null;
    if (run !== this.#run) return;
    this.#read(side, turn);
    side.state = turn.ended !== undefined ? "done" : this.talker.trouble ? "failed" : "cut";
    this.#tell();
  }

  /** Until that turn has ended, however it did. */
  #over(turn) {
    const { voice } = this.talker;
    return new Promise((resolve) => {
      const look = ({ detail }) => {
        if (detail !== turn) return;
        voice.removeEventListener("ended", look);
        setTimeout(resolve); // what went wrong is told right after
      };
      voice.addEventListener("ended", look);
    });
  }

  #follow() {
    const side = this.sides.find(({ state }) => state === "asked");
    if (!side || !this.#turn || this.talker.voice.state !== "speaking") return;
    side.state = "heard";
    this.#tell();
  }

  #read(side, { marks, ended }) {
    side.journey = split(marks);
    side.asked = marks.asked;
    side.heard = marks.heard;
    if (ended !== undefined) side.ended = ended + (marks.buffered || 0); // what had left the server was still to be rendered
  }

  #finish() {
    this.running = false;
    this.#tell();
  }

  #tell() {
    this.dispatchEvent(new Event("change"));
  }
}
