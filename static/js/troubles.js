/** What can go wrong, in words that a person can act on. One entry a cause. */

/** @type {Record<string, {title: string, advice: string}>} */
const CAUSES = {
  unreachable: {
    title: "The server does not answer",
    advice: "It may be starting or stopped. Check that it runs, then press Speak again.",
  },
  busy: {
    title: "The server is busy",
    advice: "All places are taken. Try again in a few seconds.",
  },
  too_many_calls: {
    title: "The server is busy",
    advice: "All places are taken. Try again in a few seconds.",
  },
  media_lost: {
    title: "The server is starting",
    advice: "Press Speak again in a few seconds.",
  },
  model_not_found: {
    title: "This model is not loaded",
    advice: "Choose another model from the list.",
  },
  model_loading: {
    title: "This model is still being loaded",
    advice: "Press Speak again in a few seconds.",
  },
  model_failed: {
    title: "This model could not be loaded",
    advice: "Choose another model from the list.",
  },
  voice_not_found: {
    title: "This model has no such voice",
    advice: "Choose another voice from the list.",
  },
  udp_blocked: {
    title: "No path for sound",
    advice: "The server answers, but its sound cannot get through: this network seems to block UDP. Try without a VPN, or on another network.",
  },
  connection_lost: {
    title: "The connection was lost",
    advice: "Press Talk or Speak to connect again.",
  },
  engine_lost: {
    title: "The speech engine is restarting",
    advice: "Press Speak again in a few seconds.",
  },
  engine_error: {
    title: "This sentence could not be spoken",
    advice: "The engine reported an error. Try again, or change the text.",
  },
  invalid_request: {
    title: "This text cannot be spoken",
    advice: "Change the text and try again.",
  },
  no_text: {
    title: "Nothing to say yet",
    advice: "Type a sentence first.",
  },
  too_long: {
    title: "This text is too long to send",
    advice: "Speak it in shorter parts.",
  },
  sound_blocked: {
    title: "The browser holds the sound back",
    advice: "It wants a tap first.",
  },
  sound_interrupted: {
    title: "Something else took the sound",
    advice: "A phone call, perhaps. Tap when it is over.",
  },
  speaker_gone: {
    title: "This loudspeaker cannot be used",
    advice: "It may be switched off. Choose another one under Devices.",
  },
  reply_failed: {
    title: "No reply came",
    advice: "The chat endpoint gave none. Say it again, or look at the server's settings.",
  },
  mic_blocked: {
    title: "The microphone is blocked",
    advice: "Allow it for this page, beside the address, then press Talk again.",
  },
  mic_dismissed: {
    title: "The question about the microphone was closed",
    advice: "Press Talk again, and choose Allow.",
  },
  mic_system: {
    title: "The system keeps the microphone from the browser",
    advice: "Allow it in the system's privacy settings, then press Talk again.",
  },
  mic_missing: {
    title: "No microphone was found",
    advice: "Plug one in or switch it on, then press Talk again.",
  },
  mic_busy: {
    title: "The microphone cannot be opened",
    advice: "Another program may be using it. Close that one, then press Talk again.",
  },
  mic_gone: {
    title: "The chosen microphone cannot be used",
    advice: "It may be switched off. Choose another one under Devices, then press Talk again.",
  },
  mic_insecure: {
    title: "No microphone on this address",
    advice: "Browsers give it only to pages on https, or on this very computer: open http://localhost, or put https before the server.",
  },
  mic_lost: {
    title: "The microphone was unplugged",
    advice: "There is no other one. Plug one in, then press Talk to go on.",
  },
  mic_moved: {
    title: "The microphone was unplugged",
    advice: "Another one took its place.",
  },
  mic_muted: {
    title: "The microphone is muted",
    advice: "By its switch, the system or a phone call. Switch it on; after a call, tap anywhere.",
  },
  unsupported: {
    title: "This browser cannot play the sound",
    advice: "The page needs WebRTC and Web Audio. A current Chrome, Firefox, Edge or Safari has both.",
  },
};

const OTHER = { title: "Something went wrong", advice: "Press Speak to try again." };

/** An error with a cause of the table above. The server's own words, where there are any, replace the table's advice. */
export class Trouble extends Error {
  /**
   * @param {string} code a key of `CAUSES`; others get a general title
   * @param {string} [words] what the server said about it
   */
  constructor(code, words) {
    const { title, advice } = CAUSES[code] ?? OTHER;
    super(words || advice);
    this.code = code;
    this.title = title;
  }

  /**
   * The trouble that an HTTP answer of the signalling endpoint tells of.
   * @param {Response} response
   */
  static async fromResponse(response) {
    const body = await response.json().catch(() => ({}));
    const byStatus = { 404: "model_not_found", 429: "busy", 503: "busy" };
    const code = body.error?.code ?? byStatus[response.status] ?? "other";
    const wait = Number(response.headers.get("Retry-After"));
    const words = body.error?.message ?? "";
    return new Trouble(code, words && wait ? `${words} Try again in about ${wait} s.` : words);
  }
}
