"""Every snippet of every page runs, and every link leads somewhere."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest

from agentix.providers.docker import DockerProvider

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs").glob("*/*.md")]
)
READMES = sorted(path for path in ROOT.glob("[a-z]*/**/README.md") if path not in PAGES)
LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\(([^)\s]+)\)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.real
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_snippets_of_a_page_run(
    page: Path, snippets: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "$ agentix doctor" in page.read_text() and (missing := anyio.run(DockerProvider().check)):
        pytest.skip(f"`agentix doctor` is content only where there is an engine: {missing[0]}")
    shutil.copytree(ROOT / "docs/examples", tmp_path / "docs/examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # A user's terminal is wide, has no colours here, and has the commands on its path.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONPATH": ""}
    before = set(sys.modules)
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        for block in snippets.blocks(page):
            snippets.run(block, cwd=tmp_path, names=names, env=env)
    finally:
        for module in set(sys.modules) - before:
            if str(getattr(sys.modules[module], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[module]


@pytest.mark.parametrize("page", [*PAGES, *READMES], ids=name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{name(page)} links to {target}"
        if anchor:
            assert anchor in anchors(path), f"{name(page)} links to {target}"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, todo = set[Path](), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        seen.add(page)
        targets = [(page.parent / target.partition("#")[0]).resolve() for target in LINK.findall(page.read_text())]
        todo += [target for target in targets if target.suffix == ".md" and target.is_file() and target not in seen]
    assert [name(page) for page in PAGES if page not in seen] == []


def test_the_table_of_rooms_names_every_distribution() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text()
    braces = re.findall(r"`([^`{}]*)\{([^`}]*)\}/?`", table)
    table += "".join(f"`{before}{name}/`" for before, names in braces for name in names.split(","))
    distributions = re.findall(r"^-e (?:\./)?(\S+)$", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)
    assert len(distributions) > 5
    assert [place for place in distributions if not re.search(rf"`{re.escape(place)}/", table)] == []
