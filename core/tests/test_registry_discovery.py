"""Distributions that are really on the path of another process: listed, chosen, refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentix.testing import write_distribution

AGENT = """
class Mine:
    async def solve(self, sandbox, instance, *, model):
        return None
"""
AGENTS = "agentix.agents"

Run = Callable[..., Any]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site"
    path.mkdir()
    return path


@pytest.fixture
def run(site: Path) -> Run:
    """Run a script with the site on its path; it prints one JSON value to stdout."""

    def run(script: str, *more_sites: Path) -> Any:
        path = os.pathsep.join(str(p) for p in (*more_sites, site))
        env = os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(site.parent / "cache")}
        preamble = (
            "import json, sys\n"
            "from agentix.errors import AgentixError\n"
            "from agentix.registry import *\n"
            "def attempt(*args, **kw):\n"
            "    try:\n"
            "        return type(load(*args, where='--agent', **kw)).__name__\n"
            "    except AgentixError as e:\n"
            "        return [type(e).__name__, str(e)]\n"
        )
        done = subprocess.run([sys.executable, "-c", preamble + script], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def write_agent(
    site: Path, *, name: str = "acme-agents", agent: str = "mine", source: str = AGENT, **more: Any
) -> Path:
    module = name.replace("-", "_")
    points = {AGENTS: {agent: f"{module}:Mine"}} | more.pop("entry_points", {})
    return write_distribution(site, name=name, modules={f"{module}.py": source}, entry_points=points, **more)


def test_a_stranger_is_found_like_our_own(site: Path, run: Run) -> None:
    write_agent(site)
    assert run("print(json.dumps(attempt('agent', 'mine')))") == "Mine"
    assert run("print(json.dumps(attempt('agent', 'agent:mine')))") == "Mine"
    assert run("print(json.dumps(attempt('agent', 'ACME_agents/mine')))") == "Mine"


def test_listing_imports_no_plugin_and_no_sdk(site: Path, run: Run) -> None:
    write_agent(site, source="raise SystemExit(3)")
    names, loaded = run(
        "names = [i.name for i in plugins('agent')]\n"
        "print(json.dumps([names, [m for m in ('acme_agents', 'pydantic', 'anyio', 'stevedore') if m in sys.modules]]))"
    )
    assert "mine" in names
    assert loaded == []


def test_what_was_installed_after_another_process_looked_is_found(site: Path, run: Run) -> None:
    write_agent(site)
    assert run("print(json.dumps(attempt('agent', 'mine')))") == "Mine"
    write_agent(site, name="acme-more", agent="newer")
    assert run("print(json.dumps(attempt('agent', 'newer')))") == "Mine"
    assert not (site.parent / "cache").exists(), "an entry point cache was written"


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import nosuchmod", "ModuleNotFoundError: No module named 'nosuchmod'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
        ("assert False, 'never'", "AssertionError: never"),
        ("def f(:", "SyntaxError"),
        ("Yours = 1", "has no attribute 'Mine'"),
    ],
)
def test_a_broken_plugin_is_named_with_its_cause_and_stops_nobody_else(
    site: Path, run: Run, source: str, cause: str
) -> None:
    write_agent(site, name="acme-broken", version="1.2", agent="bad", source=source)
    write_agent(site)
    bad, good, states = run(
        "print(json.dumps([attempt('agent', 'bad'), attempt('agent', 'mine'),\n"
        "    {i.name: [i.state, i.cause] for i in map(inspected, plugins('agent')) if i.name in ('bad', 'mine')}]))"
    )
    kind, message = bad
    assert kind == "PluginBroken"
    assert "bad is provided by acme-broken 1.2 (acme_broken:Mine) but failed to load" in message
    assert cause in message
    assert good == "Mine"
    assert states["mine"] == ["ok", None]
    assert states["bad"][0] == "broken"
    assert cause in states["bad"][1]


def test_what_a_plugin_prints_at_import_is_not_in_the_output(site: Path, run: Run) -> None:
    write_agent(site, source="print('hello')\n" + AGENT)
    assert run("print(json.dumps(attempt('agent', 'mine')))") == "Mine"


def test_two_plugins_of_one_name_are_an_error_that_names_both(site: Path, run: Run) -> None:
    write_agent(site, name="acme-one", version="1.1")
    write_agent(site, name="acme-two", version="2.2")
    either, one, states = run(
        "print(json.dumps([attempt('agent', 'mine'), attempt('agent', 'acme-one/mine'),\n"
        "    [i.state for i in plugins('agent') if i.name == 'mine']]))"
    )
    assert either[0] == "PluginAmbiguous"
    assert "acme-one 1.1" in either[1]
    assert "acme-two 2.2" in either[1]
    assert "acme-two/mine" in either[1]
    assert one == "Mine"
    assert states == ["ambiguous", "ambiguous"]


def test_a_stranger_does_not_shadow_a_name_of_ours(site: Path, run: Run) -> None:
    write_agent(site, name="acme-shadow", agent="oracle")
    kind, message = run("print(json.dumps(attempt('agent', 'oracle')))")
    assert kind == "PluginAmbiguous"
    assert "agentix-rollouts-baseline" in message
    assert "acme-shadow 1.0" in message


def test_two_copies_of_one_distribution_are_no_conflict(site: Path, run: Run, tmp_path: Path) -> None:
    write_agent(site, version="1.0")
    editable = tmp_path / "editable"
    write_agent(editable, name="Acme_Agents", version="1.1.dev0")
    found, versions = run(
        "print(json.dumps([attempt('agent', 'mine'), [i.version for i in plugins('agent') if i.name == 'mine']]))",
        editable,
    )
    assert found == "Mine"
    assert versions == ["1.1.dev0"], "the first on the path counts, as it does for imports"


@pytest.mark.parametrize(
    ("requirement", "refused"),
    [
        ("agentix-rollouts-core>=99", True),
        ("agentix_rollouts.Core == 0.0.1", True),
        ("agentix-rollouts-core>=99; extra == 'future'", False),
        ("agentix-rollouts-core>=99; python_version < '3'", False),
        ("agentix-rollouts-core>=0.0.1", False),
        ("agentix-rollouts-corelike>=99", False),
        ("something-else>=99", False),
    ],
)
def test_a_plugin_for_another_core_is_refused_before_it_is_imported(
    site: Path, run: Run, requirement: str, refused: bool
) -> None:
    write_agent(site, requires=[requirement])
    result, imported = run(
        "print(json.dumps([attempt('agent', 'mine'), 'acme_agents' in sys.modules]))",
    )
    assert imported is not refused
    if refused:
        assert result[0] == "PluginIncompatible"
        assert requirement in result[1]
        assert "acme-agents 1.0" in result[1]
    else:
        assert result == "Mine"


@pytest.mark.parametrize(("api", "refused"), [("0", True), ("2", True), ("1", False)])
def test_a_plugin_for_another_plugin_api_is_refused_before_it_is_imported(
    site: Path, run: Run, api: str, refused: bool
) -> None:
    write_agent(site, entry_points={"agentix.plugin_api": {api: "agentix.api"}})
    result, imported = run("print(json.dumps([attempt('agent', 'mine'), 'acme_agents' in sys.modules]))")
    assert (result[0] == "PluginIncompatible") is refused
    assert imported is not refused


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("agent", "orcale", "did you mean 'oracle'?"),
        ("provider", "k8s", "there is no provider k8s for this version of agentix yet"),
        ("agent", "harbor", "'harbor' is a dataset"),
        ("agent", "zzz", "installed: "),
        ("agent", "acme-nowhere/mine", "no distribution 'acme-nowhere' with the agent 'mine'"),
    ],
)
def test_an_unknown_name_says_what_was_meant(run: Run, kind: str, name: str, said: str) -> None:
    error, message = run(f"print(json.dumps(attempt({kind!r}, {name!r})))")
    assert error == "PluginNotFound"
    assert message.startswith("--agent: no ")
    assert said in message


@pytest.mark.parametrize(
    ("kind", "said"),
    [("dataset", "the dataset harbor, as its option path"), ("agent", "the agent command, as its option script")],
)
@pytest.mark.parametrize("before", ["", "./"])
def test_a_path_where_a_plugin_is_asked_for_says_who_takes_it(site: Path, run: Run, kind: str, said: str, before: str):
    (site / "some").mkdir()
    (site / "some/thing.sh").touch()
    name = f"{before}some/thing.sh"
    _, message = run(f"import os; os.chdir({str(site)!r}); print(json.dumps(attempt({kind!r}, {name!r})))")
    assert said in message


def test_an_absent_plugin_of_ours_says_what_to_install() -> None:
    script = (
        "from agentix.registry.snapshot import Snapshot\n"
        "import agentix.registry.resolving as r\n"
        "r.snapshot = lambda: Snapshot(())\n"
        "from agentix.registry import load\n"
        "try: load('dataset', 'harbro', where='--dataset')\n"
        "except Exception as e: print(e)\n"
        "try: load('dataset', 'harbor', where='--dataset')\n"
        "except Exception as e: print(e)\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "did you mean 'harbor'? (pip install agentix-rollouts-harbor)" in out
    assert "\n  pip install agentix-rollouts-harbor; installed: none" in out


@pytest.mark.parametrize(
    ("file", "content"), [("entry_points.txt", b"[agentix.agents]\nno equals sign here\n"), ("METADATA", b"\xff\xfe")]
)
def test_damaged_metadata_hides_nobody_else(site: Path, run: Run, file: str, content: bytes) -> None:
    info = write_agent(site, name="acme-damaged", agent="damaged")
    (info / file).write_bytes(content)
    write_agent(site)
    good, problems = run("print(json.dumps([attempt('agent', 'mine'), snapshot().problems]))")
    assert good == "Mine"
    assert len(problems) == 1
    assert "acme" in problems[0] and "damaged" in problems[0]


PROVIDER = '''
from pydantic import BaseModel, Field
from agentix.api import Capability, HostProcessProvider

class Config(BaseModel):
    size: int = 3
    """How big."""
    colour: str = Field(default="red", description="Which colour.")
    """Not this."""

class Mine(HostProcessProvider):
    """A place.

    Nothing is isolated.
    """

    Config = Config

    def __init__(self, config):
        super().__init__()
        self.capabilities = frozenset({Capability.USERS})
'''


def test_a_provider_is_described_with_what_it_can_do_here_and_its_options(site: Path, run: Run) -> None:
    write_distribution(
        site,
        name="acme-place",
        modules={"acme_place.py": PROVIDER},
        entry_points={"agentix.providers": {"place": "acme_place:Mine"}},
    )
    doc, capabilities, schema = run(
        "i = describe('provider', 'place'); print(json.dumps([i.doc, i.capabilities, i.schema]))"
    )
    assert doc == "A place.\n\nNothing is isolated."
    assert capabilities == ["users"]
    assert {k: v["description"] for k, v in schema["properties"].items()} == {
        "size": "How big.",
        "colour": "Which colour.",
    }
