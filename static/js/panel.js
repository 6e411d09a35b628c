/** The choice of microphone and loudspeaker as it is shown. Draws, and keeps nothing. */
import { write } from "./element.js";
import { DEVICES } from "./words.js";

/**
 * @param {(name: string) => HTMLElement} part
 * @param {(name: string) => HTMLSelectElement} field
 * @param {import("./devices.js").Devices} devices
 * @param {boolean} canRoute whether the page may choose the loudspeaker
 */
export function drawDevices(part, field, devices, canRoute) {
  for (const kind of ["microphone", "speaker"]) {
    drawDeviceChoices(field(kind), devices.list[kind], DEVICES[kind]);
    field(kind).value = devices.get(kind);
  }
  field("speaker").disabled = !canRoute;
  const named = devices.list.microphone.some(({ label }) => label);
  const hints = [named ? "" : DEVICES.unnamed, canRoute ? "" : DEVICES.unrouted];
  write(part("devices-hint"), hints.filter(Boolean).join(" "));
}

function drawDeviceChoices(select, list, name) {
  const drawn = JSON.stringify(list);
  if (select.dataset.drawn === drawn) return; // it may be open
  const options = list.map(({ id, label }, i) => new Option(label || `${name} ${i + 1}`, id));
  select.replaceChildren(new Option(DEVICES.system, ""), ...options);
  select.dataset.drawn = drawn;
}
