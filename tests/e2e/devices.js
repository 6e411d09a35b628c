/** Microphones and loudspeakers that tests plug in and pull out. Test code only. */
(() => {
  const plugged = new Map([
    ["desk", ["audioinput", "Desk microphone"]],
    ["headset", ["audioinput", "Headset"]],
    ["speakers", ["audiooutput", "Speakers"]],
    ["wireless", ["audiooutput", "Wireless headphones"]],
  ]);

  async function sound({ audio }) {
    gear.asked.push(audio.deviceId?.exact ?? "");
    if (gear.refusal) throw new DOMException(gear.refusal[1], gear.refusal[0]);
    const tone = new AudioContext();
    const stream = tone.createMediaStreamDestination().stream;
    Object.defineProperty(stream.getAudioTracks()[0], "label", { value: "Desk microphone" });
    return stream;
  }

  window.gear = {
    /** Ids that `getUserMedia` was asked for; empty for the system's choice. */ asked: [],
    /** Name and message of the error that it answers with. */ refusal: null,
    /** Ids that sound was routed to. */ routed: [],
    /** The id of a loudspeaker that cannot be used. */ broken: null,

    change(id, device) {
      if (device) plugged.set(id, device);
      else plugged.delete(id);
      navigator.mediaDevices.dispatchEvent(new Event("devicechange"));
    },
  };
  navigator.mediaDevices.getUserMedia = sound;
  navigator.mediaDevices.enumerateDevices = async () => [...plugged].map(([deviceId, [kind, label]]) => ({ deviceId, kind, label }));
  AudioContext.prototype.setSinkId = async (id) => {
    if (id === gear.broken) throw new DOMException("Requested device not found", "NotFoundError");
    gear.routed.push(id);
  };
})();
