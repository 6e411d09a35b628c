/** Lines over time on a canvas. Draws, and keeps nothing. */

const [LEFT, TOP, BOTTOM] = [50, 8, 16]; // css px around the lines
const FONT = "11px system-ui, sans-serif";

/**
 * A line breaks where a value is null; with `dots` it is none, but a dot at each point.
 * @typedef {{points: [number, number | null][], color: string, width?: number, dash?: number[], alpha?: number, fill?: boolean,
 *   dots?: boolean}} Line
 * @typedef {{from: number, to: number, least: number, unit: string, lines: Line[], ends: [string, string]}} Chart
 *   times in ms; the scale goes up to `least` at least; `ends`: what stands under the left and the right end
 * @typedef {{ink: string, soft: string, line: string}} Look colours
 */

/** The page's colours, light or dark. @param {Element} element @returns {Look} */
export function lookOf(element) {
  const style = getComputedStyle(element);
  const [ink, soft, line] = ["--ink", "--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
  return { ink, soft, line };
}

/** @param {HTMLCanvasElement} canvas @param {Look} look @param {Chart} chart */
export function drawChart(canvas, look, { from, to, least, unit, lines, ends }) {
  const [width, height] = fit(canvas);
  if (!width) return;
  const pen = canvas.getContext("2d");
  pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const top = ceiling(lines, from, least);
  const x = (time) => LEFT + ((time - from) / (to - from)) * (width - LEFT);
  const y = (value) => TOP + (1 - value / top) * (height - TOP - BOTTOM);
  drawGrid(pen, look, top, unit, width, y);
  drawEnds(pen, look, ends, width, height);
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, 0, width - LEFT, height - BOTTOM + 2);
  pen.clip();
  for (const line of lines) drawLine(pen, line, x, y);
  pen.restore();
}

/** As many pixels as the screen has under it. Its size is given by the style sheet. */
function fit(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const [across, down] = [Math.round(width * devicePixelRatio), Math.round(height * devicePixelRatio)];
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  return [width, height];
}

/** A round number that all values stay below. */
export function ceiling(lines, from, least) {
  let most = least;
  for (const { points } of lines) for (const [time, value] of points) if (time >= from && value > most) most = value;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((round) => round >= most * 0.9999);
}

function drawGrid(pen, look, top, unit, width, y) {
  Object.assign(pen, { font: FONT, textAlign: "right", textBaseline: "middle", lineWidth: 1, strokeStyle: look.line, fillStyle: look.soft });
  pen.setLineDash([]);
  const [scale, name] = unit === "ms" && top > 2_000 ? [1000, "s"] : [1, unit];
  for (const value of [0, top / 2, top]) {
    const at = Math.round(y(value)) + 0.5;
    pen.beginPath();
    pen.moveTo(LEFT, at);
    pen.lineTo(width, at);
    pen.stroke();
    pen.fillText(`${Number((value / scale).toPrecision(3))}${value === top ? ` ${name}` : ""}`, LEFT - 5, at);
  }
}

function drawEnds(pen, look, [left, right], width, height) {
  Object.assign(pen, { textBaseline: "bottom", fillStyle: look.soft, textAlign: "left" });
  pen.fillText(left, LEFT, height);
  pen.textAlign = "right";
  pen.fillText(right, width, height);
}

function drawLine(pen, { points, color, width = 1.75, dash = [], alpha = 1, fill = false, dots = false }, x, y) {
  Object.assign(pen, { strokeStyle: color, fillStyle: color, lineWidth: width, lineJoin: "round", globalAlpha: alpha });
  if (dots) return drawDots(pen, points, x, y);
  pen.setLineDash(dash);
  for (const run of runs(points)) {
    pen.beginPath();
    for (const [time, value] of run) pen.lineTo(x(time), y(value));
    pen.stroke();
    if (!fill) continue;
    pen.globalAlpha = alpha * 0.12;
    pen.lineTo(x(run.at(-1)[0]), y(0));
    pen.lineTo(x(run[0][0]), y(0));
    pen.fill();
    pen.globalAlpha = alpha;
  }
  pen.globalAlpha = 1;
}

function drawDots(pen, points, x, y) {
  for (const [time, value] of points) {
    pen.beginPath();
    pen.arc(x(time), y(value), 2.75, 0, 2 * Math.PI);
    pen.fill();
  }
}

/** The parts of a line that have values. */
function* runs(points) {
  let run = [];
  for (const point of points) {
    if (point[1] !== null) run.push(point);
    else if (run.length) yield run.splice(0);
  }
  if (run.length) yield run;
}
