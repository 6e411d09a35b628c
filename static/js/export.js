/** What the dashboard holds, as files. The making is pure. */

/**
 * A table as RFC 4180 has it. @param {Record<string, unknown>[]} rows the columns are all names that occur
 */
export function toCsv(rows) {
  const columns = [...new Set(rows.flatMap(Object.keys))];
  const lines = [columns, ...rows.map((row) => columns.map((name) => row[name]))];
  return lines.map((cells) => cells.map(cell).join(",") + "\r\n").join("");
}

function cell(value) {
  if (value === undefined || value === null) return "";
  const text = typeof value === "number" ? `${Math.round(value * 1000) / 1000}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/**
 * A turn as a row: when, what it was, and the ms of each stage.
 * @param {import("./ledger.js").Turn} turn
 */
export function turnRow({ at, model, journey, underruns, network }) {
  const stages = Object.fromEntries(journey.stages.map(({ name, ms }) => [`${name}_ms`, ms]));
  const { total, server, after, within, spoken } = journey;
  const row = { at: new Date(at).toISOString(), kind: spoken ? "spoken" : "typed", model, total_ms: total, server_ms: server };
  return { ...row, after_ms: after, within_ms: within, ...stages, underruns, ...network };
}

/**
 * A tick as rows: one a model.
 * @param {import("./ledger.js").Tick} tick
 */
export function tickRows({ at, models, network, peers }) {
  const rows = Object.entries(models);
  return rows.map(([model, { slack, ...figures }]) => ({ at: new Date(at).toISOString(), model, ...figures, peers, ...network }));
}

/** Have the browser save it. @param {string} name @param {string} type @param {string} text */
export function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // it may still be read
}
