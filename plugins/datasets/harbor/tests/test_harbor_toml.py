from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentix.api import DatasetError
from agentix.plugins.datasets.harbor.schema import TaskFile
from agentix.plugins.datasets.harbor.toml_file import read_task_file, unknown_keys

EVERY_KEY = """
schema_version = "1.4"
source = "somewhere"
multi_step_reward_strategy = "final"
artifacts = ["/app/out", { source = "/app/x", destination = "x", exclude = ["*.o"], service = "db" }]

[task]
name = "org/name"
version = "1.0"
description = "d"
keywords = ["k"]
authors = [{ name = "A", email = "a@example.org" }]

[metadata]
anything = { goes = [1, 2] }

[agent]
timeout_sec = 10
user = "agent"
network_mode = "allowlist"
allowed_hosts = ["*.Example.org", "10.0.0.0/8", "::1"]

[verifier]
timeout_sec = 20
env = { A = "${B:-c}" }
user = 1000
network_mode = "no-network"
environment_mode = "separate"
collect = [{ command = "true", service = "db", timeout_sec = 5, user = "u" }]

[verifier.environment]
docker_image = "v"

[solution]
env = { S = "1" }

[environment]
build_timeout_sec = 30
docker_image = "i"
os = "Linux"
cpus = 1.5
memory_mb = 512
storage_mb = 1024
gpus = 1
gpu_types = ["H100"]
workdir = "/w"
env = { E = "1" }
skills_dir = "/skills"
network_mode = "public"

[environment.healthcheck]
command = "true"
interval_sec = 0
timeout_sec = 1
start_period_sec = 0
start_interval_sec = 1
retries = 2

[[environment.mcp_servers]]
name = "a"
transport = "stdio"
command = "c"
args = ["x"]

[[environment.mcp_servers]]
name = "b"
url = "http://localhost"
headers = { X = "y" }

[[steps]]
name = "one"
min_reward = { a = 1, b = 0.5 }
artifacts = ["/app/y"]
agent = { timeout_sec = 1 }
verifier = { timeout_sec = 2 }
healthcheck = { command = "true" }

[[steps]]
name = "two"
min_reward = 1
"""


def _read(tmp_path: Path, text: str | bytes) -> TaskFile:
    path = tmp_path / "task.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_task_file(path)


def test_every_key_of_the_format_is_known(tmp_path: Path) -> None:
    file = _read(tmp_path, EVERY_KEY)
    assert unknown_keys(file) == []
    assert file.verifier.user == "1000"
    assert file.agent.allowed_hosts == ("*.example.org", "10.0.0.0/8", "::1")
    assert file.artifacts[0].source == "/app/out"
    assert file.environment.os == "linux"


def test_an_empty_file_has_the_defaults_of_the_format(tmp_path: Path) -> None:
    file = _read(tmp_path, "")
    assert file.agent.timeout_sec is None
    assert (file.verifier.timeout_sec, file.environment.build_timeout_sec) == (600, 600)
    assert file.environment.network_mode == "public"
    assert file.verifier.mode is None


@pytest.mark.parametrize(
    ("text", "network", "memory", "storage"),
    [
        ('memory = "2G"\nstorage = "10G"\nallow_internet = false', "no-network", 2048, 10240),
        ('memory = "512M"\nallow_internet = true', "public", 512, None),
        ('allow_internet = false\nnetwork_mode = "public"', "public", None, None),
        ('memory = "2g"\nmemory_mb = 2048', "public", 2048, None),
    ],
)
def test_deprecated_keys_are_read(
    tmp_path: Path, text: str, network: str, memory: int | None, storage: int | None
) -> None:
    file = _read(tmp_path, f'version = "1.0"\n[environment]\n{text}\n')
    environment = file.environment
    assert (environment.network_mode, environment.memory_mb, environment.storage_mb) == (network, memory, storage)
    assert file.schema_version == "1.0"
    assert unknown_keys(file) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[agent]\ntimout_sec = 1", [("agent.timout_sec", "agent.timeout_sec")]),
        ("timeout_sec = 1", [("timeout_sec", "agent.timeout_sec")]),
        ("[enviroment]\ncpus = 1", [("enviroment", "environment")]),
        ("[verifier.environment]\ncpu = 1", [("verifier.environment.cpu", "verifier.environment.cpus")]),
        ("frobnicate = 1", [("frobnicate", None)]),
        ('[[steps]]\nname = "a"\nminreward = 1', [("steps[0].minreward", "steps.min_reward")]),
        ('[[artifacts]]\nsource = "/a"\ndest = "a"', [("artifacts[0].dest", None)]),
    ],
)
def test_unknown_keys_are_named_with_the_nearest_known_one(
    tmp_path: Path, text: str, expected: list[tuple[str, str | None]]
) -> None:
    assert unknown_keys(_read(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[agent\n", "task.toml:1:7: "),
        ("a = 1\nb = 2\na = 3\n", "task.toml:3:"),
        ("a = ", "task.toml:1:5: "),
        (b"a = 1\nb = '\xff'\n", "task.toml:2:6: not UTF-8"),
        ('[agent]\ntimeout_sec = "x"', "task.toml: agent.timeout_sec: "),
        ("[agent]\ntimeout_sec = true", "task.toml: agent.timeout_sec: a number is needed"),
        ("[agent]\ntimeout_sec = 0", "task.toml: agent.timeout_sec: should be greater than 0, not 0"),
        ("[agent]\ntimeout_sec = nan", "task.toml: agent.timeout_sec: "),
        ("[environment]\ncpus = inf", "task.toml: environment.cpus: "),
        ("[environment]\nmemory_mb = 1.5", "task.toml: environment.memory_mb: "),
        ('[environment]\nmemory = "2X"', 'task.toml: environment: memory = "2X" is not a size'),
        ('[environment]\nmemory = "2G"\nmemory_mb = 1', "task.toml: environment: memory and memory_mb"),
        ('[environment]\nmemory = "infG"', "is not between"),
        ('[environment]\nnetwork_mode = "off"', "task.toml: environment.network_mode: should be 'public'"),
        ('[environment]\nallowed_hosts = ["a.org"]', "task.toml: environment: allowed_hosts needs network_mode"),
        ('[agent]\nallowed_hosts = ["a.org"]', "task.toml: agent: allowed_hosts needs network_mode"),
        ('[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["http://a"]', "agent.allowed_hosts: 'http://a' is"),
        ("[environment.env]\nPORT = 80", "task.toml: environment.env.PORT: a string is needed, not 80"),
        ('[environment.env]\n"A=B" = "1"', "is not a name of an environment variable"),
        ('[environment]\nworkdir = "app"', "task.toml: environment.workdir: "),
        ('[verifier]\nenvironment_mode = "shared"\n[verifier.environment]\ncpus = 1', "cannot have an environment"),
        ("agent = 3", "task.toml: agent: a table is needed, not 3"),
        ("artifacts = [3]", "task.toml: artifacts[0]: a table is needed"),
        ('artifacts = ["/a/../b"]', "task.toml: artifacts[0].source: the path '/a/../b' must not"),
        ('artifacts = [{ source = "a", destination = "/b" }]', "task.toml: artifacts[0].destination: "),
        ('artifacts = [{ source = "a", destination = "./" }]', "names no file"),
        ('[[steps]]\nname = "a/b"', "task.toml: steps[0].name: 'a/b'"),
        ('[[steps]]\nname = ".."', "task.toml: steps[0].name: "),
        ("[[steps]]\nmin_reward = 1", "task.toml: steps[0].name: it is missing"),
        ('[[steps]]\nname = "a"\n[[steps]]\nname = "A"', "task.toml: steps: the steps 'a' and 'A' have one name"),
        ('[[steps]]\nname = "a"\nmin_reward = "x"', "task.toml: steps[0].min_reward: a finite number"),
        ('schema_version = "2.0"', 'task.toml: schema_version: "2.0" is not known here'),
        ('[[environment.mcp_servers]]\nname = "a"', "mcp_servers[0]: the transport sse needs url"),
        ("x = " + "[" * 5000, "task.toml"),
    ],
)
def test_an_error_names_the_file_and_the_place(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(DatasetError) as caught:
        _read(tmp_path, text)
    assert message in str(caught.value)
    assert str(tmp_path / "task.toml") in str(caught.value)


def test_all_wrong_values_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DatasetError) as caught:
        _read(tmp_path, '[agent]\ntimeout_sec = -1\n[verifier]\ntimeout_sec = "x"\n')
    assert len(str(caught.value).splitlines()) == 2


def test_a_byte_order_mark_and_crlf_are_no_errors(tmp_path: Path) -> None:
    assert _read(tmp_path, b"\xef\xbb\xbf[agent]\r\ntimeout_sec = 3\r\n").agent.timeout_sec == 3


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcdef_.", max_size=6), inner, max_size=3),
    max_leaves=6,
)
keys = st.sampled_from(["agent", "verifier", "environment", "steps", "artifacts", "task", "version", "x"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150)
@given(st.dictionaries(keys, values, max_size=4))
def test_any_values_are_read_or_refused_with_the_file(tmp_path: Path, data: dict[str, object]) -> None:
    from unittest.mock import patch

    path = tmp_path / "task.toml"
    path.touch()
    with patch("tomllib.loads", return_value=data):
        try:
            unknown_keys(read_task_file(path))
        except DatasetError as error:
            assert str(path) in str(error)
