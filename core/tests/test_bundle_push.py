from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import shutil
import socket
import subprocess
import tarfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentix.bundle import build_bundle, lookup, push_bundle
from agentix.bundle.logins import Login, login_for
from agentix.bundle.registry import parse_image_ref
from agentix.errors import BundleError, HostError


@pytest.fixture(autouse=True)
def no_logins(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    (tmp_path / "docker").mkdir()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "docker" / "config.json"


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTIX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(lookup, "_READY", {})
    top = tmp_path / "project"
    (top / "bin").mkdir(parents=True)
    (top / "bin/hello").write_text("#!/bin/sh\necho hello\n")
    (top / "bin/hello").chmod(0o755)
    (top / "pyproject.toml").write_text('[tool.agentix.bundle]\ntools = ["bin/hello"]\n')
    return build_bundle(top, name="eval:0.1.0")


class FakeRegistry(ThreadingHTTPServer):
    """Keeps what it is sent, where the login is right."""

    def __init__(self, *, token: bool, busy: int = 0, broken: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.token, self.busy, self.broken = token, busy, broken
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.asked: list[str] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Any

    def log_message(self, format: str, *args: object) -> None:
        return

    def say(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self) -> None:
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path, _, query = self.path.partition("?")
        server.asked.append(f"{self.command} {path}")
        basic = "Basic " + base64.b64encode(b"me:secret").decode()
        given = self.headers.get("Authorization")
        if path == "/token":
            assert "scope=repository%3Ateam%2Feval%3Apull%2Cpush" in query
            self.say(*((200, {}, b'{"token": "T"}') if given == basic else (401, {}, b'{"errors": []}')))
        elif server.busy:
            server.busy -= 1
            self.say(429, {"Retry-After": "0"})
        elif server.broken and self.command != "HEAD":
            self.say(500, {}, b'{"errors": [{"code": "UNKNOWN", "message": "the disk is gone"}]}')
        elif given != ("Bearer T" if server.token else basic):
            bearer = f'Bearer realm="http://{server.host}/token",service="s",scope="x"'
            self.say(401, {"WWW-Authenticate": bearer if server.token else 'Basic realm="r"'})
        elif self.command == "HEAD":
            self.say(200 if path.rpartition("/")[2] in server.blobs else 404)
        elif self.command == "POST":
            self.say(202, {"Location": "/v2/team/eval/blobs/uploads/1?state=a"})
        elif "/blobs/uploads/" in path:
            digest = query.partition("digest=")[2].replace("%3A", ":")
            assert digest == f"sha256:{hashlib.sha256(body).hexdigest()}"
            assert "state=a" in query
            server.blobs[digest] = body
            self.say(201)
        else:
            server.manifests[path.rpartition("/")[2]] = body
            self.say(201)

    do_GET = do_HEAD = do_POST = do_PUT = handle_any  # noqa: N815 - as http.server calls them


@pytest.fixture
def registry():
    running: list[FakeRegistry] = []

    def start(**options: Any) -> FakeRegistry:
        server = FakeRegistry(**options)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def log_in(config, host: str) -> None:
    config.write_text(json.dumps({"auths": {host: {"auth": base64.b64encode(b"me:secret").decode()}}}))


@pytest.mark.parametrize("token", [True, False])
def test_a_bundle_becomes_an_image_whose_files_are_its_tree(bundle, registry, no_logins, token):
    server = registry(token=token, busy=2)
    log_in(no_logins, server.host)
    pushed = push_bundle("eval:0.1.0", f"{server.host}/team/eval")
    assert pushed.reference == f"{server.host}/team/eval:0.1.0"
    content = server.manifests["0.1.0"]
    assert pushed.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    manifest = json.loads(content)
    config = json.loads(server.blobs[manifest["config"]["digest"]])
    assert config["config"]["Labels"]["agentix.bundle.digest"] == bundle.digest
    assert f"{config['os']}/{config['architecture']}" == bundle.description.platform
    (layer,) = manifest["layers"]
    plain = gzip.decompress(server.blobs[layer["digest"]])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"]
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        names = tar.getnames()
        assert {"bundle.json", "bin/hello"} <= set(names)
    again = push_bundle(bundle.digest, f"{server.host}/team/eval:other")
    assert again.uploaded in (0, len(server.blobs[manifest["config"]["digest"]]) + layer["size"])
    assert again.reference.endswith(":other")
    third = push_bundle("eval:0.1.0", f"{server.host}/team/eval:third")
    assert (third.uploaded, third.digest) == (0, pushed.digest)


def test_without_a_login_it_is_said_how_to_have_one(bundle, registry):
    server = registry(token=True)
    with pytest.raises(BundleError, match="401") as info:
        push_bundle("eval:0.1.0", f"{server.host}/team/eval")
    assert "docker login" in str(info.value.hint)
    assert server.blobs == {}


def test_a_registry_that_fails_or_is_not_there_is_the_machines_fault(bundle, registry, no_logins):
    server = registry(token=False, broken=True)
    log_in(no_logins, server.host)
    with pytest.raises(HostError, match="500 the disk is gone"):
        push_bundle("eval:0.1.0", f"{server.host}/team/eval")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(HostError, match="cannot be reached"):
            push_bundle("eval:0.1.0", f"127.0.0.1:{free.getsockname()[1]}/team/eval")


@pytest.mark.parametrize(
    "text", ["eval", "team/eval", "ghcr.io/Team/eval", "ghcr.io/", "ghcr.io/a:b:c", "http://x.y/a"]
)
def test_what_names_no_registry_is_refused(bundle, text):
    with pytest.raises(BundleError, match="REGISTRY/NAME"):
        push_bundle("eval:0.1.0", text)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:5000/a", "http://localhost:5000"),
        ("ghcr.io/a/b:c", "https://ghcr.io"),
        ("docker.io/a/b", "https://registry-1.docker.io"),
        ("[::1]:5000/a", "http://[::1]:5000"),
        ("registry:5000/a", "https://registry:5000"),
    ],
)
def test_only_this_machine_is_trusted_without_tls(text, url):
    assert parse_image_ref(text).url == url
    assert str(parse_image_ref(text)) == text


def test_logins_come_from_helpers_and_files(no_logins, tmp_path, monkeypatch):
    helper = tmp_path / "docker-credential-toy"
    helper.write_text(
        '#!/bin/sh\nread -r name\ncase "$name" in ghcr.io) echo \'{"Username":"u","Secret":"s"}\';;\n'
        '  tok.io) echo \'{"Username":"<token>","Secret":"t"}\';; *) exit 1;; esac\n'
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    stored = base64.b64encode(b"f:g:h").decode()
    no_logins.write_text(json.dumps({"credsStore": "toy", "auths": {"a.io": {"auth": stored}, "b.io": {}}}))
    assert login_for("ghcr.io") == Login(user="u", secret="s")
    assert login_for("tok.io") == Login(token="t")
    assert login_for("a.io") == Login(user="f", secret="g:h")
    assert login_for("b.io") is None
    assert "g:h" not in repr(login_for("a.io"))
    no_logins.write_text("{")
    assert login_for("a.io") is None


@pytest.mark.real
def test_a_real_registry_takes_it(bundle, tmp_path):
    program = shutil.which("docker-registry") or shutil.which("registry")
    if program is None:
        pytest.skip("no registry to push to: install docker-registry")
    with served(program, tmp_path) as port:
        pushed = push_bundle("eval:0.1.0", f"127.0.0.1:{port}/team/eval")
        url = f"http://127.0.0.1:{port}/v2/team/eval/manifests/0.1.0"
        accept = {"Accept": "application/vnd.oci.image.manifest.v1+json"}
        with urllib.request.urlopen(urllib.request.Request(url, headers=accept)) as answer:
            assert answer.headers["Docker-Content-Digest"] == pushed.digest
        assert push_bundle("eval:0.1.0", f"127.0.0.1:{port}/team/eval").uploaded == 0


@contextmanager
def served(program: str, folder: Path) -> Iterator[int]:
    """A registry that runs; it does not say which port it was given, so it is told one."""
    with (folder / "log").open("wb") as log:
        for _ in range(5):
            port = free_port()
            config = folder / "registry.yml"
            config.write_text(
                f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {folder}/registry\n"
                f"http:\n  addr: 127.0.0.1:{port}\nlog:\n  level: error\n"
            )
            with subprocess.Popen([program, "serve", str(config)], stdout=log, stderr=log) as process:
                try:
                    if listens(process, port):
                        yield port
                        return
                finally:
                    process.terminate()
    raise AssertionError((folder / "log").read_text())


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def listens(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether it has its port; it ends where another process was given that meanwhile."""
    deadline = time.monotonic() + 60
    while process.poll() is None:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return False
