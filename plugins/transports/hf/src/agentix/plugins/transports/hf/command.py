"""The calls of `hf` that a shipment is made of."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from agentix.api import HUB_ENV, HUB_SETTINGS, ExecResult, Secrets, run_tool, without_logins
from agentix.plugins.transports.hf.answers import Answer, Said, understand
from agentix.plugins.transports.hf.inputs import HfInputs

# With Xet, `hf` cuts a folder into many commits, and after a lost answer it sends a commit again without having looked.
_OURS = MappingProxyType({**HUB_SETTINGS, "HF_HUB_DISABLE_XET": "1"})
_HUB = "https://huggingface.co"
_TOKEN = re.compile(r"\bhf_\w{8,}")


@dataclass(frozen=True, kw_only=True)
class Repository:
    """What the hub says of a repository."""

    private: bool | None
    """Unknown where the hub did not say."""


@dataclass(frozen=True, kw_only=True)
class Hub:
    """One repository of the hub, seen through `hf`."""

    inputs: HfInputs
    secrets: Secrets
    work_dir: Path
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def address(self, folder: str) -> str:
        """Where a folder is looked at, without credentials."""
        endpoint = without_logins(self.variables.get("HF_ENDPOINT") or _HUB).rstrip("/")
        kind = "" if self.inputs.repo_type == "model" else f"{self.inputs.repo_type}s/"
        return f"{endpoint}/{kind}{self.inputs.dest}/tree/{self.inputs.revision or 'main'}/{folder}".rstrip("/")

    async def about(self) -> tuple[Said, Repository | None]:
        """Ask what the repository is; `None` where that was not answered."""
        argv = [f"{self.inputs.repo_type}s", "info", "--expand=private", "--", self.inputs.dest]
        result = await self._run(argv)
        said = self._clean(result)
        return said, None if said.failed else Repository(private=_private(result.text))

    async def upload(self, path: Path, to: str, message: str) -> Said:
        """Send a file, or what is in a directory, in one commit; what the hub holds already, by its hash, is left out.

        Args:
            path: The file or directory.
            to: The file's path in the repository, or the folder that the directory's contents go into; `.` is the root.
            message: Of the commit.
        """
        inputs = self.inputs
        argv = ["upload", f"--repo-type={inputs.repo_type}", f"--commit-message={message}"]
        argv += ["--private" if inputs.private else "--no-private"]
        argv += [f"--revision={inputs.revision}"] if inputs.revision else []
        return self._clean(await self._run([*argv, "--", inputs.dest, str(path), to]))

    async def _run(self, argv: list[str]) -> ExecResult:
        return await run_tool(
            ["hf", *argv], host_env=HUB_ENV, env=_OURS, cwd=self.work_dir, timeout_s=self.inputs.timeout_s
        )

    def _clean(self, result: ExecResult) -> Said:
        said = understand(result, timeout_s=self.inputs.timeout_s)
        token = self.variables.get("HF_TOKEN", "").strip()
        text, commit = said.text, said.commit
        if token:
            text = text.replace(token, "***")
        text = _TOKEN.sub("***", without_logins(self.secrets.text(text)))
        if said.answer is Answer.REFUSED and said.status == 401:
            text = f"{text.rstrip('.')}; give a token that may write to it in HF_TOKEN, or log in with hf auth login"
        return replace(said, text=text, commit=without_logins(commit))


def has_login(variables: Mapping[str, str]) -> bool:
    """Whether `hf` finds a token; another hub than the usual one may need none."""
    if variables.get("HF_ENDPOINT") or variables.get("HF_TOKEN", "").strip():
        return True
    cache = Path(variables.get("XDG_CACHE_HOME") or "~/.cache")
    home = Path(variables.get("HF_HOME") or cache / "huggingface")
    return Path(variables.get("HF_TOKEN_PATH") or home / "token").expanduser().exists()


def _private(text: str) -> bool | None:
    try:
        found = json.loads(text[text.index("{") :])
    except ValueError:
        return None
    private = found.get("private") if isinstance(found, dict) else None
    return private if isinstance(private, bool) else None
