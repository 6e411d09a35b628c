/** A microphone of a test's own: it says what it is given, when it is told to, and may hear the page's loudspeaker. Test code only. */
(() => {
  let context, sink;

  window.mouth = {
    /** From now on the page gets this in place of a real one. `recorder` runs already. */
    open() {
      context = voxrtc.output.context;
      sink = new MediaStreamAudioDestinationNode(context);
      navigator.mediaDevices.getUserMedia = async () => sink.stream.clone();
    },

    /** Say PCM16 of 16 kHz, as base64. */
    say(pcm) {
      const bytes = Uint8Array.from(atob(pcm), (letter) => letter.charCodeAt(0));
      const samples = Float32Array.from(new Int16Array(bytes.buffer), (sample) => sample / 32768);
      const buffer = new AudioBuffer({ length: samples.length, sampleRate: 16_000 });
      buffer.copyToChannel(samples, 0);
      const source = new AudioBufferSourceNode(context, { buffer });
      source.connect(sink);
      source.start();
    },

    /** Hear what the page plays, so many seconds later and at so many dB. */
    leak(seconds, decibels) {
      const delay = new DelayNode(context, { delayTime: seconds });
      const gain = new GainNode(context, { gain: 10 ** (decibels / 20) });
      voxrtc.output.connect(delay).connect(gain).connect(sink);
    },
  };
})();
