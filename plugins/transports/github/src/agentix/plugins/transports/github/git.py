"""Calls of git that cannot ask anybody anything, and that touch nothing but what they are told to."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from agentix.api import PROXY_ENV, ExecResult, Secrets, ask_tool, run_tool
from agentix.plugins.transports.github.address import PROTOCOLS
from agentix.plugins.transports.github.failures import failure

_TOKENS = ("GH_TOKEN", "GITHUB_TOKEN")
HOST_ENV = (
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "XDG_CONFIG_HOME",
    *PROXY_ENV,
    *_TOKENS,
)
_OUTPUT = 1 << 28
_LOOK_S = 120.0
_NO_PROGRAM = 127
_CONFIG = (
    ("core.hooksPath", os.devnull),
    ("user.useConfigOnly", "true"),  # no name of this machine in a commit
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("core.protectHFS", "true"),  # no name that is git's own on another system
    ("core.protectNTFS", "true"),
    ("core.splitIndex", "false"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.sparseCheckout", "false"),
    ("index.sparse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("push.recurseSubmodules", "no"),
    ("push.followTags", "false"),
    ("push.gpgSign", "false"),
)
_NOBODY = MappingProxyType(
    {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
        "GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS),
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_HTTP_LOW_SPEED_LIMIT": "1",
        "GIT_HTTP_LOW_SPEED_TIME": "120",
        "LC_ALL": "C",
    }
)
_HELPER = (
    '!f() { test "$1" = get || exit 0; echo username=x-access-token; echo "password=${GH_TOKEN:-$GITHUB_TOKEN}"; }; f'
)
"""Hands git the token of the environment, so that it stands in no address, no configuration and no command line."""


@dataclass(frozen=True, kw_only=True)
class Git:
    """How git is called for one shipment."""

    cwd: Path
    secrets: Secrets
    env: Mapping[str, str] = field(default_factory=dict)
    """Which repository, and where its parts are."""
    timeout_s: float = 1800.0
    """For a call that moves data."""

    def within(self, env: Mapping[str, str]) -> Git:
        """The same, with more variables."""
        return replace(self, env={**self.env, **env})

    def at(self, cwd: Path) -> Git:
        """The same, in another directory."""
        return replace(self, cwd=cwd)

    def ask(self, *argv: str) -> ExecResult:
        """Ask it something that it knows without the network; a failure is the caller's to look at."""
        result = ask_tool(["git", *argv], host_env=HOST_ENV, env=self._environment(), cwd=self.cwd, timeout_s=_LOOK_S)
        return replace(result, stderr=self._masked(result.stderr))

    async def __call__(
        self, *argv: str | Path, doing: str, stdin: bytes = b"", timeout_s: float = _LOOK_S, fails: bool = False
    ) -> ExecResult:
        """Run it.

        Args:
            argv: Its arguments.
            doing: What for, in words.
            stdin: What it reads.
            timeout_s: Seconds that it may take.
            fails: Whether the caller looks at a failure itself.

        Raises:
            ShipError: It failed, or said more than can be kept.
        """
        result = await run_tool(
            ["git", *argv],
            host_env=HOST_ENV,
            env=self._environment(),
            cwd=self.cwd,
            stdin=stdin,
            timeout_s=timeout_s,
            output_limit=_OUTPUT,
        )
        result = replace(result, stderr=self._masked(result.stderr))
        if argv[0] == "push":  # in which servers put words of their own
            result = replace(result, stdout=self._masked(result.stdout))
        missing = result.exit_code == _NO_PROGRAM
        if missing or (not fails and (not result.ok or result.truncated)):
            raise failure(result, doing)
        return result

    def _environment(self) -> dict[str, str]:
        return {**_NOBODY, **_configuration(_CONFIG + _tokens()), **self.env}

    def _masked(self, said: bytes) -> bytes:
        tokens = Secrets(os.environ.get(name, "") for name in _TOKENS)
        return tokens.data(self.secrets.data(said))


def batch_ssh(configured: str | None) -> str | None:
    """The ssh command with which nothing is asked; `None` where what is configured is no plain ssh.

    Args:
        configured: What the environment or git's configuration has for it.
    """
    command = configured or "ssh"
    try:
        program = shlex.split(command)[0]
    except (ValueError, IndexError):
        return None
    if re.fullmatch(r"(.*/)?ssh", program) is None:
        return None
    return f"{command} -o BatchMode=yes -o ConnectTimeout=30"


def _tokens() -> tuple[tuple[str, str], ...]:
    if not any(os.environ.get(name) for name in _TOKENS):
        return ()
    # An empty one first: what the machine has otherwise is not asked, as `gh` does it too.
    key = "credential.https://github.com.helper"
    return ((key, ""), (key, _HELPER))


def _configuration(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    found = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
    return found
