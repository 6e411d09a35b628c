/**
 * The way to the server: at most one line, made when it is needed, shared by all who need it, given back when nobody does. A call
 * by WebRTC where that gets through, else a tunnel; one that breaks is replaced, and the session goes on where it was heard last.
 */
import { Call } from "./call.js";
import { Ice } from "./ice.js";
import { Outbox } from "./outbox.js";
import { standInLine } from "./queue.js";
import { Trouble } from "./troubles.js";
import { Tunnel } from "./tunnel.js";

const IDLE_FOR = 5 * 60_000; // ms without a word before the call is given back to others
/** ms: how long WebRTC is tried alone, and how long each step of a line may take; first, and when a line has broken. */
const FIRST = { alone: 1_500, within: 10_000 };
const AGAIN = { alone: 800, within: 2_500 };
const RETRY_AFTER = 400; // ms
/** What another way would change. */
const NO_PATH = new Set(["udp_blocked", "connection_lost"]);

/**
 * Events, of the present line only: `track` (detail: its `sound`), `message` and `arrived`, as `Line` has them; `way`; `broken`, when it is to be
 * replaced, and `mended`; `lost` (detail: a `Trouble`), when it is not; `place`, when that changed; and `idle`.
 */
export class Connection extends EventTarget {
  /** @type {import("./line.js").Line | null} */ call = null;
  /** How the sound goes. @type {"direct" | "relay" | "tunnel" | null} */ way = null;
  /** The line broke, and another one is being looked for. */ broken = false;
  /** @type {Promise<Call> | null} */ #connecting = null;
  /** @type {Set<import("./line.js").Line>} lines that are not open yet */ #trying = new Set();
  #resume = {}; // what we have of the session
  #outbox = new Outbox();
  /** @type {import("./voice.js").Place | null} where we stand in line for a call */ place = null;
  #line = new AbortController();
  #told = "";
  #leaving = 0;

  /**
   * @param {URL} base where the server's API hangs
   * @param {() => AudioContext} context in which a tunnel's sound is made
   */
  constructor(base, context) {
    super();
    this.base = base;
    this.context = context;
    this.ice = new Ice(base);
    this.ice.look();
  }

  /** Whether events can be sent; while the line is broken, they wait. */
  get open() {
    return this.broken || Boolean(this.call?.open);
  }

  /** Whether no sound of before can come any more, once the server has begun anew: a tunnel drops it. */
  get exact() {
    return this.call instanceof Tunnel;
  }

  /**
   * The open line; made anew when there is none, shared by those who ask while it is being made.
   * @param {object} session OpenAI's session object, for a new one
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
    if (!this.open) throw new Trouble("connection_lost");
    const numbered = this.#outbox.add(event);
    if (!this.broken) this.call.transmit(numbered);
  }

  /** Nothing is being said: after a long silence `idle` tells. */
  rest() {
    clearTimeout(this.#leaving);
    this.#leaving = setTimeout(() => this.dispatchEvent(new Event("idle")), IDLE_FOR);
  }

  /** Stand in line no longer. */
  leaveLine() {
    this.#line.abort();
  }

  /** Hang up. */
  drop() {
    clearTimeout(this.#leaving);
    this.leaveLine();
    for (const line of this.#trying) line.close();
    this.call?.close();
    this.call = this.way = null;
    this.broken = false;
    this.#resume = {};
    this.#outbox.clear();
  }

  /** WebRTC's figures about the sound that comes in (`inbound-rtp`), or null. */
  async stats() {
    const report = this.call ? await this.call.report() : new Map();
    return [...report.values()].find(({ type }) => type === "inbound-rtp") ?? null;
  }

  async #dial(session) {
    if (!window.AudioContext || !(window.RTCPeerConnection || Tunnel.possible)) throw new Trouble("unsupported");
    try {
      return await this.#begin(session);
    } catch (error) {
      if (error.code !== "places_taken") throw error;
      return this.#begin(session, await this.#wait());
    }
  }

  async #wait() {
    this.#line = new AbortController();
    const move = (place) => ((this.place = place), this.#tell("place"));
    return standInLine(this.base, move, this.#line.signal).finally(() => move(null));
  }

  async #begin(session, ticket = "") {
    this.#told = JSON.stringify(session);
    this.#resume = {};
    this.#outbox.clear();
    try {
      await this.#reach(session, { ...FIRST, ticket });
    } catch (error) {
      this.drop();
      throw error;
    }
    return this.call;
  }

  /** The first line that opens; the others are let go. */
  async #reach(session, { alone, within, ticket }) {
    const call = window.RTCPeerConnection ? this.#call() : null;
    const called = call ? this.#try(call, session, within, ticket) : Promise.reject(new Trouble("udp_blocked"));
    const failed = called.catch((trouble) => {
      if (trouble instanceof Trouble && !NO_PATH.has(trouble.code)) throw trouble; // another way would change nothing
    });
    await Promise.race([failed, sleep(alone)]);
    if (this.call?.open) return;
    if (call && !this.#resume.token) this.#resume.token = await Promise.race([call.answered, failed]);
    if (this.call?.open) return;
    await Promise.any([called, this.#dig(session, within, ticket)]).catch(({ errors }) => {
      throw errors.at(-1);
    });
  }

  async #dig(session, within, ticket) {
    if (!Tunnel.possible) throw new Trouble("no_other_way");
    await this.#try(new Tunnel(this.base, this.context()), session, within, ticket);
  }

  #call() {
    try {
      return new Call(this.base, this.ice);
    } catch {
      return null; // the browser has it, and lets nobody use it
    }
  }

  async #try(line, session, within, ticket) {
    this.#trying.add(line);
    const early = []; // who hears of the session may answer, which takes a line
    line.addEventListener("message", ({ detail }) => (line === this.call ? this.#tell("message", detail) : early.push(detail)));
    line.addEventListener(
      "session",
      ({ detail }) => {
        this.#take(line, detail);
        for (const event of early) this.#tell("message", event);
      },
      { once: true },
    );
    try {
      await line.connect(session, this.#resume, within, ticket);
    } catch (error) {
      line.leave();
      throw error;
    } finally {
      this.#trying.delete(line);
    }
  }

  /** A line has opened: it is ours. What the server has not got of our events it gets now. */
  #take(line, { token, line: name, took, kept_ms: kept }) {
    this.#trying.delete(line);
    for (const other of this.#trying) other.leave();
    this.call?.leave();
    this.call = line;
    this.#resume = { token, line: name, received: this.#resume.received ?? 0, kept };
    line.addEventListener("lost", ({ detail }) => line === this.call && this.#lose(detail));
    line.addEventListener("arrived", ({ detail }) => line === this.call && this.#tell("arrived", detail));
    this.#tell("track", line.sound);
    line.way().then((way) => line === this.call && ((this.way = way), this.#tell("way")));
    if (!this.broken) return;
    this.broken = false;
    for (const event of this.#outbox.after(took)) line.transmit(event);
    this.#tell("mended");
  }

  #lose(trouble) {
    if (trouble.code === "connection_lost") this.#mend(trouble);
    else this.#tell("lost", trouble);
  }

  /** The line broke: look for another one, as long as the session is kept. */
  async #mend(trouble) {
    const line = this.call;
    const { kept, received } = this.#resume;
    this.#resume = { ...this.#resume, received: received + line.received, heard: line.lastHeard };
    this.broken = true;
    this.#tell("broken");
    const until = performance.now() + kept;
    while (this.broken && line === this.call && performance.now() < until && trouble.code !== "session_gone") {
      trouble = await this.#reach(JSON.parse(this.#told), AGAIN).then(() => trouble, (error) => error);
      if (this.broken) await Promise.race([sleep(RETRY_AFTER), online()]);
    }
    if (!this.broken || line !== this.call) return;
    this.broken = false;
    this.#tell("lost", new Trouble(navigator.onLine ? "connection_lost" : "offline"));
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function online() {
  return new Promise((resolve) => addEventListener("online", resolve, { once: true }));
}
