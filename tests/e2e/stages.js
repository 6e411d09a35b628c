/** When the server told what, for a waterfall of an answer's way. Test code only. */
(() => {
  const told = []; // [performance.now(), event]
  const create = RTCPeerConnection.prototype.createDataChannel;
  RTCPeerConnection.prototype.createDataChannel = function (...given) {
    const channel = create.apply(this, given);
    channel.addEventListener("message", ({ data }) => told.push([performance.now(), JSON.parse(data)]));
    return channel;
  };

  window.stages = {
    /** Of the last turn, ms since the end of the person's speech: when each thing was told, and the first audible sample. */
    take() {
      const { end, first } = recorder.answered();
      const events = told.splice(0);
      const at = (type) => events.findLast(([, event]) => event.type === type)?.[0] - end;
      const first_of = (type) => events.find(([, event]) => event.type === type)?.[0] - end;
      const reply = events.find(([, event]) => event.type === "voxrtc.timing")?.[1];
      return {
        turn: at("input_audio_buffer.committed"),
        transcript: at("conversation.item.input_audio_transcription.completed"),
        clause: first_of("response.output_audio_transcript.delta"),
        sent: first_of("output_audio_buffer.started"),
        heard: first - end,
        dry: events.filter(({ 1: event }) => event.type === "voxrtc.playout").reduce((sum, [, event]) => sum + event.underruns, 0),
        chunk: reply && reply.queue + reply.prompt + reply.first_frame + reply.first_chunk,
      };
    },
  };
})();
