"""The logins to registries that `docker login` has stored, credential helpers included."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LOG = logging.getLogger("agentix.bundle")
_HELPER_S = 30.0
_DOCKER_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
_TOKEN = "<token>"  # noqa: S105 - what helpers say in place of a user's name


@dataclass(frozen=True, kw_only=True)
class Login:
    """A user with a secret, or a token that is changed for another."""

    user: str = ""
    secret: str = field(default="", repr=False)
    token: str | None = field(default=None, repr=False)

    @property
    def basic(self) -> str | None:
        """As a header."""
        if not self.user or self.token is not None:
            return None
        return f"Basic {base64.b64encode(f'{self.user}:{self.secret}'.encode()).decode('ascii')}"


def login_for(host: str) -> Login | None:
    """The login to a registry, or None where there is none."""
    folder = os.environ.get("DOCKER_CONFIG") or str(Path("~/.docker").expanduser())
    path = Path(folder, "config.json")
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _LOG.warning("the stored logins in %s cannot be read: %s", path, error)
        return None
    if not isinstance(config, dict):
        return None
    names = ["https://index.docker.io/v1/"] if host in _DOCKER_HUB else [host, f"https://{host}", f"http://{host}"]
    for name in names:
        helper = (config.get("credHelpers") or {}).get(name) or config.get("credsStore")
        found = _asked(str(helper), name) if helper else None
        found = found or _stored((config.get("auths") or {}).get(name))
        if found is not None:
            return found
    return None


def _stored(entry: Any) -> Login | None:
    if not isinstance(entry, dict):
        return None
    if entry.get("identitytoken"):
        return Login(token=str(entry["identitytoken"]))
    try:
        user, colon, secret = base64.b64decode(str(entry.get("auth", ""))).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return Login(user=user, secret=secret.rstrip("\0")) if colon and user else None


def _asked(helper: str, name: str) -> Login | None:
    """Ask a credential helper (docker/docker-credential-helpers, "Development")."""
    try:
        done = subprocess.run(
            [f"docker-credential-{helper}", "get"],
            input=name.encode(),
            capture_output=True,
            timeout=_HELPER_S,
            check=False,
        )
        said = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        _LOG.warning("the credential helper %s does not answer: %s", helper, error)
        return None
    if not isinstance(said, dict) or not said.get("Secret"):
        return None
    if said.get("Username") == _TOKEN:
        return Login(token=str(said["Secret"]))
    return Login(user=str(said.get("Username", "")), secret=str(said["Secret"]))
