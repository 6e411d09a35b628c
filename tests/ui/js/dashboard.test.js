/** The dashboard's pure modules, under Node: `node --test`. Run by `tests/ui/test_modules.py`. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { ceiling } from "../js/chart.js";
import { CHARTS } from "../js/charts.js";
import { Clock } from "../js/clock.js";
import { tickRows, toCsv, turnRow } from "../js/export.js";
import { split } from "../js/journey.js";
import { figure } from "../js/figure.js";
import { Ledger } from "../js/ledger.js";
import { mark } from "../js/mark.js";
import { measure } from "../js/network.js";
import { cells, percentiles } from "../js/numbers.js";
import { DASHBOARD } from "../js/words.js";

/** A chance that is the same each time. */
function chance(seed) {
  return () => (seed = (seed * 16807) % 2147483647) / 2147483647;
}

test("the offset is found however uneven the way, within half of the best round trip", () => {
  for (let seed = 1; seed < 200; seed++) {
    const random = chance(seed);
    const clock = new Clock();
    const ahead = (random() - 0.5) * 1e9; // of the server's clock
    for (let ping = 0; ping < 20; ping++) {
      const [there, back] = [1 + 300 * random() ** 3, 1 + 300 * random() ** 3];
      const sent = 1000 * ping;
      clock.observe(sent, sent + there + ahead, sent + there + back);
    }
    assert(Math.abs(clock.offset - ahead) <= clock.uncertainty + 1e-6);
    assert(Math.abs(clock.local(ahead + 5) - 5) <= clock.uncertainty + 1e-6);
  }
});

test("a ping that was held up moves nothing, and an old one is forgotten", () => {
  const clock = new Clock();
  assert(Number.isNaN(clock.offset) && Number.isNaN(clock.roundTrip));
  clock.observe(0, 105, 10);
  clock.observe(1000, 5000, 9000);
  assert.deepEqual([clock.offset, clock.roundTrip, clock.uncertainty], [100, 10, 5]);
  for (let ping = 2; ping < 10; ping++) clock.observe(1000 * ping, 1000 * ping + 310, 1000 * ping + 20);
  assert.deepEqual([clock.offset, clock.roundTrip], [300, 20]);
});

const SERVER = { silence: null, words: null, token: 0, clause: 0, queue: 10, prompt: 5, first_frame: 40, first_chunk: 60, track: 15, total: 130, server_time: 5130 };
const CLOCK = new Clock();
CLOCK.observe(0, 4010, 20); // the server's is 4000 ahead, and 20 ms away

test("a typed turn goes from the click to the ear, and both clocks are compared", () => {
  const marks = { asked: 980, sent: 990, heard: 1200, buffered: 30, output: 25, clock: CLOCK, server: SERVER };
  const { total, spoken, server, after, within, stages } = split(marks);
  assert.deepEqual({ total, spoken, server, after, within }, { total: 220, spoken: false, server: 130, after: 70, within: 10 });
  const ms = Object.fromEntries(stages.map(({ name, ms }) => [name, ms]));
  assert.deepEqual(ms, { connect: 10, queue: 10, prompt: 5, chunk: 100, track: 15, network: 20, browser: 30, onset: 30, output: 25 });
  assert.equal(stages.reduce((sum, { ms }) => sum + ms, 0) - ms.output, total);
  for (const [i, { start }] of stages.entries()) assert.equal(start, i ? stages[i - 1].start + stages[i - 1].ms : 0);
});

test("a spoken turn goes from the microphone to the ear, by the server's clock", () => {
  const server = { ...SERVER, silence: 400, words: 50, token: 80, clause: 20, total: 230, server_time: 5230 };
  const { total, spoken, stages } = split({ asked: 0, sent: 0, heard: 1300, buffered: NaN, output: 0, clock: CLOCK, server });
  const ms = Object.fromEntries(stages.map(({ name, ms }) => [name, ms]));
  assert(spoken);
  assert.equal(total, 20 / 2 + 20 + 400 + 50 + 230 + 70);
  assert.deepEqual(Object.keys(ms), ["microphone", "silence", "words", "token", "clause", "queue", "prompt", "chunk", "track", "network", "browser", "onset"]);
  assert.deepEqual([ms.microphone, ms.network, ms.browser, ms.onset], [30, 10, 60, 0]); // where the browser does not say, it is all the buffer's
});

test("what is not known yet is no journey", () => {
  const marks = { asked: 980, sent: 990, heard: 1200, buffered: 30, clock: CLOCK, server: SERVER };
  for (const name of ["sent", "heard", "buffered", "server"]) assert.equal(split({ ...marks, [name]: undefined }), null);
  assert.equal(split({ ...marks, clock: undefined, server: { ...SERVER, silence: 1, words: 1 } }), null);
});

test("the network's figures are of the time between two reports", () => {
  const report = (more) => new Map([
    ["in", { type: "inbound-rtp", kind: "audio", jitter: 0.004, ...more }],
    ["pair", { type: "candidate-pair", nominated: true, state: "succeeded", currentRoundTripTime: 0.05 }],
  ]);
  const before = report({ packetsReceived: 1000, packetsLost: 10, concealedSamples: 5000, silentConcealedSamples: 1000, totalSamplesReceived: 96000, jitterBufferDelay: 40, jitterBufferEmittedCount: 48000 });
  const after = report({ packetsReceived: 1049, packetsLost: 11, concealedSamples: 6960, silentConcealedSamples: 2000, totalSamplesReceived: 144000, jitterBufferDelay: 2920, jitterBufferEmittedCount: 96000 });
  assert.deepEqual(measure(before, after, 9), { rtt_ms: 50, jitter_ms: 4, loss: 0.02, concealed: 0.02, buffer_ms: 60 });
});

test("where a browser does not say, nothing is made up", () => {
  assert.deepEqual(measure([], [], NaN), { rtt_ms: null, jitter_ms: null, loss: null, concealed: null, buffer_ms: null });
  assert.equal(measure([], [], 12).rtt_ms, 12);
});

const engine = (streams, more = {}) => ({
  ttfa: { count: 3, p50_ms: 130, p95_ms: 300 }, lately: { count: 9, streams: 2, ms: 6, expected_ms: 5 },
  streams: streams.map(([stream, slack]) => ({ stream, slack, state: "playing" })), waiting: 0, slots: 64, kv_pages: 200, kv_pages_used: 50, ...more,
});
const turn = { count: 4, p50_ms: 700, p95_ms: 900 };
const spoken = { lark: { turn, underruns: 0 } };
const stats = (streams, playing = [], models = {}) => ({ engines: { lark: engine(streams) }, media: { peers: 2, underruns: 1, playing, models } });
const OURS = "resp_0123456789abcdef0123";

test("a clock that was set back gives nobody more sound", () => {
  const ledger = new Ledger();
  ledger.tick(stats([["aaaaaaaa", 2]], ["aaaaaaaa"]), null, 3_600_000);
  ledger.tick(stats([], ["aaaaaaaa"]), null, 0);
  assert.deepEqual(ledger.ticks.at(-1).models.lark.slack.map(({ seconds }) => seconds), [2]);
});

test("the ledger knows our own streams, and lets what is made drain until it is played or cut", () => {
  const ledger = new Ledger();
  ledger.own(OURS);
  const slack = () => ledger.ticks.at(-1).models.lark.slack.map(({ seconds, own }) => [Math.round(1000 * seconds) / 1000, own]);
  ledger.tick(stats([[mark(OURS), 3], ["aaaaaaaa", 1], ["bbbbbbbb", null]], [mark(OURS)]), null, 1000);
  assert.deepEqual(slack(), [[3, true], [1, false]]);
  assert.equal(ledger.ticks[0].models.lark.least_slack_s, 1);
  ledger.tick(stats([], [mark(OURS)]), null, 1250); // made; one is played still, the other is gone
  assert.deepEqual(slack(), [[2.75, true]]);
  ledger.tick(stats([], [mark(OURS)]), null, 1500);
  assert.deepEqual(slack(), [[2.5, true]]);
  ledger.tick(stats([], []), null, 1750); // interrupted
  assert.deepEqual(slack(), []);
});

test("the ledger is bounded", () => {
  const ledger = new Ledger();
  for (let at = 0; at < 2000; at++) ledger.tick(stats([["aaaaaaaa", 1]]), null, 250 * at);
  assert.equal(ledger.ticks.length, 1200);
  assert.equal(ledger.ticks.filter(({ models }) => models.lark.slack.length).length, 240);
  for (let number = 0; number < 100; number++) ledger.heard({ at: 0, response: `${number}`, model: "lark", journey: { total: number }, network: null });
  assert.equal(ledger.turns.length, 40);
  ledger.played("99", 2);
  ledger.played("gone", 2);
  assert.equal(ledger.turns[0].underruns, 2);
});

test("every chart can be drawn of nothing, and of something", () => {
  const colors = { models: ["a", "b", "c", "d"], network: ["a", "b", "c"], own: "o", others: "x", heard: "h", warn: "w" };
  const [empty, ledger] = [new Ledger(), new Ledger()];
  ledger.own(OURS);
  ledger.tick(stats([[mark(OURS), 2], ["aaaaaaaa", 0]]), { rtt_ms: 20, jitter_ms: null, loss: 0, concealed: 0, buffer_ms: 40 }, 10_000);
  ledger.tick(stats([[mark(OURS), 2.5]]), null, 13_000); // the page was hidden in between
  for (const kind of Object.values(CHARTS)) {
    assert(kind.picture(empty, colors).lines.every(({ points }) => !points.length));
    assert(kind.picture(ledger, colors).keys.every(({ value }) => value));
  }
  const { lines, keys } = CHARTS.slack.picture(ledger, colors);
  assert.equal(keys[0].value, "2.5 s");
  assert.deepEqual(lines.at(-1), { points: [[10_000, 0]], color: "w", dots: true }); // who ran dry
  ledger.heard({ at: 12_000, response: OURS, model: "lark", journey: { total: 210 }, network: null });
  const latency = CHARTS.latency.picture(ledger, colors);
  assert.deepEqual([latency.lines.at(-1).points, latency.keys.at(-1).value], [[[12_000, 210]], "210 ms"]);
  const steps = CHARTS.steps.picture(ledger, colors);
  assert.deepEqual(steps.lines[0].points, [[10_000, 6], [10_000, null], [13_000, 6]]);
  assert.equal(CHARTS.load.picture(ledger, colors).keys[0].value, "2 / 64");
});

test("of first sounds and of turns the median is told, and the 95th percentile, in the chart and in the table", () => {
  const ledger = new Ledger();
  ledger.tick(stats([], [], spoken), null, 1000);
  const { keys } = CHARTS.latency.picture(ledger, { models: ["a"] });
  assert.deepEqual(keys.slice(0, 4).map(({ value }) => value), ["130 ms", "300 ms", "700 ms", "900 ms"]);
  const row = cells(ledger.ticks[0].models.lark);
  assert.deepEqual(row.slice(0, 4), ["130 ms", "300 ms", "700 ms", "900 ms"]);
  assert.equal(DASHBOARD.columns.length, 1 + row.length);
});

test("a scale ends in a round number above all values", () => {
  const line = (value) => [{ points: [[0, 1e9], [5, value], [6, null]] }];
  assert.equal(ceiling(line(0), 1, 4), 4);
  assert.equal(ceiling(line(101), 1, 10), 150);
  assert.equal(ceiling(line(3), 1, 0.5), 3);
  assert.equal(ceiling(line(7.2e3), 1, 10), 8000);
});

test("times are told as people read them", () => {
  const told = [0.04, 9.94, 9.96, 131.4, 999.4, 999.6, 14_768, 120_000, NaN, null].map(figure);
  assert.deepEqual(told, ["0.0 ms", "9.9 ms", "10 ms", "131 ms", "999 ms", "1.00 s", "14.77 s", "120 s", "–", "–"]);
});

test("percentiles of the turns of this page", () => {
  const of = (...totals) => percentiles(totals.map((total) => ({ journey: { total } })));
  assert.deepEqual(of(), ["–"]);
  assert.deepEqual(of(200), ["200 ms"]);
  assert.deepEqual(of(300, 100, 200), ["200 ms", "95% 300 ms"]);
});

test("what is saved is a table that any program reads", () => {
  assert.equal(toCsv([{ a: 1 / 3, b: null }, { a: 'say "x", y', c: 2 }]), 'a,b,c\r\n0.333,,\r\n"say ""x"", y",,2\r\n');
  const journey = split({ asked: 980, sent: 990, heard: 1200, buffered: 30, output: 0, clock: CLOCK, server: SERVER });
  const row = turnRow({ number: 1, at: 0, response: OURS, model: "lark", journey, underruns: 0, network: { loss: 0.1 } });
  assert.equal(row.at, "1970-01-01T00:00:00.000Z");
  assert.deepEqual([row.kind, row.total_ms, row.chunk_ms, row.underruns, row.loss], ["typed", 220, 100, 0, 0.1]);
  const ledger = new Ledger();
  ledger.tick(stats([["aaaaaaaa", 1]]), null, 0);
  const [tick] = ledger.ticks.flatMap(tickRows);
  assert.deepEqual([tick.model, tick.kv_share, tick.least_slack_s, tick.peers, tick.slack], ["lark", 0.25, 1, 2, undefined]);
});
