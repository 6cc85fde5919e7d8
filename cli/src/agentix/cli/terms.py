"""What the words of a summary mean; shown by `--help`."""

from __future__ import annotations

TERMS: dict[str, str] = {
    "planned": "all trials that were selected; every one is in exactly one of the next five",
    "resolved": "has a reward, and the scorer says that the instance is solved (by default: reward >= 1)",
    "unresolved": "has a reward, and the instance is not solved",
    "agent failures": "no reward, and it was the agent's doing: AGENT_FAILED, AGENT_TIMEOUT, AGENT_LIMIT",
    "infrastructure failures": "no reward, and it was not the agent's doing: ENV_FAILED, HOST_ERROR, VERIFIER_ERROR "
    "and whatever else",
    "unrun": "no result: cancelled, not started, or lost",
    "measured": "resolved + unresolved: the trials that have a reward",
    "denominator": "measured + agent failures; an agent failure counts as reward 0",
    "mean reward": "sum of the rewards / denominator; where there are infrastructure failures, also with each of them "
    "counted as 0",
    "resolved rate": "resolved / denominator, with the same second value",
    "coverage": "measured / planned",
}

WORDS = "\n\n".join(("Words:", *(f"{word}: {meaning}." for word, meaning in TERMS.items())))
"""The same as a text."""
