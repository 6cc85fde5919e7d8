"""The local store: references, verification, removal, export and import."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentix.bundle import (
    Bundle,
    build_bundle,
    collect_bundles,
    export_bundle,
    find_bundle,
    import_bundle,
    list_bundles,
    lookup,
    remove_bundle,
)
from agentix.bundle.description import FILE, Description
from agentix.bundle.machine import Machine, check_fit, this_machine
from agentix.errors import BundleError, EnvFailed, HostError, UsageError


@pytest.fixture
def built(workshop: Any) -> Bundle:
    project = workshop.project(extra='[tool.agentix.bundle]\ntools = ["lint"]\n')
    (project / "lint/bin").mkdir(parents=True)
    (project / "lint/empty").mkdir()
    (project / "lint/bin/lint").write_text("#!/bin/sh\n")
    (project / "lint/bin/lint").chmod(0o755)
    (project / "lint/current").symlink_to("bin/lint")
    return build_bundle(project, name="eval:0.1.0")


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process has verified is not remembered from one test to the next."""
    monkeypatch.setattr(lookup, "_READY", {})
    monkeypatch.setattr(lookup, "_IMPORTED", {})


def test_every_form_of_a_reference_finds_it(built: Bundle, tmp_path: Path) -> None:
    export_bundle("eval:0.1.0", tmp_path / "eval.tar")
    shutil.copytree(built.path, tmp_path / "tree", symlinks=True)
    digits = built.digest.removeprefix("sha256:")
    forms = ["eval:0.1.0", built.digest, f"sha256:{digits[:8]}", f"sha256:{digits[:8].upper()}"]
    for ref in [*forms, str(tmp_path / "eval.tar"), str(tmp_path / "tree"), str(built.path)]:
        assert find_bundle(ref).digest == built.digest, ref


def test_an_unknown_bundle_is_told_with_the_nearest_name_and_how_to_build_it(built: Bundle, tmp_path: Path) -> None:
    for ref, said in {
        "evl:0.1.0": r"there is no bundle evl:0\.1\.0; did you mean eval:0\.1\.0\?\n  build it: agentix build",
        "eval": r"there is no bundle eval:latest; eval has 0\.1\.0",
        "quite-other:1": r"there is no bundle quite-other:1\n  build it",
        "sha256:000000": "there is no bundle sha256:000000",
        "sha256:xyz": "a digest is sha256:",
        "./nowhere.tar": r"there is no bundle at .*/nowhere\.tar",
        str(tmp_path): r"is no bundle: it has no bundle\.json",
        "a b": "is no name",
    }.items():
        with pytest.raises(BundleError, match=said) as caught:
            find_bundle(ref)
        assert isinstance(caught.value, UsageError) and isinstance(caught.value, EnvFailed)


def test_too_few_digits_name_those_that_they_may_mean(built: Bundle, tmp_path: Path) -> None:
    twin = built.path.with_name("0" * 64)
    other = built.path.with_name("0" * 63 + "1")
    shutil.copytree(built.path, twin)
    shutil.copytree(built.path, other)
    with pytest.raises(BundleError, match=r"sha256:000000 may be one of 2\n  give more digits: sha256:0{64}, "):
        find_bundle("sha256:000000")


def edit(path: Path) -> None:
    path.chmod(0o644)
    path.write_text("changed")


def put_time_back(path: Path) -> None:
    status = path.stat()
    edit(path)
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "edited": lambda tree: edit(tree / "site/kit/cli.py"),
    "edited and dated back": lambda tree: put_time_back(tree / "site/kit/cli.py"),
    "removed": lambda tree: (tree / "site/kit/cli.py").unlink(),
    "added": lambda tree: (tree / "site/kit/evil.py").write_text(""),
    "mode": lambda tree: (tree / "site/kit/cli.py").chmod(0o755),
    "link": lambda tree: ((tree / "tools/lint/current").unlink(), (tree / "tools/lint/current").symlink_to("empty")),
    "compiled": lambda tree: edit(next((tree / "site/kit/__pycache__").glob("cli.*"))),
    "a directory": lambda tree: ((tree / "site/kit/cli.py").unlink(), (tree / "site/kit/cli.py").mkdir()),
    "not empty": lambda tree: (tree / "tools/lint/empty/new").write_text(""),
    "description": lambda tree: edit(tree / FILE),
    "entries": lambda tree: (tree / FILE).write_text((tree / FILE).read_text().replace('"size": ', '"size": 9')),
    "all": shutil.rmtree,
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_bundle_is_refused_and_built_again(built: Bundle, workshop: Any, how: str) -> None:
    (built.path / FILE).chmod(0o644)
    DAMAGE[how](built.path)
    with pytest.raises(BundleError, match=r"damaged|is no bundle"):
        find_bundle("eval:0.1.0")
    assert len(list_bundles()) == 1
    assert build_bundle(workshop.path / "kit", name="eval:0.1.0").digest == built.digest
    assert find_bundle("eval:0.1.0").digest == built.digest


def test_what_was_verified_once_is_not_looked_at_again(built: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    first = find_bundle("eval:0.1.0")
    monkeypatch.setattr(lookup, "first_change", lambda *_: pytest.fail("looked again"))
    assert find_bundle("eval:0.1.0") is first


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (
            Machine(platform="linux/arm64", python="3.11", libc="glibc-2.40"),
            "was built for linux/amd64; sandboxes here",
        ),
        (
            Machine(platform="linux/amd64", python="3.13", libc="glibc-2.40"),
            r"was built for Python 3\.11; agentix runs",
        ),
        (Machine(platform="linux/amd64", python="3.11", libc="glibc-2.9"), r"needs glibc-2\.36; sandboxes here have"),
        (Machine(platform="linux/amd64", python="3.11", libc="musl"), r"needs glibc-2\.36"),
    ],
)
def test_a_bundle_of_another_machine_is_refused(machine: Machine, said: str) -> None:
    made = Description.of(name="eval", tag="1", platform="linux/amd64", python="3.11", libc="glibc-2.36", entries=())
    check_fit(made, ref="eval:1", machine=Machine(platform="linux/amd64", python="3.11", libc="glibc-2.36"))
    with pytest.raises(BundleError, match=said):
        check_fit(made, ref="eval:1", machine=machine)


def test_a_bundle_of_another_python_can_be_kept_but_not_used(built: Bundle, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(built.path, tree, symlinks=True)
    fields = {name: getattr(built.description, name) for name in Description.model_fields if name != "digest"}
    (tree / FILE).chmod(0o644)
    (tree / FILE).write_bytes(Description.of(**{**fields, "python": "3.99"}).to_bytes())
    taken = import_bundle(tree, name="old:1")
    assert taken.digest != built.digest
    with pytest.raises(
        BundleError, match=r"was built for Python 3\.99; agentix runs on Python " + this_machine().python
    ):
        find_bundle("old:1")


def test_a_removed_name_leaves_what_another_name_points_at(built: Bundle, tmp_path: Path) -> None:
    export_bundle("eval:0.1.0", tmp_path / "eval.tar")
    import_bundle(tmp_path / "eval.tar", name="same:1")
    assert remove_bundle("eval:0.1.0").removed == ("eval:0.1.0",)
    assert find_bundle("same:1").digest == built.digest


def test_a_removed_bundle_is_gone_with_all_its_names(built: Bundle, tmp_path: Path) -> None:
    export_bundle("eval:0.1.0", tmp_path / "eval.tar")
    import_bundle(tmp_path / "eval.tar", name="same:1")
    gone = remove_bundle(built.digest)
    assert set(gone.removed) == {"eval:0.1.0", "same:1", built.digest}
    assert gone.bytes > 0
    assert list_bundles() == []
    with pytest.raises(BundleError, match="there is no bundle"):
        remove_bundle("eval:0.1.0")


def test_a_bundle_in_use_is_not_removed(built: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    find_bundle("eval:0.1.0")
    with pytest.raises(BundleError, match="is in use"):
        remove_bundle("eval:0.1.0")
    assert find_bundle("eval:0.1.0").path.is_dir()


def test_collecting_removes_what_no_name_and_no_build_needs(built: Bundle, workshop: Any) -> None:
    project = workshop.path / "kit"
    (project / "src/kit/new.py").write_text("")
    now = build_bundle(project, name="eval:0.1.0")
    assert built.digest in collect_bundles(dry_run=True).removed
    assert len(list_bundles()) == 2
    gone = collect_bundles()
    assert gone.removed == (built.digest,)
    assert [stored.digest for stored in list_bundles()] == [now.digest]
    assert any(name.startswith("layers/") for name in collect_bundles(unused_for_s=-60, dry_run=True).removed)
    find_bundle("eval:0.1.0")


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz"])
def test_an_export_is_the_same_each_time_and_comes_back_whole(built: Bundle, tmp_path: Path, suffix: str) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    export_bundle("eval:0.1.0", first)
    export_bundle(built.digest, second)
    assert first.read_bytes() == second.read_bytes()
    remove_bundle("eval:0.1.0")
    taken = import_bundle(first)
    assert taken.digest == built.digest
    found = find_bundle("eval:0.1.0")
    assert (found.path / "tools/lint/empty").is_dir()
    assert (found.path / "bin/kit-run").stat().st_mode & 0o777 == 0o555
    assert list((found.path / "site/kit/__pycache__").glob("cli.*.pyc"))


def test_a_description_that_was_edited_is_damaged_and_says_how(built: Bundle) -> None:
    data = (built.path / "bundle.json").read_bytes()
    assert Description.parse(data, where="bundle.json").digest == built.digest
    with pytest.raises(BundleError, match=r"damaged: the digest is not"):
        Description.parse(data.replace(b'"python": "3.', b'"python": "4.'), where="bundle.json")
    with pytest.raises(BundleError, match=r"damaged: python: Field required"):
        Description.parse(data.replace(b'"python": ', b'"other": '), where="bundle.json")


def test_an_export_that_cannot_be_written_leaves_nothing(built: Bundle, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="cannot be written"):
        export_bundle("eval:0.1.0", tmp_path / "nowhere/eval.tar")
    edit(built.path / "site/kit/cli.py")
    with pytest.raises(BundleError, match="is damaged"):
        export_bundle("eval:0.1.0", tmp_path / "eval.tar")
    assert not (tmp_path / "eval.tar").exists()


Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(content)
    return info, content


def swap(members: list[Member], name: str, new: Member) -> list[Member]:
    return [new if info.name == name else (info, content) for info, content in members]


CLI = "site/kit/cli.py"
TAMPERED: dict[str, Callable[[list[Member]], list[Member]]] = {
    "content": lambda has: swap(has, CLI, member(CLI, b"evil")),
    "link for file": lambda has: swap(has, CLI, member(CLI, kind=tarfile.SYMTYPE, link="/etc/passwd")),
    "hard link": lambda has: swap(has, CLI, member(CLI, kind=tarfile.LNKTYPE, link=FILE)),
    "device": lambda has: swap(has, CLI, member(CLI, kind=tarfile.CHRTYPE)),
    "another target": lambda has: swap(
        has, "tools/lint/current", member("tools/lint/current", kind=tarfile.SYMTYPE, link="/etc")
    ),
    "missing": lambda has: [found for found in has if found[0].name != CLI],
    "extra": lambda has: [*has, member("site/evil.py", b"")],
    "twice": lambda has: [*has, *[found for found in has if found[0].name == CLI]],
    "outside": lambda has: [*has, member("../evil.py", b"")],
    "absolute": lambda has: [*has, member("/tmp/agentix-evil", b"")],
    "no description": lambda has: has[1:],
    "nothing": lambda has: [],
    "description": lambda has: swap(has, FILE, member(FILE, b"{}")),
    "newer": lambda has: swap(
        has, FILE, member(FILE, json.dumps({**json.loads(has[0][1]), "schema_version": 2}).encode())
    ),
    "digest": lambda has: swap(
        has, FILE, member(FILE, has[0][1].replace(b'"digest": "sha256:', b'"digest": "sha256:0'))
    ),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_tampered_export_is_refused(built: Bundle, tmp_path: Path, how: str) -> None:
    export_bundle("eval:0.1.0", tmp_path / "eval.tar")
    with tarfile.open(tmp_path / "eval.tar") as tar:
        members = [(info, file.read() if (file := tar.extractfile(info)) else b"") for info in tar if not info.issym()]
    with tarfile.open(tmp_path / "eval.tar") as tar:
        members += [(info, b"") for info in tar if info.issym()]
    remove_bundle("eval:0.1.0")
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        for info, content in TAMPERED[how](members):
            tar.addfile(info, io.BytesIO(content))
    with pytest.raises(BundleError, match=r"evil\.tar.* (is damaged|is no bundle|schema version)"):
        import_bundle(tmp_path / "evil.tar")
    assert list_bundles() == []
    assert not list((tmp_path / "cache/bundles").glob(".new-*"))


@pytest.mark.parametrize("content", [b"", b"no tar", b"\x1f\x8b" + bytes(50)], ids=["empty", "text", "gzip"])
def test_what_is_no_tar_is_refused(workshop: Any, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.tar").write_bytes(content)
    with pytest.raises(BundleError, match=r"x\.tar"):
        import_bundle(tmp_path / "x.tar")


def test_a_torn_export_is_refused(built: Bundle, tmp_path: Path) -> None:
    for suffix in (".tar", ".tar.gz"):
        whole, torn = tmp_path / f"whole{suffix}", tmp_path / f"torn{suffix}"
        export_bundle("eval:0.1.0", whole)
        data = whole.read_bytes()
        torn.write_bytes(data[: len(data) // 2])
        with pytest.raises(BundleError, match="torn"):
            import_bundle(torn)
