"""Real repositories, checkouts of them, and a server for them."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from shipping_contexts import contexts

from agentix.api import StepContext

_PRIVATE = {"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_SSH", "GIT_SSH_COMMAND", "GH_TOKEN", "GITHUB_TOKEN"}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home with an identity, and with nothing else of this machine's git."""
    home = tmp_path / "home"
    home.mkdir()
    for name in _PRIVATE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Some Body\n\temail = body@example.com\n[init]\n\tdefaultBranch = main\n"
    )
    return home


def _git(*argv: str | Path, cwd: Path) -> str:
    done = subprocess.run(["git", *argv], cwd=cwd, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return os.fsdecode(done.stdout)


@pytest.fixture
def git() -> Callable[..., str]:
    return _git


@pytest.fixture
def bare(tmp_path: Path, machine: Path) -> Path:
    """A repository with one commit on its branch `main`."""
    place = tmp_path / "bare.git"
    _git("init", "-q", "--bare", place, cwd=tmp_path)
    seed = tmp_path / "seed"
    _git("clone", "-q", str(place), seed, cwd=tmp_path)
    (seed / "README.md").write_text("what it is\n")
    (seed / "jobs").mkdir()
    (seed / "jobs" / "older.txt").write_text("older\n")
    (seed / ".gitignore").write_text("*.log\nignored/\n")
    (seed / ".gitattributes").write_text("* text=auto eol=crlf\n*.bin filter=lfs\n")
    _git("add", "-A", cwd=seed)
    _git("commit", "-q", "-m", "first", cwd=seed)
    _git("push", "-q", "origin", "HEAD:main", cwd=seed)
    return place


@pytest.fixture
def checkout(bare: Path, tmp_path: Path) -> Path:
    place = tmp_path / "checkout"
    _git("clone", "-q", str(bare), place, cwd=tmp_path)
    return place


@pytest.fixture
def context(tmp_path: Path) -> Callable[..., StepContext]:
    return contexts(tmp_path)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """Something to ship, with every kind of name and of content."""
    source = tmp_path / "finished"
    (source / "deep" / "ignored").mkdir(parents=True)
    for name in (
        "plain.txt",
        "with space",
        "-rf",
        "new\nline",
        "ünï",
        "a.log",
        "deep/ignored/€",
        'q"u\\ote',
        "deep/#?*[a]",
    ):
        (source / name).write_text(f"content of {name!r}\n")
    (source / os.fsdecode(b"no\xffutf-8")).write_bytes(b"\xff\0")
    (source / "line ends.txt").write_bytes(b"one\r\ntwo\nthree\r")
    (source / "weights.bin").write_bytes(bytes(range(256)))
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "empty").touch()
    return source


@pytest.fixture
def content() -> Callable[..., dict[str, bytes]]:
    """The files of a directory on a branch, by their names, as they are stored."""

    def read(bare: Path, dest: str = "", branch: str = "main") -> dict[str, bytes]:
        listed = subprocess.run(
            ["git", "ls-tree", "-r", "-z", "--full-tree", branch, *([dest + "/"] if dest else [])],
            cwd=bare,
            check=True,
            capture_output=True,
        )
        found = {}
        for entry in filter(None, listed.stdout.split(b"\0")):
            about, _, path = entry.partition(b"\t")
            blob = subprocess.run(
                ["git", "cat-file", "blob", about.split()[2]], cwd=bare, check=True, capture_output=True
            )
            found[os.fsdecode(path)[len(dest) + 1 if dest else 0 :]] = blob.stdout
        return found

    return read


@pytest.fixture
def untouched() -> Callable[[Path], dict[str, bytes | str]]:
    """Every byte of a checkout, git's own files included."""

    def read(checkout: Path) -> dict[str, bytes | str]:
        found: dict[str, bytes | str] = {}
        for path in sorted(checkout.rglob("*")):
            name = os.fsdecode(os.fsencode(path.relative_to(checkout)))
            found[name] = (
                os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "directory"
            )
            found[name + " at"] = str(path.lstat().st_mtime_ns)
        return found

    return read


@pytest.fixture
def served(tmp_path: Path, git: Callable[..., str]) -> Callable[..., Any]:
    """Serves a repository over http; with a password, to nobody else."""

    @contextmanager
    def serve(bare: Path, *, password: str | None = None, status: int | None = None) -> Iterator[str]:
        git("config", "http.receivepack", "true", cwd=bare)
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(bare, password, status))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/{bare.name}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    return serve


def _handler(bare: Path, password: str | None, status: int | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self._body())

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _answer(self, body: bytes) -> None:
            wanted = None if password is None else "Basic " + base64.b64encode(f"me:{password}".encode()).decode()
            if status is not None:
                self._send(status, [], b"")
            elif wanted is not None and self.headers.get("Authorization") != wanted:
                self._send(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
            else:
                self._git(body)

        def _git(self, body: bytes) -> None:
            path, _, query = self.path.partition("?")
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(bare.parent),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_NOSYSTEM": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_USER": "me",
                "REMOTE_ADDR": "127.0.0.1",
            }
            done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False)
            head, _, rest = done.stdout.partition(b"\r\n\r\n")
            headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n") if line]
            told = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
            self._send(told, [(name, value) for name, value in headers if name != "Status"], rest)

        def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
