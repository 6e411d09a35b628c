/** The person's microphone: asked for, opened, and told in plain words when that fails. */
import { levelOf } from "./meter.js";
import { allowRecording } from "./speaker.js";
import { Trouble } from "./troubles.js";

const CAUSES = {
  NotAllowedError: "mic_blocked",
  SecurityError: "mic_blocked",
  NotFoundError: "mic_missing",
  OverconstrainedError: "mic_gone",
  NotReadableError: "mic_busy",
};
// The browser takes our own voice out of what it hears: it must not interrupt itself.
const WISHES = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };

/**
 * Events: `moved` (detail: the label of the one that took its place) and `lost` (detail: a `Trouble`), when an open microphone
 * goes away by itself; `muted` and `unmuted`, by the system's doing.
 */
export class Microphone extends EventTarget {
  /** @type {MediaStreamTrack | null} */ track = null;
  /** @type {Promise<void> | null} */ #opening = null;
  #context = null;
  #source = null;
  #samples = new Float32Array(1024);

  /**
   * Open it, if it is not. Call it inside the person's gesture, before anything is awaited.
   * @param {AudioContext} context for `level`
   * @param {string} device its id; empty for the system's choice
   * @throws {Trouble}
   */
  open(context, device) {
    if (this.track) return Promise.resolve();
    this.#context = context;
    this.#opening ??= ask(device)
      .then((stream) => this.#use(stream))
      .finally(() => (this.#opening = null));
    return this.#opening;
  }

  /**
   * Use another device from now on; when that fails, all stays as it was.
   * @param {string} device
   * @throws {Trouble}
   */
  async change(device) {
    const stream = await ask(device);
    this.close();
    this.#use(stream);
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

  #use(stream) {
    const [track] = stream.getAudioTracks();
    const mine = (heed) => () => track === this.track && heed();
    track.addEventListener("ended", mine(() => this.#replace()));
    track.addEventListener("mute", mine(() => this.#tell("muted")));
    track.addEventListener("unmute", mine(() => this.#tell("unmuted")));
    this.track = track;
    allowRecording(true);
    this.scope = new AnalyserNode(this.#context, { fftSize: this.#samples.length });
    this.#source = this.#context.createMediaStreamSource(stream);
    this.#source.connect(this.scope);
  }

  /** It was unplugged, or its permission withdrawn: go on with another one, if we may. */
  async #replace() {
    this.close();
    try {
      await this.open(this.#context, "");
      this.#tell("moved", this.track.label);
    } catch (trouble) {
      this.#tell("lost", trouble.code === "mic_missing" ? new Trouble("mic_lost") : trouble);
    }
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

/** @param {string} device @param {MediaTrackConstraints} wishes @throws {Trouble} */
export async function ask(device, wishes = WISHES) {
  if (!navigator.mediaDevices) throw new Trouble("mic_insecure");
  allowRecording(true);
  const audio = device ? { ...wishes, deviceId: { exact: device } } : wishes;
  return navigator.mediaDevices.getUserMedia({ audio }).catch((error) => {
    allowRecording(false);
    throw new Trouble(causeOf(error));
  });
}

/** Browsers have one name for three ways to be refused, and tell them apart in their message at best. */
function causeOf({ name, message }) {
  if (name === "NotAllowedError" && /dismiss/i.test(message)) return "mic_dismissed";
  if (name === "NotAllowedError" && /system/i.test(message)) return "mic_system";
  return CAUSES[name] ?? "mic_busy";
}
