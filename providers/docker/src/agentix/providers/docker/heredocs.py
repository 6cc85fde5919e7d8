"""Rewrites what a builder does not understand in a Dockerfile, so that it builds the same.

Heredocs (Dockerfile reference, "Here-Documents"): the body of a RUN becomes its command, that of a COPY or ADD a file
of the context. `--mount=type=cache` and `--link` change speed and nothing else, and are left out. A secret that is not
required, and agentix gives none, is mounted nowhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentix.providers.docker.dockerfile import WORD, Dockerfile, Heredoc, HeredocError, Instruction, read
from agentix.providers.docker.variables import argued, assigned, expanded

__all__ = ["FOLDER", "HeredocError", "Lowered", "lower"]

_FLAG = re.compile(r"--[a-z-]+(?:=\S+)?\s*")
_LINK = r"--link(?:=\S+)?\s+"
_CACHE = r"--mount=(?:\S*,)?type=cache\S*\s*"
_SECRET = r"--mount=(?=\S*type=(?:secret|ssh))(?!\S*required=true)\S*\s*"  # noqa: S105 - no password
_PLATFORM = re.compile(r"--platform=(\S*\$\S*)")
_SYNTAX = re.compile(r"^#\s*syntax\s*=\s*(?:docker\.io/)?docker/dockerfile(?:-upstream)?[:@\s].*$", re.I | re.M)
_SCRIPT = "/tmp/.agentix-heredoc"  # noqa: S108 - a path in the image, gone after its RUN

FOLDER = ".agentix-heredocs"
"""Directory of the context that holds the files of COPY and ADD."""


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A Dockerfile that the builder takes."""

    text: str
    files: Mapping[str, tuple[bytes, int]] = field(default_factory=dict)
    """Content and mode of further files of the context."""


def lower(
    source: str | Dockerfile,
    *,
    args: Mapping[str, str],
    platforms: Mapping[str, str] | None = None,
    heredocs: bool = True,
    classic: bool = True,
) -> Lowered:
    """Rewrite a Dockerfile; one without such things comes back as it is.

    Args:
        source: The Dockerfile.
        args: The build's arguments, which variables in the files stand for.
        platforms: What TARGETPLATFORM and the like stand for, where the builder does not know itself.
        heredocs: Whether heredocs have to be rewritten.
        classic: Whether it is for the classic builder, which takes neither `--mount` nor `--link`.

    Raises:
        HeredocError: A heredoc is not closed.
    """
    dockerfile = read(source) if isinstance(source, str) else source
    if not heredocs and not classic:
        return Lowered(text=_without_syntax(_without_secrets(dockerfile)))
    lowering = _Lowering(dockerfile, args, platforms or {}, classic=classic)
    result = lowering.run()
    return result if classic else Lowered(text=_without_syntax(result.text), files=result.files)


def _without_syntax(text: str) -> str:
    """Without Docker's own frontend, of which the engine has one, so that none has to be fetched."""
    return _SYNTAX.sub("#", text, count=1)


def _without_secrets(dockerfile: Dockerfile) -> str:
    pieces: list[str] = []
    for one in dockerfile.instructions:
        slim = _without(one, re.compile(_SECRET)) if one.keyword == "RUN" else one.rest
        pieces.append(one.written if slim == one.rest else f"{one.keyword} {slim}\n")
        pieces.extend(heredoc.raw for heredoc in one.heredocs)
    return "".join(pieces)


def _without(one: Instruction, flags: re.Pattern[str]) -> str:
    """What follows the instruction's name, without these flags."""
    before = one.rest[: len(one.rest) - len(one.arguments)]
    return flags.sub("", before) + one.arguments


class _Lowering:
    def __init__(
        self, dockerfile: Dockerfile, args: Mapping[str, str], platforms: Mapping[str, str], *, classic: bool
    ) -> None:
        self._dockerfile = dockerfile
        self._args = {**platforms, **args}
        self._shell = ["/bin/sh", "-c"]
        self._variables: dict[str, str] = {}
        self._first: dict[str, str] | None = None
        self._out: list[str] = []
        self._files: dict[str, tuple[bytes, int]] = {}
        self._changed = False
        self._platforms = platforms
        self._dropped = re.compile("|".join([_LINK, _SECRET, *([_CACHE] if classic else [])]))

    def run(self) -> Lowered:
        for instruction in self._dockerfile.instructions:
            self._instruction(instruction)
        return Lowered(text="".join(self._out) if self._changed else self._dockerfile.text, files=self._files)

    def _instruction(self, one: Instruction) -> None:
        written = one.written
        if one.keyword == "FROM":
            if self._first is None:
                self._first = {**self._platforms, **self._variables}
            self._shell, self._variables = ["/bin/sh", "-c"], {}
            if self._platforms and (match := _PLATFORM.match(one.rest)):
                self._changed = True
                platform = expanded(match[1], self._first)
                written = f"FROM --platform={platform}{one.rest[match.end() :]}\n"
        elif one.keyword == "SHELL":
            self._set_shell(one.rest)
        elif one.keyword == "ARG":
            self._variables |= argued(one.rest, self._variables, self._args)
        elif one.keyword == "ENV":
            self._variables |= {name: expanded(text, self._variables) for name, text in assigned(one.rest)}
        elif one.keyword in ("RUN", "COPY", "ADD"):
            slim = _without(one, self._dropped)
            if one.heredocs:
                self._changed = True
                rewrite = self._run_lines if one.keyword == "RUN" else self._copy
                self._put(one, f"{one.keyword} {rewrite(slim, one.heredocs)}\n")
                return
            if slim != one.rest:
                self._changed = True
                written = f"{one.keyword} {slim.rstrip()}\n"
        self._put(one, written)

    def _put(self, one: Instruction, written: str) -> None:
        """Add what an instruction became, with as many lines as it had, so that builders name the author's lines."""
        had = one.written.count("\n") + sum(heredoc.raw.count("\n") for heredoc in one.heredocs)
        self._out.append(written + "#\n" * (had - written.count("\n")))

    def _run_lines(self, rest: str, heredocs: Sequence[Heredoc]) -> str:
        flags = ""
        while match := _FLAG.match(rest):
            flags += match[0]
            rest = rest[match.end() :]
        alone = len(heredocs) == 1 and not WORD.sub("", rest).strip()
        if not alone:
            script = f"{rest.rstrip()}\n" + "".join(
                heredoc.raw if heredoc.raw.endswith("\n") else f"{heredoc.raw}\n" for heredoc in heredocs
            )
        elif heredocs[0].body.startswith("#!"):
            end = "AGENTIX_END_OF_SCRIPT"
            script = (
                f"cat > {_SCRIPT} <<'{end}'\n{heredocs[0].body}{end}\nchmod +x {_SCRIPT} && {_SCRIPT}\n"
                f"status=$?\nrm -f {_SCRIPT}\nexit $status\n"
            )
        else:
            script = heredocs[0].body
        return f"{flags}{json.dumps([*self._shell, script])}"

    def _copy(self, rest: str, heredocs: Sequence[Heredoc]) -> str:
        mode = 0o644
        if match := re.search(r"--chmod=([0-7]{3,4})\s+", rest):
            # The classic builder takes no mode, and none is needed where the file has it already.
            mode = int(match[1], 8)
            rest = rest.replace(match[0], "", 1)
        number = len(self._files)
        waiting = list(heredocs)

        def place(_: re.Match[str]) -> str:
            heredoc = waiting.pop(0)
            path = f"{FOLDER}/{number}-{len(waiting)}/{heredoc.name}"
            body = heredoc.body if heredoc.literal else expanded(heredoc.body, self._variables)
            self._files[path] = (body.encode("utf-8", "surrogateescape"), mode)
            return path

        return WORD.sub(place, rest).rstrip()

    def _set_shell(self, rest: str) -> None:
        try:
            words = json.loads(rest)
        except ValueError:
            return
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            self._shell = words
