"""Shipping to real servers on this machine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import ShipError, ShipRefused, StepContext
from agentix.plugins.transports.rclone import Rclone

pytestmark = [pytest.mark.anyio, pytest.mark.real]

Make = Callable[..., StepContext]


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def ship(source: Path, ctx: StepContext, **inputs: Any) -> Any:
    transport = Rclone()
    return await transport.ship(source, transport.Inputs.model_validate(inputs), ctx)


def remote(monkeypatch: pytest.MonkeyPatch, name: str, **options: str) -> None:
    for option, value in options.items():
        monkeypatch.setenv(f"RCLONE_CONFIG_{name}_{option.upper()}", value)


async def test_webdav_without_checksums_is_read_back(
    served: Any, tmp_path: Path, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served("webdav", tmp_path / "dav") as port:
        remote(monkeypatch, "DAV", type="webdav", vendor="other", url=f"http://127.0.0.1:{port}")
        receipt = await ship(finished, context(), dest="dav:box")
        assert receipt.details["verified"] == "download"
        assert tree(tmp_path / "dav/box/nightly/r1") == tree(finished)
        assert (await ship(finished, context(), dest="dav:box")).details["sent"] == 0
        (finished / "plain.txt").write_bytes((finished / "plain.txt").read_bytes().swapcase())
        receipt = await ship(finished, context(), dest="dav:box")  # of the same size
        assert receipt.details["sent"] == 1
        assert tree(tmp_path / "dav/box/nightly/r1") == tree(finished)


async def test_by_size_alone_where_that_is_asked_for(
    served: Any, tmp_path: Path, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served("webdav", tmp_path / "dav") as port:
        remote(monkeypatch, "DAV", type="webdav", vendor="other", url=f"http://127.0.0.1:{port}")
        receipt = await ship(finished, context(), dest="dav:box", verify="size")
        assert receipt.details["verified"] == "size" and receipt.details["compared_by_size"] == 9


async def test_a_wrong_password_is_refused(
    served: Any, tmp_path: Path, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served("webdav", tmp_path / "dav", "--user", "me", "--pass", "opensesame") as port:
        remote(monkeypatch, "DAV", type="webdav", vendor="other", url=f"http://127.0.0.1:{port}", user="me")
        with pytest.raises(ShipRefused, match="401 Unauthorized"):
            await ship(finished, context(), dest="dav:box")
        hidden = await anyio.run_process(["rclone", "obscure", "opensesame"])
        remote(monkeypatch, "DAV", **{"pass": hidden.stdout.decode().strip()})
        assert (await ship(finished, context(), dest="dav:box")).files == 9


async def test_sftp(
    served: Any, tmp_path: Path, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served("sftp", tmp_path / "sftp", "--user", "me", "--pass", "opensesame") as port:
        hidden = await anyio.run_process(["rclone", "obscure", "opensesame"])
        remote(monkeypatch, "FAR", type="sftp", host="127.0.0.1", port=str(port), user="me")
        remote(monkeypatch, "FAR", **{"pass": hidden.stdout.decode().strip()})
        assert (await ship(finished, context(), dest="far:box")).files == 9
        assert tree(tmp_path / "sftp/box/nightly/r1") == tree(finished)
        assert (await ship(finished, context(), dest="far:box")).details["sent"] == 0
        hidden = await anyio.run_process(["rclone", "obscure", "another-one"])
        remote(monkeypatch, "FAR", **{"pass": hidden.stdout.decode().strip()})
        with pytest.raises(ShipRefused, match="unable to authenticate"):
            await ship(finished, context(), dest="far:box")


async def test_s3(served: Any, tmp_path: Path, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s3" / "bucket").mkdir(parents=True)
    with served("s3", tmp_path / "s3", "--auth-key", "somebody,opensesame") as port:
        remote(
            monkeypatch,
            "STORE",
            type="s3",
            provider="Rclone",
            endpoint=f"http://127.0.0.1:{port}",
            access_key_id="somebody",
            secret_access_key="opensesame",
        )
        receipt = await ship(finished, context(), dest="store:bucket/x")
        assert receipt.details["verified"] == "checksum" and receipt.files == 9
        assert tree(tmp_path / "s3/bucket/x/nightly/r1").keys() == tree(finished).keys()
        assert (await ship(finished, context(), dest="store:bucket/x")).details["sent"] == 0
        remote(monkeypatch, "STORE", secret_access_key="wrong-secret")
        with pytest.raises(ShipRefused, match=r"SignatureDoesNotMatch|AccessDenied|403"):
            await ship(finished, context(), dest="store:bucket/x")


async def test_the_cloud_signs_in_only_where_it_is_said(
    served: Any, tmp_path: Path, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s3" / "bucket").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "opensesame")
    monkeypatch.setenv("RCLONE_LOW_LEVEL_RETRIES", "1")
    with served("s3", tmp_path / "s3", "--auth-key", "somebody,opensesame") as port:
        remote(monkeypatch, "STORE", type="s3", provider="Rclone", env_auth="true", endpoint=f"http://127.0.0.1:{port}")
        assert (await ship(finished, context(), dest="store:bucket/x", env_auth=True)).files == 9
        with pytest.raises(ShipError):
            await ship(finished, context(), dest="store:bucket/x", timeout_s=30)


async def test_a_port_where_nobody_listens_may_answer_later(
    tool_path: str, finished: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote(monkeypatch, "DAV", type="webdav", vendor="other", url="http://127.0.0.1:9")
    with pytest.raises(ShipError, match="connection refused") as caught:
        await ship(finished, context(), dest="dav:box")
    assert not isinstance(caught.value, ShipRefused)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    argv = [mount or "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if mount is None or subprocess.run(argv, check=False, capture_output=True).returncode != 0:
        pytest.skip("needs to be allowed to mount a tmpfs")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_a_full_disk_is_no_arrival(
    small_disk: Path, tool_path: str, tmp_path: Path, context: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote(monkeypatch, "DISK", type="alias", remote=str(small_disk))
    source = tmp_path / "much"
    source.mkdir()
    (source / "small").write_bytes(b"x")
    (source / "large").write_bytes(b"x" * (3 << 20))
    with pytest.raises(ShipError, match=r"no space left on device|remaining disk space"):
        await ship(source, context(), dest="disk:box")
