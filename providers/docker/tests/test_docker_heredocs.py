"""Dockerfiles for the classic builder."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.providers.docker.heredocs import FOLDER, HeredocError, lower

PLAIN = r"""# escape=\
FROM debian:12 AS base
RUN apt-get update && \
    # a comment between
    apt-get install -y x
RUN echo "a << b" $((1<<2)) 'x <<EOF' && cat <<<here
COPY --from=base a b
CMD ["x"]
"""


def test_what_needs_nothing_comes_back_as_it_is() -> None:
    assert lower(PLAIN, args={}).text == PLAIN
    assert lower(PLAIN, args={}).files == {}


@given(st.text(alphabet="RUN COPY<-EOF\n\\#\"' $x=", max_size=80))
def test_any_text_is_lowered_or_refused_with_its_line(text: str) -> None:
    try:
        first = lower(text, args={})
    except HeredocError as error:
        assert str(error).startswith("line ")
    else:
        # What has been lowered holds no heredoc any more.
        assert lower(first.text, args={}).files == {}


@given(
    st.lists(
        st.text(st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\u2028\u2029\x85")), max_size=5
    )
)
def test_the_body_of_a_run_is_its_script_byte_by_byte(lines: list[str]) -> None:
    body = "".join(f"{line}\n" for line in lines if line != "END" and not line.startswith("#!"))
    text = lower(f"FROM x\nRUN <<END\n{body}END\nCMD y\n", args={}).text
    first, run, *blank, last = text.splitlines()
    assert (first, last) == ("FROM x", "CMD y")
    # Builders name the lines of the author.
    assert blank == ["#"] * (body.count("\n") + 1)
    assert json.loads(run.removeprefix("RUN ")) == ["/bin/sh", "-c", body]


def test_the_shell_instruction_counts_until_the_next_stage() -> None:
    text = lower('FROM a\nSHELL ["/bin/bash", "-lc"]\nRUN <<E\nx\nE\nFROM b\nRUN <<E\ny\nE\n', args={}).text
    assert 'RUN ["/bin/bash", "-lc", "x\\n"]' in text
    assert 'RUN ["/bin/sh", "-c", "y\\n"]' in text


def test_a_command_keeps_its_heredocs_as_its_input() -> None:
    text = lower("FROM a\nRUN python3 - <<-'E' && cat <<F\n\tx\n\tE\n$y\nF\n", args={}).text
    script = json.loads(text.splitlines()[1].removeprefix("RUN "))[2]
    assert script == "python3 - <<-'E' && cat <<F\n\tx\n\tE\n$y\nF\n"


def test_flags_that_change_only_speed_are_left_out() -> None:
    source = "FROM a\nRUN --mount=type=cache,target=/c --network=none make\nCOPY --link a b\n"
    assert lower(source, args={}).text == "FROM a\nRUN --network=none make\nCOPY a b\n"


def test_files_have_their_names_modes_and_variables() -> None:
    source = (
        "FROM a\nARG V=1\nARG W\nENV P=/p Q='q q'\n"
        "COPY --chmod=0755 --chown=app <<run.sh <<'raw' /d/\n"
        "$V ${W} ${P}/x $Q ${N:-none} ${V:+set} \\$V\nrun.sh\n$V\nraw\n"
    )
    result = lower(source, args={"W": "given", "N": "not declared"})
    (first, shell), (second, raw) = sorted(result.files.items(), reverse=True)
    assert result.text.splitlines()[4] == f"COPY --chown=app {first} {second} /d/"
    assert first.startswith(FOLDER) and first.endswith("/run.sh") and second.endswith("/raw")
    assert shell == (b"1 given /p/x q q none set $V\n", 0o755)
    assert raw == (b"$V\n", 0o755)
    assert result.text.count("\n") == source.count("\n")


@pytest.mark.parametrize("text", ["FROM a\nRUN <<E\nnever\n", "FROM a\nCOPY <<'E' /x\nE \n"])
def test_a_heredoc_that_is_not_closed_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(HeredocError, match="line 2"):
        lower(text, args={})
