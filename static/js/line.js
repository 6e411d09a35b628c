/** What a call and a tunnel have in common: events both ways, pings, and an end that is noticed within seconds. */
import { BEAT, Pulse } from "./pulse.js";
import { Trouble } from "./troubles.js";

const PING_EVERY = 1_000; // ms; the server takes a silent browser for dead after a few of them
const NOT_COUNTED = new Set(["voxrtc.ping", "voxrtc.session"]); // the server tells them anew to each line

/**
 * Events: `message` (detail: the server's event), `track` (detail: its sound, a MediaStream or an AudioNode), `lost` (detail: a
 * `Trouble`; once, and only after it had opened).
 */
export class Line extends EventTarget {
  /** Events that came of the session. */ received = 0;
  /** What the server says of the line and its session: `voxrtc.session`. @type {object | null} */ about = null;
  over = false;
  #pings = []; // when each was sent that is not answered yet; answers come in order
  #roundTrips = [];
  #timers = [];

  /** Round trip of an event, ms: the least of the last five pings. NaN before the first answer. */
  get roundTrip() {
    return this.#roundTrips.length ? Math.min(...this.#roundTrips) : NaN;
  }

  /** Settles once events can be sent, which the server says. @param {number} within ms */
  begins(within) {
    return new Promise((resolve, reject) => {
      const refuse = () => reject(new Trouble("udp_blocked"));
      const late = setTimeout(refuse, within);
      this.addEventListener("end", () => (clearTimeout(late), refuse()), { once: true });
      this.addEventListener("session", () => (clearTimeout(late), this.#watch(), resolve()), { once: true });
    });
  }

  /** @param {string} data of the server's event */
  take(data) {
    const event = JSON.parse(data);
    this.pulse?.beat(performance.now());
    if (!NOT_COUNTED.has(event.type)) this.received++;
    if (event.type === "voxrtc.pong") this.#pong();
    else if (event.type === "voxrtc.ping") this.transmit({ type: "voxrtc.pong", id: event.id, t: event.t });
    else if (event.type === "voxrtc.session") this.#learn(event);
    else this.tell("message", event);
  }

  /** The end: `lost`, unless we wanted it. */
  lose(trouble = new Trouble("connection_lost")) {
    if (this.over) return;
    const opened = this.about;
    this.leave();
    if (opened) this.tell("lost", trouble);
  }

  /** What every end needs. */
  end() {
    this.over = true;
    this.#timers.forEach(clearInterval);
    this.tell("end");
  }

  tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }

  #learn(event) {
    this.about = event;
    this.tell("session", event);
  }

  #watch() {
    this.pulse = new Pulse(performance.now());
    this.#ping();
    this.#timers = [setInterval(() => this.#ping(), PING_EVERY), setInterval(() => this.#look(), BEAT)];
  }

  async #look() {
    const bytes = await this.bytes();
    if (!this.over && !this.pulse.look(performance.now(), bytes)) this.lose();
  }

  #ping() {
    const now = performance.now();
    this.#pings.push(now);
    if (this.open) this.transmit({ type: "voxrtc.ping", id: `${now}`, t: now });
  }

  #pong() {
    const trip = performance.now() - this.#pings.shift();
    this.#roundTrips = [...this.#roundTrips.slice(-4), trip];
  }
}
