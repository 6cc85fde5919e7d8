"""Cases of git repositories: one fetch, one commit, and errors that say which line to change."""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentix.api import Case, content_hash
from agentix.plugins.experiments.cases import resolve
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.documents import ExperimentError, load

pytestmark = pytest.mark.anyio

IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}
EXPERIMENT = "kind: Experiment\nname: n\nmatrix: {agents: [oracle]}\n"


def git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env={**os.environ, **IDENTITY}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def make_case(directory: Path, text: str = "") -> None:
    (directory / "tests").mkdir(parents=True)
    (directory / "task.toml").write_text(f"# {text}\n")
    (directory / "tests" / "test.sh").write_text("#!/bin/sh\n")
    (directory / "tests" / "test.sh").chmod(0o755)


def commit(repo: Path, message: str = "x") -> str:
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", message)
    return git(repo, "rev-parse", "HEAD")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "--quiet", "--initial-branch=main")
    for name in ("one", "two"):
        make_case(path / "cases" / name, name)
    (path / "cases" / "README").write_text("no case")
    (path / "huge").mkdir()
    (path / "huge" / "file").write_text("not wanted")
    commit(path)
    monkeypatch.chdir(tmp_path)
    return path


def experiment(tmp_path: Path, cases: str, head: str = "") -> Path:
    file = tmp_path / "e.yaml"
    file.write_text(f"{head}{EXPERIMENT}{cases}\n")
    return file


async def resolved(file: Path, said: list[str] | None = None, **more: Any) -> tuple[Case, ...]:
    async with CommandRunner(**more) as runner:
        return await resolve(
            load(file), runner=runner, snapshots=file.parent / "snapshots", say=(said or []).append, pause_s=0.001
        )


async def problems(file: Path) -> list[str]:
    with pytest.raises(ExperimentError) as caught:
        await resolved(file)
    return [str(problem) for problem in caught.value.problems]


async def test_a_pattern_gives_its_cases_pinned_to_a_commit_and_nothing_else_is_checked_out(
    tmp_path: Path, repo: Path
) -> None:
    file = experiment(tmp_path, "cases: [{source: git, repo: repo, ref: main, path: 'cases/*'}]")
    said: list[str] = [""]
    cases = await resolved(file, said)
    assert [case.name for case in cases] == ["one", "two"]
    assert cases[0].pin == {
        "repo": str(repo),
        "ref": "main",
        "commit": git(repo, "rev-parse", "main"),
        "path": "cases/one",
    }
    assert cases[0].sha256 == content_hash(repo / "cases" / "one")
    assert cases[0].directory == tmp_path / "snapshots" / str(cases[0].sha256)
    assert cases[0].instance == {"instance_id": "one", "path": str(cases[0].directory)}
    assert said[1] == f"case 1/2 cases/one -> {str(cases[0].sha256)[:12]} (pinned git)"
    assert {path.name for path in (tmp_path / "snapshots").iterdir()} == {str(case.sha256) for case in cases}


async def test_a_ref_is_a_branch_a_tag_or_a_commit_long_or_short(tmp_path: Path, repo: Path) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "tag", "--annotate", "--message", "t", "v1")
    (repo / "cases" / "one" / "task.toml").write_text("# later\n")
    second = commit(repo)
    git(repo, "branch", "feature/x", first)
    entries = [
        ("main", second),
        ("v1", first),
        ("feature/x", first),
        (first, first),
        (second, second),
        (first[:9], first),
    ]
    listed = "".join(
        f"- {{source: git, repo: repo, path: cases/one, ref: '{ref}', id: c{n}}}\n"
        for n, (ref, _) in enumerate(entries)
    )
    cases = await resolved(
        experiment(tmp_path, f"cases:\n{listed}- {{source: git, repo: repo, path: cases/one, id: head}}")
    )
    assert [case.pin["commit"] for case in cases] == [*(wanted for _, wanted in entries), second]


async def test_a_whole_repository_can_be_a_case(tmp_path: Path, repo: Path) -> None:
    make_case(tmp_path / "alone")
    git(tmp_path / "alone", "init", "--quiet")
    commit(tmp_path / "alone")
    [case] = await resolved(experiment(tmp_path, "cases: [{source: git, repo: ./alone}]"))
    assert (case.name, case.sha256) == ("alone", content_hash(tmp_path / "alone"))


async def test_a_thousand_cases_of_a_repository_are_one_fetch(tmp_path: Path, repo: Path) -> None:
    for number in range(1000):
        make_case(repo / "many" / f"c{number:04}", str(number))
    commit(repo)
    log = tmp_path / "git.log"
    real = shutil.which("git")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text(f'#!/bin/sh\necho "$*" >> {log}\nexec {real} "$@"\n')
    (tmp_path / "bin" / "git").chmod(0o755)
    host = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    listed = "".join(f"- {{path: many/c{number:04}}}\n" for number in range(1000))
    file = experiment(tmp_path, f"case_defaults: {{source: git, repo: repo, ref: main}}\ncases:\n{listed}")
    cases = await resolved(file, host_env=host)
    assert len(cases) == 1000
    assert len({case.sha256 for case in cases}) == 1000
    calls = log.read_text().splitlines()
    assert sum(" fetch " in call for call in calls) == 1
    assert len(calls) < 12


async def test_this_machines_configuration_changes_no_byte(
    tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path / 'hooked'}\n")
    (hooks / "post-checkout").chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(f"[core]\n autocrlf = true\n symlinks = false\n hooksPath = {hooks}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    (repo / "cases" / "one" / "link").symlink_to("task.toml")
    commit(repo)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    [case] = await resolved(experiment(tmp_path, "cases: [{source: git, repo: repo, path: cases/one}]"))
    assert case.sha256 == content_hash(repo / "cases" / "one")
    assert not (tmp_path / "hooked").exists()


@pytest.mark.parametrize(
    ("entry", "path", "words"),
    [
        ("{repo: repo, path: cases/one, ref: mian}", "ref", "neither a branch nor a tag 'mian'; did you mean 'main'?"),
        ("{repo: repo, path: cases/one, ref: 0123456789abcdef0123456789abcdef01234567}", "ref", "no commit 0123456789"),
        ("{repo: repo, path: cases/one, ref: '--upload-pack=touch x'}", "ref", "neither a branch, a tag nor a commit"),
        ("{repo: repo, path: cases/one, ref: 'main:refs/heads/x'}", "ref", "neither a branch, a tag nor a commit"),
        ("{repo: nowhere, path: cases/one}", "repo", "nowhere: there is no such repository (looked in "),
        ("{repo: empty, path: cases/one}", "repo", "does not appear to be a git repository"),
        ("{repo: --upload-pack=x, path: cases/one}", "repo", "no address of a repository"),
        ("{repo: 'https://me:s3cret@example.org/r', path: a}", "repo", "holds a password"),
        ("{repo: repo, path: cases/three}", "path", "there is no such directory"),
        ("{repo: repo, path: cases}", "path", "is a directory of cases, such as one; write cases/*"),
        ("{repo: repo, path: 'huge/*'}", "path", "no directory that matches it has a task.toml"),
        ("{repo: repo, path: ../x}", "path", "no path in a repository"),
        ("{repo: repo, path: /etc}", "path", "no path in a repository"),
        ("{repo: repo, path: cases/README}", "path", "is no directory"),
        ("{repo: repo, path: out}", "path", "leads out of the repository"),
        ("{repo: repo, path: 'cases/*', id: one}", "id", "is of one case, and this entry stands for 2"),
        (f"{{repo: repo, path: cases/one, sha256: '{'0' * 64}'}}", "sha256", "the content of cases/one hashes to"),
    ],
)
async def test_what_is_wrong_names_the_line(tmp_path: Path, repo: Path, entry: str, path: str, words: str) -> None:
    (repo / "out").symlink_to("/etc")
    (tmp_path / "empty").mkdir()
    commit(repo)
    file = experiment(tmp_path, f"case_defaults: {{source: git}}\ncases:\n- {entry}")
    [problem] = await problems(file)
    assert problem.startswith(f"{file}:6: cases[0].{path}: "), problem
    assert words in problem
    assert "s3cret" not in problem


async def test_a_submodule_in_a_case_is_refused_and_elsewhere_is_not_minded(tmp_path: Path, repo: Path) -> None:
    head = git(repo, "rev-parse", "HEAD")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{head},cases/one/vendor")
    git(repo, "commit", "--quiet", "--message", "submodule")
    [problem] = await problems(experiment(tmp_path, "cases: [{source: git, repo: repo, path: cases/one}]"))
    assert "holds the submodule cases/one/vendor" in problem
    assert len(await resolved(experiment(tmp_path, "cases: [{source: git, repo: repo, path: cases/two}]"))) == 1


async def test_a_pointer_of_git_lfs_is_not_taken_for_content(tmp_path: Path, repo: Path) -> None:
    (repo / "cases" / "one" / "data.bin").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    )
    commit(repo)
    [problem] = await problems(experiment(tmp_path, "cases: [{source: git, repo: repo, path: cases/one}]"))
    assert "cases/one/data.bin is in Git LFS" in problem


async def test_source_git_takes_the_place_of_git(tmp_path: Path, repo: Path) -> None:
    head = (
        "kind: Commands\nsource_git:\n  script: |\n    set -eu\n"
        '    git clone --quiet --depth 1 --branch "${GIT_REF}" "file://${GIT_REPO}" "${LOCAL_PATH}"\n'
        f'    echo "${{CASE_PATHS}}" > {tmp_path}/paths; echo x >> {tmp_path}/count\n---\n'
    )
    entries = (f"{{source: git, repo: repo, ref: main, path: cases/{name}}}" for name in ("one", "two"))
    listed = f"cases: [{', '.join(entries)}]"
    cases = await resolved(experiment(tmp_path, listed, head))
    assert [case.pin["commit"] for case in cases] == [git(repo, "rev-parse", "main")] * 2
    assert (tmp_path / "count").read_text() == "x\n"
    assert (tmp_path / "paths").read_text() == "cases/one\ncases/two\n"


async def test_a_fetch_is_tried_again_from_an_empty_directory_and_no_more_often_than_said(
    tmp_path: Path, repo: Path
) -> None:
    head = (
        "kind: Commands\nmax_attempts: 3\nmine:\n  script: |\n"
        f'    cd {tmp_path}\n    echo x >> count\n    [ -z "$(ls $LOCAL_PATH)" ] || exit 9\n'
        "    touch $LOCAL_PATH/half\n"
        "    [ $(wc -l < count) -ge GOOD ] || { echo busy >&2; exit 75; }\n    cp -r repo/cases $LOCAL_PATH\n---\n"
    )
    listed = "cases: [{source: git, repo: repo, path: cases/one, fetch: mine}]"
    assert len(await resolved(experiment(tmp_path, listed, head.replace("GOOD", "3")))) == 1
    (tmp_path / "count").unlink()
    [problem] = await problems(experiment(tmp_path, listed, head.replace("GOOD", "4")))
    assert "cases[0].fetch: mine: exit status 75: busy (tried 3 times)" in problem
    assert (tmp_path / "count").read_text() == "x\n" * 3


class _Backend(http.server.CGIHTTPRequestHandler):
    """Smart HTTP, by git's own program."""

    root = ""
    seen: list[str]
    busy = 0

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: object) -> None:
        return

    def _serve(self) -> None:
        kind = type(self)
        kind.seen.append(f"{self.command} {self.path}")
        if kind.busy:
            kind.busy -= 1
            self.send_error(503)
            return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": kind.root,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_LENGTH": str(len(body)),
            "CONTENT_TYPE": self.headers.get("Content-Type") or "",
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "uploadpack.allowFilter",
            "GIT_CONFIG_VALUE_0": "true",
            "GIT_CONFIG_KEY_1": "safe.directory",
            "GIT_CONFIG_VALUE_1": "*",
        }
        answer = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, check=False
        ).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def server(repo: Path) -> Iterator[tuple[str, type[_Backend]]]:
    handler = type("Backend", (_Backend,), {"root": str(repo.parent), "seen": [], "busy": 0})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}/repo/.git", handler
        listening.shutdown()
        thread.join()


@pytest.mark.real
async def test_over_http_only_what_is_wanted_is_fetched(
    tmp_path: Path, repo: Path, server: tuple[str, type[_Backend]]
) -> None:
    url, backend = server
    (repo / "huge" / "file").write_bytes(os.urandom(3_000_000))
    commit(repo)
    file = experiment(tmp_path, f"cases: [{{source: git, repo: '{url}', ref: main, path: 'cases/*'}}]")
    cases = await resolved(file, host_env={**os.environ, "no_proxy": "127.0.0.1"})
    assert [case.sha256 for case in cases] == [content_hash(repo / "cases" / name) for name in ("one", "two")]
    # The refs, the commit with its trees, and the wanted blobs all at once.
    assert sum(line.startswith("POST") for line in backend.seen) <= 6


@pytest.mark.real
async def test_a_server_that_is_busy_is_asked_again_and_one_that_has_no_such_repository_is_not(
    tmp_path: Path, repo: Path, server: tuple[str, type[_Backend]]
) -> None:
    url, backend = server
    backend.busy = 2
    host = {**os.environ, "no_proxy": "127.0.0.1"}
    assert (
        len(
            await resolved(
                experiment(tmp_path, f"cases: [{{source: git, repo: '{url}', path: 'cases/*'}}]"), host_env=host
            )
        )
        == 2
    )
    backend.seen.clear()
    file = experiment(tmp_path, f"cases: [{{source: git, repo: '{url}x', path: 'cases/*'}}]")
    with pytest.raises(ExperimentError, match="not found"):
        await resolved(file, host_env=host)
    assert len(backend.seen) == 1
