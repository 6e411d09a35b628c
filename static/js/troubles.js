/** What can go wrong; `TROUBLES` says it in words that a person can act on. */
import { againIn, OTHER_TROUBLE, TROUBLES } from "./words.js";

/** An error with a cause. The server's own words, where there are any, replace the table's advice. */
export class Trouble extends Error {
  /**
   * @param {string} code a key of `TROUBLES`; others get a general title
   * @param {string} [words] what the server said about it
   */
  constructor(code, words) {
    const { title, advice } = TROUBLES[code] ?? OTHER_TROUBLE;
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
    return new Trouble(code, words && wait ? againIn(words, wait) : words);
  }
}
