"""Which variables of this machine rclone gets: those that say where its remotes are and how it reaches them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from agentix.api import PROXY_ENV, Secrets

TUNING = frozenset(
    {
        "bind",
        "buffer-size",
        "bwlimit",
        "bwlimit-file",
        "ca-cert",
        "checkers",
        "contimeout",
        "disable-http2",
        "expect-continue-timeout",
        "fast-list",
        "http-proxy",
        "low-level-retries",
        "max-buffer-memory",
        "max-connections",
        "multi-thread-chunk-size",
        "multi-thread-cutoff",
        "multi-thread-streams",
        "retries",
        "retries-sleep",
        "timeout",
        "tpslimit",
        "tpslimit-burst",
        "transfers",
        "user-agent",
    }
)
"""Options of rclone that change how fast and over what it sends, and never what it sends. Each is an environment
variable too; the others, such as RCLONE_EXCLUDE or RCLONE_DRY_RUN, would leave something out without a word."""

_CONFIGURATION = (
    "RCLONE_CONFIG",
    "RCLONE_CONFIG_PASS",
    "RCLONE_PASSWORD_COMMAND",
    "RCLONE_CACHE_DIR",
    "XDG_CONFIG_HOME",
)
_NETWORK = ("SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", *PROXY_ENV)
CLOUD = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_PROFILE",
    "AWS_REGION",
    "AWS_ROLE_ARN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_TENANT_ID",
    "GOOGLE_APPLICATION_CREDENTIALS",
)
"""Variables by which a remote with `env_auth` signs in; they are passed on for the input `env_auth` only."""
_SECRET = re.compile(r"PASS|KEY|SECRET|TOKEN|CREDENTIAL|AUTH")
_REMOTE = re.compile(r"RCLONE_CONFIG_[A-Z0-9_]+_[A-Z0-9_]+")

OWN: Mapping[str, str] = MappingProxyType(
    {"RCLONE_ASK_PASSWORD": "false", "RCLONE_LOG_LEVEL": "NOTICE", "RCLONE_NO_UPDATE_DIR_MODTIME": "true"}
)
"""What rclone is told in every case: it never asks anybody anything. The times of directories are said as a variable,
which a version without that option passes over."""


def host_env(environ: Iterable[str]) -> tuple[str, ...]:
    """The names of all the variables that rclone may get.

    Args:
        environ: The names of those that there are, for `RCLONE_CONFIG_<REMOTE>_<OPTION>`, which define remotes.
    """
    tuning = (f"RCLONE_{name.replace('-', '_').upper()}" for name in TUNING)
    remotes = (name for name in environ if _REMOTE.fullmatch(name))
    return tuple(sorted({*_CONFIGURATION, *_NETWORK, *CLOUD, *tuning, *remotes}))


def seen(names: Iterable[str], *, env_auth: bool) -> tuple[str, ...]:
    """The names of those that it does get.

    Args:
        names: Of all that it may get.
        env_auth: Whether the remote signs in with its cloud's own.
    """
    return tuple(name for name in names if env_auth or name not in CLOUD)


def held(names: Iterable[str]) -> Secrets:
    """The secrets in variables, which it may repeat."""
    return Secrets(os.environ.get(name, "") for name in names if _SECRET.search(name))
