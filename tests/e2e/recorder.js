/** Records what leaves the page's own gain node: every sample, with the audio graph's clock. Test code only. */
(() => {
  const PROCESSOR = `
    registerProcessor("recorder", class extends AudioWorkletProcessor {
      process([[samples]]) {
        if (samples) this.port.postMessage({ at: currentFrame, samples: samples.slice() });
        return true;
      }
    });`;
  const AUDIBLE = 1e-3;
  const LOUD = 0.02; // of speech at the microphone
  const blocks = [];
  const spoken = []; // by the person
  let context;

  function record(source, into) {
    const node = new AudioWorkletNode(context, "recorder", { channelCount: 1, channelCountMode: "explicit" });
    node.port.onmessage = ({ data }) => into.push(data);
    source.connect(node);
  }

  const time = ({ at }, index) => (at + index) / context.sampleRate;

  window.recorder = {
    get rate() {
      return context.sampleRate;
    },

    async start() {
      await voxrtc.unlock();
      context = voxrtc.output.context;
      await context.audioWorklet.addModule(URL.createObjectURL(new Blob([PROCESSOR], { type: "text/javascript" })));
      record(voxrtc.output, blocks);
    },

    /** Record the microphone, too, which is on. */
    listen() {
      record(context.createMediaStreamSource(new MediaStream([voxrtc.microphone])), spoken);
    },

    /** The person's last sound and our first one of what was recorded, as `performance.now()`; null when one lacks. */
    answered() {
      const last = spoken.findLast(({ samples }) => samples.some((sample) => Math.abs(sample) > LOUD));
      const first = blocks.find(({ samples }) => samples.some((sample) => Math.abs(sample) > AUDIBLE));
      if (!last || !first) return null;
      const now = performance.now() - context.currentTime * 1000;
      const end = time(last, last.samples.findLastIndex((sample) => Math.abs(sample) > LOUD));
      const begin = time(first, first.samples.findIndex((sample) => Math.abs(sample) > AUDIBLE));
      return { end: now + end * 1000, first: now + begin * 1000 };
    },

    /** ms from the one to the other. Forgets nothing. */
    answeredWithin() {
      const moments = this.answered();
      return moments && moments.first - moments.end;
    },

    /** Of what was recorded since the last call: ms from the person's first sound to our last one, null when one lacks. */
    silencedWithin() {
      const first = (list, floor) => {
        for (const block of list) {
          const index = block.samples.findIndex((sample) => Math.abs(sample) > floor);
          if (index >= 0) return time(block, index);
        }
      };
      const onset = first(spoken.splice(0), LOUD);
      const ours = blocks.splice(0).reverse();
      const last = ours.find(({ samples }) => samples.some((sample) => Math.abs(sample) > AUDIBLE));
      if (onset === undefined || !last) return null;
      return (time(last, last.samples.findLastIndex((sample) => Math.abs(sample) > AUDIBLE)) - onset) * 1000;
    },

    /** All samples since the last call, as base64 of float32. */
    take() {
      const taken = blocks.splice(0);
      const samples = new Float32Array(taken.reduce((sum, block) => sum + block.samples.length, 0));
      let at = 0;
      for (const block of taken) {
        samples.set(block.samples, at);
        at += block.samples.length;
      }
      const bytes = new Uint8Array(samples.buffer);
      let text = "";
      for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
      return btoa(text);
    },

    /** Whether sound was recorded since the last `take`. */
    get heard() {
      return blocks.some(({ samples }) => samples.some((sample) => Math.abs(sample) > AUDIBLE));
    },

    /** Press a button, and keep only what comes after. */
    from(press) {
      blocks.length = 0;
      press();
    },

    /** Press a button; then, of the sound of the next `ms`, the ms from the press to the last audible sample. */
    async audibleAfter(press, ms) {
      const pressed = context.currentTime;
      press();
      await new Promise((resolve) => setTimeout(resolve, ms));
      let last = pressed;
      for (const { at, samples } of blocks) {
        const loud = samples.findLastIndex((sample) => Math.abs(sample) > AUDIBLE);
        if (loud >= 0) last = Math.max(last, (at + loud + 1) / context.sampleRate);
      }
      return (last - pressed) * 1000;
    },
  };
})();
