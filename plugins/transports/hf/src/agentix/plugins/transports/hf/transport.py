"""The transport: what would go is looked at and told, then it is sent."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from agentix.api import HUB_ENV, Receipt, Scope, ShipRefused, StepContext
from agentix.plugins.transports.hf.answers import Answer
from agentix.plugins.transports.hf.command import Hub, has_login
from agentix.plugins.transports.hf.inputs import HfInputs
from agentix.plugins.transports.hf.plan import MAX_ENTRIES, Plan, parts, plan
from agentix.plugins.transports.hf.sending import Patience, Sending

_NO_LOGIN = "hf has no login: run hf auth login, or give a token that may write in HF_TOKEN"
_MISSING = "there is no program hf on the PATH; install it with pip install huggingface_hub"


class HfTransport:
    """Publish to a dataset, model or space of the Hugging Face hub."""

    scopes = frozenset({Scope.PER_TRIAL, Scope.PER_EXPERIMENT})
    Inputs = HfInputs
    host_env: tuple[str, ...] = HUB_ENV

    def check(self, inputs: HfInputs, **_: Any) -> Iterable[str]:
        """Say what would keep it from working that is known here: no program, no login."""
        if not shutil.which("hf"):
            yield _MISSING
        elif not has_login(os.environ):
            yield _NO_LOGIN

    def foresee(self, inputs: HfInputs, *, trials: int) -> Iterable[str]:
        """Say where so many trials do not fit into the folder that they go into by default."""
        if inputs.path_in_repo is None and trials > MAX_ENTRIES:
            yield (
                f"{trials:,} trials go into one folder, in a commit each, and a folder of the hub takes "
                f"{MAX_ENTRIES:,} entries: "
                'spread them with path_in_repo: "{{.Experiment}}/{{.RunID}}/{{.Case}}/{{.TrialID}}", or ship '
                "once per experiment"
            )

    def destination(self, source: Path, inputs: HfInputs, ctx: StepContext) -> str:
        """Where it would be looked at."""
        return Hub(inputs=inputs, secrets=ctx.secrets, work_dir=ctx.work_dir).address(_folder(source, inputs, ctx))

    async def ship(self, source: Path, inputs: HfInputs, ctx: StepContext) -> Receipt:
        """Send a file or a directory; what the hub holds already is not sent again.

        Raises:
            ShipRefused: It breaches a limit of the hub, the program, the login or the repository is missing, or the
                repository is public and `private` is on.
            ShipError: It did not arrive, and may do so later.
        """
        planned = await anyio.to_thread.run_sync(plan, source)
        if planned.breaches:
            raise ShipRefused("; ".join(planned.breaches))
        hub = Hub(inputs=inputs, secrets=ctx.secrets, work_dir=ctx.work_dir)
        patience = Patience(left_s=inputs.max_wait_s, say=ctx.say, sleep=self._sleep)
        state = await _state(hub, patience)
        folder = _folder(source, inputs, ctx)
        ctx.say(_told(planned, hub, folder, state))
        message = " ".join((inputs.message or _message(ctx)).split())
        sending = Sending(hub=hub, plan=planned, folder=folder, message=message, patience=patience)
        await sending.run()
        return Receipt(
            destination=hub.address(folder),
            files=len(planned.items),
            bytes=planned.bytes,
            details={
                "repository": f"{inputs.repo_type} {inputs.dest}",
                "commits": list(sending.commits),
                "head": sending.head,
            },
        )

    async def _sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


async def _state(hub: Hub, patience: Patience) -> str:
    """What the repository is, in words.

    Raises:
        ShipRefused: It may not be shipped to.
    """
    name = f"{hub.inputs.repo_type} {hub.inputs.dest}"
    said, found = await hub.about()
    while said.failed and said.answer is not Answer.NOT_FOUND:
        await patience(said)
        said, found = await hub.about()
    patience.progress()
    if found is None:
        if not hub.inputs.create:
            raise ShipRefused(f"there is no {name} that this token may see; make it, or leave create on")
        return "new, private" if hub.inputs.private else "new, public"
    if hub.inputs.private and not found.private:
        known = "is public" if found.private is False else "does not say whether it is private"
        raise ShipRefused(f"the {name} {known}; write private: false to publish to it, or choose another")
    return {True: "private", False: "public", None: "visibility unknown"}[found.private]


def _folder(source: Path, inputs: HfInputs, ctx: StepContext) -> str:
    if inputs.path_in_repo is not None:
        return inputs.path_in_repo
    if ctx.scope is Scope.PER_EXPERIMENT:
        return ""
    return ctx.key if source.is_dir() else ctx.key.rpartition("/")[0]


def _message(ctx: StepContext) -> str:
    trial = ctx.subject.get("trial_id", "") if ctx.scope is Scope.PER_TRIAL else ""
    return f"Add {'/'.join(filter(None, (ctx.experiment, ctx.run_id, str(trial))))}"


def _told(planned: Plan, hub: Hub, folder: str, state: str) -> str:
    count, commits = len(planned.items), len(parts(planned.items))
    return (
        f"hf: {count:,} file{'s' * (count != 1)}, {_size(planned.bytes)} -> {hub.inputs.repo_type} {hub.inputs.dest} "
        f"({state}), {folder or 'its root'}, in {commits} commit{'s' * (commits != 1)}"
    )


def _size(count: int) -> str:
    size, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
