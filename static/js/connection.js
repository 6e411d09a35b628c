/** The way to the server: at most one call, made when it is needed, shared by all who need it, given back when nobody does. */
import { Call } from "./call.js";
import { Ice } from "./ice.js";
import { Trouble } from "./troubles.js";

const IDLE_FOR = 5 * 60_000; // ms without a word before the call is given back to others

/** Events, of the present call only: `track`, `message` and `lost`, as `Call` has them, and `idle`. */
export class Connection extends EventTarget {
  /** @type {Call | null} */ call = null;
  /** @type {Promise<Call> | null} */ #connecting = null;
  #told = "";
  #leaving = 0;

  /** @param {URL} base where the server's API hangs */
  constructor(base) {
    super();
    this.base = base;
    this.ice = new Ice(base);
    this.ice.look();
  }

  /** Whether events can be sent and sound can come. */
  get open() {
    return Boolean(this.call?.open);
  }

  /**
   * The open call; made anew when there is none, shared by those who ask while it is being made.
   * @param {object} session OpenAI's session object, for a new call
   * @throws {Trouble}
   */
  ready(session) {
    clearTimeout(this.#leaving);
    if (this.open) return Promise.resolve(this.call);
    this.#connecting ??= this.#dial(session).finally(() => (this.#connecting = null));
    return this.#connecting;
  }

  /** Have this session from now on; what the server was told already is not sent again. @param {object} session */
  settle(session) {
    const told = JSON.stringify(session);
    if (told !== this.#told) this.send({ type: "session.update", session });
    this.#told = told;
  }

  /** @param {object} event a client event @throws {Trouble} */
  send(event) {
    if (!this.call) throw new Trouble("connection_lost");
    this.call.send(event);
  }

  /** Nothing is being said: after a long silence `idle` tells. */
  rest() {
    clearTimeout(this.#leaving);
    this.#leaving = setTimeout(() => this.dispatchEvent(new Event("idle")), IDLE_FOR);
  }

  /** Hang up. */
  drop() {
    clearTimeout(this.#leaving);
    this.call?.close();
    this.call = null;
  }

  /** WebRTC's figures about the sound that comes in (`inbound-rtp`), or null. */
  async stats() {
    const report = this.call ? await this.call.receiver.getStats() : new Map();
    return [...report.values()].find(({ type }) => type === "inbound-rtp") ?? null;
  }

  async #dial(session) {
    if (!window.RTCPeerConnection || !window.AudioContext) throw new Trouble("unsupported");
    const call = (this.call = new Call(this.base, this.ice));
    this.#told = JSON.stringify(session);
    this.#pass(call, "track");
    this.#pass(call, "message");
    try {
      await call.connect(session);
    } catch (error) {
      if (call === this.call) this.drop();
      throw error;
    }
    this.#pass(call, "lost");
    return call;
  }

  #pass(call, type) {
    call.addEventListener(type, ({ detail }) => call === this.call && this.dispatchEvent(new CustomEvent(type, { detail })));
  }
}
