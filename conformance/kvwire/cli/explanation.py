"""``kvwire explain``: one sentence and everything that hangs from it."""

from __future__ import annotations

import inspect
import textwrap

from kvwire.attack.probes.catalog import PROBES
from kvwire.judges import JUDGES
from kvwire.peers import mutants
from kvwire.standard import registry

NEEDS = {
    "passive": "a subscription",
    "replayable": "a replay socket",
    "os": "a look at the operating system",
}


def explanation(text: str) -> str:
    """The text for one id, as a user writes it.

    Raises:
        UnknownNameError: when the registry does not have it.
    """
    known = registry.load()
    requirement = known[known.resolve(text)]
    needs = ", ".join(NEEDS.get(need, f"the adapter verb `{need}`") for need in requirement.needs)
    profiles = [name for name in registry.profiles() if requirement.id in registry.profile(name).ids]
    lines = [
        f"{requirement.id}  {requirement.level}, binds a {requirement.binds}, since edition {requirement.since}",
        "",
        *textwrap.wrap(requirement.sentence + ".", 96, initial_indent="  ", subsequent_indent="  "),
        "",
        f"stands in    spec/{requirement.section}",
        f"needs        {needs}",
        f"decided by   {requirement.decided_by}",
        f"profiles     {', '.join(profiles) or 'none'}",
    ]
    if requirement.id in JUDGES:
        lines.append(f"judged by    kvwire.judges.{JUDGES[requirement.id].place}, memory {requirement.memory}")
        lines += _reasoning(requirement.id)
        serving = [probe.name for probe in PROBES if probe.aims_at([requirement.id])]
        lines.append(f"probes       {', '.join(serving)}")
    else:
        reason = requirement.pending or requirement.review or requirement.untestable
        lines.append(f"not judged   {requirement.status}: {reason}")
    for mutant in mutants.killed_by(requirement.id):
        lines.append(f"mutant       {mutant.name}: {mutant.change}")
    return "\n".join(lines)


def _reasoning(requirement_id: str) -> list[str]:
    """What the judge's docstring says beside the sentence that it quotes."""
    doc = inspect.cleandoc(JUDGES[requirement_id].__doc__ or "")
    paragraphs = [p for p in doc.split("\n\n") if not p.startswith("KVW-")]
    text = " ".join(" ".join(paragraphs).split())
    return textwrap.wrap(text, 96, initial_indent="             ", subsequent_indent="             ")
