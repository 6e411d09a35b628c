/** Times for people. Pure. */

/** @param {number | null | undefined} ms */
export function figure(ms) {
  if (ms === null || ms === undefined || !Number.isFinite(ms)) return "–";
  if (Math.abs(ms) >= 999.5) return `${(ms / 1000).toFixed(ms < 99_950 ? 2 : 0)} s`;
  return `${ms < 9.95 ? ms.toFixed(1) : Math.round(ms)} ms`;
}
