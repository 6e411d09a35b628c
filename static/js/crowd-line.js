/** The last minute of a crowd: the share of its streams that never ran dry, and which policy planned. */
import { paper } from "./crowd-bars.js";
import { CROWD } from "./words.js";

const MINUTE = 60; // s
const TOP = 18; // px: room for the policies' names
const FOOT = 16;
const SIDE = 36; // px: room for the scale

/** A point as the server tells it: at, playing, spoilt, waiting, policy. @typedef {[number, number, number, number, string]} Point */

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Point[]} line
 * @param {number} now on the server's clock
 */
export function drawLine(canvas, line, now) {
  const pen = paper(canvas);
  if (!pen) return;
  const style = getComputedStyle(canvas);
  const color = (name) => style.getPropertyValue(`--${name}`);
  const field = { left: SIDE, right: canvas.clientWidth - 2, top: TOP, bottom: canvas.clientHeight - FOOT };
  const across = (at) => field.right - ((now - at) / MINUTE) * (field.right - field.left);
  const up = (share) => field.bottom - share * (field.bottom - field.top);
  pen.font = `11px ${style.fontFamily}`;
  scale(pen, field, up, color);
  const parts = stretches(line);
  for (const stretch of parts) {
    const ink = color(`policy-${stretch[0][4]}`);
    name(pen, stretch, across, field, ink, stretch === parts.at(-1));
    curve(pen, stretch.filter(([, playing]) => playing), across, up, field, ink);
  }
}

/** The parts in which one policy planned; each reaches to the beginning of the next. @param {Point[]} line */
function stretches(line) {
  const parts = [];
  for (const point of line) {
    const last = parts.at(-1);
    if (last && last[0][4] === point[4]) last.push(point);
    else parts.push([point]);
  }
  return parts;
}

function scale(pen, { left, right, bottom }, up, color) {
  pen.fillStyle = color("soft");
  pen.strokeStyle = color("line");
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (const share of [0, 0.5, 1]) {
    pen.fillText(`${100 * share}%`, left - 6, up(share));
    pen.beginPath();
    pen.moveTo(left, Math.round(up(share)) + 0.5);
    pen.lineTo(right, Math.round(up(share)) + 0.5);
    pen.stroke();
  }
  pen.textBaseline = "top";
  pen.fillText(CROWD.now, right, bottom + 4);
  pen.textAlign = "left";
  pen.fillText(CROWD.minute, left, bottom + 4);
}

/** Where a policy was chosen, and its name. */
function name(pen, stretch, across, { left, right, bottom }, ink, last) {
  const from = Math.max(left, across(stretch[0][0]));
  const words = CROWD.names[stretch[0][4]] ?? stretch[0][4];
  pen.fillStyle = pen.strokeStyle = ink;
  pen.textAlign = "left";
  pen.textBaseline = "top";
  if (from > left + 1) {
    pen.setLineDash([2, 3]);
    pen.beginPath();
    pen.moveTo(from, 2);
    pen.lineTo(from, bottom);
    pen.stroke();
    pen.setLineDash([]);
  }
  const room = across(stretch.at(-1)[0]) - from;
  if (pen.measureText(words).width + 4 < Math.max(room, last ? right - from : 0)) pen.fillText(words, from + 4, 2);
}

function curve(pen, points, across, up, { left, bottom }, ink) {
  if (!points.length) return;
  const at = ([time, playing, spoilt]) => [Math.max(left, across(time)), up(1 - spoilt / playing)];
  pen.beginPath();
  for (const point of points) pen.lineTo(...at(point));
  pen.strokeStyle = ink;
  pen.lineWidth = 2;
  pen.lineJoin = "round";
  pen.stroke();
  pen.lineTo(at(points.at(-1))[0], bottom);
  pen.lineTo(at(points[0])[0], bottom);
  pen.closePath();
  pen.globalAlpha = 0.12;
  pen.fillStyle = ink;
  pen.fill();
  pen.globalAlpha = 1;
}
