/** Who answers what people say, in the server's words. Asked until that no longer changes. */
import { write } from "./element.js";

const LOOK_EVERY = 1_500; // ms; only while the model that answers is being loaded
const PATIENCE = 400; // looks

/** @param {() => Element} place where to write it: anew each time, since the page may be rendered anew @param {URL} base */
export async function tellWhoAnswers(place, base) {
  for (let look = 0; look < PATIENCE; look++) {
    const response = await fetch(new URL("v1/voxrtc/replies", base)).catch(() => null);
    const who = response?.ok ? await response.json() : null;
    if (who) write(place(), who.words);
    if (who && who.state !== "loading") return;
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY));
  }
}
