/** The page's data channel, tapped: what it sends, and words put into the server's mouth. Test code only. */
(() => {
  let channel;
  const create = RTCPeerConnection.prototype.createDataChannel;
  RTCPeerConnection.prototype.createDataChannel = function (...given) {
    channel = create.apply(this, given);
    channel.addEventListener("message", ({ data }) => wire.received.push(JSON.parse(data).type));
    const send = channel.send.bind(channel);
    channel.send = (data) => {
      wire.sent.push(JSON.parse(data));
      send(data);
    };
    return channel;
  };

  window.wire = {
    sent: [],
    received: [], // types

    /** The types of what was sent since the last call, without pings. */
    types() {
      return wire.sent.splice(0).map(({ type }) => type).filter((type) => !type.startsWith("voxrtc."));
    },

    /** The page hears this from the server. */
    say(event) {
      channel.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(event) }));
    },
  };
})();
