/** What a call and a tunnel have in common: events both ways, pings, and an end that is noticed within seconds. */
import { Clock } from "./clock.js";
import { BEAT, Pulse } from "./pulse.js";
import { Trouble } from "./troubles.js";

const PING_EVERY = 1_000; // ms; the server takes a silent browser for dead after a few of them
const FAREWELLS = new Set(["session_expired", "shutting_down"]); // errors after which the server hangs up
const NOT_COUNTED = new Set(["voxrtc.ping", "voxrtc.session"]); // the server tells them anew to each line

/**
 * Events: `session`, when it is open; `message` (detail: the server's event); `arrived` (detail:
 * how many of the microphone's packets have); `lost` (detail: a `Trouble`; once, and only after it
 * was open); `end`, when it is over for whatever reason.
 */
export class Line extends EventTarget {
  /** Events that came of the session. */ received = 0;
  /** What the server says of the line and its session: `voxrtc.session`. @type {object | null} */ about = null;
  /** The server's sound, once it is open. @type {MediaStream | AudioNode | null} */ sound = null;
  /** `heard`, of a line that is lost. */ lastHeard = null;
  over = false;
  clock = new Clock(); // the server's
  #pings = []; // when each was sent that is not answered yet; answers come in order
  #timers = [];

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
    if (event.type === "voxrtc.pong") this.#pong(event);
    else if (event.type === "voxrtc.ping") this.transmit({ type: "voxrtc.pong", id: event.id, t: event.t });
    else if (event.type === "voxrtc.session") this.#learn(event);
    else if (FAREWELLS.has(event.error?.code)) this.lose(new Trouble(event.error.code, event.error.message));
    else this.tell("message", event);
  }

  /** The end: `lost`, unless we wanted it. */
  lose(trouble = new Trouble("connection_lost")) {
    if (this.over) return;
    const opened = this.about;
    this.lastHeard = this.heard;
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

  #pong({ server_time: server, packets }) {
    this.clock.observe(this.#pings.shift(), server, performance.now());
    this.tell("arrived", packets);
  }

  #ping() {
    const now = performance.now();
    this.#pings.push(now);
    if (this.open) this.transmit({ type: "voxrtc.ping", id: `${now}`, t: now });
  }
}
