"""What every test of the provider `local` may use."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentix.providers.local import LocalProvider
from agentix.providers.local.lease import Lease, Leases, lease_folder


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session", autouse=True)
def cache() -> Iterator[Path]:
    """A cache of the tests' own, which other users can read, unlike pytest's directories."""
    folder = Path(tempfile.mkdtemp(prefix="agentix-test-"))
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTIX_CACHE_DIR", str(folder))
        yield folder
        shutil.rmtree(lease_folder(folder), ignore_errors=True)
    shutil.rmtree(folder)


@pytest.fixture
async def provider(anyio_backend: str) -> AsyncIterator[LocalProvider]:
    async with LocalProvider() as opened:
        yield opened


@pytest.fixture
def leftovers(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails where a test leaves a lease, a process or a control group behind."""
    ids: list[str] = []
    claim = Leases.claim

    def claim_and_note(self: Leases, **arguments: Any) -> Lease:
        lease = claim(self, **arguments)
        ids.append(lease.id)
        return lease

    monkeypatch.setattr(Leases, "claim", claim_and_note)
    yield
    assert [path.name for path in lease_folder(cache).glob("*")] == []
    assert [group for sandbox_id in ids for group in groups(sandbox_id)] == []
    assert processes() == []


def groups(sandbox_id: str) -> list[str]:
    """Control groups of a sandbox."""
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if folder.endswith(sandbox_id)]


def processes() -> list[int]:
    """Processes that run from the cache of the tests."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.environ["AGENTIX_CACHE_DIR"].encode() in command and b"bwrap" in command:
                found.append(int(entry.name))
    return found
