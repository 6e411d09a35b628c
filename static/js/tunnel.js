/**
 * A line to the server where UDP cannot go: one WebSocket, for events as text and for Opus packets both ways as binary messages
 * (`voxrtc/rtc/tunnel.py`).
 */
import { Capture } from "./capture.js";
import { Line } from "./line.js";
import { Player } from "./player.js";
import { Trouble } from "./troubles.js";

const [SOUND, RENDERED] = [0, 1];
const [HUNG_UP, LEFT] = [1000, 4002]; // close codes
const UNSENT = 16_384; // bytes: a microphone's sound that the network does not take is lost, as over UDP
/** What these events of the server do to the sound that waits here. */
const CUES = { "voxrtc.held": "pause", "voxrtc.resumed": "play", "output_audio_buffer.cleared": "clear" };

/** See `Line`. */
export class Tunnel extends Line {
  player = new Player();
  #capture = new Capture();
  #socket = null;
  #last = { rendered: -1, waiting: 0, target: 0, dry: 0 };
  #packets = 0;
  #bytes = 0;
  #emitted = 0; // samples
  #delay = 0; // s, of all of them together

  /**
   * @param {URL} base where the server's API hangs
   * @param {AudioContext} context
   */
  constructor(base, context) {
    super();
    this.base = base;
    this.context = context;
    this.player.addEventListener("report", ({ detail }) => this.#report(detail));
    this.addEventListener("message", ({ detail }) => CUES[detail.type] && this.player.tell(CUES[detail.type]));
  }

  /** Whether this browser can make and understand Opus by itself. */
  static get possible() {
    return Player.possible && Capture.possible;
  }

  get open() {
    return !this.over && this.#socket?.readyState === WebSocket.OPEN;
  }

  /** As `Call.connect`. */
  async connect(session, resume, within, ticket) {
    const node = await this.player.begin(this.context);
    if (this.over) throw new Trouble("connection_lost");
    const url = new URL("v1/voxrtc/tunnel", this.base);
    url.protocol = url.protocol.replace("http", "ws");
    const socket = (this.#socket = new WebSocket(url));
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => socket.send(JSON.stringify({ session, resume, ticket })));
    socket.addEventListener("message", ({ data }) => (typeof data === "string" ? this.#tell(data) : this.#hear(data)));
    socket.addEventListener("close", () => this.lose());
    this.sound = node;
    await this.begins(within).catch((trouble) => {
      throw this.#refusal ?? trouble;
    });
  }

  /** As `Call.transmit`. */
  transmit(event) {
    const data = JSON.stringify(event);
    if (!this.open) throw new Trouble("connection_lost");
    if (data.length > 65_536) throw new Trouble("too_long");
    this.#socket.send(data);
  }

  /** As `Call.talk`. */
  async talk(track) {
    if (!track) return this.#capture.end();
    await this.#capture.begin(this.context, track, (at, opus) => this.#send(SOUND, at, opus));
  }

  /** The number of the last packet that reached the ear. */
  get heard() {
    return this.#last.rendered < 0 ? null : this.#last.rendered;
  }

  /** As WebRTC would tell it, as far as there is such a thing. */
  async report() {
    const sound = {
      type: "inbound-rtp",
      kind: "audio",
      packetsReceived: this.#packets,
      packetsLost: 0,
      jitter: Math.max(0, this.#last.target - 60) / 1000,
      bytesReceived: this.#bytes,
      jitterBufferEmittedCount: this.#emitted,
      jitterBufferDelay: this.#delay,
      totalSamplesReceived: this.#emitted,
      concealedSamples: 960 * this.#last.dry,
    };
    return new Map([["tunnel", sound]]);
  }

  /** ms that the player keeps. It sees to that itself: what it is told counts for nothing. */
  get buffer() {
    return Math.round(this.#last.target) || null;
  }

  set buffer(_) {}

  async bytes() {} // each message is a beat of its own

  async way() {
    return "tunnel";
  }

  close() {
    this.#leave(HUNG_UP);
  }

  leave() {
    this.#leave(LEFT);
  }

  #refusal = null;

  #tell(data) {
    if (!this.about) this.#refusal = refusal(JSON.parse(data));
    this.#bytes += data.length;
    this.take(data);
  }

  #hear(data) {
    this.pulse?.beat(performance.now());
    this.#packets++;
    this.#bytes += data.byteLength;
    this.player.take(new DataView(data).getUint32(0), new Uint8Array(data, 4));
  }

  #report(last) {
    const samples = 960 * Math.max(0, last.rendered - this.#last.rendered);
    this.#emitted += samples;
    this.#delay += (samples * last.waiting) / 1000;
    if (last.rendered > this.#last.rendered) this.#send(RENDERED, last.rendered, new Uint8Array(0));
    this.#last = last;
  }

  #send(kind, number, payload) {
    if (!this.open || (kind === SOUND && this.#socket.bufferedAmount > UNSENT)) return;
    const packet = new Uint8Array(5 + payload.length);
    packet[0] = kind;
    new DataView(packet.buffer).setUint32(1, number % 2 ** 32);
    packet.set(payload, 5);
    this.#socket.send(packet);
  }

  #leave(code) {
    if (this.over) return;
    this.end();
    this.#capture.end();
    this.player.close();
    this.#socket?.close(code);
  }
}

function refusal(event) {
  return event.type === "error" ? new Trouble(event.error.code, event.error.message) : null;
}
