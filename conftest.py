"""What holds for every test of every distribution."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is.
settings.register_profile("agentix", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agentix")

_ON_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}
_WHY = "skipped on CI, where every real part has to be there: "


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip of a test marked `real` into a failure on CI."""
    report = yield
    if _ON_CI and report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("real"):
        report.outcome = "failed"
        report.longrepr = _WHY + _reason(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself: which of its tests are `real` cannot be known then."""
    report = yield
    if _ON_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = _WHY + _reason(report)
    return report
