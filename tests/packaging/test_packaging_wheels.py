"""Every distribution builds, and stands alone with core in a fresh environment."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MEMBERS: list[str] = PROJECT["tool"]["uv"]["workspace"]["members"]
DETAILS = {member: tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"] for member in MEMBERS}
NAMES: dict[str, str] = {member: project["name"] for member, project in DETAILS.items()}

NAMESPACES = {"agentix", "agentix/plugins", "agentix/providers"} | {
    f"agentix/plugins/{kind}" for kind in ("agents", "datasets", "steps", "transports")
}

NEED_PYTEST = {"agentix.testing.contracts", "agentix.testing.pytest_plugin"}

IMPORT_ALL = """
import importlib, importlib.metadata as metadata, sys
for module in sys.argv[2:]:
    importlib.import_module(module)
for entry in metadata.distribution(sys.argv[1]).entry_points:
    if entry.group != "pytest11":
        entry.load()
"""


def run(*argv: str | Path, fails: bool = False) -> str:
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300)
    assert (done.returncode != 0) == fails, done.stdout
    return done.stdout


def needed(member: str) -> set[str]:
    """The member, core, and what else of this repository it names as needed."""
    found, waiting = {"core"}, [member]
    while waiting:
        found.add(each := waiting.pop())
        required = {requirement.partition("==")[0] for requirement in DETAILS[each]["dependencies"]}
        waiting += [other for other, name in NAMES.items() if name in required and other not in found]
    return found


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel of each workspace member."""
    out = tmp_path_factory.mktemp("wheels")
    paths = [str(ROOT / member) for member in MEMBERS]
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", out, *paths)
    built = {wheel.name.split("-")[0].replace("_", "-"): wheel for wheel in out.glob("*.whl")}
    assert len(built) == len(MEMBERS)
    return {member: built[name] for member, name in NAMES.items()}


@pytest.fixture
def environment(tmp_path: Path) -> Callable[..., Path]:
    """Makes an environment with nothing in it but what is given, and returns its `bin`."""

    def make(*requirements: str | Path) -> Path:
        run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
        python = tmp_path / "venv/bin/python"
        run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-compile", *requirements)
        return python.parent

    return make


@pytest.mark.parametrize("member", MEMBERS)
def test_a_wheel_has_no_file_in_the_namespace_itself(wheels: dict[str, Path], member: str) -> None:
    modules = [name for name in names(wheels[member]) if name.startswith("agentix/")]
    assert modules
    assert [name for name in modules if name.rpartition("/")[0] in NAMESPACES] == []


@pytest.mark.parametrize("member", MEMBERS)
def test_a_wheel_is_typed_and_licensed_and_holds_nothing_else(wheels: dict[str, Path], member: str) -> None:
    files = names(wheels[member])
    packages = {name.rpartition("/")[0] for name in files if name.endswith("/__init__.py")}
    tops = {name for name in packages if name.startswith("agentix/") and name.rpartition("/")[0] in NAMESPACES}
    assert tops
    assert [top for top in tops if f"{top}/py.typed" not in files] == []
    assert [name for name in files if name.endswith(".dist-info/licenses/LICENSE")]
    outside = {name.partition("/")[0] for name in files if ".dist-info/" not in name}
    assert outside <= {"agentix", "agentix_console"}
    assert [name for name in files if "/tests/" in name or name.endswith(".pyc")] == []


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.real
def test_a_distribution_works_alone_with_core(
    wheels: dict[str, Path], environment: Callable[..., Path], member: str
) -> None:
    wheel = wheels[member]
    bin_dir = environment(*(wheels[each] for each in needed(member)))
    files = [name for name in names(wheel) if name.endswith(".py") and not name.endswith("/__main__.py")]
    dotted = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files}
    distribution = wheel.name.split("-")[0]
    run(bin_dir / "python", "-I", "-W", "error", "-c", IMPORT_ALL, distribution, *sorted(dotted - NEED_PYTEST))


@pytest.mark.real
def test_console_scripts_start_and_say_when_a_stranger_shadows_the_namespace(
    wheels: dict[str, Path], environment: Callable[..., Path], tmp_path: Path
) -> None:
    bin_dir = environment(wheels["core"], wheels["cli"])
    for script in ("agentix", "agentix-run"):
        assert "--help" in run(bin_dir / script, "--help")
        assert PROJECT["project"]["version"] in run(bin_dir / script, "--version")
    stranger = tmp_path / "stranger/agentix/__init__.py"
    stranger.parent.mkdir(parents=True)
    stranger.write_text("")
    for script in ("agentix", "agentix-run"):
        said = run("env", f"PYTHONPATH={stranger.parents[1]}", bin_dir / script, "--version", fails=True)
        assert str(stranger) in said
        assert "Traceback" not in said


@pytest.mark.real
def test_the_root_installs_everything_with_plain_pip(environment: Callable[..., Path]) -> None:
    bin_dir = environment(ROOT)
    code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions() if 'agentix' in d.name))"
    installed = run(bin_dir / "python", "-I", "-c", code).split()
    every = ["agentix-rollouts", *NAMES.values()]
    assert installed == sorted(every)
    listing = run(bin_dir / "agentix", "plugins", "list")
    for name in ("harbor", "oracle", "nop", "command", "python", "local", "inline"):
        assert name in listing
