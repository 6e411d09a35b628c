/**
 * What of the page is to be seen from a console and by tests.
 * @param {{talker: import("./talker.js").Talker, compare: import("./compare.js").Compare, booth: import("./booth.js").Booth,
 *   dashboard: import("./dashboard.js").Dashboard}} page
 * @returns an object whose `output` is an AudioNode: the sound after our gain, as it goes to the ear
 */
export function expose({ talker, compare, booth, dashboard }) {
  return {
    get state() {
      return talker.state;
    },
    get journey() {
      return talker.voice.journey;
    },
    get lines() {
      return talker.transcript.lines;
    },
    get listening() {
      return talker.input.listening;
    },
    get hearing() {
      return talker.input.hearing;
    },
    get answers() {
      return talker.input.answers;
    },
    get microphone() {
      return talker.input.microphone.track;
    },
    get output() {
      return talker.voice.speaker.output;
    },
    get sides() {
      return compare.sides;
    },
    get turns() {
      return dashboard.ledger.turns;
    },
    get ticks() {
      return dashboard.ledger.ticks;
    },
    get voices() {
      return booth.voices.list;
    },
    get clock() {
      return talker.line.call?.clock;
    },
    get way() {
      return talker.line.way;
    },
    stats: () => talker.line.stats(),
    unlock: () => talker.voice.speaker.unlock(),
  };
}
