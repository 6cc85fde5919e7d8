"""A Hugging Face hub on the loopback: repositories, commits, LFS objects, and answers that go wrong as told."""

from __future__ import annotations

import base64
import http.server
import json
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha1, sha256
from typing import Any

TOKEN = "hf_canaryCANARYcanaryCANARY42"
LFS = re.compile(r"\.(tar|gz|zip|zst|parquet|bin)$")


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """One answer that is not the usual one."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    error: str = "something is wrong"
    after: bool = False
    """Whether the request is carried out before it is answered so."""
    until: threading.Event | None = None
    """What is waited for first."""


@dataclass
class Repo:
    private: bool
    branches: dict[str, list[str]] = field(default_factory=lambda: {"main": ["0" * 40]})
    messages: list[str] = field(default_factory=list)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By branch and path, as BRANCH:PATH."""
    ignored: str = ""

    def paths(self, branch: str = "main") -> dict[str, int]:
        return {key.partition(":")[2]: held["size"] for key, held in self.files.items() if key.startswith(f"{branch}:")}


class Hub(http.server.ThreadingHTTPServer):
    """Everything that it was asked is in `asked`, as KIND; `wrong[KIND]` holds its next answers, `None` a usual one."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.RLock()
        self.repos: dict[str, Repo] = {}
        self.objects: dict[str, int] = {}
        self.asked: list[str] = []
        self.wrong: dict[str, deque[Wrong | None]] = {}
        self.lost: list[str] = []
        self.at: Callable[[str], None] = lambda kind: None
        self.token = TOKEN
        self.owners = {"org"}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed is part of some tests."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def will(self, kind: str, *answers: Wrong | None) -> None:
        self.wrong.setdefault(kind, deque()).extend(answers)

    def count(self, kind: str) -> int:
        return self.asked.count(kind)


@contextmanager
def running() -> Iterator[Hub]:
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


def git_hash(content: bytes) -> str:
    return sha1(b"blob %d\0" % len(content) + content).hexdigest()


ROUTES = (
    ("harnesses", "GET", r"/api/agent-harnesses"),
    ("create", "POST", r"/api/repos/create"),
    ("yaml", "POST", r"/api/validate-yaml"),
    ("revision", "GET", r"/api/(?P<type>\w+)s/(?P<id>[^/]+/[^/]+)/revision/(?P<rev>[^/?]+)(\?.*)?"),
    ("branch", "POST", r"/api/(?P<type>\w+)s/(?P<id>[^/]+/[^/]+)/branch/(?P<rev>[^/?]+)"),
    ("preupload", "POST", r"/api/(?P<type>\w+)s/(?P<id>[^/]+/[^/]+)/preupload/(?P<rev>[^/?]+)"),
    ("commit", "POST", r"/api/(?P<type>\w+)s/(?P<id>[^/]+/[^/]+)/commit/(?P<rev>[^/?]+)"),
    ("info", "GET", r"/api/(?P<type>\w+)s/(?P<id>[^/]+/[^/?]+)(\?.*)?"),
    ("batch", "POST", r"/(?:(?P<type>\w+)s/)?(?P<id>[^/]+/[^/]+)\.git/info/lfs/objects/batch"),
    ("put", "PUT", r"/lfs/(?P<oid>\w+)"),
)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        routes = (
            (kind, re.fullmatch(pattern, self.path)) for kind, method, pattern in ROUTES if method == self.command
        )
        kind, found = next((route for route in routes if route[1]), ("", None))
        if found is None:
            self._answer(404, {"error": f"no route {self.command} {self.path}"})
            return
        hub = self.server
        with hub.lock:
            hub.asked.append(kind)
            wrong = hub.wrong[kind].popleft() if hub.wrong.get(kind) else None
        hub.at(kind)
        if wrong is not None and wrong.until is not None:
            wrong.until.wait(60)
        if wrong is not None and not wrong.after:
            self._answer(wrong.status, {"error": wrong.error}, wrong.headers)
            return
        if kind not in ("harnesses", "put") and self.headers.get("Authorization") != f"Bearer {hub.token}":
            self._answer(401, {"error": "Invalid username or password."})
            return
        with hub.lock:
            status, answer, headers = getattr(self, f"_{kind}")(body, found.groupdict())
        if wrong is not None:
            status, answer, headers = wrong.status, {"error": wrong.error}, wrong.headers
        self._answer(status, answer, headers)

    do_GET = do_POST = do_PUT = _serve  # noqa: N815

    def _answer(self, status: int, answer: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _repo(self, at: Mapping[str, str]) -> Repo | None:
        return self.server.repos.get(f"{at['type'] or 'model'} {at['id']}")

    _NONE = (404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "none"})

    def _harnesses(self, body: bytes, at: Mapping[str, str]) -> Any:
        return 200, {"standardEnvVars": [], "harnesses": {}}, {}

    def _create(self, body: bytes, at: Mapping[str, str]) -> Any:
        wanted = json.loads(body)
        name = f"{wanted['type']} {wanted['organization']}/{wanted['name']}"
        if wanted["organization"] not in self.server.owners:
            said = f"You don't have the rights to create a {wanted['type']} under the namespace"
            return 403, {"error": said}, {"X-Error-Message": said}
        kind = "" if wanted["type"] == "model" else f"{wanted['type']}s/"
        url = {"url": f"{self.server.address}/{kind}{name.split()[1]}"}
        if name in self.server.repos:
            return 409, {"error": "You already created this repo", **url}, {}
        self.server.repos[name] = Repo(private=wanted.get("visibility") == "private" or bool(wanted.get("private")))
        return 200, url, {}

    def _yaml(self, body: bytes, at: Mapping[str, str]) -> Any:
        return 200, {"warnings": [], "errors": []}, {}

    def _info(self, body: bytes, at: Mapping[str, str]) -> Any:
        repo = self._repo(at)
        if repo is None:
            return self._NONE
        return 200, {"id": at["id"], "private": repo.private, "sha": repo.branches["main"][-1]}, {}

    def _revision(self, body: bytes, at: Mapping[str, str]) -> Any:
        repo = self._repo(at)
        if repo is None:
            return self._NONE
        if at["rev"] not in repo.branches:
            return 404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"}
        return 200, {"id": at["id"], "private": repo.private, "sha": repo.branches[at["rev"]][-1]}, {}

    def _branch(self, body: bytes, at: Mapping[str, str]) -> Any:
        repo = self._repo(at)
        assert repo is not None
        repo.branches[at["rev"]] = list(repo.branches["main"])
        return 200, {}, {}

    def _preupload(self, body: bytes, at: Mapping[str, str]) -> Any:
        repo = self._repo(at)
        if repo is None:
            return self._NONE
        files = []
        for file in json.loads(body)["files"]:
            held = repo.files.get(f"{at['rev']}:{file['path']}")
            mode = "lfs" if LFS.search(file["path"]) or file["size"] > 10_000_000 else "regular"
            ignored = bool(repo.ignored) and file["path"].endswith(repo.ignored)
            files.append(
                {
                    "path": file["path"],
                    "uploadMode": mode,
                    "shouldIgnore": ignored,
                    "oid": held["oid"] if held else None,
                }
            )
        return 200, {"files": files}, {}

    def _commit(self, body: bytes, at: Mapping[str, str]) -> Any:
        repo = self._repo(at)
        if repo is None:
            return self._NONE
        new: dict[str, dict[str, Any]] = {}
        message = ""
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                message = value["summary"]
            elif entry["key"] == "file":
                content = base64.b64decode(value["content"])
                new[value["path"]] = {"oid": git_hash(content), "size": len(content), "content": content}
            elif entry["key"] == "lfsFile":
                if value["oid"] not in self.server.objects:
                    return 400, {"error": f"LFS object {value['oid']} was never uploaded"}, {}
                new[value["path"]] = {"oid": value["oid"], "size": value["size"]}
        for path in self.server.lost:
            new.pop(path, None)
        repo.files.update({f"{at['rev']}:{path}": held for path, held in new.items()})
        oid = sha1(f"{message}{len(repo.messages)}".encode()).hexdigest()
        repo.branches[at["rev"]].append(oid)
        repo.messages.append(message)
        return 200, {"commitUrl": f"{self.server.address}/{at['type']}s/{at['id']}/commit/{oid}", "commitOid": oid}, {}

    def _batch(self, body: bytes, at: Mapping[str, str]) -> Any:
        objects = []
        for wanted in json.loads(body)["objects"]:
            held = {"oid": wanted["oid"], "size": wanted["size"]}
            if wanted["oid"] not in self.server.objects:
                held["actions"] = {"upload": {"href": f"{self.server.address}/lfs/{wanted['oid']}"}}
            objects.append(held)
        return 200, {"transfer": "basic", "objects": objects}, {}

    def _put(self, body: bytes, at: Mapping[str, str]) -> Any:
        if sha256(body).hexdigest() != at["oid"]:
            return 400, {"error": "the content is not what its name says"}, {}
        self.server.objects[at["oid"]] = len(body)
        return 200, {}, {}
