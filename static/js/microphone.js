/** The person's microphone: asked for, opened, and told in plain words when that fails. */
import { levelOf } from "./meter.js";
import { allowRecording } from "./speaker.js";
import { Trouble } from "./troubles.js";

const CAUSES = { NotAllowedError: "mic_blocked", SecurityError: "mic_blocked", NotFoundError: "mic_missing", OverconstrainedError: "mic_missing" };
// The browser takes our own voice out of what it hears: it must not interrupt itself.
const WISHES = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };

/** Events: `lost`, when an open microphone goes away by itself. */
export class Microphone extends EventTarget {
  /** @type {MediaStreamTrack | null} */ track = null;
  #source = null;
  #samples = new Float32Array(1024);

  /**
   * Open it, if it is not. Call it inside the person's gesture.
   * @param {AudioContext} context for `level`
   * @throws {Trouble}
   */
  async open(context) {
    if (this.track) return;
    if (!navigator.mediaDevices) throw new Trouble("mic_insecure");
    allowRecording(true);
    const stream = await navigator.mediaDevices.getUserMedia({ audio: WISHES }).catch(({ name }) => {
      allowRecording(false);
      throw new Trouble(CAUSES[name] ?? "mic_busy");
    });
    [this.track] = stream.getAudioTracks();
    this.track.addEventListener("ended", () => (this.close(), this.dispatchEvent(new Event("lost"))));
    this.scope = new AnalyserNode(context, { fftSize: this.#samples.length });
    this.#source = context.createMediaStreamSource(stream);
    this.#source.connect(this.scope);
  }

  /** Give it back: the browser's own sign goes out. */
  close() {
    this.track?.stop();
    this.#source?.disconnect();
    if (this.track) allowRecording(false);
    this.track = this.#source = null;
  }

  /** How loud it is just now, 0 to 1. */
  get level() {
    if (!this.track) return 0;
    this.scope.getFloatTimeDomainData(this.#samples);
    return levelOf(this.#samples);
  }
}
