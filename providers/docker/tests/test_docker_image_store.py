"""What an engine keeps of ours, and how it goes away, on a real engine."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import ImageBuild, KeepsImages, Prefetches, SandboxConfig
from agentix.providers.docker import DockerProvider
from agentix.providers.docker.building import log_path
from agentix.providers.docker.image_store import ImageStore
from agentix.providers.docker.trees import Tree, Volumes

pytestmark = [pytest.mark.anyio, pytest.mark.real]


def only(store: ImageStore, *names: str) -> None:
    """Other test runs build images on the same engine: leave theirs alone."""
    images, remove = store.images, store._remove

    async def own_images() -> Any:
        return [image for image in await images() if image.name in names]

    async def own_remove(path: str, *, dry_run: bool) -> bool:
        return not any(name.replace(":", "%3A") in path for name in names) or await remove(path, dry_run=dry_run)

    store.images, store._remove = own_images, own_remove  # type: ignore[method-assign]


async def test_built_images_are_listed_kept_while_used_and_removed_with_their_log(
    provider: DockerProvider, images: Any, cache: Path, tmp_path: Path
) -> None:
    assert isinstance(provider, KeepsImages)
    (tmp_path / "Dockerfile").write_text(f"FROM {images.busybox}\nRUN echo {os.urandom(8).hex()} > /x\n")
    began = time.time()
    config = SandboxConfig(image=ImageBuild(context=tmp_path))
    builds = provider._images.builds
    image = await builds.get(ImageBuild(context=tmp_path), platform=None, timeout_s=60)
    store = ImageStore(provider._engine)
    only(store, image.name)
    (listed,) = await store.images()
    assert listed.id == image.id
    assert listed.origin.endswith(f"{tmp_path.name}/Dockerfile")
    assert began - 2 <= listed.used_at <= time.time() + 2
    assert image.name not in (await store.prune(unused_for_s=3600, dry_run=False)).removed
    assert image.name in (await store.prune(unused_for_s=0, dry_run=True)).removed
    info = await provider.create(config, await provider.runtime())
    assert image.name in (await store.prune(unused_for_s=0, dry_run=False)).kept
    await provider.delete(info.id)
    path = anyio.Path(log_path(image.name))
    assert await path.exists()
    assert image.name in (await store.prune(unused_for_s=0, dry_run=False)).removed
    assert not await path.exists()
    assert await store.images() == []


async def test_images_are_had_before_they_are_needed(
    provider: DockerProvider, images: Any, cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(provider, Prefetches)
    (tmp_path / "Dockerfile").write_text(f"FROM {images.busybox}\nRUN echo {os.urandom(8).hex()} > /x\n")
    config = SandboxConfig(image=ImageBuild(context=tmp_path))
    caplog.set_level(logging.INFO, "agentix.providers.docker")
    async with anyio.create_task_group() as group:
        group.start_soon(provider.prefetch, config)
        group.start_soon(provider.prefetch, config)
    info = await provider.create(config, await provider.runtime())
    await provider.delete(info.id)
    built = [record.message for record in caplog.records if record.message.startswith("docker: built")]
    assert len(built) == 1
    (image,) = provider._images.builds._built.kept.values()
    store = ImageStore(provider._engine)
    only(store, image.name)
    await store.prune(unused_for_s=0, dry_run=False)


async def test_an_image_that_is_found_again_counts_as_used(
    provider: DockerProvider, images: Any, cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {images.busybox}\nRUN echo {os.urandom(8).hex()} > /x\n")
    build = ImageBuild(context=tmp_path)
    image = await provider._images.builds.get(build, platform=None, timeout_s=60)
    store = ImageStore(provider._engine)
    only(store, image.name)
    (first,) = await store.images()
    async with DockerProvider() as another:
        assert (await another._images.builds.get(build, platform=None, timeout_s=60)).notes == ()
    (again,) = await store.images()
    assert again.used_at > first.used_at
    await store.prune(unused_for_s=0, dry_run=False)


async def test_volumes_go_with_their_marks_and_half_filled_ones_too(
    provider: DockerProvider, images: Any, cache: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    tree = Tree(what="test", path=tmp_path, digest=os.urandom(32).hex(), target="/t")
    volumes = Volumes(provider._engine)
    holder = (await volumes.get(tree, image=images.busybox))["Source"]
    torn = f"{tree.volume}-torn"
    await volumes._create(torn, {"agentix.tree": tree.digest})
    store = ImageStore(provider._engine)
    only(store, "none", tree.volume)
    body = {"Image": images.busybox, "Cmd": ["x"], "HostConfig": {"Binds": [f"{holder}:/t"]}}
    user = (await provider._engine.call("POST", "/containers/create", body=body, doing="use")).json()["Id"]
    pruned = await store.prune(unused_for_s=0, dry_run=False)
    # One that may be being filled is left alone; the mark of one that is mounted is not looked at.
    assert holder in pruned.kept
    assert not {torn, tree.volume} & set(pruned.removed)
    await provider._engine.call("DELETE", f"/containers/{user}", doing="end")
    pruned = await store.prune(unused_for_s=-1, dry_run=False)
    assert {holder, tree.volume} <= set(pruned.removed)
    assert await volumes._inspect(holder) is None and await volumes._inspect(tree.volume) is None
    await volumes._remove(torn)
