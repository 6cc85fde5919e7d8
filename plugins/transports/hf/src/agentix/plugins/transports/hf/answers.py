"""What `hf` says, told apart: done, nothing to do, come back later, never."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from agentix.api import ExecResult

_STATUS = re.compile(
    r"(?:Client|Server) error '(\d{3})|\b(\d{3}) (?:Client Error|Server Error|Forbidden:|Too Many Requests)"
)
_COMMIT = re.compile(r"https?://\S+/commit/[0-9a-f]{7,64}")
_UNCHANGED = "No files have been modified since last commit"
_IGNORED = "ignored by gitignore"
# Before huggingface_hub 2 an error stands without its word, on stdout, or as a traceback.
_NOT_FOUND = re.compile(r"^(?:Error: )?(?:Dataset|Model|Space|Repository)[^\n]* not found\.", re.MULTILINE)
_START = re.compile(r"^(?:Error: |(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Timeout|Interrupt): ?)", re.MULTILINE)
_NETWORK = re.compile(
    r"^(?:\w+\.)*(ConnectError|ConnectTimeout|ReadError|ReadTimeout|WriteError|WriteTimeout|PoolTimeout|NetworkError|"
    r"TimeoutException|RemoteProtocolError|ProxyError|CloseError|ConnectionError|SSLError): ?(.*)$",
    re.MULTILINE,
)
_NO_TRUST = "certificate verify failed"
_TOLD = re.compile(
    r"retry after (?P<seconds>\d+) ?s|"
    r"retry(?: this action)? in (?:about )?(?P<count>\d+|an?) (?P<unit>second|minute|hour)",
    re.IGNORECASE,
)
_UNITS = {"second": 1, "minute": 60, "hour": 3600}
_NOISE = re.compile(r"^(Hint: |For more information check: |\s*$)")
_LONGEST = 600


class Answer(StrEnum):
    """What a call of `hf` came to."""

    DONE = "done"
    UNCHANGED = "unchanged"
    """Everything was there already, by its hash."""
    NOT_FOUND = "not_found"
    """The repository does not exist, or the token may not see it."""
    BUSY = "busy"
    """Too many requests."""
    PASSING = "passing"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class Said:
    """How a call of `hf` ended."""

    answer: Answer
    text: str = ""
    """What `hf` said is wrong, in one line."""
    status: int | None = None
    """The hub's, where it refused."""
    wait_s: float | None = None
    """Seconds that the hub asks to wait, where that was said."""
    commit: str | None = None
    """Address of the commit."""
    known: bool = True
    """Whether what went wrong is known to pass; otherwise it is not tried again at once."""

    @property
    def failed(self) -> bool:
        """Whether nothing was found out or done."""
        return self.answer not in (Answer.DONE, Answer.UNCHANGED)


def understand(result: ExecResult, *, timeout_s: float | None = None) -> Said:
    """Tell what a call of `hf` came to, from its exit code and what it printed.

    Args:
        result: How it ended.
        timeout_s: Seconds that it was given.
    """
    out, err = result.text, result.error_text
    both = f"{err}\n{out}"
    commits = _COMMIT.findall(out)
    if result.timed_out:
        limit = "it may" if timeout_s is None else f"{timeout_s:g} s"
        text = f"hf took longer than {limit} and was killed; the last that it said: {_last(err)}"
        return Said(answer=Answer.PASSING, text=text, known=False)
    if result.exit_code == 127:
        return Said(answer=Answer.REFUSED, text="there is no program hf; install it with pip install huggingface_hub")
    if result.exit_code == 0:
        commit = commits[-1] if commits else None
        if _IGNORED in both:
            text = "a .gitignore of the repository keeps files out of it; take it away, or ship into another folder"
            return Said(answer=Answer.REFUSED, text=text, commit=commit)
        return Said(answer=Answer.UNCHANGED if _UNCHANGED in both else Answer.DONE, commit=commit)
    if result.exit_code == 2:
        text = f"hf does not take this call; it has to be of huggingface_hub 1.3 or newer: {_error(err)}"
        return Said(answer=Answer.REFUSED, text=text)
    if _NOT_FOUND.search(both):
        return Said(answer=Answer.NOT_FOUND, text=_error(err if err.strip() else out), status=404)
    statuses = _STATUS.findall(err)
    if statuses:
        return _of_status(int("".join(statuses[-1])), err)
    return _other(err)


def _of_status(status: int, err: str) -> Said:
    text = _error(err)
    if status == 429:
        return Said(answer=Answer.BUSY, text=text, status=status, wait_s=_told(err))
    # 409 and 412 are the hub's way to say that another commit came first.
    if status in (408, 409, 412, 423, 425) or (status >= 500 and status not in (501, 507)):
        return Said(answer=Answer.PASSING, text=text, status=status, wait_s=_told(err))
    return Said(answer=Answer.REFUSED, text=text, status=status)


def _other(err: str) -> Said:
    network = _NETWORK.findall(err)
    if network:
        kind, reason = network[-1]
        text = f"the hub cannot be reached: {reason or kind}"
        if _NO_TRUST in reason:
            return Said(answer=Answer.REFUSED, text=f"{text}; name the certificates in SSL_CERT_FILE")
        return Said(answer=Answer.PASSING, text=text)
    if re.search(r"^Error: ", err, re.MULTILINE):
        return Said(answer=Answer.REFUSED, text=_error(err))
    return Said(answer=Answer.PASSING, text=_error(err) if _START.search(err) else _last(err), known=False)


def _told(err: str) -> float | None:
    found = list(_TOLD.finditer(err))
    if not found:
        return None
    told = found[-1]
    if told["seconds"]:
        return float(told["seconds"])
    count = 1 if told["count"].startswith("a") else int(told["count"])
    return float(count * _UNITS[told["unit"].lower()])


def _error(err: str) -> str:
    """From the last `Error:`, or the last line of a traceback, on, without what is no help."""
    starts = list(_START.finditer(err))
    said = err[starts[-1].start() :].removeprefix("Error: ") if starts else err
    return _short(" ".join(line.strip() for line in said.splitlines() if not _NOISE.match(line))) or _last(err)


def _last(err: str) -> str:
    lines = [line.strip() for line in err.splitlines() if not _NOISE.match(line)]
    return _short(lines[-1]) if lines else "it said nothing"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
