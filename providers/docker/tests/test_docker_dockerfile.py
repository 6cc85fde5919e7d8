"""Dockerfiles as they are read: instructions, the images they build on, what a builder cannot do."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.api import EnvFailed
from agentix.providers.docker import classic
from agentix.providers.docker.bases import bases, platform_variables
from agentix.providers.docker.dockerfile import HeredocError, read
from agentix.providers.docker.heredocs import lower
from agentix.providers.docker.trace import Trace, fields

OWN = platform_variables("linux/amd64", "linux/arm/v7")
SOURCE = """# syntax=docker/dockerfile:1
# escape=`
ARG VERSION=12
ARG NAME="debian"
FROM --platform=$BUILDPLATFORM ${NAME}:${VERSION} AS Build
ARG TARGETARCH
RUN --mount=type=bind,from=tools:1,target=/t --mount=type=cache,target=/c make `
    # a comment
    all
FROM unused:1 AS other
FROM scratch AS last
COPY --from=build /a /a
COPY --from=1 /b /b
COPY --from=ghcr.io/x/y@sha256:abc /c /c
"""


def names(text: str, *, all_: bool, platform: str | None = None, **args: str) -> list[tuple[str, str | None]]:
    found = bases(read(text), args=args, platforms=OWN, platform=platform, all_=all_)
    return [(base.name, base.platform) for base in found]


def test_instructions_have_their_line_flags_and_arguments() -> None:
    dockerfile = read(SOURCE)
    assert dockerfile.syntax == "docker/dockerfile:1"
    (run,) = [one for one in dockerfile.instructions if one.keyword == "RUN"]
    assert run.line == 7
    assert [name for name, _ in run.flags] == ["mount", "mount"]
    assert run.arguments.split() == ["make", "all"]
    assert "".join(one.written for one in dockerfile.instructions) == SOURCE


def test_the_images_that_a_build_needs_are_found_with_arguments_stages_and_mounts() -> None:
    expected = [
        ("debian:12", "linux/amd64"),
        ("tools:1", None),
        ("unused:1", None),
        ("ghcr.io/x/y@sha256:abc", None),
    ]
    assert names(SOURCE, all_=True) == expected
    assert names(SOURCE, all_=False) == expected
    assert names(SOURCE.replace("--from=1 ", ""), all_=False) == [one for one in expected if one[0] != "unused:1"]
    assert names(SOURCE, all_=True, VERSION="13", NAME="x")[0] == ("x:13", "linux/amd64")
    assert names("FROM a\nFROM $TARGETARCH\n", all_=False, platform="linux/arm/v7") == [("arm", "linux/arm/v7")]


def test_platform_variables_have_their_parts() -> None:
    assert OWN["TARGETARCH"] == "arm" and OWN["TARGETVARIANT"] == "v7" and OWN["BUILDARCH"] == "amd64"
    assert platform_variables("linux/amd64", None)["TARGETPLATFORM"] == "linux/amd64"
    declared = classic.declared_platforms(read("FROM a\nARG TARGETARCH BUILDOS=x\nARG OTHER\n"), OWN)
    assert declared == {"TARGETARCH": "arm", "BUILDOS": "linux"}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("RUN --mount=type=bind,source=a,target=/b true", "RUN --mount=type=bind"),
        ("RUN --mount=source=a,target=/b true", "RUN --mount=type=bind"),
        ("RUN --mount=type=tmpfs,target=/b true", "RUN --mount=type=tmpfs"),
        ("RUN --network=none true", "RUN --network"),
        ("COPY --chmod=755 a b", "COPY --chmod"),
        ("COPY --chmod=755 a <<E b\nE", "COPY --chmod"),
        ("ADD --checksum=sha256:0 http://x /", "ADD --checksum"),
    ],
)
def test_what_the_classic_builder_cannot_do_is_refused_with_its_line(line: str, what: str) -> None:
    with pytest.raises(EnvFailed, match="line 3: ") as info:
        classic.refuse(read(f"FROM a\n\n{line}\n"), Path("Dockerfile"), why="there is none")
    assert what in info.value.message and "BuildKit" in info.value.message
    assert info.value.hint


@pytest.mark.parametrize(
    "line",
    [
        "RUN --mount=type=cache,target=/c true",
        "RUN --mount=type=secret,id=x true",
        "COPY --chmod=755 <<E /x\nE",
        "COPY --link a b",
        "RUN echo --chmod --mount=type=bind",
    ],
)
def test_what_it_can_do_without_is_not_refused(line: str) -> None:
    classic.refuse(read(f"# syntax=docker/dockerfile:1.4\nFROM a\n{line}\n"), Path("Dockerfile"), why="there is none")


def test_a_secret_that_is_required_is_refused_and_another_one_left_out() -> None:
    with pytest.raises(EnvFailed, match=r"line 2: RUN --mount=type=secret requires"):
        classic.refuse_secrets(read("FROM a\nRUN --mount=type=secret,id=x,required=true true\n"), Path("Dockerfile"))
    text = "FROM a\nRUN --mount=type=secret,id=x --mount=type=bind,target=/b echo --mount=type=ssh\n"
    for heredocs in (True, False):
        slim = lower(text, args={}, classic=False, heredocs=heredocs).text
        assert slim == "FROM a\nRUN --mount=type=bind,target=/b echo --mount=type=ssh\n"


def test_buildkit_keeps_its_mounts_and_uses_its_own_frontend() -> None:
    text = "# syntax=docker/dockerfile:1\nFROM a\nRUN --mount=type=cache,target=/c <<E\nx\nE\nCOPY --link a b\n"
    old = lower(text, args={}, classic=False).text
    assert old == '#\nFROM a\nRUN --mount=type=cache,target=/c ["/bin/sh", "-c", "x\\n"]\n#\n#\nCOPY a b\n'
    assert lower(text, args={}, classic=False, heredocs=False).text == text.replace(text.splitlines()[0], "#")
    custom = "# syntax=example.org/own:1\nFROM a\n"
    assert lower(custom, args={}, classic=False, heredocs=False).text == custom


def test_a_platform_in_from_is_resolved_for_the_classic_builder() -> None:
    text = "ARG P=linux/s390x\nFROM --platform=$BUILDPLATFORM a\nFROM --platform=${P} b\nFROM --platform=linux/x c\n"
    assert lower(text, args={}, platforms=OWN).text == (
        "ARG P=linux/s390x\nFROM --platform=linux/amd64 a\nFROM --platform=linux/s390x b\nFROM --platform=linux/x c\n"
    )


@given(st.text(alphabet="FROM ARGCOPYUN-=<E\n\\#\"'${}:,x1", max_size=80))
def test_any_text_is_read_whole_or_refused_with_its_line(text: str) -> None:
    try:
        dockerfile = read(text)
    except HeredocError as error:
        assert str(error).startswith("line ")
        return
    again = "".join(one.written + "".join(doc.raw for doc in one.heredocs) for one in dockerfile.instructions)
    assert again == text
    bases(dockerfile, args={}, platforms=OWN, platform=None, all_=False)
    list(classic.needs(dockerfile))


def message(*parts: tuple[int, bytes | int]) -> bytes:
    out = b""
    for number, value in parts:
        if isinstance(value, int):
            out += bytes([number << 3, value])
        else:
            out += bytes([number << 3 | 2, len(value)]) + value
    return out


def test_buildkits_progress_becomes_lines() -> None:
    trace = Trace()

    def told(*parts: tuple[int, bytes | int]) -> list[str]:
        return list(trace.read(base64.b64encode(message(*parts)).decode()))

    began, ended = message((1, 5), (2, 1)), message((1, 7))
    vertex = ((1, b"sha256:a"), (3, b"[1/1] RUN x"))
    assert told((1, message(*vertex))) == []
    assert told((1, message(*vertex, (5, began)))) == ["#1 [1/1] RUN x\n"]
    assert told((3, message((1, b"sha256:a"), (4, b"one\ntw")))) == ["#1 one\n"]
    assert told((3, message((1, b"sha256:a"), (4, b"o")))) == []
    assert told((1, message(*vertex, (5, began), (6, ended)))) == ["#1 two\n", "#1 DONE 2.0s\n"]
    assert told((1, message(*vertex, (5, began), (6, ended)))) == []
    assert told((1, message((1, b"b"), (3, b"c"), (4, 1), (5, began), (6, ended)))) == ["#2 c\n", "#2 CACHED\n"]
    assert told((1, message((1, b"d"), (3, b"e"), (5, began), (6, ended), (7, b"no")))) == ["#3 e\n", "#3 ERROR: no\n"]


@given(st.binary(max_size=60))
def test_damaged_progress_says_nothing(data: bytes) -> None:
    trace = Trace()
    for aux in (base64.b64encode(data).decode(), data.decode("latin-1"), None, 3):
        assert all(isinstance(line, str) for line in trace.read(aux))
    with contextlib.suppress(ValueError):
        assert sum(1 for _ in fields(data)) <= len(data)
