"""Building bundles: what is in them, what makes them differ, what is kept between builds."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentix.bundle import Bundle, build_bundle, find_bundle, list_bundles
from agentix.bundle.description import FILE
from agentix.errors import BundleError


def paths(bundle: Bundle) -> set[str]:
    return {entry.path for entry in bundle.description.entries}


def run(bundle: Bundle, command: str, *arguments: str) -> str:
    done = subprocess.run([bundle.path / "bin" / command, *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def test_a_bundle_holds_the_project_with_its_dependencies_and_what_they_need(workshop: Any) -> None:
    workshop.wheel("lower")
    workshop.wheel("upper", requires=["lower>=1"])
    project = workshop.project(
        dependencies=["upper"], files={"cli.py": "import lower, upper\ndef main():\n    print(lower.__file__)\n"}
    )
    bundle = build_bundle(project, name="eval:1")
    made = bundle.description
    assert made.packages == {"kit": "0.1.0", "lower": "1.0", "upper": "1.0"}
    assert made.project is not None and (made.project.name, made.project.modules) == ("kit", ("kit",))
    assert made.tools == {"kit-run": "kit 0.1.0"}
    assert {"site/kit/cli.py", "site/lower/__init__.py", "bin/kit-run"} <= paths(bundle)
    assert run(bundle, "kit-run") == f"{bundle.path}/site/lower/__init__.py\n"
    assert find_bundle("eval:1").digest == bundle.digest


def test_nothing_of_an_installer_and_no_path_of_this_machine_is_in_it(workshop: Any) -> None:
    workshop.wheel("lower")
    bundle = build_bundle(workshop.project(dependencies=["lower"]), name="eval")
    names = {Path(path).name for path in paths(bundle)}
    assert not names & {"INSTALLER", "REQUESTED", "direct_url.json"}
    assert not any("__pycache__" in path for path in paths(bundle))
    for file in [path for path in bundle.path.rglob("*") if path.is_file()]:
        assert os.fsencode(workshop.path) not in file.read_bytes(), file


def test_modules_are_compiled_for_the_place_where_they_are_mounted(workshop: Any) -> None:
    workshop.wheel("lower")
    bundle = build_bundle(workshop.project(dependencies=["lower"]), name="eval")
    for module in ("kit/cli.py", "lower/__init__.py"):
        (compiled,) = (bundle.path / "site" / module).parent.glob(f"__pycache__/{Path(module).stem}.*.pyc")
        content = compiled.read_bytes()
        assert int.from_bytes(content[4:8], "little") == 0b01, "an unchecked hash"
        assert f"/agentix/bundle/site/{module}".encode() in content


def test_the_same_inputs_give_the_same_digest_anywhere_and_any_time(
    workshop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.wheel("lower")
    first = build_bundle(workshop.project(dependencies=["lower"]), name="a:1")
    second = build_bundle(workshop.project(folder="elsewhere/copy", dependencies=["lower"]), name="b:2")
    assert first.digest == second.digest
    assert [stored.names for stored in list_bundles()] == [("a:1", "b:2")]
    shutil.rmtree(tmp_path / "cache/bundles/layers")
    assert build_bundle(tmp_path / "kit", name="c").digest == first.digest


def test_an_edit_changes_the_digest_and_fetches_nothing(workshop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop.wheel("lower")
    project = workshop.project(dependencies=["lower"])
    before = build_bundle(project, name="eval")
    shutil.rmtree(workshop.path / "links")
    (project / "src/kit/cli.py").write_text("def main():\n    print('edited')\n")
    after = build_bundle(project, name="eval")
    assert after.digest != before.digest
    assert run(after, "kit-run") == "edited\n"
    assert run(before, "kit-run") == "this is kit\n"
    same = Path("site/lower/__init__.py")
    assert (before.path / same).samefile(after.path / same)


def test_a_module_that_was_deleted_is_gone(workshop: Any) -> None:
    project = workshop.project(files={"extra.py": ""})
    assert "site/kit/extra.py" in paths(build_bundle(project, name="eval"))
    (project / "src/kit/extra.py").unlink()
    assert "site/kit/extra.py" not in paths(build_bundle(project, name="eval"))


def test_building_leaves_nothing_in_the_project(workshop: Any) -> None:
    project = workshop.project()
    before = sorted(project.rglob("*"))
    build_bundle(project, name="eval")
    assert sorted(project.rglob("*")) == before


def test_a_bundle_without_a_name_has_that_of_its_project(workshop: Any) -> None:
    build_bundle(workshop.project(version="0.2.0+local"))
    assert find_bundle("kit:0.2.0_local").description.tag == "0.2.0_local"


def test_a_project_beside_it_is_built_from_what_it_holds_now(workshop: Any) -> None:
    beside = workshop.project("beside")
    project = workshop.project(dependencies=[f"beside @ {beside.as_uri()}"])
    before = build_bundle(project, name="eval")
    (beside / "src/beside/new.py").write_text("")
    after = build_bundle(project, name="eval")
    assert "site/beside/new.py" not in paths(before)
    assert "site/beside/new.py" in paths(after)


def test_extras_and_commands_of_dependencies_come_along_where_asked(workshop: Any) -> None:
    workshop.wheel("lower")
    extra = '[project.optional-dependencies]\nmore = ["lower"]\n'
    assert build_bundle(workshop.project(extra=extra), name="plain").description.packages == {"kit": "0.1.0"}
    extra += '[tool.agentix.bundle]\nextras = ["more"]\nscripts = ["lower-run"]\n'
    bundle = build_bundle(workshop.project(extra=extra), name="eval")
    assert bundle.description.packages == {"kit": "0.1.0", "lower": "1.0"}
    assert run(bundle, "lower-run") == "this is lower\n"


def test_what_is_not_fixed_is_asked_for_again_only_with_refresh(workshop: Any) -> None:
    workshop.wheel("lower", "1.0")
    project = workshop.project(dependencies=["lower"])
    build_bundle(project, name="eval")
    workshop.wheel("lower", "2.0")
    assert build_bundle(project, name="eval").description.packages["lower"] == "1.0"
    assert build_bundle(project, name="eval", refresh=True).description.packages["lower"] == "2.0"


def test_a_damaged_layer_is_made_again(workshop: Any, tmp_path: Path) -> None:
    workshop.wheel("lower")
    project = workshop.project(dependencies=["lower"])
    before = build_bundle(project, name="eval")
    (module,) = (tmp_path / "cache/bundles/layers").glob("*/tree/site/lower/cli.py")
    module.chmod(0o644)
    module.write_text("broken")
    with pytest.raises(BundleError, match=r"bundle eval is damaged: site/lower/cli\.py"):
        find_bundle("eval")
    assert build_bundle(project, name="eval").digest == before.digest
    assert "broken" not in (find_bundle("eval").path / "site/lower/cli.py").read_text()


def test_builds_at_the_same_time_do_not_disturb_each_other(workshop: Any, tmp_path: Path) -> None:
    workshop.wheel("lower")
    same = workshop.project(dependencies=["lower"])
    other = workshop.project("other", dependencies=["lower"])
    with ThreadPoolExecutor(4) as threads:
        jobs = [(same, "a"), (same, "a"), (same, "b"), (other, "c")]
        bundles = [*threads.map(lambda job: build_bundle(job[0], name=job[1]), jobs)]
    assert len({bundle.digest for bundle in bundles[:3]}) == 1
    assert [stored.names for stored in list_bundles()] == [("a:latest", "b:latest"), ("c:latest",)]
    for name in "abc":
        find_bundle(name)
    assert not list((tmp_path / "cache/bundles").glob(".new-*"))


def test_a_project_without_a_package_has_its_dependencies_and_tools_only(workshop: Any) -> None:
    workshop.wheel("lower")
    project = workshop.path / "virtual"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[project]\nname = "tools"\nversion = "1"\ndependencies = ["lower"]\n[tool.uv]\npackage = false\n'
    )
    with pytest.raises(BundleError, match="has no name"):
        build_bundle(project)
    bundle = build_bundle(project, name="tools")
    assert bundle.description.project is None
    assert bundle.description.packages == {"lower": "1.0"}
    assert (bundle.path / FILE).exists()
