/** A network that lets UDP through, until it is blocked. Test code only; it is loaded before the page. */
(() => {
  const Real = window.RTCPeerConnection;
  const calls = [];

  window.udp = {
    blocked: false,

    /** From now on none gets through, neither of calls that are open nor of those to come. */
    block() {
      this.blocked = true;
      for (const call of calls) call.close();
    },
  };

  window.RTCPeerConnection = class extends Real {
    constructor(...given) {
      super(...given);
      if (udp.blocked) super.setConfiguration({ iceTransportPolicy: "relay" }); // and there is none
      calls.push(this);
    }

    setConfiguration(given) {
      super.setConfiguration(udp.blocked ? { ...given, iceTransportPolicy: "relay" } : given);
    }
  };
})();
