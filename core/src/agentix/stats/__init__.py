"""The numbers of a set of records."""

from agentix.stats.comparing import CaseDifference, Comparison, compare, permutation_test, sign_test
from agentix.stats.comparing_runs import RunComparison, compare_runs, setup_changes
from agentix.stats.estimators import pass_at_k, pass_hat_k, quantile
from agentix.stats.intervals import CONFIDENCE, Interval, clustered_error, mean_interval, wilson
from agentix.stats.numbers import AgentNumbers, CaseTrials, PassK, RowKey, RunNumbers
from agentix.stats.summary import COVERAGE_FLOOR, Bucket, Known, Spread, Summary, bucket

__all__ = [
    "CONFIDENCE",
    "COVERAGE_FLOOR",
    "AgentNumbers",
    "Bucket",
    "CaseDifference",
    "CaseTrials",
    "Comparison",
    "Interval",
    "Known",
    "PassK",
    "RowKey",
    "RunComparison",
    "RunNumbers",
    "Spread",
    "Summary",
    "bucket",
    "clustered_error",
    "compare",
    "compare_runs",
    "mean_interval",
    "pass_at_k",
    "pass_hat_k",
    "permutation_test",
    "quantile",
    "setup_changes",
    "sign_test",
    "wilson",
]
