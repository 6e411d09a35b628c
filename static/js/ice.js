/** The relays that calls may go through: what the server knows of them, asked for before they are needed. */

const WITHIN = 1_500; // ms that a call waits for the answer; the server itself waits 1 s for its own
const GATHER_WITHIN = 2_000; // ms
const RELAYED_WITHIN = 100; // ms after the first relay, for others: an address that leads nowhere takes ten seconds to be given up

/** @typedef {{iceServers: RTCIceServer[], keep: number, gather: boolean, udp: boolean | null, message: string}} Relays */

const NONE = { iceServers: [], keep: 0, gather: false, udp: null, message: "" };

export class Ice {
  /** @type {Promise<Relays> | null} */ #known = null;
  #until = 0;
  /** Whether UDP gets to the server; null: it does not know. @type {boolean | null} */ udp = null;

  /** @param {URL} base where the server's API hangs */
  constructor(base) {
    this.base = base;
  }

  /** Ask, so that the next call need not wait. @returns {Promise<Relays>} never fails: sound may find its way without a relay */
  look() {
    if (!this.#known || performance.now() > this.#until) this.#known = this.#ask();
    return this.#known;
  }

  /**
   * Give a connection its relays, before its first description.
   * @param {RTCPeerConnection} pc
   * @returns {Promise<boolean>} whether the server is behind a relay itself, so that the offer must list our addresses
   */
  async settle(pc) {
    const { iceServers, gather } = await this.look();
    if (iceServers.length && pc.signalingState !== "closed") use(pc, iceServers);
    return gather;
  }

  async #ask() {
    this.#until = Infinity;
    const url = new URL("v1/voxrtc/ice", this.base);
    const answer = await fetch(url, { signal: AbortSignal.timeout(WITHIN) }).catch(() => null);
    const relays = (answer?.ok && (await answer.json().catch(() => null))) || NONE;
    this.#until = performance.now() + relays.keep * 1_000;
    this.udp = relays.udp;
    return relays;
  }
}

function use(pc, iceServers) {
  try {
    pc.setConfiguration({ iceServers });
  } catch (error) {
    console.warn("This browser does not take the server's relays.", error);
  }
}

/** Until a connection knows its own addresses, as far as is worth waiting for. @param {RTCPeerConnection} pc */
export function gathered(pc) {
  return new Promise((resolve) => {
    const done = () => pc.iceGatheringState === "complete" && resolve(undefined);
    setTimeout(resolve, GATHER_WITHIN);
    pc.addEventListener("icecandidate", ({ candidate }) => candidate?.candidate.includes(" typ relay") && setTimeout(resolve, RELAYED_WITHIN));
    pc.addEventListener("icegatheringstatechange", done);
    done();
  });
}
