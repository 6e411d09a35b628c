/**
 * The booth: where the person records a voice, or chooses a file with one, listens to it, and gives it to the server.
 * What is in it stays there when the page is rendered anew.
 */
import { drawBooth, drawTaking } from "./booth-panel.js";
import { Dictaphone } from "./dictaphone.js";
import { OwnVoices } from "./own-voices.js";
import { Trouble } from "./troubles.js";
import { BOOTH } from "./words.js";

const LARGEST = 8 << 20; // bytes that the server takes

/** Events: `change`, after which `voices` is to be read anew; `made` (detail: the id), when there is a voice to speak with. */
export class Booth extends EventTarget {
  open = false;
  /** @type {{blob: Blob, url: string, name: string} | null} what was recorded or chosen */ sample = null;
  text = "";
  consent = false;
  /** What is wrong, in words. */ why = "";
  /** A voice that went by itself, in words. */ loss = "";
  /** @type {"" | "writing" | "making"} what the server is doing for us */ busy = "";
  dictaphone = new Dictaphone();
  /** @type {string} the voice that was made of the sample */ #made = "";
  #opening = false;
  /** @type {HTMLElement} */ #root;

  /**
   * @param {URL} base where the server's API hangs
   * @param {() => string} device the microphone that the person chose
   * @param {() => void} hush called before a recording: neither the voice nor the call's microphone shall be on
   */
  constructor(base, device, hush) {
    super();
    Object.assign(this, { base, device, hush });
    this.voices = new OwnVoices(base);
    this.voices.addEventListener("change", () => this.#tell());
    this.voices.addEventListener("gone", ({ detail }) => this.#say({ loss: BOOTH.gone(detail.name) }));
    addEventListener("pagehide", () => this.dictaphone.stop());
  }

  /** @param {HTMLElement} root the page's present element of it */
  adopt(root) {
    this.#root = root;
    root.addEventListener("click", ({ target }) => this.#press(target.closest("button")?.name));
    root.addEventListener("input", ({ target }) => this.#enter(target));
  }

  /** @param {string} voice the one that is chosen @param {boolean} able whether the chosen model can use one */
  draw(voice, able) {
    this.chosen = voice;
    drawBooth(this.#root, this, this.voices.get(voice), able);
  }

  /** The server says that a voice is not there. */
  look() {
    this.voices.look();
  }

  #press(name) {
    if (name === "booth") this.#say({ open: !this.open });
    else if (name === "record") this.dictaphone.running ? this.dictaphone.stop() : this.#record();
    else if (name === "discard") this.#drop();
    else if (name === "write-down") this.#write();
    else if (name === "make") this.#make();
    else if (name === "forget") this.#forget();
  }

  #enter(field) {
    const { name, value, checked, files } = field;
    if (name === "said") this.text = value;
    else if (name === "consent") this.#say({ consent: checked, why: "" });
    else if (name === "sample" && files[0]) {
      this.#choose(files[0]);
      field.value = ""; // the same one may be chosen again
    }
  }

  async #record() {
    if (this.#opening) return;
    this.#opening = true;
    this.hush();
    try {
      const blob = await this.dictaphone.record(this.device(), () => {
        this.#say({ why: "", loss: "" });
        this.#follow();
      });
      this.#take(blob, BOOTH.mine);
    } catch (trouble) {
      this.#fail(trouble);
    } finally {
      this.#opening = false;
      this.#tell();
    }
  }

  /** Its level and its time, as long as it runs. */
  #follow() {
    drawTaking(this.#root, this.dictaphone);
    if (this.dictaphone.running) requestAnimationFrame(() => this.#follow());
  }

  #choose(file) {
    if (file.size > LARGEST) return this.#say({ why: BOOTH.large });
    this.#take(file, file.name.replace(/\.\w+$/, "") || BOOTH.mine);
  }

  #take(blob, name) {
    this.#drop();
    this.#say({ sample: { blob, url: URL.createObjectURL(blob), name: name.slice(0, 100) } });
  }

  #drop() {
    if (this.sample) URL.revokeObjectURL(this.sample.url);
    this.#made = "";
    this.#say({ sample: null, text: "", consent: false, why: "", loss: "" });
  }

  async #write() {
    const body = new FormData();
    body.append("file", this.sample.blob, "recording");
    await this.#wait("writing", async () => {
      const response = await fetch(new URL("v1/audio/transcriptions", this.base), { method: "POST", body }).catch(() => null);
      if (!response) throw new Trouble("unreachable");
      if (!response.ok) throw await Trouble.fromResponse(response);
      const { text } = await response.json();
      if (!text) throw new Trouble("no_words", BOOTH.nothing);
      this.text = text;
    });
  }

  async #make() {
    if (!this.consent) return this.#say({ why: BOOTH.agree });
    const { sample, text, consent } = this;
    await this.#wait("making", async () => {
      const voice = await this.voices.add(sample.blob, { name: sample.name, text: text.trim(), consent });
      if (this.#made) this.voices.remove(this.#made); // the same recording, said anew
      this.#made = voice.id;
      this.open = false;
      this.dispatchEvent(new CustomEvent("made", { detail: voice.id }));
    });
  }

  #forget() {
    const id = this.chosen;
    if (id === this.#made) this.#drop();
    this.voices.remove(id);
  }

  async #wait(busy, work) {
    if (this.busy) return;
    this.#say({ busy, why: "" });
    await work().catch((trouble) => this.#fail(trouble));
    this.#say({ busy: "" });
  }

  #fail(trouble) {
    if (!(trouble instanceof Trouble)) console.error(trouble);
    this.#say({ why: trouble instanceof Trouble ? BOOTH.trouble(trouble) : BOOTH.failed });
  }

  #say(news) {
    Object.assign(this, news);
    this.#tell();
  }

  #tell() {
    this.dispatchEvent(new Event("change"));
  }
}
