"""Where the engine listens: options, environment, docker contexts, the usual sockets."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from agentix.api import HostError

_DEFAULT = "/var/run/docker.sock"
_CERTIFICATES = "DOCKER_CERT_PATH has to hold ca.pem, cert.pem and key.pem"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An engine's address."""

    url: str
    """As it is shown."""
    path: str | None = None
    """The unix socket, where it is one."""
    host: str = "docker"
    port: int = 0
    tls: ssl.SSLContext | None = None
    ssh: tuple[str, ...] = ()
    """The command whose stdin and stdout are a connection to the engine, where it is reached by one."""

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, as far as the address tells."""
        return self.path is not None


def find_endpoint(*, host: str | None, context: str | None, environ: Mapping[str, str] | None = None) -> Endpoint:
    """The engine to use, in the order in which the docker command line looks for it.

    Args:
        host: An address that goes before all else.
        context: A docker context that goes before the environment.
        environ: The environment; this process's by default.

    Raises:
        HostError: An address of a kind that is not supported, an unknown context, unusable certificates.
    """
    environ = os.environ if environ is None else environ
    if host:
        return _parse(host, _environment_tls(environ))
    if context is None and environ.get("DOCKER_HOST"):
        return _parse(environ["DOCKER_HOST"], _environment_tls(environ))
    name = context or environ.get("DOCKER_CONTEXT") or _current_context(environ)
    if name and name != "default":
        return _from_context(name, environ)
    for path in _sockets(environ):
        if Path(path).exists():
            return Endpoint(url=f"unix://{path}", path=path)
    return Endpoint(url=f"unix://{_DEFAULT}", path=_DEFAULT)


def _sockets(environ: Mapping[str, str]) -> list[str]:
    runtime = environ.get("XDG_RUNTIME_DIR")
    own = [f"{runtime}/docker.sock", f"{runtime}/podman/podman.sock"] if runtime else []
    return [_DEFAULT, *own, "/run/podman/podman.sock"]


def _parse(url: str, tls: ssl.SSLContext | None) -> Endpoint:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return Endpoint(url=url, path=f"{parts.netloc}{parts.path}")
    if parts.scheme not in ("tcp", "http", "https", "ssh") or not parts.hostname:
        raise HostError(
            f"the engine address {url!r} is not of the form unix://PATH, tcp://HOST:PORT or ssh://USER@HOST",
            detail="engine",
        )
    if parts.scheme == "ssh":
        return Endpoint(url=url, ssh=_ssh(url, parts))
    if parts.scheme == "https" and tls is None:
        tls = ssl.create_default_context()
    try:
        port = parts.port or (2375 if tls is None else 2376)
    except ValueError as error:
        raise HostError(f"the engine address {url!r} has no valid port", detail="engine") from error
    return Endpoint(url=url, host=parts.hostname, port=port, tls=tls)


def _ssh(url: str, parts: SplitResult) -> tuple[str, ...]:
    """As the docker command line does it; keys, jumps and names are those of ~/.ssh/config."""
    try:
        port = parts.port
    except ValueError as error:
        raise HostError(f"the engine address {url!r} has no valid port", detail="engine") from error
    if parts.password is not None or parts.query or parts.fragment:
        raise HostError(
            f"the engine address ssh://{parts.hostname} may have a user, a port and a socket, and no more",
            detail="engine",
            hint="use a key (ssh-agent, or IdentityFile in ~/.ssh/config) in place of a password",
        )
    user = ["-l", parts.username] if parts.username else []
    options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-T", *user, *(["-p", str(port)] if port else [])]
    socket = f"--host=unix://{shlex.quote(parts.path)}" if parts.path not in ("", "/") else ""
    remote = [word for word in ("docker", socket, "system", "dial-stdio") if word]
    return ("ssh", *options, "--", str(parts.hostname), " ".join(remote))


def _environment_tls(environ: Mapping[str, str]) -> ssl.SSLContext | None:
    verify = environ.get("DOCKER_TLS_VERIFY", "")
    folder = environ.get("DOCKER_CERT_PATH", "")
    if not verify and not folder:
        return None
    place = Path(folder or _config_dir(environ))
    return _tls_context(str(place / "ca.pem"), str(place / "cert.pem"), str(place / "key.pem"), verify=bool(verify))


def _tls_context(ca: str | None, cert: str | None, key: str | None, *, verify: bool) -> ssl.SSLContext:
    for path in (ca if verify else None, cert, key):
        if path is not None and not Path(path).is_file():
            raise HostError(
                f"the certificates for the engine cannot be used: there is no {path}",
                detail="engine",
                hint=_CERTIFICATES,
            )
    try:
        context = ssl.create_default_context(cafile=ca if verify and ca else None)
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if cert and key:
            context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise HostError(
            f"the certificates for the engine cannot be used: {error}",
            detail="engine",
            hint=_CERTIFICATES,
        ) from error
    return context


def _config_dir(environ: Mapping[str, str]) -> str:
    return environ.get("DOCKER_CONFIG") or str(Path("~/.docker").expanduser())


def _current_context(environ: Mapping[str, str]) -> str | None:
    try:
        settings = json.loads(Path(_config_dir(environ), "config.json").read_bytes())
    except (OSError, ValueError):
        return None
    name = settings.get("currentContext") if isinstance(settings, dict) else None
    return name if isinstance(name, str) else None


def _from_context(name: str, environ: Mapping[str, str]) -> Endpoint:
    """As `docker context` stores it; the SDK looks in the current directory where there is no config.json."""
    store, key = Path(_config_dir(environ), "contexts"), hashlib.sha256(name.encode()).hexdigest()
    try:
        meta = json.loads((store / "meta" / key / "meta.json").read_bytes())
        endpoint = meta["Endpoints"]["docker"]
        host, unverified = str(endpoint["Host"]), bool(endpoint.get("SkipTLSVerify"))
    except FileNotFoundError as error:
        hint = "`docker context ls` lists what there is; --provider-opt host=ADDRESS needs none"
        raise HostError(f"there is no docker context {name!r}", detail="engine", hint=hint) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HostError(f"the docker context {name!r} cannot be read: {error!r}", detail="engine") from error
    files = {file: store / "tls" / key / "docker" / f"{file}.pem" for file in ("ca", "cert", "key")}
    found = {file: str(path) for file, path in files.items() if path.is_file()}
    if not found and not unverified:
        return _parse(host, None)
    tls = _tls_context(found.get("ca"), found.get("cert"), found.get("key"), verify=not unverified)
    return _parse(host, tls if not host.startswith("unix:") else None)
