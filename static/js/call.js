/**
 * One WebRTC call to the server, in the wire contract of OpenAI's Realtime API: an SDP offer by HTTP, sound on one track,
 * events on the data channel `oai-events`. Knows nothing of the page, nor of what is said.
 */
import { gathered } from "./ice.js";
import { Line } from "./line.js";
import { Trouble } from "./troubles.js";

/** See `Line`. */
export class Call extends Line {
  #hungUp = false;
  #tellAnswered = (_) => {};
  /** Settles with the token of the session, when the server has answered; the path for the sound is another matter. */
  answered = new Promise((resolve) => (this.#tellAnswered = resolve));

  /**
   * @param {URL} base where the server's API hangs
   * @param {import("./ice.js").Ice} ice
   */
  constructor(base, ice) {
    super();
    this.base = base;
    this.ice = ice;
    this.location = null;
    this.pc = new RTCPeerConnection();
    // Both ways from the start, though nothing is sent before `talk`: so a microphone that comes later needs no new offer.
    this.transceiver = this.pc.addTransceiver("audio", { direction: "sendrecv" });
    this.receiver = this.transceiver.receiver;
    this.channel = this.pc.createDataChannel("oai-events");
    this.pc.addEventListener("track", ({ track }) => (this.sound = new MediaStream([track])));
    this.pc.addEventListener("connectionstatechange", () => this.pc.connectionState === "failed" && this.lose());
    this.channel.addEventListener("message", ({ data }) => this.take(data));
    this.channel.addEventListener("close", () => this.lose());
  }

  /** Whether events can be sent and sound can come. */
  get open() {
    return !this.over && this.channel.readyState === "open";
  }

  /**
   * Connect. The offer leaves at once, without waiting for ICE gathering: the server learns our addresses from our checks,
   * unless it is behind a relay, which lets nobody through that it was not told of.
   * @param {object} session OpenAI's session object
   * @param {object} resume what we had of the session, if we had it over another line
   * @param {number} within ms for the HTTP answer, and again for the media path
   * @param {string} [ticket] of who stood in line
   * @throws {Trouble}
   */
  async connect(session, resume, within, ticket) {
    const listed = await this.ice.settle(this.pc);
    await this.pc.setLocalDescription();
    if (listed) await gathered(this.pc);
    const answer = await this.#offer(this.pc.localDescription.sdp, session, resume, within, ticket);
    if (this.over) throw new Trouble("connection_lost");
    const begun = this.begins(within);
    await this.pc.setRemoteDescription({ type: "answer", sdp: answer });
    await begun;
  }

  /**
   * Send a client event.
   * @param {object} event
   * @throws {Trouble} when it is larger than the peer takes, or the call is over
   */
  transmit(event) {
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

  /** The RTP timestamp of the sound that reached the ear last, if any did. */
  get heard() {
    return this.receiver.getSynchronizationSources()[0]?.rtpTimestamp ?? null;
  }

  /** ms that the browser's jitter buffer is to hold at least; null: as it likes. */
  get buffer() {
    const { jitterBufferTarget = null, playoutDelayHint = null } = this.receiver;
    return jitterBufferTarget ?? (playoutDelayHint === null ? null : 1000 * playoutDelayHint);
  }

  set buffer(ms) {
    if ("jitterBufferTarget" in this.receiver) this.receiver.jitterBufferTarget = ms;
    else if ("playoutDelayHint" in this.receiver) this.receiver.playoutDelayHint = ms === null ? null : ms / 1000;
  }

  /** WebRTC's own figures, by id. */
  report() {
    return this.pc.getStats();
  }

  /** Bytes that came in, of whatever kind. */
  async bytes() {
    const all = [...(await this.report()).values()];
    return all.filter(({ type }) => type === "candidate-pair").reduce((sum, { bytesReceived = 0 }) => sum + bytesReceived, 0);
  }

  /** How the sound goes; a relay may be ours or the server's. @returns {Promise<"direct" | "relay">} */
  async way() {
    const all = await this.report();
    const pair = [...all.values()].find(({ type, nominated, state }) => type === "candidate-pair" && nominated && state === "succeeded");
    const ends = [pair?.localCandidateId, pair?.remoteCandidateId];
    return ends.some((end) => all.get(end)?.candidateType === "relay") ? "relay" : "direct";
  }

  /** Hang up, also while the page is being left. Safe to call twice. */
  close() {
    this.#hungUp = true;
    if (this.location) fetch(this.location, { method: "DELETE", keepalive: true }).catch(() => {});
    this.leave();
  }

  /** Let the line go, and not the session. */
  leave() {
    this.location = null;
    if (!this.over) this.end();
    this.pc.close();
  }

  async #offer(sdp, session, resume, within, ticket) {
    const form = new FormData();
    form.set("sdp", sdp);
    form.set("session", JSON.stringify(session));
    form.set("resume", JSON.stringify(resume));
    const url = new URL(`v1/realtime/calls${ticket ? `?ticket=${ticket}` : ""}`, this.base);
    const response = await fetch(url, { method: "POST", body: form, signal: AbortSignal.timeout(within) }).catch(() => {
      throw new Trouble("unreachable");
    });
    if (!response.ok) throw await Trouble.fromResponse(response);
    const location = response.headers.get("Location");
    this.location = location && new URL(location.replace(/^\//, ""), this.base);
    if (this.#hungUp) this.close(); // while the offer was on its way
    this.#tellAnswered(response.headers.get("VoxRTC-Session"));
    return response.text();
  }
}
