/** The booth as it is shown. Draws, and keeps nothing. */
import { Dictaphone, LONGEST } from "./dictaphone.js";
import { element, write } from "./element.js";
import { BOOTH } from "./words.js";

/**
 * @param {HTMLElement} root
 * @param {import("./booth.js").Booth} booth
 * @param {import("./own-voices.js").OwnVoice | undefined} chosen the voice of one's own that would speak
 * @param {boolean} able whether the chosen model can speak with one
 */
export function drawBooth(root, booth, chosen, able) {
  const { part, named } = within(root);
  const { sample, dictaphone, busy, why, open } = booth;
  const hadFocus = root.contains(document.activeElement);
  root.hidden = !able;
  named("booth").ariaExpanded = `${open}`;
  part("panel").hidden = !open;
  part("panel").dataset.state = dictaphone.running ? "recording" : sample ? "taken" : "empty";
  named("record").hidden = !Dictaphone.possible;
  write(part("record"), dictaphone.running ? BOOTH.stop : sample ? BOOTH.anew : BOOTH.record);
  write(part("news"), dictaphone.running ? BOOTH.recording : busy ? BOOTH.busy[busy] : sample ? BOOTH.taken : "");
  if (sample && part("audio").src !== sample.url) part("audio").src = sample.url;
  if (!sample) part("audio").removeAttribute("src");
  if (named("said").value !== booth.text) named("said").value = booth.text;
  named("consent").checked = booth.consent;
  for (const [name, doing, words] of [["make", "making", BOOTH.make], ["write-down", "writing", BOOTH.write]]) {
    named(name).disabled = Boolean(busy);
    write(named(name), busy === doing ? BOOTH.busy[doing] : words);
  }
  write(part("why"), why);
  named("forget").hidden = !chosen;
  write(named("forget"), chosen ? BOOTH.forget(chosen.name) : "");
  drawNotes(part("notes"), booth.loss, chosen);
  drawTaking(root, dictaphone);
  if (hadFocus && !document.activeElement?.offsetParent) named("booth").focus(); // what it was on is gone
}

/** What changes all the time while it records. @param {HTMLElement} root @param {Dictaphone} dictaphone */
export function drawTaking(root, dictaphone) {
  const { part } = within(root);
  part("level").style.setProperty("--level", dictaphone.level.toFixed(2));
  write(part("clock"), dictaphone.running ? BOOTH.left(Math.max(0, Math.ceil(LONGEST - dictaphone.seconds))) : "");
}

/** What is to be known of the chosen voice, or of one that is gone. */
function drawNotes(place, loss, chosen) {
  const warnings = chosen?.voxrtc.warnings.map(({ message }) => message) ?? [];
  const shown = [chosen ? BOOTH.made(chosen.name, chosen.voxrtc.seconds) : "", loss, ...warnings];
  if (place.dataset.drawn === JSON.stringify(shown)) return;
  place.dataset.drawn = JSON.stringify(shown);
  place.replaceChildren(...shown.map((words, i) => element("p", i ? "vx-booth-warning" : "vx-booth-good", words)).filter(({ textContent }) => textContent));
}

function within(root) {
  return {
    part: (name) => root.querySelector(`[data-part="booth-${name}"]`),
    named: (name) => root.querySelector(`[name="${name}"]`),
  };
}
