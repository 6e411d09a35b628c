/** The choice of microphone and loudspeaker as it is shown. Draws, and keeps nothing. */
import { write } from "./shelf.js";

const NAMES = { microphone: "Microphone", speaker: "Loudspeaker" };

/**
 * @param {(name: string) => HTMLElement} part
 * @param {(name: string) => HTMLSelectElement} field
 * @param {import("./devices.js").Devices} devices
 * @param {boolean} canRoute whether the page may choose the loudspeaker
 */
export function drawDevices(part, field, devices, canRoute) {
  for (const kind of ["microphone", "speaker"]) {
    drawDeviceChoices(field(kind), devices.list[kind], NAMES[kind]);
    field(kind).value = devices.get(kind);
  }
  field("speaker").disabled = !canRoute;
  const named = devices.list.microphone.some(({ label }) => label);
  const hints = [named ? "" : "Names are told once the microphone is allowed.", canRoute ? "" : "In this browser the system chooses the loudspeaker."];
  write(part("devices-hint"), hints.filter(Boolean).join(" "));
}

function drawDeviceChoices(select, list, name) {
  const drawn = JSON.stringify(list);
  if (select.dataset.drawn === drawn) return; // it may be open
  const options = list.map(({ id, label }, i) => new Option(label || `${name} ${i + 1}`, id));
  select.replaceChildren(new Option("System's choice", ""), ...options);
  select.dataset.drawn = drawn;
}
