"""Cases of this machine, of datasets and of the hub, and how all problems are told at once."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest

from agentix.api import Case, content_hash
from agentix.plugins.experiments.cases import resolve
from agentix.plugins.experiments.commands import CommandRunner
from agentix.plugins.experiments.documents import ExperimentError, load

pytestmark = pytest.mark.anyio

TAIL = "\nmatrix: {agents: [oracle], trials: 1}\n"


def make_case(directory: Path, text: str = "") -> Path:
    directory.mkdir(parents=True)
    (directory / "task.toml").write_text(f"# {text}\n")
    return directory


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory, with the experiment file in another one beside it."""
    (tmp_path / "work").mkdir()
    (tmp_path / "files").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def experiment(place: Path, cases: str, head: str = "") -> Path:
    file = place / "files" / "e.yaml"
    file.write_text(f"{head}kind: Experiment\nname: n\ncases: {cases}{TAIL}")
    return file


async def resolved(file: Path, said: list[str] | None = None, **more: Any) -> tuple[Case, ...]:
    async with CommandRunner(**more) as runner:
        say = [].append if said is None else said.append
        return await resolve(load(file), runner=runner, snapshots=file.parent / "snapshots", say=say, pause_s=0.001)


async def problems(file: Path, **more: Any) -> list[str]:
    with pytest.raises(ExperimentError) as caught:
        await resolved(file, **more)
    return [str(problem).removeprefix(f"{file}:") for problem in caught.value.problems]


async def test_only_directories_with_a_task_file_match_a_pattern(place: Path) -> None:
    for name in ("b", "a", ".hidden", "Z"):
        make_case(place / "work" / "cases" / name)
    (place / "work" / "cases" / "README.md").write_text("")
    (place / "work" / "cases" / "empty").mkdir()
    cases = await resolved(experiment(place, '[{path: "cases/*"}]'))
    assert [(case.name, case.label) for case in cases] == [("Z", "cases/Z"), ("a", "cases/a"), ("b", "cases/b")]
    assert {(case.source, case.dataset) for case in cases} == {("local", "harbor")}


async def test_the_working_directory_comes_before_the_directory_of_the_file(place: Path) -> None:
    make_case(place / "work" / "both", "work")
    make_case(place / "files" / "both", "file")
    make_case(place / "files" / "beside", "file")
    cases = await resolved(experiment(place, "[{path: both}, {path: beside}]"))
    assert [case.pin["path"] for case in cases] == [str(place / "work" / "both"), str(place / "files" / "beside")]


async def test_a_plain_path_needs_no_task_file_and_that_is_said(place: Path) -> None:
    (place / "work" / "bare").mkdir()
    (place / "work" / "bare" / "link").symlink_to("../elsewhere")
    said: list[str] = []
    [case] = await resolved(experiment(place, "[{path: bare/, id: mine}]"), said)
    assert (case.name, case.label) == ("mine", "bare")
    assert said[0] == f"case 1/1 bare -> {str(case.sha256)[:12]} (local)"
    assert any("has no task.toml" in line for line in said)
    assert any("the link link leads out of the case" in line for line in said)


async def test_an_edit_after_resolving_changes_nothing(place: Path) -> None:
    directory = make_case(place / "work" / "c")
    [case] = await resolved(experiment(place, "[{path: c}]"))
    before = content_hash(directory)
    (directory / "task.toml").write_text("edited")
    assert case.directory is not None
    assert content_hash(case.directory) == case.sha256 == before


async def test_a_matching_pin_is_taken(place: Path) -> None:
    digest = content_hash(make_case(place / "work" / "c"))
    said: list[str] = []
    assert len(await resolved(experiment(place, f"[{{path: c, sha256: '{digest}'}}]"), said)) == 1
    assert said[0].endswith("(pinned local)")


async def test_a_name_that_is_no_text_is_written_so_that_it_is(place: Path) -> None:
    name = os.fsdecode(b"b\xff\n")
    make_case(place / "work" / "cases" / name)
    [case] = await resolved(experiment(place, '[{path: "cases/*"}]'))
    assert case.name == "b\\xff\n"
    json.dumps([case.name, case.label, dict(case.pin)]).encode("utf-8")


async def test_a_case_is_called_as_it_was_written_also_through_a_link_or_with_signs_of_a_pattern(place: Path) -> None:
    make_case(place / "work" / "real-name")
    (place / "work" / "current").symlink_to("real-name")
    make_case(place / "work" / "odd [x]")
    cases = await resolved(experiment(place, "[{path: current}, {path: 'odd [x]'}, {path: real-name/.}]"))
    assert [case.name for case in cases] == ["current", "odd [x]", "real-name"]


async def test_a_case_that_holds_the_run_itself_is_refused(place: Path) -> None:
    make_case(place / "files" / "own")
    (place / "files" / "task.toml").write_text("")
    [problem] = await problems(experiment(place, f"[{{path: '{place / 'files'}'}}]"))
    assert "is inside of it" in problem


async def test_everything_that_is_wrong_is_told_at_once(place: Path) -> None:
    make_case(place / "work" / "cases" / "a")
    make_case(place / "work" / "cases" / "b")
    (place / "work" / "file").write_text("")
    os.mkfifo(make_case(place / "work" / "piped") / "pipe")
    listed = (
        "\n- {path: nope}\n- {path: 'none/*'}\n- {path: cases}\n- {path: 'cases/*', id: x}\n- {path: file}"
        "\n- {source: dataset, dataset: harbour}\n- {path: cases/a, dataset: nodataset}"
        "\n- {path: cases/a, options: {x: 1}}"
    )
    found = await problems(experiment(place, listed))
    wanted = [
        "4: cases[0].path: nope: there is no such directory",
        "5: cases[1].path: none/*: nothing matches it",
        "6: cases[2].path: cases: is a directory of cases, such as a; write cases/* to have all of them",
        "7: cases[3].id: is of one case, and this entry stands for 2",
        "8: cases[4].path: file: is no directory",
        "9: cases[5].dataset: ",
        "10: cases[6].dataset: ",
        "11: cases[7].options.x: ",
    ]
    assert len(found) == len(wanted)
    for problem, start in zip(found, wanted, strict=True):
        assert problem.startswith(start), problem
    assert "harbor" in found[5]
    [problem] = await problems(experiment(place, "[{path: piped}]"))
    assert problem.startswith("3: cases[0].path: piped: ")
    assert "neither a file" in problem


MODULE = """
class Numbers:
    def instances(self):
        for n in range(4):
            yield {"instance_id": f"n-{n}", "number": n}
    def image(self, instance): return ""
    async def setup(self, sandbox, instance): return True
    async def score(self, sandbox, instance, patch): return {"reward": 1.0}
    def content_hash(self, instance): return f"{instance['number']:064}"

dataset = Numbers()
"""


async def test_instances_of_a_dataset_are_cases(place: Path) -> None:
    (place / "work" / "numbers.py").write_text(MODULE)
    file = experiment(place, "[{source: dataset, dataset: ./numbers.py, ids: ['n-[12]', n-3]}]")
    cases = await resolved(file)
    assert [case.name for case in cases] == ["n-1", "n-2", "n-3"]
    assert cases[0].instance == {"instance_id": "n-1", "number": 1}
    assert (cases[0].sha256, cases[0].directory, cases[0].source) == (f"{1:064}", None, "dataset")
    [problem] = await problems(experiment(place, "[{source: dataset, dataset: ./numbers.py, ids: [n-1, n-9]}]"))
    assert problem.startswith("3: cases[0].ids[1]: no instance of ./numbers.py matches 'n-9'; did you mean 'n-")


async def test_an_instance_that_is_a_directory_is_copied_too(place: Path) -> None:
    task = make_case(place / "work" / "tasks" / "t")
    (task / "instruction.md").write_text("do")
    (task / "environment").mkdir()
    (task / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (task / "tests").mkdir()
    (task / "tests" / "test.sh").write_text("#!/bin/sh\n")
    [case] = await resolved(experiment(place, "[{source: dataset, dataset: harbor, options: {path: tasks}}]"))
    assert case.sha256 == content_hash(task)
    assert case.directory is not None
    assert case.instance["path"] == str(case.directory) != str(task)
    assert case.options == {"path": "tasks"}


async def test_without_hf_or_a_command_an_entry_of_the_hub_says_what_to_do(place: Path) -> None:
    file = experiment(place, "[{source: hf, repo: org/name}]")
    [problem] = await problems(file, host_env={"PATH": str(place)})
    assert problem.startswith("3: cases[0].source: there is no `hf` on the PATH: `pip install huggingface_hub`")
    assert "source_hf" in problem


async def test_source_hf_takes_the_place_of_hf(place: Path) -> None:
    script = 'mkdir -p $LOCAL_PATH/a; echo "$HF_REPO $HF_REF" > $LOCAL_PATH/a/task.toml'
    head = f"kind: Commands\nsource_hf: {{script: '{script}'}}\n---\n"
    [case] = await resolved(experiment(place, "[{source: hf, repo: org/name, ref: r1, path: a}]", head))
    assert case.directory is not None
    assert (case.directory / "task.toml").read_text() == "org/name r1\n"
    assert case.pin == {"repo": "org/name", "ref": "r1", "path": "a"}


COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "cases/one/task.toml": b"# one\n",
    "cases/two/task.toml": b"# two\n",
    "huge.bin": b"x" * 100,
    "README.md": b"r\n",
}


class _Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub as downloading a dataset takes."""

    seen: list[str]

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        return

    def _answer(self) -> None:
        type(self).seen.append(f"{self.command} {self.path}")
        path = self.path.partition("?")[0]
        api, resolve_at = "/api/datasets/org/name", f"/datasets/org/name/resolve/{COMMIT}/"
        if path in (f"{api}/revision/main", f"{api}/revision/{COMMIT}", api):
            siblings = [{"rfilename": name} for name in FILES]
            self._send(json.dumps({"id": "org/name", "sha": COMMIT, "siblings": siblings, "private": False}).encode())
        elif path.startswith(f"{api}/tree/"):
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": sha1(data).hexdigest()}
                for name, data in FILES.items()
            ]
            self._send(json.dumps(tree).encode())
        elif path.startswith(resolve_at) and (name := path.removeprefix(resolve_at)) in FILES:
            self._send(FILES[name], etag=sha1(FILES[name]).hexdigest())
        elif path.startswith(f"{api}/revision/"):
            self._send(b"{}", status=404, error="RevisionNotFound")
        else:
            self._send(b"{}", status=404, error="RepoNotFound")

    def _send(self, data: bytes, *, status: int = 200, etag: str = "", error: str = "") -> None:
        self.send_response(status)
        headers = {
            "Content-Length": str(len(data)),
            "X-Repo-Commit": COMMIT,
            "ETag": f'"{etag}"' if etag else "",
            "X-Error-Code": error,
        }
        for key, value in headers.items():
            if value:
                self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)


@pytest.fixture
def hub(place: Path) -> Iterator[tuple[dict[str, str], list[str]]]:
    beside = Path(sys.executable).parent
    if shutil.which("hf") is None and not (beside / "hf").exists():
        pytest.skip("needs `hf` of huggingface_hub")
    handler = type("Hub", (_Hub,), {"seen": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        environment = {
            "PATH": f"{beside}:{os.environ['PATH']}",
            "HOME": str(place / "home"),
            "HF_HOME": str(place / "hf"),
            "HF_ENDPOINT": f"http://127.0.0.1:{listening.server_address[1]}",
            "NO_PROXY": "127.0.0.1",
        }
        yield environment, handler.seen
        listening.shutdown()
        thread.join()


@pytest.mark.real
async def test_the_real_hf_fetches_what_is_wanted_once(place: Path, hub: tuple[dict[str, str], list[str]]) -> None:
    environment, seen = hub
    entries = (f"{{source: hf, repo: org/name, ref: main, path: '{path}'}}" for path in ("cases/o*", "cases/two"))
    listed = f"[{', '.join(entries)}]"
    cases = await resolved(experiment(place, listed), host_env=environment)
    assert [case.name for case in cases] == ["one", "two"]
    assert cases[1].pin == {"repo": "org/name", "ref": "main", "commit": COMMIT, "path": "cases/two"}
    assert cases[1].directory is not None
    assert [path.name for path in cases[1].directory.iterdir()] == ["task.toml"]
    assert not any("huge.bin" in line for line in seen)
    assert sum(line.startswith("GET") and line.endswith("one/task.toml") for line in seen) == 1


@pytest.mark.real
@pytest.mark.parametrize(
    ("entry", "key", "words"),
    [
        ("{source: hf, repo: org/name, ref: nope}", "ref", "has no revision 'nope'"),
        ("{source: hf, repo: org/other}", "repo", "org/other"),
    ],
)
async def test_what_the_hub_does_not_have_is_not_asked_for_again(
    place: Path, hub: tuple[dict[str, str], list[str]], entry: str, key: str, words: str
) -> None:
    environment, _ = hub
    [problem] = await problems(experiment(place, f"[{entry}]"), host_env=environment)
    assert problem.startswith(f"3: cases[0].{key}: ")
    assert words in problem
    assert "tried" not in problem
