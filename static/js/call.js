/**
 * One WebRTC call to the server, in the wire contract of OpenAI's Realtime API: an SDP offer by HTTP, sound on one track,
 * events on the data channel `oai-events`. Knows nothing of the page, nor of what is said.
 */
import { Clock } from "./clock.js";
import { gathered } from "./ice.js";
import { Trouble } from "./troubles.js";

const CONNECT_WITHIN = 10_000; // ms for the HTTP answer, and again for the media path
const PING_EVERY = 1_000; // ms; the server takes a silent browser for dead after a few of them
const LOST_AFTER = 5_000; // ms without a pong

/**
 * Events: `message` (detail: the server's event), `track` (detail: its MediaStream), `lost` (detail: a `Trouble`; once).
 */
export class Call extends EventTarget {
  #pings = []; // when each was sent that is not answered yet; answers come in order
  #over = false;

  /**
   * @param {URL} base where the server's API hangs
   * @param {import("./ice.js").Ice} ice
   */
  constructor(base, ice) {
    super();
    this.base = base;
    this.ice = ice;
    this.location = null;
    this.clock = new Clock(); // the server's
    this.pc = new RTCPeerConnection();
    // Both ways from the start, though nothing is sent before `talk`: so a microphone that comes later needs no new offer.
    this.transceiver = this.pc.addTransceiver("audio", { direction: "sendrecv" });
    this.receiver = this.transceiver.receiver;
    this.channel = this.pc.createDataChannel("oai-events");
    this.pc.addEventListener("track", ({ track }) => this.#tell("track", new MediaStream([track])));
    this.pc.addEventListener("connectionstatechange", () => this.pc.connectionState === "failed" && this.#lose());
    this.channel.addEventListener("message", ({ data }) => this.#take(JSON.parse(data)));
    this.channel.addEventListener("close", () => this.#lose());
  }

  /** Whether events can be sent and sound can come. */
  get open() {
    return !this.#over && this.channel.readyState === "open";
  }

  /**
   * Connect. The offer leaves at once, without waiting for ICE gathering: the server learns our addresses from our checks,
   * unless it is behind a relay, which lets nobody through that it was not told of.
   * @param {object} session OpenAI's session object
   * @throws {Trouble}
   */
  async connect(session) {
    const listed = await this.ice.settle(this.pc);
    await this.pc.setLocalDescription();
    if (listed) await gathered(this.pc);
    const answer = await this.#offer(this.pc.localDescription.sdp, session);
    if (this.#over) throw new Trouble("connection_lost");
    const begun = this.#begins();
    await this.pc.setRemoteDescription({ type: "answer", sdp: answer });
    await begun;
    this.#ping();
    this.pinging = setInterval(() => this.#ping(), PING_EVERY);
  }

  /**
   * Send a client event.
   * @param {object} event
   * @throws {Trouble} when it is larger than the peer takes, or the call is over
   */
  send(event) {
    const data = JSON.stringify(event);
    if (!this.open) throw new Trouble("connection_lost");
    if (new TextEncoder().encode(data).length > (this.pc.sctp?.maxMessageSize ?? 65_536)) throw new Trouble("too_long");
    this.channel.send(data);
  }

  /**
   * Send a microphone's sound, or none.
   * @param {MediaStreamTrack | null} track
   */
  talk(track) {
    return this.transceiver.sender.replaceTrack(track).catch(() => {}); // the call is over
  }

  /** Hang up, also while the page is being left. Safe to call twice. */
  close() {
    this.#over = true;
    clearInterval(this.pinging);
    if (this.location) fetch(this.location, { method: "DELETE", keepalive: true }).catch(() => {});
    this.location = null;
    this.pc.close();
  }

  async #offer(sdp, session) {
    const form = new FormData();
    form.set("sdp", sdp);
    form.set("session", JSON.stringify(session));
    const url = new URL("v1/realtime/calls", this.base);
    const response = await fetch(url, { method: "POST", body: form, signal: AbortSignal.timeout(CONNECT_WITHIN) }).catch(() => {
      throw new Trouble("unreachable");
    });
    if (!response.ok) throw await Trouble.fromResponse(response);
    const location = response.headers.get("Location");
    this.location = location && new URL(location.replace(/^\//, ""), this.base);
    if (this.#over) this.close(); // left while the offer was on its way
    return response.text();
  }

  /** The server says so as soon as events can be sent. */
  #begins() {
    const isIt = ({ detail }) => detail.type === "session.created";
    return new Promise((resolve, reject) => {
      const refuse = () => reject(new Trouble("udp_blocked"));
      const late = setTimeout(refuse, CONNECT_WITHIN);
      this.addEventListener("lost", refuse, { once: true });
      this.addEventListener("message", (message) => isIt(message) && (clearTimeout(late), resolve()));
    });
  }

  #take(event) {
    if (event.type === "voxrtc.pong") this.clock.observe(this.#pings.shift(), event.server_time, performance.now());
    else if (event.type === "voxrtc.ping") this.send({ type: "voxrtc.pong", id: event.id, t: event.t });
    else this.#tell("message", event);
  }

  #ping() {
    const now = performance.now();
    if (now - this.#pings[0] > LOST_AFTER) return this.#lose();
    this.#pings.push(now);
    this.send({ type: "voxrtc.ping", id: `${now}`, t: now });
  }

  #lose() {
    if (this.#over) return;
    this.close();
    this.#tell("lost", new Trouble("connection_lost"));
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
