"""The pages of the site: what the checkout has in Markdown, each sentence with what hangs from it, and two indexes.

They lie as the files of the checkout do, so that links between them hold; what else they link to lies beside them.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from kvwire.peers.mutants import MUTANTS
from kvwire.report.visible import visible
from kvwire.standard import registry
from kvwire.standard.registry import AREAS
from kvwire_generators.site import facts
from kvwire_generators.site.facts import About

PAGES = "pages"
SOURCES = ("README.md", "ARCHITECTURE.md", "docs/*.md", "spec/*.md", "spec/examples/README.md", "vectors/*.md",
           "implementations/README.md", "implementations/*/README.md")  # fmt: skip
"""What becomes a page, by pattern."""
SENTENCES, REPORTS, STYLE, CONFIGURATION = "sentences.md", "reports.md", "site.css", "mkdocs.yml"
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]+)?\)")
_DEFINED = re.compile(r"\[(KVW-[A-Z]{3}-\d{3})\](?!\()")
_NAMED = re.compile(r"(?<![\w\[/#-])KVW-[A-Z]{3}-\d{3}(?![\w\]])")
_VERBATIM = re.compile(r"(^```.*?^```[^\S\n]*$|`[^`\n]*`|\[[^\]]*\]\([^)]*\)|<[^>\n]+>)", re.DOTALL | re.MULTILINE)


def site(home: Path) -> dict[str, bytes]:
    """Every file of the site's source, by path: ``mkdocs.yml``, and the pages."""
    about = facts.everything()
    environment = _environment()
    sources = {str(path.relative_to(home)) for pattern in SOURCES for path in home.glob(pattern)}
    made: dict[str, bytes] = {}
    for name in sorted(sources):
        text = (home / name).read_text(encoding="utf-8")
        made |= _beside(home, name, text, sources)
        text = _without_folders(home, name, text)
        text = _linked(name, text, about)
        made[name] = (_annotated(environment, name, text, about) if name.startswith("spec/") else text).encode()
    made[SENTENCES] = _render(environment, f"{SENTENCES}.j2", known=about, edition=registry.load().edition,
                              areas=list(_areas(about)))  # fmt: skip
    made[REPORTS] = _render(environment, f"{REPORTS}.j2", reports=list(_reports(about)))
    made[STYLE] = (Path(__file__).parent / "templates" / STYLE).read_bytes()
    configuration = _render(environment, f"{CONFIGURATION}.j2", top=_top(), sections=list(_sections(home)))
    return {CONFIGURATION: configuration, **{f"{PAGES}/{name}": content for name, content in made.items()}}


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
    )
    environment.filters |= {"prose": prose, "html_page": html_page}
    return environment


def prose(text: str) -> Markup:
    """A line of prose as HTML: what stands between backticks is code, and nothing else is obeyed."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(visible(text)))))  # noqa: S704 - escaped before


def html_page(page: str) -> str:
    """Where a page lies in the site."""
    folder, name = posixpath.split(page)
    return posixpath.join(folder, "index.html" if name == "README.md" else f"{name.removesuffix('.md')}.html")


def _render(environment: Environment, template: str, **values: Any) -> bytes:
    return environment.get_template(template).render(**values).encode()


def _beside(home: Path, name: str, text: str, pages: set[str]) -> dict[str, bytes]:
    """The files that a page links to and that are no pages."""
    found = {}
    for _, _, link, _ in _LINK.findall(_prose_of(text)):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
        if target not in pages and (home / target).is_file():
            found[target] = (home / target).read_bytes()
    return found


def _prose_of(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def _without_folders(home: Path, name: str, text: str) -> str:
    """A link to a folder leads to the page in it; where there is none, it is no link."""

    def changed(match: re.Match[str]) -> str:
        target = home / posixpath.normpath(posixpath.join(posixpath.dirname(name), match[3]))
        if not target.is_dir():
            return match[0]
        page = "README.md"
        return f"[{match[2]}]({match[3].rstrip('/')}/{page})" if (target / page).is_file() else match[2]

    return _LINK.sub(changed, text)


def _annotated(environment: Environment, name: str, text: str, about: Mapping[str, About]) -> str:
    """A chapter: each sentence has its anchor, and below its paragraph or list what hangs from it."""
    chapter = posixpath.basename(name)
    template = environment.get_template("about.html.j2")
    blocks = []
    for block in _blocks(text):
        ids = [] if block.startswith((">", "```")) else [
            key for key in _DEFINED.findall(block) if key in about and about[key].chapter == chapter
        ]  # fmt: skip
        blocks.append(_DEFINED.sub(functools.partial(_anchor, ids), block))
        blocks += [_one_block(template.render(one=about[key], up="../")) for key in ids]
    return "\n\n".join(blocks) + "\n"


def _anchor(ids: Sequence[str], match: re.Match[str]) -> str:
    key = match[1]
    return f'<a class="kvw-id" id="{key}" href="#about-{key}">[{key}]</a>' if key in ids else f"[{key}]"


def _blocks(text: str) -> Iterator[str]:
    """What blank lines divide; a block of code is one."""
    held: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        if line.strip() or fenced:
            held.append(line)
        elif held:
            yield "\n".join(held)
            held = []
    if held:
        yield "\n".join(held)


def _one_block(html: str) -> str:
    """HTML without blank lines, which would end it as a block of Markdown."""
    return "\n".join(line for line in html.split("\n") if line.strip())


def _linked(name: str, text: str, about: Mapping[str, About]) -> str:
    """A page whose mentions of sentences lead to them."""

    def link(match: re.Match[str]) -> str:
        if match[0] not in about:
            return match[0]
        page = posixpath.relpath(f"spec/{about[match[0]].chapter}", posixpath.dirname(name) or ".")
        return f"[{match[0]}]({page}#{match[0]})"

    parts = _VERBATIM.split(text)
    return "".join(part if at % 2 else _NAMED.sub(link, part) for at, part in enumerate(parts))


def _areas(about: Mapping[str, About]) -> Iterator[tuple[str, str, list[About]]]:
    import table

    for area in AREAS:
        yield area, table.TITLES[area], [one for one in about.values() if one.requirement.area == area]


def _reports(about: Mapping[str, About]) -> Iterator[tuple[str, facts.Report, list[About], list[str]]]:
    for name, report in facts.reports().items():
        mutants = [mutant.name for mutant in MUTANTS.values() if name in mutant.reports]
        yield name, report, [about[key] for key in facts.shown_by(name, report)], mutants


def _top() -> list[tuple[str, str]]:
    return [("Home", "README.md"), ("All sentences", SENTENCES), ("Public reports", REPORTS)]


def _sections(home: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The sections of the navigation, in the order in which their index pages name what they have."""
    for title, folder in (("For users", "docs"), ("The standard", "spec")):
        index = (home / folder / "README.md").read_text(encoding="utf-8")
        table = "\n".join(line for line in index.splitlines() if line.startswith("|"))
        named = dict.fromkeys(re.findall(r"\]\(([\w-]+\.md)", table))
        rest = dict.fromkeys(sorted(path.name for path in (home / folder).glob("*.md") if path.name != "README.md"))
        yield title, [("Overview", f"{folder}/README.md"), *(("", f"{folder}/{page}") for page in {**named, **rest})]
    folders = sorted(path.parent.name for path in (home / "implementations").glob("*/README.md"))
    yield (
        "Real publishers",
        [
            ("How they are judged", "implementations/README.md"),
            *((name, f"implementations/{name}/README.md") for name in folders),
        ],
    )
    yield (
        "For developers",
        [
            ("Vectors", "vectors/README.md"),
            ("What they cover", "vectors/COVERAGE.md"),
            ("Examples for the schemas", "spec/examples/README.md"),
            ("Architecture", "ARCHITECTURE.md"),
        ],
    )
