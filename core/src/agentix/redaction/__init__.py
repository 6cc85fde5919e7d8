"""Secrets, and taking them out of what others get to see."""

from agentix.redaction.logins import without_logins
from agentix.redaction.redactor import Redactor
from agentix.redaction.results import Finding, RedactionResult
from agentix.redaction.rules import RedactionRules
from agentix.redaction.scanning import scan
from agentix.redaction.secrets import Secrets
from agentix.redaction.spans import MASK

__all__ = ["MASK", "Finding", "RedactionResult", "RedactionRules", "Redactor", "Secrets", "scan", "without_logins"]
