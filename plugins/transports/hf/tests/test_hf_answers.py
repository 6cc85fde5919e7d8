"""What `hf` prints is told apart; the texts are what huggingface_hub 2.4 printed against a hub that answered so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.api import ExecResult
from agentix.plugins.transports.hf.answers import Answer, understand

HINT = "Hint: set HF_DEBUG=1 as environment variable for full traceback.\n"
MORE = "For more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/x\n"
URL = "https://hub.example/api/datasets/org/name/commit/main"
TRACE = 'Traceback (most recent call last):\n  File "x.py", line 1, in y\n    raise z\n'


def failed(err: str, code: int = 1) -> ExecResult:
    return ExecResult(exit_code=code, stderr=err.encode())


@pytest.mark.parametrize(
    ("err", "answer", "status", "word"),
    [
        (
            f"Error: Client error '401 Unauthorized' for url '{URL}'\n{MORE}\nInvalid username",
            Answer.REFUSED,
            401,
            "401",
        ),
        (f"Error: 403 Forbidden: You may not.\nCannot access content at: {URL}.\n", Answer.REFUSED, 403, "You may not"),
        ("Error: Dataset 'org/name' not found.\nIf the repo is private, make sure", Answer.NOT_FOUND, 404, "org/name"),
        (f"Error: Client error '402 Payment Required' for url '{URL}'\n{MORE}\nquota", Answer.REFUSED, 402, "quota"),
        (f"Error: Client error '413 Payload Too Large' for url '{URL}'\n", Answer.REFUSED, 413, "413"),
        ("Error: Bad request for commit endpoint:\nLFS pointer missing", Answer.REFUSED, None, "LFS pointer missing"),
        ("Error: Invalid value. Invalid metadata in README.md.\n- license: bad", Answer.REFUSED, None, "license: bad"),
        (f"Error: 429 Too Many Requests for url: {URL}.\nrate limited you\n", Answer.BUSY, 429, "rate limited you"),
        (f"Error: Server error '504 Gateway Time-out' for url '{URL}'\n{MORE}", Answer.PASSING, 504, "504"),
        (f"Error: Server error '500 Internal' for url '{URL}'\n", Answer.PASSING, 500, "500"),
        (f"Error: Client error '412 Precondition Failed' for url '{URL}'\n\nA commit", Answer.PASSING, 412, "A commit"),
        (f"{TRACE}httpx2.ConnectError: [Errno 111] Connection refused\n", Answer.PASSING, None, "Connection refused"),
        (f"{TRACE}httpx.ReadTimeout: The read operation timed out\n", Answer.PASSING, None, "timed out"),
        (
            f"{TRACE}httpx2.ConnectError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed\n",
            *(Answer.REFUSED, None, "SSL_CERT_FILE"),
        ),
        (
            f"{TRACE}huggingface_hub.errors.HfHubHTTPError: Server error '503 Slow Down' for url 'https://s3'\n\n"
            f"The direct cause:\n\n{TRACE}RuntimeError: Error while uploading 'x' to the Hub.\n",
            *(Answer.PASSING, 503, "Error while uploading 'x'"),
        ),
        (
            f"HTTP Error 503 thrown while requesting POST x\n{TRACE}MemoryError: out of it\n",
            Answer.PASSING,
            None,
            "out of",
        ),
    ],
)
def test_a_failure_is_told_apart(err: str, answer: Answer, status: int | None, word: str) -> None:
    said = understand(failed(err + "\n" + HINT))
    assert (said.answer, said.status) == (answer, status)
    assert word in said.text
    assert "HF_DEBUG" not in said.text
    assert "\n" not in said.text


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("Retry after 37 seconds (0/500 requests remaining in current 300s window).", 37),
        ("You can retry this action in about 5 minutes.", 300),
        ("You can retry this action in about 1 hour", 3600),
        ("please retry in an hour", 3600),
        ("We invite you to retry later", None),
    ],
)
def test_how_long_to_wait_is_read_from_what_the_hub_says(told: str, seconds: float | None) -> None:
    said = understand(failed(f"Error: 429 Too Many Requests: you have reached your 'api' rate limit.\n{told}\n"))
    assert (said.answer, said.wait_s) == (Answer.BUSY, seconds)


def test_older_programs_are_understood_too() -> None:
    said = understand(ExecResult(exit_code=1, stdout=b"Dataset org/name not found.\n"))
    assert (said.answer, said.text) == (Answer.NOT_FOUND, "Dataset org/name not found.")
    said = understand(
        failed(
            f"{TRACE}httpx.HTTPStatusError: Client error '403 Forbidden' for url\n\nThe direct cause:\n\n{TRACE}"
            "huggingface_hub.errors.HfHubHTTPError: 403 Forbidden: You may not.\nCannot access content at: x.\n"
        )
    )
    assert (said.answer, said.status) == (Answer.REFUSED, 403)
    assert "You may not. Cannot access" in said.text


def test_what_nobody_knows_is_a_failure_that_is_not_tried_again_at_once() -> None:
    said = understand(failed(f"{TRACE}KeyError: 'commitUrl'\n"))
    assert (said.answer, said.known, said.text) == (Answer.PASSING, False, "KeyError: 'commitUrl'")


def test_no_program_and_a_program_that_is_too_old_are_refusals() -> None:
    assert "pip install" in understand(failed("", code=127)).text
    assert "1.3" in understand(failed("Error: No such command 'datasets'.", code=2)).text


def test_a_commit_nothing_to_do_and_files_left_out_are_told_apart() -> None:
    out = b"\xe2\x9c\x93 Uploaded\n  url: https://hub.example/datasets/org/name/commit/0123456789abcdef\n"
    done = understand(ExecResult(exit_code=0, stdout=out))
    assert (done.answer, done.commit) == (Answer.DONE, "https://hub.example/datasets/org/name/commit/0123456789abcdef")
    unchanged = b"No files have been modified since last commit. Skipping to prevent empty commit.\n"
    assert understand(ExecResult(exit_code=0, stdout=out, stderr=unchanged)).answer is Answer.UNCHANGED
    ignored = b"Skipped 1 file(s) in commit (ignored by gitignore file).\n"
    assert understand(ExecResult(exit_code=0, stdout=out, stderr=ignored)).answer is Answer.REFUSED


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 255), st.booleans())
def test_whatever_is_printed_has_a_meaning(out: bytes, err: bytes, code: int, timed_out: bool) -> None:
    said = understand(ExecResult(exit_code=code, stdout=out, stderr=err, timed_out=timed_out))
    assert said.failed is (code != 0 or timed_out or said.answer is Answer.REFUSED)
    assert said.text or not said.failed
