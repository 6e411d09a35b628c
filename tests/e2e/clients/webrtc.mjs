/** A conversation over WebRTC, by the stock client in a browser, as its documentation shows it; `stock` is for the test to look at. */
import * as client from "./openai-realtime-agents.mjs";
import { agentOf, record } from "./agent.mjs";

const audioElement = new Audio();
const transport = new client.OpenAIRealtimeWebRTC({
  baseUrl: new URL("/v1/realtime/calls", location).href,
  useInsecureApiKey: true,
  audioElement,
});
const session = new client.RealtimeSession(agentOf(client), { transport, model: "lark", tracingDisabled: true });
window.stock = { session, log: record(session), connected: false };
await session.connect({ apiKey: "none" });

// What `recorder.js` records
const context = new AudioContext();
const output = context.createGain();
context.createMediaStreamSource(audioElement.srcObject).connect(output);
window.voxrtc = { unlock: () => context.resume(), output };
stock.connected = true;
