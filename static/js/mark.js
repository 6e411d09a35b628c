/** What a stream is called in statistics that all may see (`voxrtc/api/stats.py`): who knows its name finds it by this. */

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});

/** CRC-32 of a name, in hexadecimal. @param {string} name of ASCII letters */
export function mark(name) {
  let sum = 0xffffffff;
  for (const letter of name) sum = TABLE[(sum ^ letter.charCodeAt(0)) & 0xff] ^ (sum >>> 8);
  return ((sum ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0");
}
