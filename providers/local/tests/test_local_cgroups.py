"""Where control groups are made, by what the kernel says about mounts and membership."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.providers.local import cgroups


def controller(path: Path, *, handed_down: str = "", **limits: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.subtree_control").write_text(handed_down)
    (path / "cgroup.procs").write_text("")
    for name, value in limits.items():
        (path / name.replace("_", ".")).write_text(value)
    return path


def v2(top: Path) -> str:
    return f"41 31 0:38 / {top} rw,relatime - cgroup2 cgroup2 rw"


def test_version_1_nests_below_the_own_group(tmp_path: Path) -> None:
    own = tmp_path / "memory" / "slice" / "own"
    own.mkdir(parents=True)
    found = cgroups.find_parents(
        mounts=f"35 31 0:32 / {tmp_path}/memory rw,relatime - cgroup cgroup rw,memory\n",
        membership="4:memory:/slice/own\n3:cpuset:/\n0::/\n",
    )
    assert found == {"memory": cgroups.Parent(path=own, version=1)}


def test_version_1_takes_the_mounts_root_off_the_path(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    found = cgroups.find_parents(
        mounts=f"35 31 0:32 /docker/abc {tmp_path} rw - cgroup cgroup rw,cpu,cpuacct\n",
        membership="4:cpu,cpuacct:/docker/abc/own\n",
    )
    assert found == {"cpu": cgroups.Parent(path=tmp_path / "own", version=1)}


def test_version_2_uses_the_nearest_directory_that_hands_controllers_down(tmp_path: Path) -> None:
    controller(tmp_path, handed_down="cpu memory pids")
    service = controller(tmp_path / "user", handed_down="memory pids")
    controller(service / "own")
    found = cgroups.find_parents(mounts=v2(tmp_path), membership="0::/user/own\n")
    assert found == {
        "memory": cgroups.Parent(path=service, version=2),
        "pids": cgroups.Parent(path=service, version=2),
        "cpu": cgroups.Parent(path=tmp_path, version=2),
    }


def test_version_2_never_steps_over_a_limit_that_we_run_under(tmp_path: Path) -> None:
    controller(tmp_path, handed_down="cpu memory pids")
    controller(tmp_path / "own", memory_max="1000000\n")
    assert cgroups.find_parents(mounts=v2(tmp_path), membership="0::/own\n") == {}


def test_unlimited_is_no_limit(tmp_path: Path) -> None:
    controller(tmp_path, handed_down="memory")
    controller(tmp_path / "own", memory_max="max\n", pids_max="max\n", cpu_max="max 100000\n")
    assert set(cgroups.find_parents(mounts=v2(tmp_path), membership="0::/own\n")) == {"memory"}


def test_no_mount_means_no_parent() -> None:
    assert cgroups.find_parents(mounts="23 1 0:20 / / rw - ext4 /dev/x rw\n", membership="0::/x\n") == {}


def test_limits_are_written_in_the_words_of_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parents = {name: cgroups.Parent(path=tmp_path, version=2) for name in cgroups.CONTROLLERS}
    monkeypatch.setattr(cgroups, "usable_parents", lambda: parents)
    limits = cgroups.Limits(memory_bytes=1 << 20, pids=7, cpus=1.5)
    groups = cgroups.groups_for("agentix-x", limits)
    cgroups.create(groups, limits)
    assert groups == (tmp_path / "agentix-x",)
    assert {path.name: path.read_text() for path in groups[0].iterdir()} == {
        "memory.max": "1048576",
        "memory.swap.max": "0",
        "pids.max": "7",
        "cpu.max": "150000 100000",
    }


@pytest.mark.parametrize(
    ("file", "text", "kills"),
    [
        ("memory.events", "low 0\noom 3\noom_kill 2\n", 2),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", 1),
        ("memory.stat", "", 0),
    ],
)
def test_kills_for_memory_are_counted(tmp_path: Path, file: str, text: str, kills: int) -> None:
    (tmp_path / file).write_text(text)
    assert cgroups.oom_kills((tmp_path,)) == kills


def test_a_group_that_is_in_use_is_reported(tmp_path: Path) -> None:
    (tmp_path / "busy" / "child").mkdir(parents=True)
    (tmp_path / "free").mkdir()
    left = cgroups.remove((tmp_path / "busy", tmp_path / "free", tmp_path / "gone"), patience_s=0)
    assert left == [tmp_path / "busy"]
