"""Lock files: what they fix is what is built, and a stale one is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from agentix.bundle import build_bundle
from agentix.bundle.locked import Dependencies, find_dependencies
from agentix.bundle.project import read_project
from agentix.errors import BundleError


def sha256(path: Path) -> str:
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


def packages(project: Path) -> dict[str, str]:
    return build_bundle(project, name="eval").description.packages


def uv_lock(workshop: Any, *entries: str) -> str:
    kit = '[[package]]\nname = "kit"\nversion = "0.1.0"\nsource = { editable = "." }\n'
    kit += 'dependencies = [{ name = "lower" }]\n'
    return "\n".join(["version = 1", 'requires-python = ">=3.11"', kit, *entries])


def registry(name: str, wheel: Path, version: str = "1.0", more: str = "") -> str:
    return (
        f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {{ registry = "https://pypi.org/simple" }}\n'
        f'wheels = [{{ url = "https://example.org/{wheel.name}", hash = "{sha256(wheel)}", size = 1 }}]\n{more}'
    )


def test_uv_lock_fixes_versions(workshop: Any) -> None:
    wheel = workshop.wheel("lower", "1.0")
    workshop.wheel("lower", "2.0")
    project = workshop.project(dependencies=["lower"])
    (project / "uv.lock").write_text(uv_lock(workshop, registry("lower", wheel)))
    assert packages(project) == {"kit": "0.1.0", "lower": "1.0"}


def test_a_file_that_is_not_the_locked_one_is_refused(workshop: Any) -> None:
    locked = uv_lock(workshop, registry("lower", workshop.wheel("lower")))
    project = workshop.project(dependencies=["lower"])
    (project / "uv.lock").write_text(locked)
    workshop.wheel("lower", text="# another content")
    with pytest.raises(BundleError, match=r"(?i)fetching the dependencies failed:(.|\n)*hash"):
        packages(project)


def test_uv_lock_is_followed_through_markers_extras_and_forks(workshop: Any) -> None:
    text = """
version = 1
[[package]]
name = "kit"
version = "0.1.0"
source = { editable = "." }
dependencies = [
    { name = "always", extra = ["fast"] },
    { name = "windows", marker = "sys_platform == 'win32'" },
    { name = "forked", version = "2", marker = "python_version >= '3'" },
    { name = "member" },
]
[package.optional-dependencies]
more = [{ name = "optional" }]
[[package]]
name = "always"
version = "1"
source = { registry = "https://mirror.example.org/simple" }
sdist = { url = "u", hash = "sha256:aa" }
wheels = [{ url = "u", hash = "sha256:bb" }]
dependencies = [{ name = "kit" }]
[package.optional-dependencies]
fast = [{ name = "speedup" }]
[[package]]
name = "windows"
version = "1"
source = { registry = "https://pypi.org/simple" }
[[package]]
name = "forked"
version = "1"
source = { registry = "https://pypi.org/simple" }
[[package]]
name = "forked"
version = "2"
source = { registry = "https://pypi.org/simple" }
[[package]]
name = "speedup"
version = "1"
source = { git = "https://example.org/speedup?subdirectory=py&rev=main#0123abcd" }
[[package]]
name = "optional"
version = "1"
source = { url = "https://example.org/optional-1.tar.gz" }
sdist = { hash = "sha256:cc" }
[[package]]
name = "member"
version = "1"
source = { editable = "../member" }
"""
    project = workshop.project(extra='[tool.agentix.bundle]\nextras = ["more"]\n')
    (project / "uv.lock").write_text(text)
    found = find_dependencies(read_project(project), ())
    index = "--extra-index-url https://mirror.example.org/simple"
    assert found == Dependencies(
        source="uv.lock",
        batches=(
            (
                index,
                "always==1 --hash=sha256:aa --hash=sha256:bb",
                "optional @ https://example.org/optional-1.tar.gz --hash=sha256:cc",
            ),
            (index, "forked==2", "speedup @ git+https://example.org/speedup@0123abcd#subdirectory=py"),
        ),
        local=(project.parent / "member",),
    )


def test_the_lock_of_a_workspace_counts_for_its_members(workshop: Any) -> None:
    wheel = workshop.wheel("lower", "1.0")
    workshop.wheel("lower", "2.0")
    project = workshop.project(folder="space/members/kit", dependencies=["lower"])
    text = uv_lock(workshop, registry("lower", wheel)).replace('editable = "."', 'editable = "members/kit"')
    (workshop.path / "space/uv.lock").write_text(text)
    assert packages(project)["lower"] == "1.0"
    stranger = workshop.project("other", folder="space/other", dependencies=["lower"])
    assert packages(stranger)["lower"] == "2.0"


def test_pylock_fixes_versions_and_follows_markers(workshop: Any) -> None:
    wheel = workshop.wheel("lower", "1.0")
    workshop.wheel("lower", "2.0")
    project = workshop.project(dependencies=["lower"])
    (project / "pylock.toml").write_text(
        'lock-version = "1.0"\ncreated-by = "test"\n'
        f'[[packages]]\nname = "lower"\nversion = "1.0"\nwheels = [{{ path = "../links/{wheel.name}", '
        f'hashes = {{ sha256 = "{sha256(wheel).removeprefix("sha256:")}" }} }}]\n'
        '[[packages]]\nname = "windows"\nversion = "1.0"\nmarker = "sys_platform == \'win32\'"\n'
        'wheels = [{ url = "u" }]\n'
        '[[packages]]\nname = "kit"\ndirectory = { path = ".", editable = true }\n'
    )
    assert packages(project) == {"kit": "0.1.0", "lower": "1.0"}


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("lower==1.0\n", "requirements.txt"),
        ("# from a tool\n--no-index\nlower==1.0 \\\n    --hash={hash}  # via kit\n", "requirements.txt"),
        ("lower>=1.0\n", "the project's metadata"),
        ("-r other.txt\nlower==1.0\n", "the project's metadata"),
        ("", "the project's metadata"),
    ],
)
def test_requirements_count_as_a_lock_where_all_is_pinned(workshop: Any, text: str, source: str) -> None:
    wheel = workshop.wheel("lower", "1.0")
    workshop.wheel("lower", "2.0")
    project = workshop.project(dependencies=["lower"])
    (project / "requirements.txt").write_text(text.replace("{hash}", sha256(wheel)))
    steps: list[str] = []
    bundle = build_bundle(project, name="eval", on_step=steps.append)
    assert f"dependencies from {source}" in steps
    assert bundle.description.packages["lower"] == ("1.0" if source == "requirements.txt" else "2.0")


def test_a_lock_that_is_older_than_the_project_is_refused(workshop: Any) -> None:
    wheel = workshop.wheel("lower")
    project = workshop.project(dependencies=["lower>=2"])
    (project / "uv.lock").write_text(uv_lock(workshop, registry("lower", wheel)))
    with pytest.raises(BundleError, match=r"kit needs lower>=2, but uv\.lock has 1\.0\n  lock again"):
        packages(project)
    (project / "pyproject.toml").write_text((project / "pyproject.toml").read_text().replace("lower>=2", "newer"))
    with pytest.raises(BundleError, match=r"kit needs newer, but uv\.lock does not have it"):
        packages(project)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("uv.lock", "version = 1\n", r"uv\.lock does not know the project"),
        ("uv.lock", "version = 9\n", r"uv\.lock: its version 9"),
        ("uv.lock", "[", r"uv\.lock cannot be read"),
        ("pylock.toml", "[", r"pylock\.toml cannot be read"),
        ("pylock.toml", '[[packages]]\nname = "x"\n', r"pylock\.toml cannot be read: .*x has no files"),
        ("requirements.txt", "a[=1]==2", r"requirements\.txt: "),
    ],
)
def test_a_lock_that_cannot_be_read_is_told(workshop: Any, name: str, text: str, said: str) -> None:
    project = workshop.project(dependencies=["lower"])
    (project / name).write_text(text)
    with pytest.raises(BundleError, match=said):
        packages(project)


def test_without_a_lock_the_metadata_is_asked(workshop: Any) -> None:
    found = find_dependencies(
        read_project(workshop.project()), [Requirement("b>1"), Requirement("a[x] ; python_version>'3'")]
    )
    assert (found.batches, found.exact) == ((("a[x]", "b>1"),), False)
