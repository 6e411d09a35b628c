/** Standing in line for a call, where all places of a public host are taken. */
import { Trouble } from "./troubles.js";

/**
 * @param {URL} base where the server's API hangs
 * @param {(place: import("./voice.js").Place) => void} moved told where we stand, whenever that changes
 * @param {AbortSignal} signal gives our place away
 * @returns {Promise<string>} the ticket that the call is to come with, within a few seconds
 * @throws {Trouble}
 */
export async function standInLine(base, moved, signal) {
  try {
    const response = await fetch(new URL("v1/voxrtc/queue", base), { signal });
    if (!response.ok) throw await Trouble.fromResponse(response);
    for await (const { ticket, position, wait_ms } of events(response.body)) {
      if (ticket) return ticket;
      moved({ position, wait: wait_ms });
    }
  } catch (error) {
    if (error instanceof Trouble) throw error;
  }
  throw new Trouble(signal.aborted ? "left_line" : "unreachable");
}

/** What a stream of server-sent events tells. @param {ReadableStream<Uint8Array>} body */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const blocks = (rest + part.value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) if (block.startsWith("data: ")) yield JSON.parse(block.slice(6));
  }
}
