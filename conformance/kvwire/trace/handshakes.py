"""What a handshake that failed says of who is there."""

from __future__ import annotations

FAILED = "HANDSHAKE_FAILED"
AUTH = "HANDSHAKE_FAILED_AUTH"


def refusal(event: str, *, curve: bool) -> str:
    """What libzmq's event means for people; ``curve``: we brought keys. Empty for another event."""
    if not event.startswith(FAILED):
        return ""
    if event == AUTH:
        return "the handshake failed: a publisher is there and does not allow this client" + (
            "; is our public key on its list?" if curve else "; it wants CURVE keys: --curve-keys, --curve-server"
        )
    if curve:
        return "the handshake failed: somebody is there; is this the publisher's server key, and does it serve CURVE?"
    return "the handshake failed: somebody is there; does it want CURVE keys (--curve-keys, --curve-server)?"
