"""A browser's SDP offer: what is wrong with it, in words, and what we do not want from it."""

from __future__ import annotations

from aiortc.sdp import SessionDescription

SECTIONS, CANDIDATES = 8, 64  # of an offer, at most


class BadOffer(ValueError):
    """An offer that cannot be answered. `code` is for programs, the text for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def checked(sdp: str) -> str:
    """The offer, ready for aiortc. Raises `BadOffer`.

    Names ending in `.local` (RFC 8828 section 3.1) are left out: resolving them holds the answer up, often for
    nothing, while ICE learns the browser's address from its first check anyway. For the same reason the offer's
    list never counts as complete.
    """
    description = _parsed(sdp)
    kinds = [media.kind for media in description.media]
    if "audio" not in kinds:
        raise BadOffer("no_audio", "The offer has no audio section: add an audio transceiver before creating it.")
    if "application" not in kinds:
        raise BadOffer("no_data_channel", "The offer has no data channel: create 'oai-events' before creating it.")
    _check_size(description, sdp)
    _check_bundle(description)
    for media in description.media:
        ice, dtls = media.ice, media.dtls
        if not (ice and ice.usernameFragment and ice.password and dtls and dtls.fingerprints):
            raise BadOffer("invalid_offer", "The offer lacks ICE credentials or a DTLS fingerprint.")
        if media.kind == "audio" and not any(codec.mimeType.lower() == "audio/opus" for codec in media.rtp.codecs):
            raise BadOffer("no_opus", "The offer's audio section does not list Opus, the codec spoken here.")
    if next(media for media in description.media if media.kind == "audio").direction in ("sendonly", "inactive"):
        raise BadOffer("no_audio", "The offer's first audio section does not receive: make it recvonly or sendrecv.")
    return "".join(line for line in sdp.splitlines(keepends=True) if not _unwanted(line))


def _check_size(description: SessionDescription, sdp: str) -> None:
    """Raise `BadOffer` where there is more than any browser offers: a section is a socket or more of ours, and a candidate
    an address that we send checks to."""
    for what, count, most in (
        ("sections", len(description.media), SECTIONS),
        ("candidates", sum(line.startswith("a=candidate:") for line in sdp.splitlines()), CANDIDATES),
    ):
        if count > most:
            raise BadOffer("offer_too_large", f"An offer may have {most} {what}; this one has {count}.")


def _check_bundle(description: SessionDescription) -> None:
    """Raise `BadOffer` where sections are to share the transport of one that is not there: aiortc takes such an offer, and can
    neither connect nor close then."""
    mids = [media.rtp.muxId for media in description.media]
    bundled = {mid for group in description.group if group.semantic == "BUNDLE" for mid in group.items}
    if not bundled <= set(mids) or len(set(mids)) < len(mids):
        raise BadOffer("invalid_offer", "The offer's BUNDLE group and the `a=mid` of its sections do not fit together.")


def _parsed(sdp: str) -> SessionDescription:
    if not sdp.startswith("v=0"):
        raise BadOffer("invalid_offer", "This is no SDP: it does not begin with 'v=0'.")
    try:
        return SessionDescription.parse(sdp)
    except Exception as error:  # aiortc's parser asserts, indexes and converts; any of it means the same to the sender
        raise BadOffer("invalid_offer", f"This SDP cannot be read ({type(error).__name__}: {error}).") from error


def _unwanted(line: str) -> bool:
    return line.startswith("a=end-of-candidates") or (line.startswith("a=candidate:") and ".local " in line)
