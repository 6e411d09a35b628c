/** The transcript as bubbles. The voice's words light up as they are heard; what an interruption left unheard is struck through. */
import { write } from "./element.js";
import { TRANSCRIPT } from "./words.js";

const NEAR_END = 48; // px: who is so near to the end of the list wants to see what comes

/** What each bubble shows. @type {WeakMap<Element, string>} */
const shown = new WeakMap();

/**
 * Draw the lines. Those that did not change are left alone: somebody may be reading or selecting them.
 * @param {HTMLElement} list
 * @param {import("./transcript.js").Line[]} lines
 */
export function drawTranscript(list, lines) {
  const following = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END;
  const old = new Map([...list.children].map((element) => [element.dataset.id, element]));
  const elements = lines.map((line) => drawLine(old.get(line.id) ?? document.createElement("li"), line));
  if (elements.length !== list.children.length || elements.some((element, i) => element !== list.children[i])) list.replaceChildren(...elements);
  list.parentElement.dataset.shown = `${lines.length > 0}`;
  if (following) list.scrollTop = list.scrollHeight;
}

function drawLine(element, line) {
  const { id, who, text, state, heard } = line;
  const news = JSON.stringify(line);
  if (shown.get(element) === news) return element;
  shown.set(element, news);
  Object.assign(element.dataset, { id, who, state });
  element.className = "vx-line";
  const words = who === "voice" ? wordsOf(text) : [];
  if (state === "cut" && who === "voice") drawCut(element, words, heard);
  else if (words.some(({ start }) => start >= heard) && state !== "failed") drawLit(element, words, heard);
  else drawPlain(element, text || "…");
  return element;
}

/** @param {string} text @returns {{text: string, start: number}[]} each word with the space before it; its place in code points */
function wordsOf(text) {
  let at = 0;
  return (text.match(/\s*\S+/g) ?? []).map((word) => {
    const start = at + word.search(/\S/);
    at += [...word].length; // as the server counts
    return { text: word, start };
  });
}

function drawPlain(element, text) {
  if (element.childElementCount || element.textContent !== text) element.textContent = text;
}

function drawLit(element, words, heard) {
  if (element.firstChild?.nodeName !== "SPAN" || element.childNodes.length > words.length) element.replaceChildren();
  words.forEach(({ text, start }, i) => {
    const word = element.children[i] ?? element.appendChild(document.createElement("span"));
    write(word, text);
    word.className = "vx-word";
    word.dataset.lit = `${start < heard}`;
  });
}

function drawCut(element, words, heard) {
  const join = (some) => some.map(({ text }) => text).join("");
  const [, space, unheard] = join(words.filter(({ start }) => start >= heard)).match(/^(\s*)(.*)$/s);
  const told = Object.assign(document.createElement("span"), { className: "vx-unseen", textContent: ` ${unheard ? TRANSCRIPT.unheard : TRANSCRIPT.interrupted}` });
  const struck = Object.assign(document.createElement("del"), { className: "vx-struck", textContent: unheard });
  element.replaceChildren(join(words.filter(({ start }) => start < heard)), told, ...(unheard ? [space, struck] : []));
}
