"""Cases with digest tokens, which v2 hashes raw, and behind which v1 takes its hashes from v2 keys."""

from __future__ import annotations

from kvwire.vectors.model import TokenItem
from kvwire_generators.hash.cases import SCOPE, Case, case, digest, ids, item
from kvwire_generators.hash.mistakes import SEAM

ZEROS, ONES = "00" * 32, "ff" * 32
PLAIN = "ab" * 32


def seam_cases(width: int) -> list[Case]:
    """A digest where 4 KiB of text tokens of this width become full."""
    seam = SEAM // width
    places = (("before", seam - 2), ("at", seam - 1), ("behind", seam))
    cases = []
    for name, place in places:
        tokens: tuple[TokenItem, ...] = (*ids(f"seam {name}", place), digest(name), *ids(f"rest {name}", 9)[:1])
        count = place + 1 + 9
        cases.append(
            case(
                f"digest-{name}-seam",
                f"a digest at index {place} of {count} tokens",
                f"digest-{name}-seam",
                tokens,
                count,
            )
        )
    return cases


def digest_cases() -> list[Case]:
    """Digests at every place of a block and of a chain."""
    five = ids("digest", 5)
    d = digest("picture")
    picture = item("picture of ten", 10)
    return [
        case("digest-start", "first token", "digest-start", (d, *five[:3]), 4),
        case("digest-middle", "in the middle", "digest-middle", (*five[:2], d, five[2]), 4),
        case("digest-end", "last token", "digest-end", (*five[:3], d), 4),
        case("digest-only", "the only token of its block", "digest-only size-1", (d,), 1),
        case("digest-two", "two digests, text between", "digest-two", (d, five[0], digest("other"), five[1]), 4),
        case(
            "digest-adjacent", "two digests side by side", "digest-adjacent", (five[0], d, digest("other"), five[1]), 4
        ),
        case("digest-all", "four digests", "digest-all", tuple(digest(str(n)) for n in range(4)), 4),
        case("digest-zeros", "32 zero bytes", "digest-zeros", (1, ZEROS, 2, 3), 4),
        case("digest-ones", "32 bytes ff", "digest-ones", (1, ONES, 2, 3), 4),
        case(
            "digest-synthetic",
            "a digest and two synthetic ids",
            "digest-middle digest-item",
            (1, PLAIN, 32001, 32002),
            4,
        ),
        case(
            "digest-later",
            "a text block, then one with a digest",
            "digest-later chain-2",
            (*ids("later", 5), d, 7, 8),
            4,
        ),
        case(
            "digest-later-3",
            "two text blocks, then one with a digest",
            "digest-later chain-3",
            (*ids("later-3", 8), d, 7, 8, 9),
            4,
        ),
        case("digest-child", "text behind a digest", "digest-child chain-2", (d, 2, 3, 4, *ids("child", 4)), 4),
        case(
            "digest-child-known",
            "text behind the digest of `digest-synthetic`",
            "digest-child chain-2",
            (1, PLAIN, 32001, 32002, 5, 6, 7, 8),
            4,
        ),
        case(
            "digest-grandchild",
            "text two blocks behind a digest",
            "digest-grandchild chain-3",
            (d, 2, 3, 4, *ids("grandchild", 8)),
            4,
        ),
        case(
            "digest-grandchild-4",
            "text, digest, text, text",
            "digest-grandchild digest-later",
            (9, 8, 7, 6, 5, d, 3, 2, *ids("four", 8)),
            4,
        ),
        case(
            "digest-item",
            "an item of ten tokens over four blocks",
            "digest-item digest-end",
            (*ids("before", 3), *picture, 5, 6, 7),
            4,
        ),
        case(
            "digest-items",
            "two items over three blocks",
            "digest-item digest-two",
            (*item("one", 5), 6, *item("two", 6)),
            4,
        ),
        case("digest-partial", "a digest in a partial block", "digest-partial partial-first", (1, d, 3), 8),
        case(
            "digest-partial-later",
            "a full block, then a digest in a partial one",
            "digest-partial partial-later",
            (*ids("full", 4), 1, d),
            4,
        ),
        case("digest-lora", "with a LoRA id", "digest-scope lora-small", (1, d, 3, 4), 4, lora_id="7"),
        case("digest-salt", "with a salt id", "digest-scope salt-small", (1, d, 3, 4), 4, salt_id="123"),
        case("digest-both", "with LoRA and salt", "digest-scope both-small", (1, d, 3, 4), 4, **SCOPE),
        case(
            "digest-both-child",
            "with LoRA and salt, text behind",
            "digest-scope digest-child both-child",
            (1, d, 3, 4, *ids("scope child", 4)),
            4,
            **SCOPE,
        ),
        case(
            "digest-size-32",
            "a digest in a block of 32",
            "digest-middle size-32",
            (*ids("half", 16), d, *ids("other half", 15)),
            32,
        ),
    ]
