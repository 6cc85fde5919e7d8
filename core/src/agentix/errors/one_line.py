"""What an error says in several lines, as one."""

from __future__ import annotations


def on_one_line(text: str) -> str:
    """A text without line breaks: a full stop before a line that begins a sentence, else `;`."""
    joined = ""
    for line in filter(None, (" ".join(line.split()) for line in text.splitlines())):
        joined += f"{_between(joined, line)}{line}"
    return joined


def _between(before: str, line: str) -> str:
    if not before:
        return ""
    if before.endswith((".", ":", ";", ",")):
        return " "
    return ". " if line[0].isupper() else "; "
