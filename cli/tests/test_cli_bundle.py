from __future__ import annotations

import json

import pytest

from agentix.bundle import lookup


@pytest.fixture
def project(toy, monkeypatch):
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(toy.path / "cache"))
    monkeypatch.setattr(lookup, "_READY", {})
    top = toy.path / "project"
    (top / "bin").mkdir(parents=True)
    (top / "bin/hello").write_text("#!/bin/sh\necho hello\n")
    (top / "bin/hello").chmod(0o755)
    (top / "pyproject.toml").write_text('[tool.agentix.bundle]\ntools = ["bin/hello"]\n')
    return top


@pytest.fixture
def built(toy, project):
    called = toy.agentix("build", "project", "-n", "eval:0.1.0", "--quiet")
    assert called.code == 0
    return called.out.strip()


def test_a_build_says_what_it_made(toy, project):
    called = toy.agentix("build", "project", "-n", "eval:0.1.0")
    assert called.code == 0
    assert called.out.startswith("eval:0.1.0  sha256:")
    assert "0 packages, 1 command, " in called.out


def test_a_place_to_push_to_is_checked_before_the_build(toy, project):
    called = toy.agentix("build", "project", "-n", "eval", "--push", "nowhere")
    assert called.code == 2
    assert "'nowhere' is not REGISTRY/NAME[:TAG]" in called.err
    assert "no bundles yet" in toy.agentix("bundle", "list").out


def test_what_cannot_be_built_is_an_error_of_the_user(toy, project):
    (project / "pyproject.toml").write_text('[tool.agentix.bundle]\ntools = ["bin/hallo"]\n')
    called = toy.agentix("build", "project", "-n", "eval")
    assert called.code == 2
    assert called.err.endswith(f"error: tool bin/hallo does not exist: there is nothing at {project}/bin/hallo\n")


def test_the_list_is_empty_then_has_every_name(toy, project):
    assert "no bundles yet" in toy.agentix("bundle", "list").out
    assert toy.agentix("bundle", "list", "--json").json == []
    digest = toy.agentix("build", "project", "-n", "eval:0.1.0", "-q").out.strip()
    toy.agentix("build", "project", "-n", "same", "-q")
    header, *rows = toy.agentix("bundle", "list").out.splitlines()
    assert header.split() == ["NAME", "DIGEST", "PLATFORM", "PYTHON", "SIZE"]
    assert [row.split()[:2] for row in rows] == [[name, digest[:19]] for name in ("eval:0.1.0", "same:latest")]
    (entry,) = toy.agentix("bundle", "list", "--json").json
    assert (entry["names"], entry["digest"], entry["problem"]) == (["eval:0.1.0", "same:latest"], digest, None)


def test_a_bundle_is_shown_with_its_commands_and_files(toy, built):
    shown = toy.agentix("bundle", "show", "eval:0.1.0", "--files").out
    assert built in shown
    assert "  hello  bin/hello" in shown
    assert "program" in shown and "bin/hello" in shown
    assert toy.agentix("bundle", "show", built[:15], "--json").json["tools"] == {"hello": "bin/hello"}


def test_an_unknown_bundle_is_told_with_the_nearest(toy, built):
    for command in (["show"], ["rm"], ["export", "x.tar"]):
        called = toy.agentix("bundle", command[0], "evil:0.1.0", *command[1:])
        assert called.code == 2
        assert "there is no bundle evil:0.1.0; did you mean eval:0.1.0?" in called.err


def test_a_bundle_goes_to_another_machine(toy, built, monkeypatch):
    assert toy.agentix("bundle", "export", "eval:0.1.0", "eval.tar.gz").code == 0
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(toy.path / "other"))
    called = toy.agentix("bundle", "import", "eval.tar.gz")
    assert (called.code, called.out) == (0, f"eval:0.1.0  {built}\n")
    assert toy.agentix("bundle", "import", "eval.tar.gz", "-n", "mine").out == f"mine  {built}\n"
    assert toy.agentix("bundle", "show", "mine").code == 0


def test_removing_and_collecting(toy, built, monkeypatch):
    toy.agentix("build", "project", "-n", "same", "-q")
    assert toy.agentix("bundle", "rm", "same").out.startswith("removed same:latest\n")
    (toy.path / "project/bin/hello").write_text("#!/bin/sh\necho changed\n")
    now = toy.agentix("build", "project", "-n", "eval:0.1.0", "-q").out.strip()
    assert f"would remove {built}" in toy.agentix("bundle", "gc", "--dry-run").out
    assert f"removed {built}" in toy.agentix("bundle", "gc").out
    assert toy.agentix("bundle", "rm", "eval:0.1.0").out.startswith(f"removed eval:0.1.0\nremoved {now}\n")
    assert toy.agentix("bundle", "list", "--json").json == []


def test_a_run_notes_its_bundle_and_refuses_to_go_on_with_another(toy, built):
    first = toy.rollout("--id", "r", "--limit", "2", "--bundle", "eval:0.1.0")
    assert first.code == 0, first.err
    manifest = json.loads((toy.path / "runs/r/manifest.json").read_text())
    assert manifest["bundle"] == {"ref": "eval:0.1.0", "digest": built}
    assert toy.rollout("--id", "r", "--limit", "3", "--bundle", built[:20]).code == 0
    (toy.path / "project/bin/hello").write_text("#!/bin/sh\necho changed\n")
    now = toy.agentix("build", "project", "-n", "eval:0.1.0", "-q").out.strip()
    again = toy.rollout("--id", "r", "--bundle", "eval:0.1.0")
    assert again.code == 2
    assert f"bundle: {built[7:19]} -> {now[7:19]}" in again.err
    without = toy.rollout("--id", "r")
    assert f"bundle: {built[7:19]} -> (none)" in without.err


def test_a_run_with_an_unknown_bundle_writes_nothing(toy, built):
    called = toy.rollout("--id", "r", "--bundle", "eval:0.2.0")
    assert called.code == 2
    assert "there is no bundle eval:0.2.0; eval has 0.1.0" in called.err
    assert not (toy.path / "runs").exists()
