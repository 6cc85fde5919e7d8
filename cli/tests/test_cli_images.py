from __future__ import annotations

import pytest

TOY_IMAGES = """
import json
import logging
from pathlib import Path

from agentix.api import EnvFailed, ImageBuild, KeptImage, PrunedImages, SandboxConfig


class Dataset:
    def instances(self):
        for number in range(5):
            yield {"instance_id": f"task-{number}"}

    def image(self, instance):
        number = int(instance["instance_id"][-1])
        return ["busybox:1", "busybox:1", ImageBuild(context=Path("here")), "nosuch:1", ""][number]

    async def setup(self, sandbox, instance): ...
    async def score(self, sandbox, instance, patch): ...


class Plain:
    name, capabilities = "plain", frozenset()

    async def create(self, config, runtime): ...
    async def dial(self, sandbox_id): ...
    async def delete(self, sandbox_id): ...
    async def list(self, labels): ...
    def session(self, config): ...


class Provider(Plain):
    name = "keeper"

    async def prefetch(self, config):
        logging.getLogger("agentix.providers.keeper").info("fetching %s", config.image)
        if config.image == "nosuch:1":
            raise EnvFailed("there is no image nosuch:1", hint="look for a typing error")

    async def images(self):
        return [KeptImage(
            name="agentix-build:1", id="sha256:" + "a" * 64, size=3 << 20, used_at=0.0, origin="t/Dockerfile"
        )]

    async def prune_images(self, *, unused_for_s, dry_run):
        Path("pruned").write_text(json.dumps([unused_for_s, dry_run]))
        return PrunedImages(removed=("agentix-build:1",), kept=("agentix-build:2",), size=3 << 20)

    async def aclose(self):
        Path("closed").touch()
"""


@pytest.fixture
def keeper(toy):
    (toy.path / "keeper.py").write_text(TOY_IMAGES)
    return toy


PROVIDER = ("--provider", "./keeper.py:Provider")
DATASET = ("--dataset", "./keeper.py:Dataset")


def test_images_of_a_dataset_are_had_each_once_and_failures_told(keeper):
    called = keeper.agentix("images", "pull", *DATASET, *PROVIDER)
    assert called.code == 1
    assert sorted(called.out.splitlines()) == [
        "  look for a typing error",
        "2 of 3 images are there",
        "FAILED  nosuch:1: there is no image nosuch:1",
        "ok      busybox:1",
        "ok      here/Dockerfile",
    ]
    assert called.err.splitlines().count("fetching busybox:1") == 1
    assert (keeper.path / "closed").exists()


def test_only_instances_that_are_chosen_count(keeper):
    called = keeper.agentix("images", "pull", *DATASET, *PROVIDER, "--instance", "task-[01]")
    assert (called.code, called.out) == (0, "ok      busybox:1\n1 of 1 images are there\n")
    assert keeper.agentix("images", "pull", *DATASET, *PROVIDER, "--instance", "task-4").out == (
        "no instance has an image\n"
    )


def test_build_leaves_alone_what_is_only_pulled(keeper):
    called = keeper.agentix("images", "build", *DATASET, *PROVIDER)
    assert (called.code, called.out) == (0, "ok      here/Dockerfile\n1 of 1 images are there\n")


def test_what_was_built_is_listed(keeper):
    lines = keeper.agentix("images", "list", *PROVIDER).out.splitlines()
    assert lines[0].split() == ["NAME", "ID", "SIZE", "USED", "FROM"]
    assert lines[1].startswith("agentix-build:1  aaaaaaaaaaaa  3.0 MiB")
    (image,) = keeper.agentix("images", "list", *PROVIDER, "--json").json
    assert image["origin"] == "t/Dockerfile"


def test_prune_says_what_went_and_what_is_in_use(keeper):
    called = keeper.agentix("images", "prune", *PROVIDER, "--unused-for", "2h", "--dry-run")
    assert called.out == (
        "would remove agentix-build:1\nin use: agentix-build:2\n1 would be removed, at most 3.0 MiB would be freed\n"
    )
    assert (keeper.path / "pruned").read_text() == "[7200.0, true]"


@pytest.mark.parametrize("arguments", [("list",), ("prune",), ("pull", *DATASET)])
def test_a_provider_without_images_is_refused(keeper, arguments):
    called = keeper.agentix("images", *arguments, "--provider", "./keeper.py:Plain")
    assert called.code == 2
    assert "plain keeps no images" in called.err


def test_images_besides_the_agents_are_had_too_and_an_instance_that_cannot_say_stops_no_other(keeper):
    (keeper.path / "more.py").write_text("""
from agentix.api import EnvFailed, ImageBuild, SandboxConfig
from keeper import Dataset as Plain
from pathlib import Path


class Dataset(Plain):
    def image(self, instance):
        if instance["instance_id"] == "task-1":
            raise EnvFailed("VARIABLE is not set")
        return "busybox:1"

    def more_sandboxes(self, instance):
        return [SandboxConfig(image="busybox:1"), SandboxConfig(image=ImageBuild(context=Path("tests")))]
""")
    called = keeper.agentix("images", "pull", "--dataset", "./more.py:Dataset", *PROVIDER)
    assert called.code == 1
    assert sorted(called.out.splitlines()) == [
        "2 of 2 images are there",
        "FAILED  task-1: VARIABLE is not set",
        "ok      busybox:1",
        "ok      tests/Dockerfile",
    ]
    called = keeper.agentix("images", "build", "--dataset", "./more.py:Dataset", "--instance", "task-0", *PROVIDER)
    assert (called.code, called.out.splitlines()) == (0, ["ok      tests/Dockerfile", "1 of 1 images are there"])
    called = keeper.agentix("images", "pull", "--dataset", "./more.py:Dataset", "--instance", "task-1", *PROVIDER)
    assert (called.code, called.out.splitlines()) == (1, ["FAILED  task-1: VARIABLE is not set"])
