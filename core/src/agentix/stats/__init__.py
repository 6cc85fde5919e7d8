"""The numbers of a set of records."""

from agentix.stats.estimators import pass_at_k, pass_hat_k, quantile
from agentix.stats.intervals import CONFIDENCE, Interval, clustered_error, mean_interval, wilson
from agentix.stats.numbers import AgentNumbers, CaseTrials, PassK, RowKey, RunNumbers
from agentix.stats.summary import COVERAGE_FLOOR, Bucket, Known, Spread, Summary, bucket
from agentix.stats.terms import TERMS

__all__ = [
    "CONFIDENCE",
    "COVERAGE_FLOOR",
    "TERMS",
    "AgentNumbers",
    "Bucket",
    "CaseTrials",
    "Interval",
    "Known",
    "PassK",
    "RowKey",
    "RunNumbers",
    "Spread",
    "Summary",
    "bucket",
    "clustered_error",
    "mean_interval",
    "pass_at_k",
    "pass_hat_k",
    "quantile",
    "wilson",
]
