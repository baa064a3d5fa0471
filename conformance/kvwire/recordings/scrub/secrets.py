"""Keyed bijections: what stands for a secret value in a recording that leaves the house.

Equal values stay equal and different ones different, and nobody without the key can say which is which. (Who knows
enough plain text can still compare how often values occur.)
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Callable, Iterable

from kvwire.wire.endpoint_rules import WILDCARDS, is_loopback
from kvwire.wire.events import DIGEST, TWO_64

ROUNDS = 8
SHORT, SHORT_TEXT, TEXT = 6, 5, 16
"""A text of fewer bytes than this becomes one of five characters, any other one of sixteen."""
CONVENTIONAL = frozenset({"", "kv-events"})
"""Topics that say nothing of anybody."""
DIRECTORIES = frozenset({"", "tmp", "run", "var", "dev", "shm", "home", "user"})
_SAID = re.compile(
    r"(?P<endpoint>[a-z][a-z0-9]*://[^\s'\"`,;]*|[\w.\-]+:\d+|\[[0-9a-fA-F:]+\]:\d+)"
    r"|(?P<kept>''|\"\"|``|\bempty\b|\btcp\b|\bipc\b|\binproc\b)"
)
"""What is left of free words: endpoints, and what judges look for."""
_TAG = re.compile(r"[0-9a-f]{16}\Z")
_BEGINNINGS = ("adapter:", "no answer")
_WHOLE = frozenset({"", "interrupted"})


class Secrets:
    """All bijections of one key.

    ``salts`` are texts that must be found wherever they stand inside others. Token ids of ``kept`` stay as they are:
    the synthetic ones behind a multimodal digest, which count up and say nothing of a prompt.
    """

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.sha256(b"kvwire-scrub-1\0" + key).digest()
        self._tokens: dict[int, int] = {}
        self._texts: dict[str, str] = {}
        self.salts: tuple[str, ...] = ()
        self.kept = range(0)
        self.tags: dict[str, str] = {}
        """Scope tags that are computed from salts, and what they become."""

    def _mac(self, purpose: str, data: bytes, length: int = 32) -> bytes:
        out = b""
        block = 0
        while len(out) < length:
            out += hmac.digest(self._key, f"{purpose}/{block}\0".encode() + data, "sha256")
            block += 1
        return out[:length]

    def _feistel(self, purpose: str, value: int, half: int) -> int:
        """A permutation of integers of twice ``half`` bits."""
        mask = (1 << half) - 1
        left, right = value >> half, value & mask
        for turn in range(ROUNDS):
            raw = hashlib.blake2b(right.to_bytes(8, "big"), key=self._key, person=f"{purpose}{turn}".encode())
            left, right = right, left ^ int.from_bytes(raw.digest()[:8], "big") & mask
        return left << half | right

    def _within(self, purpose: str, value: int, half: int, allowed: Callable[[int], bool]) -> int:
        """The same, walked on until the result is allowed: a permutation of what is."""
        value = self._feistel(purpose, value, half)
        while not allowed(value):
            value = self._feistel(purpose, value, half)
        return value

    def token(self, value: int) -> int:
        """A token id: one of 31 bits becomes another, one of 32 bits, of 64, or a negative one another of its sort."""
        found = self._tokens.get(value)
        if found is None:
            found = self._tokens[value] = self._token(value)
        return found

    def _token(self, value: int) -> int:
        if value in self.kept:
            return value
        if value < 0:
            return -1 - self._within("neg", -1 - value, 32, lambda found: found < 1 << 63)
        if value < 1 << 31:
            return self._within("tok", value, 16, lambda found: found < 1 << 31 and found not in self.kept)
        if value < 1 << 32:
            return self._within("top", value, 16, lambda found: found >= 1 << 31 and found not in self.kept)
        return self._within("big", value, 32, lambda found: found >= 1 << 32)

    def hash(self, value: int) -> int:
        """A hash of 64 bits that nobody can compute again; 0 stays 0."""
        return self._within("hash", value, 32, bool) if value else 0

    def digest(self, value: bytes) -> bytes:
        """A digest of multimodal content."""
        return self._mac("digest", value)

    def blob(self, value: bytes) -> bytes:
        """Any other bytes, as many."""
        return self._mac("blob", value, len(value))

    def text(self, text: str) -> str:
        """A salt, the name of an adapter, a session …; what holds a salt of ours still holds what it became."""
        if not text:
            return text
        found = self._texts.get(text)
        if found is None:
            inside = next((salt for salt in self.salts if salt != text and salt in text), None)
            if inside is not None:
                found = self.text(inside).join(self.text(part) for part in text.split(inside))
            else:
                found = self._alone(text)
            self._texts[text] = found
        return found

    def _alone(self, text: str) -> str:
        if DIGEST.match(text):
            digest = self.digest(bytes.fromhex(text)).hex()
            return digest.upper() if text.isupper() else digest
        mac = self._mac("text", text.encode(errors="surrogatepass"))
        if len(text.encode(errors="replace")) < SHORT:  # of more characters, so that no two of many become one
            return base64.urlsafe_b64encode(mac)[:SHORT_TEXT].decode()
        return mac.hex()[:TEXT]

    def tag(self, text: str) -> str:
        """A scope tag; what is none stays none."""
        if _TAG.match(text.lower()):
            found = self.tags.get(text.lower()) or self._mac("tag", text.lower().encode()).hex()[:16]
            return found if text.islower() or text.isdecimal() else found[:15].upper() + "F"
        return f"no-{self.text(text)}" if text else text

    def topic(self, frame: bytes) -> bytes:
        """A topic frame; one that is no UTF-8 becomes another that is none."""
        try:
            text = frame.decode()
        except UnicodeDecodeError:
            return b"\xff" + self.blob(frame)[1:]
        return frame if text in CONVENTIONAL else self.text(text).encode()

    # places

    def host(self, host: str) -> str:
        """A host of an endpoint; loopback and wildcards say nothing of anybody and stay."""
        bare = host.strip("[]")
        if not bare or host in WILDCARDS or f"[{host}]" in WILDCARDS or is_loopback(host):
            return host
        raw = self._mac("host", bare.encode(errors="surrogatepass"))
        try:
            version = ipaddress.ip_address(bare).version
        except ValueError:
            return f"{'[' if host.startswith('[') else ''}host-{raw.hex()[:8]}{']' if host.endswith(']') else ''}"
        if version == 4:
            return f"10.{raw[0]}.{raw[1]}.{raw[2]}"
        return host.replace(bare, str(ipaddress.IPv6Address(b"\xfd" + raw[:15])))

    def endpoint(self, text: str) -> str:
        """An endpoint: hosts, and the names of folders, with as many bytes; ports, schemes and names of files stay."""
        scheme, separator, rest = text.partition("://")
        if not separator:
            scheme, rest = "", text
        if scheme in ("ipc", "inproc"):
            *folders, name = rest.split("/")
            return f"{scheme}://{'/'.join([*map(self._folder, folders), name])}"
        bracketed = re.match(r"(\[[^\]]*\]?)(.*)", rest, re.DOTALL)
        host, port = bracketed.groups() if bracketed else rest.partition(":")[::2]
        colon = "" if bracketed or ":" not in rest else ":"
        return f"{scheme}{separator}{self.host(host)}{colon}{port}"

    def _folder(self, name: str) -> str:
        return name if name in DIRECTORIES else self._mac("folder", name.encode()).hex()[: len(name.encode())]

    def target(self, text: str) -> str:
        """What a user wrote for a target, so that it is still of its kind."""
        kind, colon, rest = text.partition(":")
        if kind in ("reference", "mutant") or not text:
            return text
        if kind == "zmq":
            place, question, _ = rest.partition("?")
            return f"zmq:{self.endpoint(place)}{question + '…' if question else ''}"
        return f"{kind}:…" if colon else "…"

    def words(self, text: str) -> str:
        """What somebody said in free words: the endpoints in it, and the few words that judges look for."""
        if text in _WHOLE:
            return text
        found = [match[0] if match.lastgroup == "kept" else self.endpoint(match[0]) for match in _SAID.finditer(text)]
        beginning = next((words for words in _BEGINNINGS if text.startswith(words)), "")
        return " … ".join([beginning, *found, ""]).strip()


def scope_tag(salt: str) -> str:
    """The scope tag of a salt, without a deployment key."""
    return hashlib.sha256(b"kvwire-scope-1\0" + salt.encode()).hexdigest()[:16]


def longest_first(texts: Iterable[str]) -> tuple[str, ...]:
    """Texts that are looked for inside others, those that hold others first."""
    return tuple(sorted(set(texts), key=lambda text: (-len(text), text)))


def signed(value: int, like: int) -> int:
    """A hash in the form of another: unsigned where that is above 2^63, else signed."""
    return value if like >= TWO_64 >> 1 or value < TWO_64 >> 1 else value - TWO_64
