/** A plain call of OpenAI's Realtime API, without our page. Test code only. */
window.plain = {
  /** @type {object[]} what came over the data channel */ events: [],

  /**
   * Connect.
   * @param {RTCConfiguration} configuration
   * @returns {Promise<{answered: number, opened: number}>} ms since the offer was sent
   */
  async call(configuration) {
    const pc = (plain.pc = new RTCPeerConnection(configuration));
    const channel = (plain.channel = pc.createDataChannel("oai-events"));
    pc.addTransceiver("audio", { direction: "sendrecv" });
    channel.addEventListener("message", ({ data }) => plain.events.push(JSON.parse(data)));
    await pc.setLocalDescription();
    const asked = performance.now();
    const headers = { "content-type": "application/sdp" };
    const response = await fetch("/v1/realtime/calls", { method: "POST", headers, body: pc.localDescription.sdp });
    const answered = performance.now() - asked;
    await pc.setRemoteDescription({ type: "answer", sdp: await response.text() });
    await new Promise((open) => channel.addEventListener("open", open));
    return { answered, opened: performance.now() - asked };
  },

  /** Say that the user wrote this. @param {string} text */
  write(text) {
    const item = { type: "message", role: "user", content: [{ type: "input_text", text }] };
    plain.channel.send(JSON.stringify({ type: "conversation.item.create", item }));
  },
};
