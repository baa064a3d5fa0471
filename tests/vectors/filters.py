"""Implementations for ``kvwire vectors verify``, good and bad: ``python filters.py NAME``.

They stand alone, as a stranger's would; what they compute is ``v1_block_key`` over plain text.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

M = 2**64 - 1


def v1(given: dict[str, Any], *, wrap: bool = True) -> int:
    """``v1_block_key`` of the last block."""
    parent, size = int(given.get("parent", 0)), given["block_size"]
    for at in range(0, len(given["tokens"]), size):
        block = given["tokens"][at : at + size]
        seed = len(block) ^ (parent * 0xBF58476D1CE4E5B9 & M)
        for token in block:
            v = ((token >> 16) ^ token) * 0x45D9F3B & 0xFFFFFFFF
            v = ((v >> 16) ^ v) * 0x45D9F3B & 0xFFFFFFFF
            v = ((v >> 16) ^ v) + 0x9E3779B9
            seed ^= (v & 0xFFFFFFFF if wrap else v) + (seed << 6) + (seed >> 2) & M
        parent = seed
    return parent


def answer(question: dict[str, Any], *, wrap: bool = True) -> dict[str, Any]:
    """The answer to a question: only chains of text without a scope are taken."""
    given = question["input"]
    plain = question.get("algorithm") == "v1_block_key" and set(given) <= {"tokens", "block_size", "parent"}
    if not plain or any(isinstance(token, str) for token in given["tokens"]):
        return {"id": question["id"], "unsupported": True}
    return {"id": question["id"], "unsigned": str(v1(given, wrap=wrap))}


def main(name: str) -> None:
    """Filter standard input as NAME says."""
    questions = [json.loads(line) for line in sys.stdin]
    answers = [answer(question, wrap=name != "no-wrap") for question in questions]
    if name == "reversed":
        answers.reverse()
    for number, (question, found) in enumerate(zip(questions, answers, strict=True)):
        if name == "float" and "unsigned" in found:
            found["unsigned"] = float(found["unsigned"])
        if name == "refuses":
            found = {"id": question["id"], "refused": "no"}
        if name == "accepts":
            found = {"id": question["id"], "unsigned": "5", "projection": None}
        if number == 3:
            if name == "dies":
                sys.stdout.flush()
                os._exit(7)
            if name == "killed":
                sys.stdout.flush()
                os.kill(os.getpid(), 9)
            if name == "garbage":
                print("loading weights …")
                print('["a list"]')
            if name == "unknown":
                print('{"id": "v1-of-mine"}')
            if name == "twice":
                print(json.dumps(answers[0]))
            if name == "silent":
                sys.stdout.flush()
                time.sleep(600)
        print(json.dumps(found))
    if name == "exits":
        sys.stdout.flush()
        os._exit(3)


if __name__ == "__main__":
    main(sys.argv[1])
