/** What people read on the page, in English. One object a part of the page; where a number or a name comes in, a function. */

/** Of the markup: the server puts them where `[[part.name]]` stands. Plain JSON, which it reads. */
export const MARKUP = {
  "login": {
    "title": "VoxRTC",
    "intro": "This server asks who you are. With a key of its API, any name will do.",
    "name": "Name",
    "password": "Password or key",
    "enter": "Log in",
    "wrong": "The name or the password is wrong."
  },
  "head": {
    "intro": "Talk to a speech language model, and interrupt it. Or type, and hear it while it is still being made."
  },
  "talk": {
    "title": "Conversation",
    "off": "Mic off",
    "unlock": "Tap to hear",
    "empty": "What you both say appears here.",
    "lines": "What was said",
    "talk": "Talk",
    "message": "Message",
    "placeholder": "Or type …",
    "send": "Send",
    "how": "How you talk",
    "free": "Hands-free",
    "push": "Push to talk"
  },
  "devices": {
    "open": "Devices",
    "microphone": "Microphone",
    "speaker": "Loudspeaker"
  },
  "speak": {
    "title": "Word for word",
    "text": "Text to be spoken word for word",
    "examples": "Examples",
    "model": "Model",
    "voice": "Voice",
    "manner": "How to speak (may be empty)",
    "manners": "Like: softly, and a little sad",
    "load": "Load",
    "unload": "Unload",
    "loading": "Loading",
    "cancel": "Cancel",
    "suggested": "Load it",
    "speak": "Speak",
    "stop": "Stop"
  },
  "booth": {
    "open": "Use a recording",
    "title": "A voice from a recording",
    "how": "5 to 30 seconds of one person who speaks, in a quiet room. The model then speaks in that voice.",
    "file": "Choose a file",
    "listen": "The recording",
    "said": "What is said in it",
    "write": "Write it down",
    "hint": "Word for word. Some models need it, and others speak better with it.",
    "consent": "This is my voice, or its owner agreed that I use it here.",
    "make": "Use this voice",
    "discard": "Discard",
    "kept": "The recording stays in this server's memory and nowhere else. It is deleted when you delete the voice or close this page."
  },
  "shelf": {
    "title": "Models",
    "compare": "Compare",
    "how": "The same sentence by two models, one after the other.",
    "sentence": "Sentence",
    "go": "Compare",
    "first": "First",
    "second": "Second",
    "first_model": "First model",
    "first_voice": "First voice",
    "second_model": "Second model",
    "second_voice": "Second voice",
    "ttfa": "First sound after",
    "total": "Last sound after",
    "stages": "Where the time to the first sound went",
    "when": "When each was heard"
  },
  "dashboard": {
    "title": "Where the time goes",
    "save": "Save what is shown",
    "turnsCsv": "Turns, CSV",
    "ticksCsv": "Ticks, CSV",
    "json": "All, JSON",
    "slack": "Sound in hand",
    "slackHint": "seconds left to play; at zero there is a gap",
    "latency": "First sound, all streams",
    "latencyHint": "of the last minute, at the server",
    "load": "How full the engine is",
    "steps": "A step of the model",
    "network": "Your network",
    "turns": "Last turns",
    "numbers": "The numbers as a table"
  },
  "history": {
    "title": "The last hours",
    "latency": "Time to the first sound, ms",
    "streams": "Streams",
    "dry": "Ran dry",
    "again": "Refresh",
    "p50": "median",
    "p95": "95th percentile",
    "turn": "spoken turn, median",
    "late_turn": "spoken turn, 95th percentile",
    "began": "began in the minute",
    "there": "at its end",
    "times": "times in the minute"
  },
  "crowd": {
    "title": "Virtual listeners",
    "intro": "Each has something said, plays it as fast as speech, and asks for more. A glass is the sound at hand; one that runs dry turns red.",
    "size": "Virtual listeners",
    "peers": "Whole WebRTC calls besides",
    "legend": "Dot: waits for its first sound. Red edge: ran dry before. Cross: turned away. Below: a person, filled if it is you; a WebRTC call.",
    "policy": "The engine plans by",
    "fifo": "Fifo",
    "fifo_is": "first come, first served",
    "two_phase": "Two-phase",
    "two_phase_is": "first sounds first, then whose sound ends soon",
    "playout": "Playout",
    "playout_is": "who has least sound at hand; no more than can be served",
    "line": "Of the streams that sound, those that never ran dry"
  },
  "journey": {
    "title": "Time to the first sound",
    "total": "From your last word, or the click, to the first sound rendered"
  }
};

export const EXAMPLES = {
  first: "Good morning! The kettle is on, the window is open, and we have the whole day ahead of us.",
  texts: {
    Short: "Yes, of course.",
    Question: "Would you like to walk along the river before dinner?",
    Numbers: "The train leaves at 10:45 from platform 7, and a ticket costs 23 dollars.",
    Story:
      "The old lighthouse had been dark for thirty years. Then, one quiet evening in May, a light went round again. " +
      "Nobody in the village had climbed the stairs, and nobody said a word. But all left their curtains open.",
  },
};

const ORDINALS = new Intl.PluralRules("en", { type: "ordinal" });
const SUFFIXES = { one: "st", two: "nd", few: "rd", other: "th" };

export const TALK = {
  states: {
    idle: "Not connected. Talk and Speak connect.",
    connecting: "Connecting …",
    ready: "Ready.",
    waiting: "Waiting for the first sound …",
    speaking: "Speaking.",
    disconnected: "Disconnected. Talk and Speak reconnect.",
  },
  listening: { free: "Listening. Say something.", push: "Ready. Hold to talk." },
  hearing: "Hearing you …",
  /** @param {import("./voice.js").Place} place in the queue */
  inLine({ position, wait }) {
    const seconds = Math.max(1, Math.round(wait / 1000));
    const time = seconds < 90 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
    return `${TALK.place(position)}, about ${time} …`;
  },
  /** The same for those who hear the page: no seconds, which change all the time. */
  place: (position) => `${position}${SUFFIXES[ORDINALS.select(position)]} in line`,
  on: "Talk",
  off: "Mic off",
  hold: "Hold to talk",
  letGo: "Let go to send",
  send: "Send",
  interrupt: "Interrupt",
  /** By mode, then by whether there is somebody to answer; before the first call we do not know. */
  hints: {
    free: {
      null: "Talk, or type. Speaking interrupts the voice.",
      true: "What you say or type is answered. Speak to interrupt.",
      false: "What you say is written down, and interrupts.",
    },
    push: {
      null: "Hold the button or the space bar while you speak.",
      true: "Hold the button or the space bar while you speak. It interrupts, too.",
      false: "Hold the button or the space bar while you speak. It is written down.",
    },
  },
};

export const LINE = {
  /**
   * What a person should know of the way that the sound takes. `udp`: whether it gets to the server; null: nobody knows.
   * @type {Record<string, (roundTrip: number, udp: boolean | null) => string>}
   */
  ways: {
    relay: (roundTrip) => `Connected through a relay${trip(roundTrip)}.`,
    tunnel: (roundTrip, udp) => `${udp === false ? "This server gets no UDP" : "UDP is blocked, here or at the server"}: connected over WebSocket${trip(roundTrip)}.`,
  },
};

function trip(ms) {
  return Number.isNaN(ms) ? "" : `, a round trip of about ${Math.max(10, Math.round(ms / 10) * 10)}\u00a0ms`;
}

/** For those who cannot see what was struck through. */
export const TRANSCRIPT = { interrupted: "(interrupted)", unheard: "(interrupted here; not heard:)" };

export const DEVICES = {
  microphone: "Microphone",
  speaker: "Loudspeaker",
  system: "System's choice",
  unnamed: "Names are told once the microphone is allowed.",
  unrouted: "In this browser the system chooses the loudspeaker.",
  moved: (label) => `“${label}” took its place. There are others under Devices.`,
};

export const BOOTH = {
  mine: "My voice",
  group: "From recordings",
  record: "Record",
  stop: "Stop",
  anew: "Record anew",
  recording: "Recording. Speak now.",
  taken: "Recorded. Listen to it, then use this voice.",
  left: (seconds) => `${seconds}\u00a0s left`,
  make: "Use this voice",
  write: "Write it down",
  busy: { making: "Making the voice …", writing: "Writing it down …" },
  made: (name, seconds) => `“${name}” is used: a recording of ${seconds.toFixed(1)}\u00a0s.`,
  forget: (name) => `Delete “${name}”`,
  gone: (name) => `“${name}” was deleted: it was not used for long, or newer ones took its place. Record it again.`,
  agree: "Please tick that it is your voice, or that its owner agreed.",
  large: "This file is too large: a recording may have 8 MB. Choose a shorter one.",
  nothing: "No words were heard in it. Type them, or record it again.",
  failed: "That did not work. Try again.",
  /** @param {import("./troubles.js").Trouble} trouble without the name of the field that the server found wrong */
  trouble: ({ title, message, code }) => (code.startsWith("invalid_") ? message.replace(/^`\w+`: /, "") : `${title}. ${message}`),
};

/** Sizes for people. @param {number} bytes */
function size(bytes) {
  const [unit, by] = bytes < 1e9 ? ["MB", 1e6] : ["GB", 1e9];
  return `${(bytes / by).toFixed(by === 1e9 || bytes < 1e7 ? 1 : 0)}\u00a0${unit}`;
}

export const SHELF = {
  ready: "Ready",
  unloaded: "To be loaded",
  hints: { loading: "loading", failed: "failed", suggested: "suggested" },
  none: "No model is offered here.",
  states: { ready: "Ready", loading: "Loading", failed: "Failed", unloaded: "Not loaded" },
  machine: (words, room) => `This computer: ${words}; models may take ${room}\u00a0GB.`,
  use: "Use",
  used: "In use",
  load: "Load",
  download: "Download and load",
  again: "Try again",
  unload: "Unload",
  cancel: "Cancel",
  loading: (title) => `Loading ${title}`,
  terms: "terms to accept",
  suggested: "Suggested",
  parameters: (count) => `${count}\u00a0parameters`,
  clones: "speaks in your voice, from a recording",
  voices: (count) => (count === 1 ? "one voice" : `${count}\u00a0voices`),
  takes: (gigabytes) => `takes about ${gigabytes.toFixed(1)}\u00a0GB`,
  holds: (gigabytes) => `holds ${gigabytes.toFixed(1)}\u00a0GB`,
  onDisk: "on this disk",
  toFetch: (bytes) => `about ${size(bytes)} to download`,
  stages: { starting: "Starting", downloading: "Downloading", reading: "Reading", "warming up": "Warming up" },
  progress: (done, total) => `${size(done)} of ${size(total)}`,
  rate: (bytes) => `${(bytes / 1e6).toFixed(1)}\u00a0MB/s`,
  left: (seconds) => (seconds < 90 ? `${Math.ceil(seconds)}\u00a0s left` : `${Math.round(seconds / 60)}\u00a0min left`),
  suits: (title) => `${title} suits this computer: it needs no GPU.`,
  /** Why a model cannot speak, by its state. */
  obstacles: {
    loading: (title) => `${title} is being loaded …`,
    failed: (title) => `${title} could not be loaded.`,
    unloaded: (title) => `${title} is not loaded yet.`,
  },
};

export const COMPARE = {
  sentence: "Would you like to walk along the river before dinner?",
  go: "Compare",
  stop: "Stop",
  ready: (title) => `${title} can be compared when it is loaded: load it above, or choose another one.`,
  same: "Both are the same. Choose another model or another voice on one side.",
  text: "Type a sentence first.",
  /** By what a side is doing. */
  states: { waiting: "its turn comes", asked: "asked …", heard: "is heard …", cut: "was stopped", failed: "failed" },
  heard: (from, to) => `heard from ${from.toFixed(1)} to ${to.toFixed(1)} s`,
  sooner: (title, ms) => `${title} was heard ${Math.round(ms).toLocaleString("en")} ms sooner.`,
  alike: "Both were heard equally soon.",
};

/** The stages between the person's last word, or the click, and the first sound, in their order. `always`: also when it took no time. */
export const STAGES = {
  microphone: { label: "Microphone", hint: "from your last word to the server: a packet is gathered, and half a round trip" },
  silence: { label: "Turn over", hint: "silence, until the server is sure that you have finished" },
  words: { label: "Transcript", hint: "until your words were written down" },
  connect: { label: "Connect", hint: "offer, answer and media path, when there was no call yet", always: true },
  token: { label: "First token", hint: "until whoever answers had begun to" },
  clause: { label: "First clause", hint: "until there was enough of the reply to begin to speak" },
  queue: { label: "Queue", hint: "waiting for the engine to take the sentence", always: true },
  prompt: { label: "Prompt", hint: "text to tokens", always: true },
  chunk: { label: "First chunk", hint: "the model's first frames, made into sound", always: true },
  track: { label: "Track", hint: "encoding, until the first packet leaves", always: true },
  network: { label: "Network", hint: "the request there and the sound back; after spoken words, the way back", always: true },
  browser: { label: "Jitter buffer", hint: "the browser's, until sound is rendered", always: true },
  onset: { label: "Onset", hint: "the silence with which the voice itself begins, and what no other stage accounts for", always: true },
  output: { label: "Loudspeaker", hint: "what the device adds until the ear, as the browser tells; not in the total" },
};

export const DASHBOARD = {
  live: { true: "Live", false: "Waiting for the server …" },
  tiles: {
    heard: "First sound, as heard here",
    turn: "Answer, after your last word",
    streams: "Streams, and in line",
    listeners: "Connected",
    dry: "Ran dry",
    rtt: "Round trip",
    loss: "Packets lost",
    concealed: "Sound made up",
  },
  hints: {
    heard: "Median of the turns below that were typed",
    turn: "Median of the turns below that were spoken",
    streams: "Streams of all people that the engines work on, and those that wait to get in",
    listeners: "Browsers and programs in a call",
    dry: "Times that a listener's sound ran out before the next came, since the server started",
    rtt: "To the server and back, on the way that the sound takes",
    loss: "Of the last second, on the way to you",
    concealed: "What the browser had to invent of the last second, since it came late or not at all",
  },
  late: (total) => `95% ${total}`,
  waiting: (count) => (count ? `+ ${count}` : ""),
  kinds: { spoken: "Spoken", typed: "Typed" },
  turns: {
    none: "Talk, write or press Speak: every turn appears here, with where its time went.",
    /** For who cannot see the bar. */
    label: (kind, total, time) => `${kind} turn at ${time}: ${total} to the first sound`,
    dry: (count) => (count === 1 ? "ran dry once" : `ran dry ${count} times`),
    clocks: (server, after, within) =>
      `The server counts ${server} up to its first packet, and this browser ${after} from there to the first sound. Both clocks agree within ${within}.`,
  },
  charts: {
    own: "Yours",
    others: (count) => (count === 1 ? "1 other" : `${count} others`),
    median: "median",
    late: "95th percentile",
    turn: "spoken turn, median",
    lateTurn: "spoken turn, 95th percentile",
    heard: "heard here",
    batch: "Streams in a step",
    cache: "KV pages",
    queue: "In line",
    took: "A step takes",
    expected: "expected",
    rtt: "Round trip",
    buffer: "Jitter buffer",
    jitter: "Jitter",
    ago: (seconds) => (seconds < 120 ? `${seconds} s ago` : `${seconds / 60} min ago`),
    now: "now",
  },
  columns: ["Model", "First sound, median", "95th percentile", "Spoken turn, median", "Spoken turn, 95th percentile", "Streams", "In line", "KV pages", "Step", "Expected", "Least sound in hand", "Ran dry"],
};

/** Why a virtual listener is turned away. @type {Record<string, string>} */
const AWAY = {
  gave_way: "People go first",
  busy: "All places are taken",
  too_many_calls: "All places for calls are taken",
  engine_lost: "The speech engine is restarting",
  model_loading: "The model is being loaded",
  model_not_found: "The model is not loaded",
  media_lost: "The server is starting",
  call_over: "Calls broke off",
  unreachable: "The server does not answer",
};

export const CROWD = {
  names: { fifo: "Fifo", two_phase: "Two-phase", playout: "Playout", offline: "Offline" },
  nobody: "Nobody is there but people. Move the slider.",
  /** What the listeners do at the moment. */
  goesOn({ hear, dry, wait, away }) {
    const more = [dry && `${dry} ran dry`, wait && `${wait} waiting`, away && `${away} turned away`].filter(Boolean);
    return [`${hear} hearing sound`, ...more].join(" · ");
  },
  /** What most of those lack who are turned away. @param {string[]} causes of each its own */
  away(causes) {
    const count = (cause) => causes.filter((each) => each === cause).length;
    const [cause] = [...causes].sort((one, other) => count(other) - count(one));
    const who = count(cause) === 1 ? "one listener was" : `${count(cause)} listeners were`;
    return `${AWAY[cause] ?? `An error (${cause.replaceAll("_", " ")})`}: ${who} turned away, and will try again.`;
  },
  paused: "People go first: virtual listeners pause while one is short of sound.",
  /** The share of streams that never ran dry; null before the first. Only all is 100%. */
  viable(share) {
    if (share === null) return "–";
    return share === 1 ? "100%" : `${Math.min(99.9, 100 * share).toFixed(1)}%`;
  },
  /** @param {import("./crowd.js").Figures} figures */
  facts({ started, listeners, p50_ttfa: half, p90_ttfa: most }) {
    const seconds = (value) => `${value.toFixed(value < 1 ? 2 : 1)}\u00a0s`;
    return `never dry, of ${started}\nfirst sound ${seconds(half)}\n90% within ${seconds(most)}\n${listeners} listeners`;
  },
  minute: "a minute ago",
  now: "now",
  minuteInWords: (policy, share) => `The last minute. ${policy} plans now${share ? `: ${share} of its streams never ran dry` : ""}.`,
};

/** What can go wrong, by cause, and what to do then. @type {Record<string, {title: string, advice: string}>} */
export const TROUBLES = {
  unreachable: {
    title: "The server does not answer",
    advice: "It may be starting or stopped. Check that it runs, then press Speak again.",
  },
  busy: {
    title: "The server is busy",
    advice: "All places are taken. Try again in a few seconds.",
  },
  too_many_calls: {
    title: "The server is busy",
    advice: "All places are taken. Try again in a few seconds.",
  },
  places_taken: {
    title: "All places are taken",
    advice: "Press Talk or Speak to stand in line.",
  },
  queue_full: {
    title: "The line is full",
    advice: "Come back in a few minutes.",
  },
  too_many_of_yours: {
    title: "You have other calls open here",
    advice: "End one of them, perhaps in another window, then try again.",
  },
  too_often: {
    title: "That was too often",
    advice: "Wait a moment, then try again.",
  },
  ending: {
    title: "This call ends soon",
    advice: "Calls have a limited time here.",
  },
  session_expired: {
    title: "The time of this call is up",
    advice: "You are welcome to call again.",
  },
  shutting_down: {
    title: "The server is being shut down",
    advice: "Try again in a minute.",
  },
  media_lost: {
    title: "The server is starting",
    advice: "Press Speak again in a few seconds.",
  },
  model_not_found: {
    title: "This model is not loaded",
    advice: "Choose another model from the list.",
  },
  model_loading: {
    title: "This model is still being loaded",
    advice: "Press Speak again in a few seconds.",
  },
  model_failed: {
    title: "This model could not be loaded",
    advice: "Choose another model from the list.",
  },
  voice_not_found: {
    title: "This model has no such voice",
    advice: "Choose another voice from the list.",
  },
  voice_gone: {
    title: "This voice is not there any more",
    advice: "Record it again, or choose another voice.",
  },
  voice_not_supported: {
    title: "This model has voices of its own only",
    advice: "Choose one of them, or another model.",
  },
  too_many_voices: {
    title: "The server is busy",
    advice: "It keeps as many voices as it may. Try again in a few minutes.",
  },
  udp_blocked: {
    title: "No path for sound",
    advice: "The server answers, but its sound cannot get through: UDP seems to be blocked, here or at the server. Try without a VPN, or on another network.",
  },
  mic_unheard: {
    title: "Your microphone works, but nothing arrives",
    advice: "The network takes nothing from here. Switch the microphone off and on, or reload the page.",
  },
  no_other_way: {
    title: "No path for sound",
    advice: "UDP seems to be blocked, here or at the server, and this browser takes sound no other way. Open the page by https in a current Chrome or Edge, or use another network.",
  },
  broken: {
    title: "The connection broke",
    advice: "Connecting again; the conversation goes on.",
  },
  offline: {
    title: "This computer has no network",
    advice: "Check its connection, then press Talk or Speak.",
  },
  session_gone: {
    title: "The conversation is over",
    advice: "The connection was away for too long. Press Talk or Speak to begin anew.",
  },
  connection_lost: {
    title: "The connection was lost",
    advice: "Press Talk or Speak to connect again.",
  },
  engine_lost: {
    title: "The speech engine is restarting",
    advice: "Press Speak again in a few seconds.",
  },
  engine_error: {
    title: "This sentence could not be spoken",
    advice: "The engine reported an error. Try again, or change the text.",
  },
  invalid_request: {
    title: "This text cannot be spoken",
    advice: "Change the text and try again.",
  },
  no_text: {
    title: "Nothing to say yet",
    advice: "Type a sentence first.",
  },
  too_long: {
    title: "This text is too long to send",
    advice: "Speak it in shorter parts.",
  },
  sound_blocked: {
    title: "The browser holds the sound back",
    advice: "It wants a tap first.",
  },
  sound_interrupted: {
    title: "Something else took the sound",
    advice: "A phone call, perhaps. Tap when it is over.",
  },
  speaker_gone: {
    title: "This loudspeaker cannot be used",
    advice: "It may be switched off. Choose another one under Devices.",
  },
  reply_failed: {
    title: "No reply came",
    advice: "The chat endpoint gave none. Say it again, or look at the server's settings.",
  },
  mic_blocked: {
    title: "The microphone is blocked",
    advice: "Allow it for this page, beside the address, then press Talk again.",
  },
  mic_dismissed: {
    title: "The question about the microphone was closed",
    advice: "Press Talk again, and choose Allow.",
  },
  mic_system: {
    title: "The system keeps the microphone from the browser",
    advice: "Allow it in the system's privacy settings, then press Talk again.",
  },
  mic_missing: {
    title: "No microphone was found",
    advice: "Plug one in or switch it on, then press Talk again.",
  },
  mic_busy: {
    title: "The microphone cannot be opened",
    advice: "Another program may be using it. Close that one, then press Talk again.",
  },
  mic_gone: {
    title: "The chosen microphone cannot be used",
    advice: "It may be switched off. Choose another one under Devices, then press Talk again.",
  },
  mic_insecure: {
    title: "No microphone on this address",
    advice: "Browsers give it only to pages on https, or on this very computer: open http://localhost, or put https before the server.",
  },
  mic_lost: {
    title: "The microphone was unplugged",
    advice: "There is no other one. Plug one in, then press Talk to go on.",
  },
  mic_moved: {
    title: "The microphone was unplugged",
    advice: "Another one took its place.",
  },
  mic_muted: {
    title: "The microphone is muted",
    advice: "By its switch, the system or a phone call. Switch it on; after a call, tap anywhere.",
  },
  unsupported: {
    title: "This browser cannot play the sound",
    advice: "The page needs WebRTC and Web Audio. A current Chrome, Firefox, Edge or Safari has both.",
  },
};

export const OTHER_TROUBLE = { title: "Something went wrong", advice: "Press Speak to try again." };

/** What the server says, and how long it would wait. */
export const againIn = (words, seconds) => `${words} Try again in about ${seconds} s.`;
