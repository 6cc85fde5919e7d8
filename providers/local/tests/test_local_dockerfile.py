"""A Dockerfile without a build: what is honoured, what has no effect, what is refused by line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentix.api import EnvFailed, ImageBuild, SandboxConfig
from agentix.providers.local import LocalProvider
from agentix.providers.local.arguments import DIRS
from agentix.providers.local.dockerfile import read_dockerfile
from agentix.providers.local.etc import Etc, User
from agentix.providers.local.image import Image

ETC = Etc(
    folder=Path("/nonexistent"),
    names=(),
    passwd="",
    group="",
    users=(User(name="root", uid=0, gid=0), User(name="games", uid=5, gid=60)),
    groups=(("root", 0), ("games", 60)),
)


def read(context: Path, text: str, **args: str) -> Image:
    (context / "Dockerfile").write_text(text)
    return read_dockerfile(ImageBuild(context=context, args=args), etc=ETC, folders=DIRS)


def paths(image: Image) -> list[str]:
    return [entry.path for entry in image.entries if entry.kind != "dir"]


@pytest.fixture
def context(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.txt", "with space.txt", "src/main.py", "src/deep/er/x.py", "src/.hidden", "data/big.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "workdir"),
    [
        ("FROM x\n", "/app"),
        ("FROM x\nWORKDIR /w", "/w"),
        ("FROM x\nWORKDIR /w\nWORKDIR deeper/../down\n", "/w/down"),
        ("FROM x\nENV D=/e\nWORKDIR $D/f\n", "/e/f"),
        ("FROM x\nARG D=/e\nWORKDIR ${D}\n", "/e"),
        ("FROM x\nWORKDIR ${NONE:-/fallback}\n", "/fallback"),
        ("FROM x\nworkdir /lower\n", "/lower"),
        ("FROM x\r\nWORKDIR /crlf\r\n", "/crlf"),
        ("\ufeffFROM x\nWORKDIR /bom\n", "/bom"),
        ('FROM x\nWORKDIR "/quoted dir"\n', "/quoted dir"),
    ],
)
def test_workdir(tmp_path: Path, text: str, workdir: str) -> None:
    (tmp_path / "Dockerfile").write_bytes(text.encode())
    assert read_dockerfile(ImageBuild(context=tmp_path), etc=ETC, folders=()).workdir == workdir


@pytest.mark.parametrize(
    ("line", "env"),
    [
        ("ENV A=1 B=2", {"A": "1", "B": "2"}),
        ("ENV A=\"x y\" B='$C'", {"A": "x y", "B": "$C"}),
        ("ENV A some words", {"A": "some words"}),
        ("ENV A=1\nENV B=${A}2 A=9 C=$A", {"A": "9", "B": "12", "C": "1"}),
        ("ENV A=${X:-d} B=${X:+s} C=${X-d}", {"A": "d", "B": "", "C": "d"}),
        ("ARG X=v\nENV A=$X", {"A": "v"}),
        ("ARG X\nENV A=$X", {"A": ""}),
        ("ARG G=default\nENV A=$G", {"A": "given"}),
        ("ENV A=a\\ b", {"A": "a b"}),
        ("ENV A=1 \\\n  # why\n  B=2", {"A": "1", "B": "2"}),
        (r"ENV A=\$HOME", {"A": "$HOME"}),
        ("ENV P=/x:$P", {"P": "/x:"}),
    ],
)
def test_env(tmp_path: Path, line: str, env: dict[str, str]) -> None:
    assert read(tmp_path, f"FROM x\n{line}\n", G="given").env == env


def test_an_arg_before_from_is_known_to_from_only(tmp_path: Path) -> None:
    image = read(tmp_path, "ARG TAG=3\nFROM python:$TAG\nENV A=$TAG\n")
    assert (image.name, image.env) == ("python:3", {"A": ""})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("COPY a.txt /x", ["/x"]),
        ("COPY a.txt /x/", ["/x/a.txt"]),
        ("COPY a.txt b.txt /x", ["/x/a.txt", "/x/b.txt"]),
        ("COPY a.txt .", ["/w/a.txt"]),
        ("COPY a.txt /w", ["/w/a.txt"]),
        ("COPY a.txt renamed", ["/w/renamed"]),
        ("COPY ./a.txt ./", ["/w/a.txt"]),
        ("COPY /a.txt /x", ["/x"]),
        ("COPY src /x", ["/x/.hidden", "/x/deep/er/x.py", "/x/main.py"]),
        ("COPY src/ /x/", ["/x/.hidden", "/x/deep/er/x.py", "/x/main.py"]),
        ("COPY *.txt /x/", ["/x/a.txt", "/x/b.txt", "/x/with space.txt"]),
        ("COPY ?.txt /x/", ["/x/a.txt", "/x/b.txt"]),
        ("COPY [^a].txt /x/", ["/x/b.txt"]),
        ("COPY src/*.py /x/", ["/x/main.py"]),
        ('COPY ["with space.txt", "/x/"]', ["/x/with space.txt"]),
        ('COPY "with space.txt" /x/', ["/x/with space.txt"]),
        ("COPY --link a.txt /x", ["/x"]),
        ("ADD a.txt /x", ["/x"]),
        ("COPY a.txt /usr/src/app/", ["/usr/src/app/a.txt"]),
        ("COPY src/../a.txt /x", ["/x"]),
    ],
)
def test_copy(context: Path, line: str, expected: list[str]) -> None:
    assert sorted(paths(read(context, f"FROM x\nWORKDIR /w\n{line}\n"))) == expected


def test_the_whole_context_is_copied_but_for_what_is_ignored(context: Path) -> None:
    (context / ".dockerignore").write_text(
        "# no logs\n**/*.log\nsrc/deep\n!src/deep/er/x.py\n.dockerignore\nDockerfile\n"
    )
    copied = paths(read(context, "FROM x\nCOPY . /x\n"))
    assert sorted(copied) == [
        *("/x/a.txt", "/x/b.txt", "/x/run.sh", "/x/src/.hidden", "/x/src/deep/er/x.py", "/x/src/main.py"),
        "/x/with space.txt",
    ]


def test_an_ignored_source_does_not_exist(context: Path) -> None:
    (context / ".dockerignore").write_text("a.txt\n")
    with pytest.raises(EnvFailed, match=r"a\.txt does not exist"):
        read(context, "FROM x\nCOPY a.txt /x\n")


def test_owners_and_modes(context: Path) -> None:
    text = "FROM x\nCOPY run.sh /1\nCOPY --chown=games a.txt /2\nCOPY --chown=7:8 --chmod=640 a.txt /3\n"
    image = read(context, text)
    assert [(e.path, e.mode, e.uid, e.gid) for e in image.entries] == [
        ("/1", 0o755, 0, 0),
        ("/2", (context / "a.txt").stat().st_mode & 0o777, 5, 60),
        ("/3", 0o640, 7, 8),
    ]


def test_user_is_by_name_or_number(tmp_path: Path) -> None:
    assert read(tmp_path, "FROM x\nUSER games\n").user == "games"
    assert read(tmp_path, "FROM x\nUSER 5:60\n").user == "5"


def test_making_directories_needs_no_build(tmp_path: Path) -> None:
    image = read(tmp_path, "FROM x\nWORKDIR /w\nRUN mkdir -p /a/b c\n")
    assert image.dirs == ("/w", "/a/b", "/w/c")


def test_what_has_no_effect_here_is_passed_over(tmp_path: Path) -> None:
    text = 'FROM x\nLABEL a=b\nEXPOSE 80\nCMD ["sh"]\nMAINTAINER me\nSTOPSIGNAL 9\nSHELL ["/bin/bash", "-c"]\n# end\n'
    assert read(tmp_path, text) == Image(name="x")


@pytest.mark.parametrize(
    ("lines", "line", "names"),
    [
        ("RUN apt-get update", 2, "RUN"),
        ("RUN mkdir -p /a && rm -rf /b", 2, "RUN"),
        ("RUN mkdir -p $(id)", 2, "RUN"),
        ("RUN mkdir -p /usr/lib/x", 2, "/usr/lib/x"),
        ("USER games\nRUN mkdir -p /a", 3, "another user"),
        ("\n# why\nRUN <<EOF\necho\nEOF", 4, "RUN"),
        ('ENTRYPOINT ["x"]', 2, "ENTRYPOINT"),
        ("HEALTHCHECK NONE", 2, "HEALTHCHECK"),
        ("VOLUME /x", 2, "VOLUME"),
        ("ONBUILD RUN x", 2, "ONBUILD"),
        ("NOSUCH x", 2, "NOSUCH"),
        ("FROM y AS second", 2, "second build stage"),
        ("COPY --from=build /x /y", 2, "--from"),
        ("COPY --exclude=*.x a /y", 2, "--exclude"),
        ("COPY <<EOF /x\nhi\nEOF", 2, "<<"),
        ("COPY --chmod=u+x a.txt /x", 2, "u\\+x"),
        ("COPY nosuch.txt /x", 2, "nosuch.txt does not exist"),
        ("COPY *.nosuch /x/", 2, "does not exist"),
        ("COPY ../outside /x", 2, "outside the build context"),
        ("COPY a.txt", 2, "a source and a target"),
        ("COPY a.txt /usr/bin/", 2, "/usr/bin/a.txt"),
        ("WORKDIR /proc/x", 2, "/proc/x"),
        ("ADD https://example.org/x /x", 2, "https://example.org/x"),
        ("ADD git@example.org:x.git /x", 2, "git@example.org"),
        ("ADD archive.tar /x", 2, "archive"),
        ("COPY link /x", 2, "leads out of the build context"),
        ("COPY pipe /x", 2, "neither a file nor a directory"),
        ("COPY --chown=nosuch a.txt /x", 2, "nosuch"),
        ("USER nosuch", 2, "nosuch"),
        ("USER games:root", 2, "root"),
        ("ENV A='x", 2, "not closed"),
        ("ENV A=${B/x/y}", 2, "not supported"),
        ("ENV A=1 B", 2, "NAME=VALUE"),
    ],
)
def test_what_needs_a_build_is_refused_by_instruction_and_line(
    context: Path, lines: str, line: int, names: str
) -> None:
    import tarfile

    with tarfile.open(context / "archive.tar", "w") as archive:
        archive.add(context / "a.txt", "a.txt")
    (context / "link").symlink_to("/etc/passwd")
    os.mkfifo(context / "pipe")
    with pytest.raises(EnvFailed, match=names) as caught:
        read(context, f"FROM x\n{lines}\n")
    assert f"Dockerfile:{line}: " in caught.value.message
    assert "docker" in (caught.value.hint or "")


@pytest.mark.parametrize(("text", "message"), [("", "no FROM"), ("# only\n", "no FROM"), ("ENV A=1\n", "before FROM")])
def test_a_dockerfile_needs_a_from(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EnvFailed, match=message):
        read(tmp_path, text)


def test_a_missing_dockerfile_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvFailed, match=f"{tmp_path}/Dockerfile cannot be read"):
        read_dockerfile(ImageBuild(context=tmp_path), etc=ETC, folders=())


@pytest.mark.anyio
@pytest.mark.usefixtures("leftovers")
async def test_a_sandbox_has_what_the_dockerfile_says(provider: LocalProvider, context: Path) -> None:
    (context / "src" / "link").symlink_to("main.py")
    (context / "big.bin").write_bytes(os.urandom(3_000_000))
    (context / "Dockerfile").write_text(
        "FROM python:3.12\nENV GREETING='hello you'\nWORKDIR /usr/src/app\nCOPY src run.sh ./\nCOPY big.bin /data/x/\n"
        "COPY --chmod=600 a.txt /root/.a\nWORKDIR /work\n"
    )
    config = SandboxConfig(image=ImageBuild(context=context))
    async with provider.session(config) as sandbox:
        assert (await sandbox.exec('pwd; echo "$GREETING"')).text == "/work\nhello you\n"
        assert (await sandbox.exec("/usr/src/app/run.sh")).ok
        assert (await sandbox.exec(["readlink", "/usr/src/app/link"])).text == "main.py\n"
        assert (await sandbox.exec(["stat", "-c", "%a %u", "/root/.a"])).text == "600 0\n"
        assert await sandbox.read_file("/data/x/big.bin") == (context / "big.bin").read_bytes()
        assert any("python:3.12" in note for note in sandbox.info.notes)


@pytest.mark.anyio
@pytest.mark.usefixtures("leftovers")
async def test_files_that_do_not_fit_are_a_failed_environment(provider: LocalProvider, context: Path) -> None:
    (context / "big.bin").write_bytes(bytes(3_000_000))
    (context / "Dockerfile").write_text("FROM x\nCOPY big.bin /data/\n")
    config = SandboxConfig(image=ImageBuild(context=context), storage_mb=1)
    with pytest.raises(EnvFailed, match=r"/data/big.bin: No space left"):
        async with provider.session(config):
            pass


@pytest.mark.anyio
@pytest.mark.usefixtures("leftovers")
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user has one uid")
async def test_owners_and_users_of_a_dockerfile_hold_inside(provider: LocalProvider, context: Path) -> None:
    (context / "Dockerfile").write_text("FROM x\nWORKDIR /w\nCOPY --chown=nobody src /w/src\nUSER nobody\n")
    async with provider.session(SandboxConfig(image=ImageBuild(context=context))) as sandbox:
        assert (await sandbox.exec("id -un; touch src/new; stat -c %U src/main.py")).text == "nobody\nnobody\n"
        assert not (await sandbox.exec("touch /w/new")).ok


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("workdir", "why"),
    [
        ("/usr/app", "/usr is the host's, and read-only"),
        ("/bin/x/y", "/bin is the host's, and read-only"),
        ("/proc/app", "/proc is the kernel's"),
        ("/dev/app", "/dev is the kernel's"),
        ("/etc/passwd", "a file is in its place"),
        ("/etc/passwd/x", "a file is in its place"),
        ("/agentix/runtime/x", "that place is the runtime's"),
        ("/" + 256 * "x", "its name is too long"),
        ("/app" + 1025 * "/abc", "its name is too long"),
    ],
)
async def test_a_workdir_that_cannot_be_made_is_the_tasks_fault(tmp_path: Path, workdir: str, why: str) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM x\nWORKDIR {workdir}\n")
    async with LocalProvider() as provider:
        before = await provider.list({})
        with pytest.raises(EnvFailed, match=why):
            async with provider.session(SandboxConfig(workdir=workdir)):
                pass
        with pytest.raises(EnvFailed, match=r"read-only|made in a sandbox"):
            async with provider.session(SandboxConfig(image=ImageBuild(context=tmp_path))):
                pass
        assert await provider.list({}) == before


@pytest.mark.anyio
@pytest.mark.parametrize(
    "workdir",
    ["/", "/usr", "/usr/bin", "/usr/src/app/deep", "/etc", "/etc/app", "/dev/shm/app", "/proc", "/tmp/x", "/opt/a b/c"],
)
async def test_a_workdir_may_be_anywhere_else(workdir: str) -> None:
    async with LocalProvider() as provider, provider.session(SandboxConfig(workdir=workdir)) as sandbox:
        assert (await sandbox.exec(["/bin/pwd"])).text.strip() == workdir
