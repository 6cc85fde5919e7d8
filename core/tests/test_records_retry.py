"""What may be asked to run again."""

from __future__ import annotations

import pytest

from agentix.errors import UsageError
from agentix.models import FailureCode
from agentix.records import INFRA, parse_retry


def test_codes_and_infra_add_up() -> None:
    assert parse_retry(["infra,agent_failed", "AGENT_LIMIT"]) == INFRA | {
        FailureCode.AGENT_FAILED,
        FailureCode.AGENT_LIMIT,
    }


@pytest.mark.parametrize("word", ["CANCELLED", "STEP_FAILED", "redact_failed", "HOST", ""])
def test_what_no_trial_is_recorded_with_is_refused(word: str) -> None:
    with pytest.raises(UsageError, match=r"--retry: '.*' is no failure code of a trial\n.*infra.*HOST_ERROR") as caught:
        parse_retry([word])
    assert "STEP_FAILED" not in str(caught.value).splitlines()[1]
