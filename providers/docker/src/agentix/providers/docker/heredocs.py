"""Rewrites what only BuildKit understands in a Dockerfile, so that the classic builder builds the same.

Heredocs (Dockerfile reference, "Here-Documents"): the body of a RUN becomes its command, that of a COPY or ADD a file
of the context. `--mount=type=cache` and `--link` change speed and nothing else, and are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_WORD = re.compile(r"(?<!\S)\d*<<(-?)([\"']?)([A-Za-z_][A-Za-z0-9_.]*)\2(?=$|[\s;|&>)])")
_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)(?:\s+(.*))?$", re.DOTALL)
_ESCAPE = re.compile(r"#\s*escape\s*=\s*(\S)", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*[A-Za-z]+\s*=")
_FLAG = re.compile(r"--[a-z-]+(?:=\S+)?\s*")
_SPEED = re.compile(r"--mount=(?:\S*,)?type=cache\S*\s*|--link(?:=\S+)?\s+")
_VARIABLE = re.compile(r"\\?\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:(:?[-+])([^}]*))?\})", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(\"(?:[^\"\\]|\\.)*\"|'[^']*'|\S*)", re.ASCII)
_SCRIPT = "/tmp/.agentix-heredoc"  # noqa: S108 - a path in the image, gone after its RUN

FOLDER = ".agentix-heredocs"
"""Directory of the context that holds the files of COPY and ADD."""


class HeredocError(ValueError):
    """A heredoc is not closed; the message has the line."""


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """A Dockerfile that the classic builder takes."""

    text: str
    files: Mapping[str, tuple[bytes, int]] = field(default_factory=dict)
    """Content and mode of further files of the context."""


@dataclass(frozen=True, kw_only=True)
class _Heredoc:
    name: str
    body: str
    raw: str
    literal: bool


def lower(text: str, *, args: Mapping[str, str]) -> Lowered:
    """Rewrite a Dockerfile; one without such things comes back as it is.

    Args:
        text: The Dockerfile.
        args: The build's arguments, which variables in the files stand for.

    Raises:
        HeredocError: A heredoc is not closed.
    """
    return _Lowering(text, args).run()


class _Lowering:
    def __init__(self, text: str, args: Mapping[str, str]) -> None:
        self._text = text
        self._lines = text.splitlines(keepends=True)
        self._args = args
        self._at = 0
        self._escape = "\\"
        self._shell = ["/bin/sh", "-c"]
        self._variables: dict[str, str] = {}
        self._out: list[str] = []
        self._files: dict[str, tuple[bytes, int]] = {}
        self._changed = False

    def run(self) -> Lowered:
        self._read_directives()
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.strip() or line.lstrip().startswith("#"):
                self._out.append(line)
                self._at += 1
            else:
                self._instruction()
        return Lowered(text="".join(self._out) if self._changed else self._text, files=self._files)

    def _read_directives(self) -> None:
        for line in self._lines:
            if not _DIRECTIVE.match(line.strip()):
                return
            if match := _ESCAPE.match(line.strip()):
                self._escape = match[1]

    def _instruction(self) -> None:
        first = self._at
        joined = self._joined()
        match = _INSTRUCTION.match(joined)
        keyword, rest = (match[1].upper(), match[2] or "") if match else ("", "")
        if keyword == "FROM":
            self._shell, self._variables = ["/bin/sh", "-c"], {}
        elif keyword == "SHELL":
            self._set_shell(rest)
        elif keyword in ("ARG", "ENV"):
            self._set_variables(keyword, rest)
        written = self._lines[first : self._at]
        if keyword in ("RUN", "COPY", "ADD"):
            heredocs = [self._heredoc(found, first) for found in _words(rest)]
            slim = _SPEED.sub("", rest)
            if heredocs:
                self._changed = True
                rewrite = self._run_lines if keyword == "RUN" else self._copy
                self._out.append(f"{keyword} {rewrite(slim, heredocs)}\n")
                return
            if slim != rest:
                self._changed = True
                written = [f"{keyword} {slim.rstrip()}\n"]
        self._out.extend(written)

    def _joined(self) -> str:
        parts: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip("\r\n")
            self._at += 1
            if parts and line.lstrip().startswith("#"):
                continue
            stripped = line.rstrip()
            if not stripped.endswith(self._escape):
                parts.append(line)
                break
            parts.append(stripped[: -len(self._escape)])
        return "".join(parts)

    def _heredoc(self, found: re.Match[str], line: int) -> _Heredoc:
        tabs, quote, name = found[1], found[2], found[3]
        body: list[str] = []
        raw: list[str] = []
        while self._at < len(self._lines):
            text = self._lines[self._at]
            self._at += 1
            raw.append(text)
            if tabs:
                text = text.lstrip("\t")
            if text.rstrip("\r\n") == name:
                return _Heredoc(name=name, body="".join(body), raw="".join(raw), literal=bool(quote))
            body.append(text)
        raise HeredocError(f"line {line + 1}: the heredoc <<{name} has no line {name} that ends it")

    def _run_lines(self, rest: str, heredocs: list[_Heredoc]) -> str:
        flags = ""
        while match := _FLAG.match(rest):
            flags += match[0]
            rest = rest[match.end() :]
        alone = len(heredocs) == 1 and not _WORD.sub("", rest).strip()
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

    def _copy(self, rest: str, heredocs: list[_Heredoc]) -> str:
        mode = 0o644
        if match := re.search(r"--chmod=([0-7]{3,4})\s+", rest):
            # The classic builder takes no mode, and needs none where the file has it already.
            mode = int(match[1], 8)
            rest = rest.replace(match[0], "", 1)
        number = len(self._files)
        waiting = list(heredocs)

        def place(_: re.Match[str]) -> str:
            heredoc = waiting.pop(0)
            path = f"{FOLDER}/{number}-{len(waiting)}/{heredoc.name}"
            body = heredoc.body if heredoc.literal else self._expanded(heredoc.body)
            self._files[path] = (body.encode("utf-8", "surrogateescape"), mode)
            return path

        return _WORD.sub(place, rest).rstrip()

    def _expanded(self, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[0].startswith("\\"):
                return match[0][1:]
            known = self._variables.get(match[1] or match[2])
            how, word = match[3] or "", match[4] or ""
            present = known is not None and (known != "" or not how.startswith(":"))
            if how.endswith("+"):
                return word if present else ""
            return known or "" if present or not how else word

        return _VARIABLE.sub(value, text)

    def _set_shell(self, rest: str) -> None:
        try:
            words = json.loads(rest)
        except ValueError:
            return
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            self._shell = words

    def _set_variables(self, keyword: str, rest: str) -> None:
        if keyword == "ARG":
            for word in rest.split():
                name, equals, default = word.partition("=")
                if name in self._args:
                    self._variables[name] = self._args[name]
                elif equals:
                    self._variables[name] = self._expanded(default.strip("\"'"))
            return
        pairs = _ASSIGNMENT.findall(rest)
        if not pairs:
            name, _, text = rest.strip().partition(" ")
            pairs = [(name, text.strip())]
        self._variables |= {name: self._expanded(text.strip("\"'")) for name, text in pairs}


def _words(rest: str) -> list[re.Match[str]]:
    """The heredocs that an instruction opens; what stands in quotes opens none."""
    quoted = [(match.start(), match.end()) for match in re.finditer(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", rest)]
    return [
        found
        for found in _WORD.finditer(rest)
        if not any(start < found.start() and found.end() < end for start, end in quoted)
    ]
