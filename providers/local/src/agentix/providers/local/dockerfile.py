"""Reads a Dockerfile for what it says without being built: WORKDIR, ENV, USER, COPY and ADD of files."""

from __future__ import annotations

import io
import json
import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dockerfile_parse import DockerfileParser  # type: ignore[import-untyped]

from agentix.api import EnvFailed, ImageBuild
from agentix.providers.local.copying import Copy, resolve
from agentix.providers.local.etc import Etc
from agentix.providers.local.ignore import IgnoreRules
from agentix.providers.local.image import WORKDIR, Entry, Image
from agentix.providers.local.words import expand, split_words

_NO_EFFECT = frozenset({"CMD", "COMMENT", "EXPOSE", "LABEL", "MAINTAINER", "SHELL", "STOPSIGNAL"})
_HEREDOC = re.compile(r"<<-?[\"']?[A-Za-z_]")
_PLAIN_MKDIR = re.compile(r"mkdir -p((?: +/?[\w.-]+(?:/[\w.-]+)*/?)+)", re.ASCII)
_TOOLS = re.compile(r"/(?!usr/src(?:/|$))(?:agentix|bin|dev|lib|lib32|lib64|libx32|proc|sbin|usr)(?:/|$)")
_OCTAL = re.compile(r"[0-7]{3,4}", re.ASCII)


def read_dockerfile(build: ImageBuild, *, etc: Etc, folders: tuple[str, ...]) -> Image:
    """What a Dockerfile asks for.

    Args:
        build: The Dockerfile, its context and build arguments.
        etc: The users that exist inside.
        folders: Directories that exist inside anyway.

    Raises:
        EnvFailed: It asks for something that only a build can do; the message names instruction and line.
    """
    path = build.dockerfile_path
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise EnvFailed(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    reader = _Reader(path=path, build=build, etc=etc, folders=set(folders))
    # The library reads bytes, and needs a line end after the last instruction.
    file = io.BytesIO(text.replace("\r\n", "\n").encode("utf-8") + b"\n")
    parser = DockerfileParser(fileobj=file, env_replace=False)  # pyright: ignore[reportArgumentType]
    for instruction in parser.structure:
        reader.take(instruction["instruction"], instruction["value"], line=instruction["startline"] + 1)
    if reader.image is None:
        raise EnvFailed(f"{path} has no FROM")
    return Image(
        name=reader.image,
        workdir=reader.workdir or WORKDIR,
        env=reader.env,
        user=reader.user,
        dirs=tuple(reader.dirs),
        entries=tuple(reader.entries),
    )


@dataclass(kw_only=True)
class _Reader:
    """Where the reading of a Dockerfile stands."""

    path: Path
    build: ImageBuild
    etc: Etc
    folders: set[str]
    image: str | None = None
    workdir: str | None = None
    user: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    args: dict[str, str] = field(default_factory=dict)
    dirs: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def take(self, instruction: str, value: str, *, line: int) -> None:
        """Take one instruction."""
        if instruction in _NO_EFFECT:
            return
        steps: Mapping[str, Callable[[str], None]] = {
            "ADD": lambda text: self._copy(text, unpacks=True),
            "ARG": self._arg,
            "COPY": self._copy,
            "ENV": self._env,
            "FROM": self._from,
            "RUN": self._run,
            "USER": self._user,
            "WORKDIR": self._workdir,
        }
        try:
            if instruction not in steps:
                raise ValueError("this instruction needs a build")
            if self.image is None and instruction not in ("FROM", "ARG"):
                raise ValueError("it stands before FROM")
            steps[instruction](value)
        except (ValueError, OSError) as error:
            raise EnvFailed(
                f"{self.path}:{line}: {instruction}: the provider local cannot do this: {error}",
                detail="unsupported",
                hint="local builds no images: use a provider that does, such as `--provider docker`",
            ) from error

    def _lookup(self, name: str) -> str | None:
        return self.env.get(name, self.args.get(name))

    def _from(self, value: str) -> None:
        if self.image is not None:
            raise ValueError("a second build stage")
        words = [word for word in split_words(value, self._lookup) if not word.startswith("--")]
        if not words:
            raise ValueError("it names no image")
        self.image = words[0]
        # What stands before FROM is known to FROM only.
        self.args = {}

    def _arg(self, value: str) -> None:
        for word in split_words(value, self._lookup):
            name, given, default = word.partition("=")
            if name in self.build.args:
                self.args[name] = self.build.args[name]
            elif given:
                self.args[name] = default

    def _env(self, value: str) -> None:
        first = value.split(None, 1)
        if first and "=" not in first[0]:
            self.env[first[0]] = expand(first[1], self._lookup) if len(first) > 1 else ""
            return
        # All values of one instruction see the variables as they were before it.
        pairs = [word.partition("=") for word in split_words(value, self._lookup)]
        for name, equals, _ in pairs:
            if not equals or not name:
                raise ValueError(f"{name!r} is not NAME=VALUE")
        self.env.update({name: content for name, _, content in pairs})

    def _workdir(self, value: str) -> None:
        self.workdir = posixpath.normpath(posixpath.join(self.workdir or "/", expand(value.strip(), self._lookup)))
        self._make(self.workdir)

    def _user(self, value: str) -> None:
        name, _, group = expand(value.strip(), self._lookup).partition(":")
        if not name or self.etc.uid(name) is None:
            raise ValueError(f"there is no user {name!r} among this machine's system users")
        if group and self.etc.gid(group) != self.etc.primary_gid(name):
            raise ValueError(f"the group {group!r} is not the user's own")
        self.user = name

    def _run(self, value: str) -> None:
        match = _PLAIN_MKDIR.fullmatch(value.strip())
        if match is None:
            raise ValueError("it runs a command in the image")
        if self.user not in (None, "root", "0"):
            raise ValueError("it makes directories as another user than root")
        for word in match[1].split():
            self._make(posixpath.normpath(posixpath.join(self.workdir or "/", word)))

    def _copy(self, value: str, *, unpacks: bool = False) -> None:
        if _HEREDOC.search(value):
            raise ValueError("it has its content in the Dockerfile (<<)")
        options, rest = _options(value)
        words = _array(rest) or split_words(rest, self._lookup)
        if len(words) < 2:
            raise ValueError("it needs a source and a target")
        for source in words[:-1]:
            if unpacks and ("://" in source or source.startswith("git@")):
                raise ValueError(f"it fetches {source}")
        uid, gid = self._owner(expand(options.pop("--chown", ""), self._lookup))
        mode = expand(options.pop("--chmod", ""), self._lookup)
        if mode and not _OCTAL.fullmatch(mode):
            raise ValueError(f"the mode {mode} is not an octal number")
        options.pop("--link", None)
        if options:
            raise ValueError(f"the option {min(options)}")
        target = posixpath.join(self.workdir or "/", words[-1])
        if words[-1] in (".", "..") or words[-1].endswith(("/.", "/..")):
            target += "/"
        copy = Copy(
            sources=words[:-1], target=target, uid=uid, gid=gid, mode=int(mode, 8) if mode else None, unpacks=unpacks
        )
        rules = IgnoreRules.of(self.build.context, self.path)
        for entry in resolve(copy, context=self.build.context, rules=rules, folders=frozenset(self.folders)):
            if entry.path not in self.folders:
                _refuse_tools(entry.path)
            self.entries.append(entry)
            if entry.kind == "dir":
                self.folders.add(entry.path)

    def _owner(self, text: str) -> tuple[int, int]:
        if not text:
            return 0, 0
        name, colon, group = text.partition(":")
        uid = self.etc.uid(name)
        gid = self.etc.gid(group) if colon else self.etc.primary_gid(name)
        if uid is None or gid is None:
            raise ValueError(f"there is no {text!r} among this machine's system users and groups")
        return uid, gid

    def _make(self, folder: str) -> None:
        _refuse_tools(folder)
        self.dirs.append(folder)
        self.folders.add(folder)


def _refuse_tools(path: str) -> None:
    if _TOOLS.match(path):
        raise ValueError(f"{path} belongs to the host's tools, which are read-only")


def _options(value: str) -> tuple[dict[str, str], str]:
    options = {}
    rest = value.strip()
    while rest.startswith("--"):
        word, _, rest = rest.partition(" ")
        name, _, content = word.partition("=")
        options[name] = content
        rest = rest.lstrip()
    return options, rest


def _array(text: str) -> list[str]:
    if not text.startswith("["):
        return []
    try:
        words = json.loads(text)
    except ValueError:
        return []
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else []
