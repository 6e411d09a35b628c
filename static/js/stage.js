/** What happens now, as it is shown: in words, on the Talk button, and in a notice when something is wrong. Keeps nothing. */
import { write } from "./element.js";
import { LINE, TALK } from "./words.js";

const BUSY = new Set(["connecting", "waiting", "speaking"]);

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
  write(part("news"), news(talker, obstacle));
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
  button.ariaLabel = button.title = interrupts ? TALK.interrupt : TALK.send;
  button.disabled = !interrupts && Boolean(obstacle);
}

function words(talker, obstacle) {
  const { hearing, listening, mode } = talker.input;
  if (hearing || talker.voice.held) return TALK.hearing;
  if (talker.place) return TALK.inLine(talker.place);
  if (obstacle && !isBusy(talker)) return obstacle;
  const state = listening && talker.state === "ready" ? TALK.listening[mode] : TALK.states[talker.state];
  return talker.line.open ? [state, way(talker.line)].filter(Boolean).join(" ") : state;
}

function way({ way, call, ice }) {
  return LINE.ways[way]?.(call.clock.roundTrip, ice.udp);
}

/** What a screen reader says aloud: only what the person could not hear from the conversation itself. */
function news(talker, obstacle) {
  if (talker.place) return TALK.place(talker.place.position);
  if (obstacle && !isBusy(talker)) return obstacle;
  return talker.input.listening ? TALK.listening[talker.input.mode] : "";
}

function drawTalk(part, { mode, listening, hearing, answers }, obstacle) {
  const free = mode === "free";
  Object.assign(part("talk").dataset, { on: `${free ? listening : hearing}`, mode });
  part("talk").disabled = Boolean(obstacle) && !listening;
  write(part("talk-words"), free ? (listening ? TALK.off : TALK.on) : hearing ? TALK.letGo : TALK.hold);
  write(part("hint"), TALK.hints[mode][answers]);
  part("close").hidden = free || !listening;
}

/** @param {import("./troubles.js").Trouble | null} trouble */
function drawTrouble(part, trouble) {
  write(part("trouble-title"), trouble?.title ?? "");
  write(part("trouble-advice"), trouble?.message ?? "");
  part("unlock").hidden = !trouble?.code.startsWith("sound_");
  const news = trouble !== null && part("trouble").dataset.shown === "false";
  part("trouble").dataset.shown = `${trouble !== null}`;
  // On a phone Speak is far below: who has just pressed it sees why nothing is to be heard; who looks elsewhere is left alone.
  if (news && navigator.userActivation?.isActive) part("trouble").scrollIntoView({ block: "nearest" });
}
