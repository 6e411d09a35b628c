/**
 * A crowd as a picture: a glass for each listener, as full as there is sound at hand, which drains as it is heard. People's come
 * first. What was told a moment ago is carried on from there, so that it moves at every frame.
 */

const FOOT = 18; // css px, below glasses with a mark
const GAP = 3;
const LEAST = 7; // px, a glass with its gap
const WIDEST = 36;
const FULL = 10; // s of sound that fill a glass
const FINE = 6; // how much finer little sound is drawn than much
const SCARCE = 0.3; // s, from which on it is drawn as little
const FILLING = 90; // ms in which two thirds of what is new has risen
const FLASH = 900; // ms that a glass glows after it ran dry
const EMPTY = 24; // glasses that stand there while nobody is there

/**
 * @typedef {{key: string, phase: "resting" | "waiting" | "playing" | "dry" | "away", slack: number, spoilt: boolean,
 *   person?: "you" | "other", call?: boolean}} Glass `call`: it came over WebRTC, and nobody is there
 */

export class Bars {
  /** @type {Glass[]} */ #glasses = [];
  /** @type {Map<string, {level: number, dried: number}>} what is drawn of each */ #drawn = new Map();
  #told = 0;
  #frame = 0;
  #last = 0;
  #seen = false;
  #still = matchMedia("(prefers-reduced-motion: reduce)");

  /** Draw on `canvas` from now on. @param {HTMLCanvasElement} canvas */
  adopt(canvas) {
    this.canvas = canvas;
    this.watching?.disconnect();
    this.watching = new IntersectionObserver(([entry]) => ((this.#seen = entry.isIntersecting), this.#wake()));
    this.watching.observe(canvas);
    this.resizing?.disconnect();
    this.resizing = new ResizeObserver(() => this.#draw(performance.now()));
    this.resizing.observe(canvas);
  }

  /** @param {Glass[]} glasses as they are now */
  show(glasses) {
    const now = performance.now();
    for (const { key, phase } of glasses) {
      const drawn = this.#drawn.get(key) ?? { level: 0, dried: -Infinity };
      if (phase === "dry" && !drawn.dry) drawn.dried = now;
      drawn.dry = phase === "dry";
      this.#drawn.set(key, drawn);
    }
    const there = new Set(glasses.map(({ key }) => key));
    for (const key of this.#drawn.keys()) if (!there.has(key)) this.#drawn.delete(key);
    this.#glasses = glasses;
    this.#told = now;
    if (this.#still.matches || !glasses.length) this.#draw(now);
    else this.#wake();
  }

  #wake() {
    if (this.#frame || !this.#seen || this.#still.matches || !this.#glasses.length) return;
    this.#frame = requestAnimationFrame((now) => {
      this.#frame = 0;
      this.#draw(now);
      this.#wake();
    });
  }

  #draw(now) {
    const pen = paper(this.canvas);
    if (!pen) return;
    const marked = this.#glasses.filter(({ person, call }) => person || call).length; // they come first
    const boxes = places(this.canvas, this.#glasses.length || EMPTY, marked);
    const ease = this.#still.matches ? 1 : 1 - Math.exp(-(now - this.#last) / FILLING);
    const colors = palette(this.canvas);
    for (const [i, box] of boxes.entries()) {
      if (this.#glasses.length) this.#glass(pen, this.#glasses[i], box, now, ease, colors);
      else vessel(pen, box, colors.track, 0.6);
    }
    this.#last = now;
  }

  /** @param {Glass} glass */
  #glass(pen, glass, box, now, ease, colors) {
    const drawn = this.#drawn.get(glass.key);
    const slack = glass.phase === "playing" ? Math.max(0, glass.slack - (now - this.#told) / 1000) : 0;
    const level = levelOf(slack);
    drawn.level = level > drawn.level ? drawn.level + (level - drawn.level) * ease : level;
    const glow = this.#still.matches ? Number(drawn.dry) : Math.max(0, 1 - (now - drawn.dried) / FLASH, drawn.dry ? 0.55 : 0);
    const idle = glass.phase === "resting" || glass.phase === "away";
    vessel(pen, box, colors.track, idle ? 0.5 : 1);
    if (glow) vessel(pen, box, colors.dry, glow);
    const color = glass.person ? colors.ink : slack < SCARCE ? colors.scarce : colors.sound;
    fill(pen, box, drawn.level, color);
    if (glass.spoilt && !drawn.dry) cap(pen, box, colors.dry);
    if (glass.phase === "waiting") dot(pen, box, colors.soft);
    if (glass.phase === "away") cross(pen, box, colors.soft);
    if (glass.call) node(pen, box, colors.soft);
    if (glass.person) person(pen, box, colors.ink, glass.person === "you");
  }
}

/** Where each of `count` glasses stands, in rows: below the first, and below those with a mark, is room for it. */
function places({ clientWidth: width, clientHeight: height }, count, marked) {
  const rows = Math.ceil(count / Math.floor((width + GAP) / LEAST));
  const each = Math.ceil(count / rows);
  const step = Math.min(WIDEST + GAP, (width + GAP) / each);
  const feet = Math.max(1, Math.ceil(marked / each)); // rows
  const below = (row) => Math.min(row, feet) * FOOT + Math.max(0, row - feet) * GAP * 2;
  const tall = (height - below(rows > feet ? rows - 1 : rows)) / rows;
  const left = Math.max(0, (width + GAP - step * each) / 2);
  return Array.from({ length: count }, (_, i) => {
    const row = Math.floor(i / each);
    return { x: left + (i % each) * step, y: row * tall + below(row), wide: step - GAP, tall };
  });
}

/** Share of a glass that so many seconds fill. */
function levelOf(slack) {
  return Math.min(1, Math.log1p(FINE * slack) / Math.log1p(FINE * FULL));
}

/** A fresh sheet on a canvas; null while it is not shown. @param {HTMLCanvasElement} canvas */
export function paper(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width) return null;
  const scale = devicePixelRatio;
  const [wide, tall] = [Math.round(width * scale), Math.round(height * scale)];
  const pen = canvas.getContext("2d");
  if (canvas.width !== wide || canvas.height !== tall) Object.assign(canvas, { width: wide, height: tall });
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

function palette(canvas) {
  const style = getComputedStyle(canvas);
  const names = { sound: "--accent", scarce: "--scarce", dry: "--dry", track: "--track", ink: "--ink", soft: "--soft" };
  return Object.fromEntries(Object.entries(names).map(([name, property]) => [name, style.getPropertyValue(property)]));
}

function vessel(pen, { x, y, wide, tall }, color, alpha) {
  pen.globalAlpha = alpha;
  pen.fillStyle = color;
  pen.beginPath();
  pen.roundRect(x, y, wide, tall, Math.min(4, wide / 2));
  pen.fill();
  pen.globalAlpha = 1;
}

function fill(pen, { x, y, wide, tall }, level, color) {
  if (level <= 0) return;
  const high = Math.max(2, level * tall);
  pen.fillStyle = color;
  pen.beginPath();
  pen.roundRect(x, y + tall - high, wide, high, Math.min(4, wide / 2, high / 2));
  pen.fill();
}

/** It ran dry in this utterance, and plays on. */
function cap(pen, { x, y, wide }, color) {
  pen.fillStyle = color;
  pen.beginPath();
  pen.roundRect(x, y, wide, 4, Math.min(2, wide / 2));
  pen.fill();
}

function dot(pen, { x, y, wide, tall }, color) {
  pen.fillStyle = color;
  pen.beginPath();
  pen.arc(x + wide / 2, y + tall - wide / 2 - 2, Math.min(3, wide / 3), 0, 7);
  pen.fill();
}

function cross(pen, { x, y, wide, tall }, color) {
  const reach = Math.min(3.5, wide / 3);
  const [middle, low] = [x + wide / 2, y + tall - wide / 2 - 2];
  pen.strokeStyle = color;
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (const sign of [1, -1]) {
    pen.moveTo(middle - reach, low - sign * reach);
    pen.lineTo(middle + reach, low + sign * reach);
  }
  pen.stroke();
}

/** Below the glass: a call that no person made. */
function node(pen, { x, y, wide, tall }, color) {
  const [middle, low] = [x + wide / 2, y + tall + 10];
  pen.strokeStyle = color;
  pen.lineWidth = 1.5;
  for (const [radius, from, to] of [[1, 0, 7], [4, -2.3, -0.84], [7, -2.3, -0.84]]) {
    pen.beginPath();
    pen.arc(middle, low + 3, radius, from, to);
    pen.stroke();
  }
}

/** Below the glass: a head and shoulders; filled, if it is the one who looks. */
function person(pen, { x, y, wide, tall }, color, you) {
  const [middle, top] = [x + wide / 2, y + tall + 5];
  pen.strokeStyle = pen.fillStyle = color;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.arc(middle, top + 3, 2.6, 0, 7);
  pen.moveTo(middle - 5, top + 12.5);
  pen.arc(middle, top + 12.5, 5, Math.PI, 0);
  pen.closePath();
  if (you) pen.fill();
  pen.stroke();
}
