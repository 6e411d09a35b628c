/** A person at the microphone, who speaks when the test says so. Test code only. */
(() => {
  let context, way, sentence;

  navigator.mediaDevices.getUserMedia = async () => {
    context = new AudioContext();
    way = context.createMediaStreamDestination();
    return way.stream;
  };

  window.person = {
    /** What they have to say: base64 of float32 samples. The microphone is on. */
    learn(base64, rate) {
      const samples = new Float32Array(Uint8Array.from(atob(base64), (each) => each.charCodeAt(0)).buffer);
      sentence = new AudioBuffer({ length: samples.length, sampleRate: rate });
      sentence.copyToChannel(samples, 0);
    },

    say() {
      const source = new AudioBufferSourceNode(context, { buffer: sentence });
      source.connect(way);
      source.start();
    },
  };
})();
