"""The same promises for agentix run by somebody who is not root."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agentix.providers.local.bubblewrap import is_reachable

PROGRAM = """
import site, sys
for folder in {sites!r}:
    site.addsitedir(folder)
import anyio, json, os
from agentix.api import EnvFailed, SandboxConfig, Unsupported
from agentix.providers.local import LocalProvider
from agentix.testing import run_checks

async def main():
    said = {{}}
    async with LocalProvider() as provider:
        said["check"] = await provider.check()
        async with provider.session(SandboxConfig(memory_mb=128, storage_mb=20, pids=50, env={{"A": "1"}})) as sandbox:
            run = lambda script: sandbox.exec(["bash", "-c", script])
            said["uid"] = (await run("id -u")).text
            said["map"] = (await run("cat /proc/self/uid_map")).text.split()
            said["secrets"] = (await run("cat /etc/shadow /root/.ssh/* " + os.environ["HOME"] + "/canary")).text
            said["kernel"] = (await run("echo 1 > /proc/sys/kernel/panic")).exit_code
            said["environ"] = (await run("env; cat /proc/*/environ")).text
            said["disk"] = (await run("head -c 40000000 /dev/zero > /app/x")).error_text
            said["bomb"] = (await run("for i in $(seq 100); do sleep 9 & done 2>&1")).text
            said["pids"] = len((await run("echo /proc/[0-9]*")).text.split())
            said["notes"] = sandbox.info.notes
            said["others"] = []
            for act in (sandbox.exec("true", user="nobody"), sandbox.write_file("/app/y", b"", user="nobody")):
                try:
                    await act
                except EnvFailed as error:
                    said["others"].append(str(error))
        try:
            await provider.create(SandboxConfig(user="nobody"), await provider.runtime())
        except Unsupported as error:
            said["user"] = str(error)
        async with provider.session(SandboxConfig(network="public")) as sandbox:
            said["devices"] = (await sandbox.exec("cat /proc/net/dev")).text
        results = await run_checks("provider", LocalProvider())
        said["contract"] = [(result.name, result.message) for result in results if not result.ok]
        said["left"] = [info.id for info in await provider.list({{}})]
    print(json.dumps(said))

anyio.run(main)
"""


def interpreter() -> str:
    """An interpreter of this version that other users can run."""
    for name in (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"):
        if Path(name).exists() and is_reachable(Path(name).resolve()):
            return name
    pytest.skip("there is no interpreter of this version that an ordinary user can run")


@pytest.fixture(scope="module")
def said() -> dict[str, object]:
    python = interpreter()
    sites = [folder for folder in site.getsitepackages() if Path(folder).is_dir()]
    uid = 54_321 if os.geteuid() == 0 else os.geteuid()
    with tempfile.TemporaryDirectory(prefix="agentix-user-") as home:
        Path(home, "canary").write_text("canary-value")
        Path(home).chmod(0o755)
        os.chown(home, uid, -1)
        become = {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}
        run = subprocess.run(
            [python, "-c", PROGRAM.format(sites=sites)],
            env={
                "HOME": home,
                "AGENTIX_CACHE_DIR": f"{home}/cache",
                "SECRET": "canary-value",
                "PATH": os.environ["PATH"],
            },
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            **become,
        )
    assert run.returncode == 0, run.stderr
    answer: dict[str, object] = json.loads(run.stdout)
    return answer


def test_sandboxes_work_with_one_uid(said: dict[str, object]) -> None:
    assert said["check"] == []
    assert said["uid"] == "0\n"
    assert isinstance(said["map"], list) and said["map"][0] == "0" and said["map"][2] == "1"


def test_secrets_and_variables_stay_outside(said: dict[str, object]) -> None:
    assert said["secrets"] == ""
    assert "canary" not in str(said["environ"]) and "A=1" in str(said["environ"])
    assert said["kernel"] == 1
    assert isinstance(said["pids"], int) and said["pids"] < 60


def test_limits_hold(said: dict[str, object]) -> None:
    assert "No space left" in str(said["disk"])
    assert "Resource temporarily unavailable" in str(said["bomb"])


def test_another_user_is_refused_by_name(said: dict[str, object]) -> None:
    assert "nobody" in str(said["user"]) and "ordinary user" in str(said["user"])
    assert said["others"] == ["the sandbox has no uid 65534, so not the user 'nobody'"] * 2


@pytest.mark.skipif(shutil.which("slirp4netns") is None, reason="needs slirp4netns")
def test_a_public_network_is_there(said: dict[str, object]) -> None:
    assert "tap0" in str(said["devices"])


def test_the_contract_of_providers_is_kept(said: dict[str, object]) -> None:
    assert said["contract"] == []


def test_nothing_is_left(said: dict[str, object]) -> None:
    assert said["left"] == []
