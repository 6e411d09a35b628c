/** What happens now, as it is shown: in words, on the Talk button, and in a notice when something is wrong. Keeps nothing. */
import { write } from "./shelf.js";

const WORDS = {
  idle: "Not connected. Talk and Speak connect.",
  connecting: "Connecting …",
  ready: "Ready.",
  waiting: "Waiting for the first sound …",
  speaking: "Speaking.",
  disconnected: "Disconnected. Talk and Speak reconnect.",
};
const LISTENING = { free: "Listening. Say something.", push: "Ready. Hold to talk." };
/** By mode, then by whether there is somebody to answer; before the first call we do not know. */
const HINTS = {
  free: {
    null: "Talk, or type. Speaking interrupts the voice.",
    true: "What you say or type is answered. Speak to interrupt.",
    false: "What you say is written down, and interrupts.",
  },
  push: {
    null: "Hold the button or the space bar while you speak.",
    true: "Hold the button or the space bar while you speak. It interrupts, too.",
    false: "Hold the button or the space bar while you speak. It is written down.",
  },
};
const BUSY = new Set(["connecting", "waiting", "speaking"]);
const ORDINALS = new Intl.PluralRules("en", { type: "ordinal" });

/** Whether there is something to stop. @param {import("./talker.js").Talker} talker */
export function isBusy(talker) {
  return BUSY.has(talker.state);
}

/**
 * @param {(name: string) => HTMLElement} part
 * @param {import("./talker.js").Talker} talker
 * @param {string} obstacle why the chosen model cannot speak; empty when it can
 */
export function drawStage(part, talker, obstacle) {
  write(part("state"), words(talker, obstacle));
  drawTalk(part, talker.input, obstacle);
  drawTrouble(part, talker.trouble);
}

/**
 * The button beside the text box. While the voice speaks, and nothing is written, it interrupts.
 * @param {HTMLButtonElement} button
 * @param {boolean} interrupts
 * @param {string} obstacle
 */
export function drawSend(button, interrupts, obstacle) {
  button.dataset.interrupts = `${interrupts}`;
  button.ariaLabel = button.title = interrupts ? "Interrupt" : "Send";
  button.disabled = !interrupts && Boolean(obstacle);
}

function words(talker, obstacle) {
  const { hearing, listening, mode } = talker.input;
  if (hearing || talker.voice.held) return "Hearing you …";
  if (talker.voice.place) return inLine(talker.voice.place);
  if (obstacle && !isBusy(talker)) return obstacle;
  return listening && talker.state === "ready" ? LISTENING[mode] : WORDS[talker.state];
}

/** A place in the queue in words. @param {import("./voice.js").Place} place */
function inLine({ position, wait }) {
  const suffix = { one: "st", two: "nd", few: "rd", other: "th" }[ORDINALS.select(position)];
  const seconds = Math.max(1, Math.round(wait / 1000));
  return `${position}${suffix} in line, about ${seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`} …`;
}

function drawTalk(part, { mode, listening, hearing, answers }, obstacle) {
  const free = mode === "free";
  Object.assign(part("talk").dataset, { on: `${free ? listening : hearing}`, mode });
  part("talk").disabled = Boolean(obstacle) && !listening;
  write(part("talk-words"), free ? (listening ? "Mic off" : "Talk") : hearing ? "Let go to send" : "Hold to talk");
  write(part("hint"), HINTS[mode][answers]);
  part("close").hidden = free || !listening;
}

/** @param {import("./troubles.js").Trouble | null} trouble */
function drawTrouble(part, trouble) {
  write(part("trouble-title"), trouble?.title ?? "");
  write(part("trouble-advice"), trouble?.message ?? "");
  part("unlock").hidden = !trouble?.code.startsWith("sound_");
  part("trouble").dataset.shown = `${trouble !== null}`;
}
