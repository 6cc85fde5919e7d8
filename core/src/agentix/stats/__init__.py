"""The numbers of a set of records."""

from agentix.stats.summary import COVERAGE_FLOOR, Bucket, Known, Spread, Summary, bucket
from agentix.stats.terms import TERMS

__all__ = ["COVERAGE_FLOOR", "TERMS", "Bucket", "Known", "Spread", "Summary", "bucket"]
