"""Takes secrets out of texts, data, files and trees."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TypeVar

from agentix.redaction.addresses import address_spans
from agentix.redaction.blocks import Filter, Stage, cleaned
from agentix.redaction.extra_patterns import pattern_spans
from agentix.redaction.json_files import Broken, mended_lines
from agentix.redaction.known import Span
from agentix.redaction.plain_data import PlainData
from agentix.redaction.results import RedactionResult
from agentix.redaction.rules import RedactionRules
from agentix.redaction.secrets import Secrets
from agentix.redaction.shapes import LONGEST, shape_spans

KNOWN = "known_value"

T = TypeVar("T")
_RESULTS = re.compile(r"(?i)(?:.*[^a-z])?(?:traj|result|trial|reward|score|record|report|rollout)")


class Redactor:
    """Takes known values, known shapes and what the rules say out of whatever may be published.

    What it takes out becomes `***`. Doing it again changes nothing, and what holds nothing stays as it is.

    What cannot be found is a value that was changed otherwise than into its known forms: reversed, encrypted, cut into
    parts with something between them, or compressed by a format that is no archive (a picture, a document, a table).

    Args:
        secrets: The known values; those that are added later count from then on.
        rules: What else.
    """

    def __init__(self, secrets: Secrets, *, rules: RedactionRules | None = None) -> None:
        self.secrets = secrets
        self.rules = RedactionRules() if rules is None else rules
        self._extra = self.rules.compiled()

    def text(self, text: str, *, ips: bool | None = None, counts: Counter[str] | None = None) -> str:
        """A text without secrets.

        Args:
            text: Any text.
            ips: Whether addresses are taken out; by default as in results.
            counts: Where to count what was taken out, by kind.
        """
        data = text.encode("utf-8", "surrogatepass")
        done, _ = cleaned(data, self.stages(ips=self.rules.ips_in_results if ips is None else ips), counts=counts)
        if done is data:
            return text
        masked = done.decode("utf-8", "surrogatepass")
        with suppress(Broken):
            return mended_lines(text, masked)
        return masked

    def data(self, data: T, *, ips: bool | None = None, counts: Counter[str] | None = None) -> T:
        """Plain data without secrets, keys too.

        A number of which the digits hold a known value becomes a text. Two keys that become one are told apart by a
        number.

        Args:
            data: What `json` takes: mappings, lists, texts, numbers.
            ips: Whether addresses are taken out; by default as in results.
            counts: Where to count what was taken out, by kind.
        """
        with_ips = self.rules.ips_in_results if ips is None else ips
        masked: T = PlainData(lambda text, counts: self.text(text, ips=with_ips, counts=counts), counts).clean(data)
        return masked

    def file(self, source: Path, target: Path, *, name: str | None = None) -> RedactionResult:
        """A copy of a file without secrets, with mode 0644 or 0755. A copy is there whole or not at all.

        Args:
            source: A file; its content may change while it is read.
            target: Where the copy goes; a file there is replaced.
            name: What to call it, and to tell its sort from; by default the source's name.

        Returns:
            What was done: `files` is 1, or the file is in `refused` or `left_out`.

        Raises:
            OSError: It cannot be read, or the copy cannot be written.
        """
        from agentix.redaction.files import redacted_file

        return redacted_file(self, source, target, name=source.name if name is None else name)

    def tree(
        self, source: Path, target: Path, *, skip: Collection[str] = (), check: Callable[[], None] | None = None
    ) -> RedactionResult:
        """A copy of a directory without secrets. Links are never followed.

        Args:
            source: A directory.
            target: Where the copy goes; it is made, and must not have been there unless empty.
            skip: Files and directories that are none of it, relative to the source, with `/`.
            check: Called often; what it raises ends the work, such as that it is no longer wanted.

        Returns:
            What was done, and what was not copied and why.

        Raises:
            OSError: The copy cannot be written.
        """
        from agentix.redaction.trees import redacted_tree

        return redacted_tree(self, source, target, skip=skip, check=check)

    def ips_in(self, name: str) -> bool:
        """Whether addresses are taken out of a file of that name."""
        result = _RESULTS.match(PurePath(name).name) is not None
        return self.rules.ips_in_results if result else self.rules.ips_in_logs

    def stages(self, *, ips: bool) -> list[Stage]:
        """What finds everything, in the order in which it is taken out."""
        stages: list[Stage] = [self._known] if self.secrets else []
        stages.append(shape_spans)
        stages += [self._extra_spans] if self._extra else []
        return [*stages, address_spans] if ips else stages

    def filter(self, *, ips: bool, counts: Counter[str]) -> Filter:
        """For a stream."""
        reach = max(LONGEST, self.secrets.reach)
        return Filter(self.stages(ips=ips), reach=reach, counts=counts)

    def _known(self, data: bytes) -> list[Span]:
        return [(start, end, KNOWN) for start, end, _ in self.secrets.spans(data)]

    def _extra_spans(self, data: bytes) -> list[Span]:
        return pattern_spans(self._extra, data)
