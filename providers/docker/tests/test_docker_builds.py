"""Images that are built on a real engine."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentix.api import EnvFailed, ImageBuild, SandboxConfig
from agentix.providers.docker import DockerConfig, DockerProvider

pytestmark = [pytest.mark.anyio, pytest.mark.real]


@pytest.fixture
async def built(provider: DockerProvider) -> Any:
    """Removes what a test has built."""
    yield None
    builds = provider._images.builds
    for image in builds._built.kept.values():
        await provider._engine.call(
            "DELETE", f"/images/{image.id}", query={"force": "1"}, doing="remove", ok=(404, 409)
        )


def task(folder: Path, dockerfile: str, **files: str) -> ImageBuild:
    (folder / "Dockerfile").write_text(dockerfile)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return ImageBuild(context=folder)


async def test_many_who_wait_get_one_build_and_it_is_found_again(
    provider: DockerProvider, images: Any, built: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agentix.providers.docker")
    build = task(
        tmp_path, f"FROM {images.busybox}\nARG WHAT\nRUN echo $WHAT > /built\nCOPY a.txt /a\n", a_txt="alpha\n"
    )
    build = build.model_copy(update={"args": {"WHAT": "this"}})

    async def trial() -> None:
        async with provider.session(SandboxConfig(image=build)) as sandbox:
            assert (await sandbox.exec("cat /built /a")).text == "this\nalpha\n"

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(trial)
    async with DockerProvider() as another, another.session(SandboxConfig(image=build)) as sandbox:
        assert (await sandbox.exec("cat /built")).text == "this\n"
    assert [record.message for record in caplog.records if record.message.startswith("building ")] == [
        f"building {tmp_path / 'Dockerfile'}"
    ]
    (tmp_path / "a.txt").write_text("beta\n")
    async with provider.session(SandboxConfig(image=build)) as sandbox:
        assert (await sandbox.exec("cat /a")).text == "beta\n"


async def test_heredocs_build_on_the_classic_builder(
    provider: DockerProvider, images: Any, built: Any, tmp_path: Path
) -> None:
    text = f"""# syntax=docker/dockerfile:1
FROM {images.busybox}
ARG NAME=world
ENV GREETING=hello
WORKDIR /d
RUN <<EOF
set -e
echo "one $NAME" > one
echo two > two
EOF
RUN cat <<'A' > three && echo after > four
$literal
A
RUN --mount=type=cache,target=/root/.cache <<SCRIPT
#!/bin/sh
echo "a script of its own" > five
SCRIPT
COPY --chmod=755 <<"RUNME" run.sh
#!/bin/sh
echo $0
RUNME
COPY <<FIRST <<-SECOND /files/
$GREETING ${{NAME}} ${{MISSING:-default}} \\$kept
FIRST
\ttabs are gone
\tSECOND
RUN echo "a <<EOF in quotes" > quoted
"""
    async with provider.session(SandboxConfig(image=task(tmp_path, text))) as sandbox:
        shown = await sandbox.exec("cat one two three four five quoted; ./run.sh; cat /files/FIRST /files/SECOND")
        assert shown.text == (
            "one world\ntwo\n$literal\nafter\na script of its own\na <<EOF in quotes\n./run.sh\n"
            "hello world default $kept\ntabs are gone\n"
        )


async def test_dockerignore_and_a_dockerfile_elsewhere_are_honoured(
    provider: DockerProvider, images: Any, built: Any, tmp_path: Path
) -> None:
    context, other = tmp_path / "context", tmp_path / "Other"
    context.mkdir()
    (context / "kept").write_text("kept\n")
    (context / "secret").write_text("secret")
    (context / "link").symlink_to("kept")
    (context / ".dockerignore").write_text("# comment\nsecret\n")
    other.write_text(f"FROM {images.busybox}\nCOPY . /c/\n")
    config = SandboxConfig(image=ImageBuild(context=context, dockerfile=other))
    async with provider.session(config) as sandbox:
        assert (await sandbox.exec("cd /c && ls -A && readlink link")).text == "kept\nlink\nkept\n"


async def test_a_build_that_fails_shows_its_end_and_keeps_its_log(
    provider: DockerProvider, images: Any, tmp_path: Path
) -> None:
    build = task(tmp_path, f"FROM {images.busybox}\nRUN echo the reason >&2; exit 3\n")
    raised: list[EnvFailed] = []

    async def trial() -> None:
        with pytest.raises(EnvFailed) as info:
            await provider.create(SandboxConfig(image=build), await provider.runtime())
        raised.append(info.value)

    async with anyio.create_task_group() as group:
        group.start_soon(trial)
        group.start_soon(trial)
    for error in raised:
        assert error.detail == "image_build"
        assert "the reason" in error.message
        assert str(tmp_path / "Dockerfile") in error.message
    path = anyio.Path(str(raised[0].hint).rpartition(" ")[2])
    assert "the reason" in await path.read_text()
    await path.unlink()


async def test_a_build_has_a_time_limit(provider: DockerProvider, images: Any, tmp_path: Path, cache: Path) -> None:
    config = SandboxConfig(image=task(tmp_path, f"FROM {images.busybox}\nRUN sleep 300\n"), build_timeout_s=1.5)
    with pytest.raises(EnvFailed, match=r"more than 1\.5 s") as info:
        await provider.create(config, await provider.runtime())
    assert info.value.detail == "build_timeout"


@pytest.mark.parametrize(
    ("dockerfile", "said"),
    [
        ("RUN true\n", "build stage"),
        ("FROM scratch\nRUN <<EOF\nnever closed\n", "line 2"),
        ("FROM scratch\nNOSUCH x\n", "NOSUCH"),
    ],
)
async def test_a_malformed_dockerfile_is_named_with_its_fault(
    provider: DockerProvider, images: Any, tmp_path: Path, cache: Path, dockerfile: str, said: str
) -> None:
    with pytest.raises(EnvFailed, match=said) as info:
        await provider.create(SandboxConfig(image=task(tmp_path, dockerfile)), await provider.runtime())
    assert info.value.detail == "image_build"


async def test_a_missing_context_is_named(provider: DockerProvider, images: Any, tmp_path: Path) -> None:
    config = SandboxConfig(image=ImageBuild(context=tmp_path / "nosuch"))
    with pytest.raises(EnvFailed, match="nosuch"):
        await provider.create(config, await provider.runtime())


async def test_an_image_that_may_not_be_pulled_is_said_to_be_missing(images: Any) -> None:
    async with DockerProvider(DockerConfig(pull="never")) as provider:
        with pytest.raises(EnvFailed, match="pull=never") as info:
            await provider.create(SandboxConfig(image=f"{images.prefix}/nosuch:1"), await provider.runtime())
    assert info.value.detail == "image_pull"


async def test_a_sandbox_without_an_image_is_refused(provider: DockerProvider, images: Any) -> None:
    with pytest.raises(EnvFailed, match="needs an image"):
        await provider.create(SandboxConfig(), await provider.runtime())


async def test_an_image_that_was_removed_meanwhile_is_looked_for_again(provider: DockerProvider, images: Any) -> None:
    images.count = 70
    name = images.add("replaced", {"first": b"1"})
    async with provider.session(SandboxConfig(image=name)) as sandbox:
        assert await sandbox.exists("/first")
    await provider._engine.call("DELETE", f"/images/{name}", query={"force": "1"}, doing="remove")
    images.count = 70
    assert images.add("replaced", {"second": b"2"}) == name
    async with provider.session(SandboxConfig(image=name)) as sandbox:
        assert await sandbox.exists("/second")
