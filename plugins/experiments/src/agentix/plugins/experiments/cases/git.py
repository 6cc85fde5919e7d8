"""Git repositories: one fetch of one commit, with no more of its content than is wanted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from agentix.api import PROXY_ENV
from agentix.plugins.experiments.cases.fetching import Fetched, FetchFailed, Wanted, last_line, says
from agentix.plugins.experiments.cases.finding import literal_prefix, shown
from agentix.plugins.experiments.commands import Command, CommandResult, CommandRunner
from agentix.plugins.experiments.documents import nearest

SETTINGS = (
    # Neither hooks nor housekeeping of this machine's configuration, nor its idea of how lines end.
    *("core.hooksPath=/dev/null", "core.autocrlf=false", "core.symlinks=true", "core.fileMode=true"),
    *("gc.auto=0", "maintenance.auto=false", "submodule.recurse=false", "fetch.recurseSubmodules=false"),
    *("advice.detachedHead=false", "init.defaultBranch=main", "core.quotePath=false"),
)
_SEEN = (
    *("SSH_AUTH_SOCK", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"),
    *("GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY", "SSL_CERT_FILE", "SSL_CERT_DIR", "XDG_CONFIG_HOME"),
    *PROXY_ENV,
)
_HIDDEN = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"}
    | {"GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES", "GIT_TRACE", "GIT_TRACE2", "GIT_PREFIX"}
)
_VARIABLES = {"LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never", "GCM_INTERACTIVE": "never"}

_NO_REF = ("couldn't find remote ref", "invalid refspec", "fatal: invalid ref")
_NOT_OFFERED = ("not our ref", "unadvertised object", "does not allow request for")
_FINAL = (
    *("does not appear to be a git repository", "repository not found", "not found", "does not exist"),
    *("authentication failed", "could not read username", "could not read password", "terminal prompts disabled"),
    *("permission denied", "host key verification failed", "unable to find remote helper", "dubious ownership"),
    *(
        "not allowed",
        "bad object",
        "access denied",
        "invalid credentials",
        "returned error: 401",
        "returned error: 403",
    ),
    *("no such file", "unknown option", "not a git repository"),
)
_SHORT_SHA = re.compile(r"[0-9a-f]{4,64}")
_SECRET = re.compile(r"^[a-z][a-z0-9+.-]*://(?:[^/@]*:[^/@]+|gh[pousr]_[^/@]*|github_pat_[^/@]*|glpat-[^/@]*)@", re.I)
_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\n"


def repo_problem(repo: str) -> str | None:
    """Why an address of a repository is not taken."""
    if repo.startswith("-"):
        return f"{repo!r} is no address of a repository"
    if _SECRET.match(repo):
        return (
            "the address holds a password, which would end up in records and on command lines; use a credential helper"
        )
    return None


def ref_problem(ref: str) -> str | None:
    """Why a word cannot be a ref."""
    if ref.startswith("-") or re.search(r"[\s:^~?*\[\\\x00-\x20]|\.\.|@\{", ref):
        return f"{ref!r} is neither a branch, a tag nor a commit"
    return None


@dataclass(frozen=True, kw_only=True)
class GitFetcher:
    """Fetches with the `git` of this machine."""

    file: Path
    """The experiment file."""
    timeout_s: float

    async def fetch(self, wanted: Wanted, root: Path, *, runner: CommandRunner, log: Path) -> Fetched:
        """Fetch one commit without its history, and check out the wanted directories.

        Blobs are asked for when they are checked out, all at once, where the server can do that.
        """
        git = _Git(root=root, runner=runner, log=log, timeout_s=self.timeout_s, file=self.file)
        await git.done("init", "--quiet")
        await git.done("remote", "add", "origin", wanted.repo)
        commit = await self._commit(git, wanted)
        prefixes = {literal_prefix(path) for path in wanted.paths} or {""}
        if "" not in prefixes:
            # There may be more directories than a command line takes.
            await anyio.to_thread.run_sync(_write_patterns, root / ".git" / "info", prefixes)
            await git.done("config", "core.sparseCheckoutCone", "false")
            await git.done("config", "core.sparseCheckout", "true")
        await git.done("checkout", "--quiet", "--detach", commit, passing=True)
        listing = await git.script("git ls-files --stage -z > .git/agentix-files")
        if not listing.ok:
            raise FetchFailed(listing.describe())
        modules = await anyio.to_thread.run_sync(_modules, root / ".git" / "agentix-files")
        return Fetched(root=root, commit=commit, refused=lambda path: _refused(root, path, modules))

    async def _commit(self, git: _Git, wanted: Wanted) -> str:
        ref = wanted.ref or "HEAD"
        fetched = await git.fetch("--depth=1", "origin", ref)
        if not fetched.ok and _SHORT_SHA.fullmatch(ref) and says(fetched.stderr, (*_NO_REF, *_NOT_OFFERED)):
            # A server need not give a commit that is the tip of nothing, and has never heard of a shortened one.
            fetched = await git.fetch("origin", "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
            if fetched.ok:
                found = await git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
                if not found.ok:
                    raise FetchFailed(f"no commit {ref} is on a branch or a tag of {wanted.repo}", key="ref")
                return found.stdout.strip()
        if not fetched.ok:
            if says(fetched.stderr, _NO_REF) and wanted.ref is not None:
                near = nearest(ref, await git.refs())
                raise FetchFailed(f"{wanted.repo} has neither a branch nor a tag {ref!r}", key="ref", near=near)
            raise FetchFailed(f"{wanted.repo}: {_reason(fetched)}", passing=not says(fetched.stderr, _FINAL))
        return (await git.done("rev-parse", "--verify", "FETCH_HEAD^{commit}")).stdout.strip()


@dataclass(frozen=True, kw_only=True)
class _Git:
    root: Path
    runner: CommandRunner
    log: Path
    timeout_s: float
    file: Path

    async def run(self, *arguments: str) -> CommandResult:
        settings = [part for setting in SETTINGS for part in ("-c", setting)]
        return await self._command(argv=("git", *settings, *arguments))

    async def script(self, script: str) -> CommandResult:
        return await self._command(script=script)

    async def done(self, *arguments: str, passing: bool = False) -> CommandResult:
        result = await self.run(*arguments)
        if not result.ok:
            message = f"git {arguments[0]}: {_reason(result)}"
            raise FetchFailed(message, passing=passing and not says(result.stderr, _FINAL))
        return result

    async def fetch(self, *arguments: str) -> CommandResult:
        return await self.run("fetch", "--quiet", "--no-tags", "--filter=blob:none", *arguments)

    async def refs(self) -> list[str]:
        listed = await self.run("ls-remote", "--heads", "--tags", "--refs", "origin")
        names = (line.partition("\t")[2] for line in listed.stdout.splitlines())
        return [name.removeprefix("refs/heads/").removeprefix("refs/tags/") for name in names]

    async def _command(self, *, argv: Sequence[str] = (), script: str = "") -> CommandResult:
        command = Command(
            name="git",
            form="run" if argv else "script",
            argv=tuple(argv),
            script=script,
            env=_SEEN,
            hidden=_HIDDEN,
            timeout_s=self.timeout_s,
            origin=self.file,
        )
        return await self.runner.run(command, variables=_VARIABLES, cwd=self.root, log=self.log)


def _write_patterns(info: Path, prefixes: set[str]) -> None:
    """Have directories checked out with all that is in them, and nothing else."""
    info.mkdir(exist_ok=True)
    escaped = (re.sub(r"([\\*?\[\] ])", r"\\\1", prefix) for prefix in sorted(prefixes))
    patterns = "".join(f"/{prefix}\n" for prefix in escaped)
    (info / "sparse-checkout").write_text(patterns, encoding="utf-8", errors="surrogateescape")


def _modules(listing: Path) -> tuple[bytes, ...]:
    """The submodules in what `git ls-files --stage -z` has listed."""
    lines = listing.read_bytes().split(b"\0")
    return tuple(line.partition(b"\t")[2] for line in lines if line.startswith(b"160000 "))


def _reason(result: CommandResult) -> str:
    if result.timed_out:
        return f"took longer than {result.limit_s:g} s"
    lines = [line.strip() for line in result.stderr.splitlines()]
    told = [line for line in lines if line.startswith(("fatal: ", "error: ", "remote: "))]
    return (told[0] if told else last_line(result.stderr)).removeprefix("fatal: ").removeprefix("error: ")


def _refused(root: Path, path: str, modules: Sequence[bytes]) -> str | None:
    here = path.encode("utf-8", "surrogateescape").strip(b"/")
    inside = [module for module in modules if here in (b"", b".") or module == here or module.startswith(here + b"/")]
    if inside:
        name = shown(inside[0].decode("utf-8", "surrogateescape"))
        return f"holds the submodule {name}, and submodules are not fetched; a command under `fetch` can do it"
    for file in (root / path).rglob("*"):
        if not file.is_symlink() and file.is_file() and _is_pointer(file):
            name = shown(str(file.relative_to(root)))
            return f"{name} is in Git LFS, and git-lfs did not fetch it; install it and run `git lfs install`"
    return None


def _is_pointer(file: Path) -> bool:
    if file.stat().st_size > 1024:
        return False
    with file.open("rb") as content:
        return content.read(len(_LFS_POINTER)) == _LFS_POINTER
