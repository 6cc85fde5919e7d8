"""Where the engine is looked for, and how it is reached."""

from __future__ import annotations

import hashlib
import json
import shutil
import ssl
import subprocess
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream
from anyio.streams.tls import TLSListener

from agentix.api import HostError
from agentix.providers.docker.endpoint import find_endpoint
from agentix.providers.docker.engine import Engine

ENGINE = {
    "/_ping": {},
    "/version": {"ApiVersion": "1.41", "Os": "linux", "Arch": "amd64"},
    "/v1.41/info": {},
    "/v1.41/containers/json": [],
}


def found(environ: dict[str, str], **options: str | None) -> str:
    return find_endpoint(**{"host": None, "context": None, **options}, environ=environ).url


@pytest.fixture
def context(tmp_path: Path) -> dict[str, str]:
    """A docker configuration with the context `far`, which is not the current one."""
    # As `docker context create` writes it.
    folder = tmp_path / "contexts" / "meta" / hashlib.sha256(b"far").hexdigest()
    folder.mkdir(parents=True)
    endpoint = {"Host": "tcp://far:2375", "SkipTLSVerify": False}
    meta = {"Name": "far", "Metadata": {}, "Endpoints": {"docker": endpoint}}
    (folder / "meta.json").write_text(json.dumps(meta))
    return {"DOCKER_CONFIG": str(tmp_path)}


def test_an_option_goes_before_the_environment_and_that_before_contexts(context: dict[str, str]) -> None:
    assert found({**context, "DOCKER_HOST": "tcp://b:1"}, host="tcp://a:1") == "tcp://a:1"
    assert found({**context, "DOCKER_HOST": "tcp://b:1"}, context="far") == "tcp://far:2375"
    assert found({**context, "DOCKER_HOST": "tcp://b:1", "DOCKER_CONTEXT": "far"}) == "tcp://b:1"
    assert found({**context, "DOCKER_CONTEXT": "far"}) == "tcp://far:2375"


def test_the_current_context_is_used(context: dict[str, str]) -> None:
    Path(context["DOCKER_CONFIG"], "config.json").write_text(json.dumps({"currentContext": "far"}))
    assert found(context) == "tcp://far:2375"


def test_a_context_brings_its_certificates(context: dict[str, str], certificates: Path) -> None:
    folder = Path(context["DOCKER_CONFIG"], "contexts", "tls", hashlib.sha256(b"far").hexdigest(), "docker")
    folder.mkdir(parents=True)
    for name in ("ca.pem", "cert.pem", "key.pem"):
        shutil.copy(certificates / name, folder)
    endpoint = find_endpoint(host=None, context="far", environ=context)
    assert endpoint.tls is not None
    assert endpoint.tls.verify_mode is ssl.CERT_REQUIRED


def test_an_unknown_context_is_an_error(context: dict[str, str]) -> None:
    with pytest.raises(HostError, match="nosuch"):
        found(context, context="nosuch")


def test_without_anything_it_is_a_socket(tmp_path: Path) -> None:
    environ = {"DOCKER_CONFIG": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    podman = tmp_path / "podman" / "podman.sock"
    podman.parent.mkdir()
    podman.touch()
    default = "/var/run/docker.sock"
    assert found(environ) == f"unix://{default if Path(default).exists() else podman}"


@pytest.mark.parametrize(
    ("address", "path", "host", "port"),
    [
        ("unix:///run/podman/podman.sock", "/run/podman/podman.sock", "docker", 0),
        ("tcp://engine:2375", None, "engine", 2375),
        ("tcp://engine", None, "engine", 2375),
        ("tcp://[::1]:5", None, "::1", 5),
    ],
)
def test_addresses_are_taken_apart(address: str, path: str | None, host: str, port: int) -> None:
    endpoint = find_endpoint(host=None, context=None, environ={"DOCKER_HOST": address})
    assert (endpoint.path, endpoint.host, endpoint.port) == (path, host, port)
    assert endpoint.is_local == (path is not None)


@pytest.mark.parametrize(
    "address", ["ssh://", "ssh://a:port", "nonsense", "tcp://", "tcp://a:port", "npipe:////./pipe/engine"]
)
def test_an_address_that_cannot_be_used_is_an_error(address: str) -> None:
    with pytest.raises(HostError) as info:
        found({"DOCKER_HOST": address})
    assert address in info.value.message


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(HostError, match="ssh://far may have") as info:
        found({"DOCKER_HOST": "ssh://me:CANARY@far"})
    assert "CANARY" not in str(info.value)


def test_missing_certificates_are_an_error(tmp_path: Path) -> None:
    environ = {"DOCKER_HOST": "tcp://a:1", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(tmp_path)}
    with pytest.raises(HostError, match=r"there is no .*/ca\.pem"):
        found(environ)
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(HostError, match=r"there is no .*/cert\.pem"):
        found(environ)
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("no certificate")
    with pytest.raises(HostError, match="certificates for the engine cannot be used"):
        found(environ)


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """One certificate for everybody."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    _certificate(tmp_path, "cert.pem", "key.pem")
    shutil.copy(tmp_path / "cert.pem", tmp_path / "ca.pem")
    return tmp_path


def _certificate(folder: Path, name: str, key: str = "other.pem") -> None:
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(folder / key), "-out", str(folder / name)]
    subprocess.run([*made, *names, *files], check=True, capture_output=True)


async def _serve(stream: ByteStream) -> None:
    async with stream:
        buffer = b""
        try:
            while True:
                while b"\r\n\r\n" not in buffer:
                    buffer += await stream.receive()
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                target = head.split(b" ")[1].decode().partition("?")[0]
                if target.endswith("/attach"):
                    # What comes right behind the answer belongs to the stream.
                    frame = b"\x01\0\0\0\0\0\0\x05hello\x02\0\0\0\0\0\0\x03log"
                    await stream.send(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n" + frame)
                    await stream.send(b"\x01\0\0\0\0\0\0\x04" + await stream.receive())
                    return
                body = json.dumps(ENGINE[target]).encode()
                await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return


@pytest.mark.anyio
@pytest.mark.parametrize("encrypted", [True, False])
async def test_an_engine_on_another_machine_is_reached(certificates: Path, encrypted: bool) -> None:
    plain = await anyio.create_tcp_listener(local_host="localhost")
    port = plain.extra(anyio.abc.SocketAttribute.local_port)
    environ = {"DOCKER_HOST": f"tcp://localhost:{port}"}
    listener: anyio.abc.Listener[ByteStream] = plain
    if encrypted:
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates / "ca.pem"))
        server.verify_mode = ssl.CERT_REQUIRED
        server.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
        listener = TLSListener(plain, server, standard_compatible=False)
        environ |= {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(certificates)}
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, _serve)
        engine = Engine(find_endpoint(host=None, context=None, environ=environ))
        engine.keeps = True
        for _ in range(2):
            assert (await engine.call("GET", "/containers/json", doing="list")).json() == []
        attached = await engine.attach("x")
        assert await attached.receive(3) == b"hel"
        assert await attached.receive() == b"lo"
        await attached.send(b"ping")
        assert await attached.receive() == b"ping"
        assert attached.log == "log"
        with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await attached.receive()
        await attached.aclose()
        await engine.aclose()
        group.cancel_scope.cancel()


@pytest.mark.anyio
async def test_who_speaks_plainly_to_an_encrypted_engine_is_told_of_certificates(certificates: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    plain = await anyio.create_tcp_listener(local_host="localhost")
    port = plain.extra(anyio.abc.SocketAttribute.local_port)
    listener = TLSListener(plain, context, standard_compatible=False)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, _serve)
        engine = Engine(find_endpoint(host=f"tcp://localhost:{port}", context=None, environ={}))
        with pytest.raises(HostError, match="hung up") as info:
            await engine.facts()
        await engine.aclose()
        assert "DOCKER_CERT_PATH" in str(info.value)
        # The other way round, a certificate that nobody knows.
        (certificates / "ca.pem").unlink()
        environ = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(certificates)}
        _certificate(certificates, "ca.pem")
        engine = Engine(find_endpoint(host=f"tcp://localhost:{port}", context=None, environ=environ))
        with pytest.raises(HostError, match="CERTIFICATE_VERIFY_FAILED") as info:
            await engine.facts()
        await engine.aclose()
        assert "ca.pem" in str(info.value)
        group.cancel_scope.cancel()
