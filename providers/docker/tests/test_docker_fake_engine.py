"""Engines that misbehave: absent, refusing, slow, full, out of patience."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from agentix.api import Capability, EnvFailed, HostError, RuntimeMount, SandboxConfig, SandboxGone, Unsupported
from agentix.providers.docker import DockerConfig, DockerProvider

pytestmark = pytest.mark.anyio


def _load_fake() -> ModuleType:
    name = "agentix_docker_fake_engine"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("fake_engine.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


fakes = _load_fake()
Answers = fakes.Answers

RUNTIME = RuntimeMount(path=Path("/runtime"), digest="d" * 64, argv=("/agentix/runtime/python",))


@pytest.fixture
async def engine(anyio_backend: str) -> AsyncIterator[Any]:
    async with fakes.fake_engine() as made:
        yield made


def provider_of(engine: Any, **options: Any) -> DockerProvider:
    return DockerProvider(DockerConfig(host=engine.url, **options))


async def test_no_engine_is_one_error_that_names_the_way_out(tmp_path: Path) -> None:
    async with DockerProvider(DockerConfig(host=f"unix://{tmp_path}/none.sock")) as provider:
        with pytest.raises(HostError, match=r"(?s)no container engine answers.*none\.sock.*--provider local") as info:
            await provider.create(SandboxConfig(image="x"), RUNTIME)
        assert info.value.detail == "engine"
        (problem,) = await provider.check()
        assert "--provider local" in problem


async def test_a_socket_that_may_not_be_used_is_told_from_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentix.providers.docker import connecting

    async def refuse(path: str) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(connecting, "_connect_unix", refuse)
    async with DockerProvider(DockerConfig(host=f"unix://{tmp_path}/s")) as provider:
        with pytest.raises(HostError, match="does not let this user in") as info:
            await provider.list({})
    assert "group `docker`" in str(info.value.hint)


@pytest.mark.parametrize("path", ["/version", "/info"])
@pytest.mark.parametrize("answer", [Answers(404, "nothing here"), Answers(403, {"message": "no"}), Answers(value=[1])])
async def test_what_is_no_engine_is_said_not_to_be_one(engine: Any, path: str, answer: Any) -> None:
    async def handler(asked: Any) -> Any:
        return answer if asked.path == path else None

    engine.handler = handler
    async with provider_of(engine) as provider:
        with pytest.raises(HostError, match=r"what answers at unix://.* is no container engine: .") as info:
            await provider.list({})
        assert "DOCKER_HOST" in str(info.value.hint)
        assert len(await provider.check()) == 1


async def test_what_speaks_of_no_api_is_no_engine(engine: Any) -> None:
    engine.version = {"hello": "world"}
    async with provider_of(engine) as provider:
        with pytest.raises(HostError, match="no container engine"):
            await provider.list({})


async def test_a_web_server_is_no_engine() -> None:
    async def serve(stream: ByteStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        url = f"tcp://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        async with DockerProvider(DockerConfig(host=url)) as provider:
            with pytest.raises(
                HostError, match=rf"what answers at {url} is no container engine: /version gives no JSON"
            ):
                await provider.list({})
        group.cancel_scope.cancel()


@pytest.mark.parametrize("path", ["/_ping", "/version", "/info"])
async def test_an_engine_that_accepts_and_never_answers_is_soon_said_to_hang(
    engine: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentix.providers.docker import engine as engine_module

    assert engine_module.FIRST_S <= 10
    monkeypatch.setattr(engine_module, "FIRST_S", 0.2)

    async def handler(asked: Any) -> Any:
        if asked.path == path:
            await anyio.sleep_forever()

    engine.handler = handler
    async with provider_of(engine) as provider:
        with pytest.raises(HostError, match=r"did not .* within 0\.2 s") as info:
            await provider.create(SandboxConfig(image="x"), RUNTIME)
        assert info.value.detail == "engine"
        (problem,) = await provider.check()
        assert "hangs or is overloaded" in problem


@pytest.mark.parametrize(
    ("newest", "oldest", "spoken"), [("1.41", "1.12", "1.41"), ("1.99", "1.44", "1.51"), ("1.40", "1.24", "1.40")]
)
async def test_the_version_of_the_api_is_agreed_on(engine: Any, newest: str, oldest: str, spoken: str) -> None:
    engine.version |= {"ApiVersion": newest, "MinAPIVersion": oldest}
    async with provider_of(engine) as provider:
        assert await provider.list({}) == []
        assert (await provider._engine.facts()).api == spoken


@pytest.mark.parametrize(("newest", "oldest"), [("1.30", "1.12"), ("1.99", "1.90")])
async def test_an_engine_that_is_too_old_or_too_new_is_refused(engine: Any, newest: str, oldest: str) -> None:
    engine.version |= {"ApiVersion": newest, "MinAPIVersion": oldest}
    async with provider_of(engine) as provider:
        with pytest.raises(HostError, match=r"speaks API .* and agentix 1\.40 to 1\.51"):
            await provider.list({})


@pytest.mark.parametrize("how", ["header", "date", "message"])
async def test_pulls_wait_as_long_as_the_registry_asks_and_then_go_on(engine: Any, how: str) -> None:
    times: list[float] = []

    def refusal() -> Answers:
        if how == "message":
            return Answers(200, {"error": "toomanyrequests: rate limit, retry-after: 1"})
        # A date has whole seconds, and is read a moment after it was written.
        after = "1" if how == "header" else formatdate(time.time() + 3, usegmt=True)
        return Answers(429, {"message": "slow down"}, {"Retry-After": after})

    async def handler(asked: Any) -> Any:
        if asked.path == "/images/create":
            times.append(time.monotonic())
            if len(times) == 1:
                return refusal()
        return None

    engine.handler = handler
    async with provider_of(engine) as provider:
        info = await provider.create(SandboxConfig(image="some/image:1"), RUNTIME)
        await provider.delete(info.id)
    assert len(times) == 2
    assert 0.9 <= times[1] - times[0] < 25
    assert any("pulled some/image:1" in note for note in info.notes)


async def test_many_who_need_one_image_pull_it_once(engine: Any) -> None:
    arrived = anyio.Event()

    async def handler(asked: Any) -> Any:
        if asked.path == "/images/create":
            await arrived.wait()
        return None

    engine.handler = handler
    async with provider_of(engine) as provider:

        async def trial() -> None:
            info = await provider.create(SandboxConfig(image="some/image"), RUNTIME)
            await provider.delete(info.id)

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(trial)
            await anyio.wait_all_tasks_blocked()
            arrived.set()
    (pull,) = engine.calls("POST /images/create")
    assert pull.query == {"fromImage": "some/image", "tag": "latest"}
    assert len(engine.calls("POST /containers/create")) == 8


async def test_a_cancelled_pull_is_taken_over_by_who_waits(engine: Any) -> None:
    blocked = anyio.Event()

    async def handler(asked: Any) -> Any:
        if asked.path == "/images/create" and not blocked.is_set():
            blocked.set()
            await anyio.sleep_forever()
        return None

    engine.handler = handler
    async with provider_of(engine) as provider, anyio.create_task_group() as group:
        first = anyio.CancelScope()

        async def one(scope: anyio.CancelScope) -> None:
            with scope:
                info = await provider.create(SandboxConfig(image="i:1"), RUNTIME)
                await provider.delete(info.id)

        group.start_soon(one, first)
        await blocked.wait()
        group.start_soon(one, anyio.CancelScope())
        await anyio.wait_all_tasks_blocked()
        first.cancel()
    assert len(engine.calls("POST /images/create")) == 2


@pytest.mark.parametrize(
    ("said", "status", "error", "detail", "hint"),
    [
        ("manifest for x:1 not found: manifest unknown", 404, EnvFailed, "image_pull", "typing error"),
        ("pull access denied for x, repository does not exist or may require 'docker login'", 404, EnvFailed,
         "image_pull", "docker login"),
        ("unauthorized: authentication required", 500, EnvFailed, "image_pull", "docker login"),
        ("no matching manifest for linux/arm64", 404, EnvFailed, "image_pull", "platform"),
        ("dial tcp: lookup registry: no such host", 500, HostError, "image_pull", ""),
        ("write /var/lib: no space left on device", 500, HostError, "disk_full", "system prune"),
    ],
)  # fmt: skip
async def test_each_way_a_pull_fails_has_its_own_error(
    engine: Any, said: str, status: int, error: type[HostError | EnvFailed], detail: str, hint: str
) -> None:
    async def handler(asked: Any) -> Any:
        return Answers(status, {"message": said}) if asked.path == "/images/create" else None

    engine.handler = handler
    async with provider_of(engine) as provider:
        with pytest.raises(error) as info:
            await provider.create(SandboxConfig(image="x:1"), RUNTIME)
    assert said in info.value.message
    assert info.value.detail == detail
    assert hint in (info.value.hint or "")
    assert isinstance(info.value, error)
    assert engine.containers == {}


async def test_pulling_has_a_time_limit(engine: Any) -> None:
    async def handler(asked: Any) -> Any:
        if asked.path == "/images/create":
            await anyio.sleep_forever()

    engine.handler = handler
    async with provider_of(engine, pull_timeout_s=0.2) as provider:
        with pytest.raises(HostError, match=r"more than 0\.2 s"):
            await provider.create(SandboxConfig(image="x:1"), RUNTIME)


@pytest.mark.parametrize(
    ("policy", "present", "pulls"), [("missing", True, 0), ("missing", False, 1), ("always", True, 1)]
)
async def test_the_pull_policy_is_kept(engine: Any, policy: str, present: bool, pulls: int) -> None:
    if present:
        engine.images["x:1"] = fakes.IMAGE
    async with provider_of(engine, pull=policy) as provider:
        for _ in range(2):
            info = await provider.create(SandboxConfig(image="x:1"), RUNTIME)
            await provider.delete(info.id)
    assert len(engine.calls("POST /images/create")) == pulls


async def test_an_image_of_another_architecture_is_refused_unless_asked_for(engine: Any) -> None:
    engine.version["Arch"] = "amd64" if os.uname().machine == "x86_64" else "arm64"
    engine.images["x:1"] = {**fakes.IMAGE, "Architecture": "s390x"}
    async with provider_of(engine, pull="never") as provider:
        with pytest.raises(EnvFailed, match="linux/s390x") as info:
            await provider.create(SandboxConfig(image="x:1"), RUNTIME)
        assert info.value.detail == "image_platform"
        made = await provider.create(SandboxConfig(image="x:1", platform="linux/s390x"), RUNTIME)
        await provider.delete(made.id)


async def test_where_only_another_platform_is_there_and_the_pull_fails_the_error_tells_both(engine: Any) -> None:
    async def handler(asked: Any) -> Any:
        return Answers(500, {"message": "no such host"}) if asked.path == "/images/create" else None

    engine.images["x:1"] = {**fakes.IMAGE, "Architecture": "s390x"}
    engine.handler = handler
    async with provider_of(engine) as provider:
        with pytest.raises(
            HostError, match=r"x:1 cannot be pulled \(the engine has it for linux/s390x\): .*no such host"
        ):
            await provider.create(SandboxConfig(image="x:1", platform="linux/riscv64"), RUNTIME)


async def test_an_engine_of_another_architecture_is_refused(engine: Any) -> None:
    engine.version["Arch"] = "s390x"
    async with provider_of(engine) as provider:
        with pytest.raises(HostError, match="s390x"):
            await provider.create(SandboxConfig(image="x:1"), RUNTIME)


async def test_a_start_that_fails_tells_its_error_and_removes_the_container(engine: Any) -> None:
    engine.images["x:1"] = fakes.IMAGE

    async def handler(asked: Any) -> Any:
        if asked.path.endswith("/start"):
            return Answers(500, {"message": "first error"})
        if asked.method == "DELETE" and len(engine.calls("DELETE")) == 1:
            return Answers(500, {"message": "second error"})
        return None

    engine.handler = handler
    async with provider_of(engine) as provider:
        with pytest.raises(HostError, match="first error"):
            await provider.create(SandboxConfig(image="x:1"), RUNTIME)
    assert engine.containers == {}


async def test_a_container_that_is_made_after_its_create_was_cancelled_is_removed(engine: Any) -> None:
    engine.images["x:1"] = fakes.IMAGE
    creating = anyio.Event()
    go_on = anyio.Event()

    async def handler(asked: Any) -> Any:
        if asked.path == "/containers/create":
            creating.set()
            await go_on.wait()
        return None

    engine.handler = handler
    async with provider_of(engine) as provider, anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def create() -> None:
            with scope:
                await provider.create(SandboxConfig(image="x:1"), RUNTIME)

        group.start_soon(create)
        await creating.wait()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert scope.cancelled_caught
    assert len(engine.calls("POST /containers/create")) == 1
    assert engine.containers == {}


async def test_a_removal_that_hangs_is_given_up_and_reported(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.images["x:1"] = fakes.IMAGE
    hanging = [True]

    async def handler(asked: Any) -> Any:
        if asked.method == "DELETE" and hanging[0]:
            await anyio.sleep_forever()

    engine.handler = handler
    monkeypatch.setattr(DockerProvider, "teardown_s", 0.3)
    monkeypatch.setattr(DockerProvider, "heartbeat_s", 0.02)
    monkeypatch.setattr(DockerProvider, "missed_heartbeats", 1)
    monkeypatch.setattr("agentix.providers.docker.provider.base_runtime", None)

    async def runtime(self: DockerProvider) -> RuntimeMount:
        return RUNTIME

    monkeypatch.setattr(DockerProvider, "runtime", runtime)
    async with provider_of(engine, reconnect_s=0) as provider:
        began = anyio.current_time()
        with pytest.raises(SandboxGone, match="not answered") as info:
            async with provider.session(SandboxConfig(image="x:1")):
                pass
        assert anyio.current_time() - began < 25
        unreleased = info.value.unreleased  # type: ignore[attr-defined]
        assert unreleased.id in engine.containers
        assert "0.3 s" in unreleased.message
        hanging[0] = False
        await provider.delete(unreleased.id)
    assert engine.containers == {}


async def test_a_removal_under_way_is_waited_for(engine: Any) -> None:
    engine.containers["agentix-x"] = {"Labels": {}}
    answers = iter([Answers(409, {"message": "removal in progress"}), Answers(500, {"message": "is not running"})])

    async def handler(asked: Any) -> Any:
        return next(answers, None) if asked.method == "DELETE" else None

    engine.handler = handler
    async with provider_of(engine) as provider:
        await provider.delete("agentix-x")
        await provider.delete("agentix-x")
    assert engine.containers == {}


async def test_an_engine_that_goes_away_is_said_to_have_gone(engine: Any) -> None:
    engine.images["x:1"] = fakes.IMAGE

    async def handler(asked: Any) -> Any:
        if asked.path.endswith("/wait"):
            raise anyio.EndOfStream
        return None

    engine.handler = handler
    async with provider_of(engine) as provider:
        info = await provider.create(SandboxConfig(image="x:1"), RUNTIME)
        gone = await provider.explain(info.id)
        assert "the engine went away" in gone.message
        await provider.delete(info.id)


@pytest.mark.parametrize("noted_at", [1, 4, None])
async def test_a_kill_that_the_engine_notes_late_is_not_taken_for_a_want_of_memory(
    engine: Any, noted_at: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentix.providers.docker.gone._AGAIN_S", 0.01)
    engine.images["x:1"] = fakes.IMAGE
    asked_for_events = 0

    async def handler(asked: Any) -> Any:
        nonlocal asked_for_events
        if asked.path.endswith("/wait"):
            return Answers(value={"StatusCode": 137})
        if asked.path.startswith("/containers/") and asked.path.endswith("/json") and asked.method == "GET":
            state = {"Status": "exited", "Running": False, "OOMKilled": True, "ExitCode": 137}
            return Answers(value={"State": state}) if asked.path != "/containers/json" else None
        if asked.path == "/events":
            asked_for_events += 1
            late = noted_at is None or asked_for_events < noted_at
            return Answers(value={"Action": "oom" if late else "kill"})
        return None

    engine.handler = handler
    async with provider_of(engine) as provider:
        info = await provider.create(SandboxConfig(image="x:1"), RUNTIME)
        said = await provider.explain(info.id)
        await provider.delete(info.id)
    assert (said.exit_code, said.oom) == (137, noted_at is None)
    assert ("somebody killed" in said.message) == (noted_at is not None)


async def test_what_an_engine_says_of_its_limits_is_believed(engine: Any) -> None:
    engine.info |= {"MemoryLimit": False, "Driver": "btrfs", "Runtimes": {"nvidia": {}}}
    engine.images["x:1"] = fakes.IMAGE
    async with provider_of(engine) as provider:
        assert Capability.MEMORY_LIMIT in provider.capabilities
        with pytest.raises(Unsupported, match="memory_mb"):
            await provider.create(SandboxConfig(image="x:1", memory_mb=64), RUNTIME)
        assert Capability.MEMORY_LIMIT not in provider.capabilities
        assert {Capability.STORAGE_LIMIT, Capability.GPUS} <= provider.capabilities
        info = await provider.create(SandboxConfig(image="x:1", storage_mb=64, gpus=2), RUNTIME)
        host = engine.containers[info.id]["HostConfig"]
        await provider.delete(info.id)
    assert host["StorageOpt"] == {"size": "64M"}
    assert host["DeviceRequests"][0]["Count"] == 2


async def test_only_what_is_abandoned_is_taken_for_it(engine: Any) -> None:
    engine.images["x:1"] = fakes.IMAGE
    async with provider_of(engine) as provider:
        info = await provider.create(SandboxConfig(image="x:1", labels={"a": "b"}), RUNTIME)
        labels = engine.containers[info.id]["Labels"]
        owner = json.loads(labels["agentix.owner"])
        engine.containers["dead"] = {"Labels": {**labels, "agentix.owner": json.dumps({**owner, "start": 1})}}
        elsewhere = {**labels, "agentix.owner": json.dumps({**owner, "host": "elsewhere"})}
        engine.containers["elsewhere"] = {"Labels": elsewhere}
        engine.containers["expired"] = {"Labels": {**elsewhere, "agentix.lease": "1"}}
        engine.containers["stranger"] = {"Labels": {}}
        assert sorted(found.id for found in await provider.orphans()) == ["dead", "expired"]
        found = {found.id: found for found in await provider.list({})}
        assert sorted(found) == sorted([info.id, "dead", "elsewhere", "expired"])
        assert found[info.id].labels == {"a": "b"}
        assert found[info.id].workdir == "/w"
        engine.containers = {info.id: engine.containers[info.id]}
        await provider.delete(info.id)


async def test_podman_is_known_by_its_components(engine: Any) -> None:
    engine.version["Components"] = [{"Name": "Podman Engine"}]
    async with provider_of(engine) as provider:
        assert (await provider._engine.facts()).podman
