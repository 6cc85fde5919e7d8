"""The digest of a tree: the same for the same content, another for any other."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.bundle.description import Description, check_inside, check_link
from agentix.bundle.listing import first_change, scan, seal
from agentix.errors import BundleError

NAMES = st.text("abcé .-", min_size=1, max_size=4).filter(lambda name: name.strip(".") != "")
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.tuples(st.binary(max_size=20), st.booleans())
TREES = st.dictionaries(PATHS, CONTENTS, max_size=6).filter(
    lambda tree: not any(f"{a}/" == b[: len(a) + 1] for a in tree for b in tree)
)


def digest(tree: Mapping[str, tuple[bytes, bool]], *, seed: int = 0) -> str:
    top = Path(tempfile.mkdtemp(prefix="agentix-digest-"))
    try:
        paths = sorted(tree)
        random.Random(seed).shuffle(paths)
        for path in paths:
            content, program = tree[path]
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            (top / path).write_bytes(content)
            (top / path).chmod(0o700 if program else 0o640 + seed % 5)
            os.utime(top / path, (seed, seed))
        before = scan(top)
        seal(top)
        entries = scan(top)
        assert entries == before
        assert first_change(top, entries, contents=True) is None
        made = Description.of(name="a", tag=f"t{seed}", platform="linux/amd64", python="3.11", entries=tuple(entries))
        assert Description.parse(made.to_bytes(), where="here") == made
        return made.digest
    finally:
        shutil.rmtree(top)


@settings(deadline=None, max_examples=40)
@given(tree=TREES, seed=st.integers(1, 99))
def test_order_times_modes_and_names_of_the_bundle_do_not_matter(
    tree: dict[str, tuple[bytes, bool]], seed: int
) -> None:
    assert digest(tree) == digest(tree, seed=seed)


@settings(deadline=None, max_examples=40)
@given(one=TREES, other=TREES)
def test_another_tree_has_another_digest(
    one: dict[str, tuple[bytes, bool]], other: dict[str, tuple[bytes, bool]]
) -> None:
    assert (digest(one) == digest(other)) == (one == other)


@given(path=st.text("ab./\0", max_size=12))
def test_a_path_that_is_accepted_stays_inside(path: str) -> None:
    try:
        check_inside(path)
    except ValueError:
        return
    assert os.path.normpath(f"/top/{path}") == f"/top/{path}"


@given(path=st.lists(st.sampled_from("ab"), min_size=1, max_size=4), target=st.text("a./", max_size=14))
def test_a_link_that_is_accepted_stays_inside(path: list[str], target: str) -> None:
    try:
        check_link("/".join(path), target)
    except ValueError:
        return
    end = os.path.normpath(PurePosixPath("/top", *path).parent / target)
    assert end == "/top" or end.startswith("/top/")


def test_what_cannot_be_in_a_bundle_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BundleError, match="pipe is neither a file nor a directory"):
        scan(tmp_path)
    (tmp_path / "pipe").unlink()
    (tmp_path / "out").symlink_to("../../etc")
    with pytest.raises(BundleError, match=r"the link out leads out of the bundle, to \.\./\.\./etc"):
        scan(tmp_path)
    (tmp_path / "out").unlink()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).touch()
    with pytest.raises(BundleError, match="is not UTF-8"):
        scan(tmp_path)
