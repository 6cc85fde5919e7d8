"""The staging tree by itself: what it takes, what it gives back, what it remembers."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentix.api import Secrets
from agentix.plugins.experiments.publishing import NotPublished, Staging, looks_secret, trees
from agentix.plugins.experiments.publishing.ledger import Ledger, Staged, digest, of_trial
from agentix.plugins.experiments.publishing.secrets import learn


def trial(run: Path, trial_id: str, text: str = "{}") -> Path:
    place = run / "trials" / trial_id
    place.mkdir(parents=True, exist_ok=True)
    (place / "trial.json").write_text(text)
    return place


def redacted(run: Path, trial_id: str, text: str = "clean") -> tuple[dict[str, Path], Path]:
    work = run / "trials" / trial_id / "steps/redact"
    copy = work / "new/trials" / trial_id
    copy.mkdir(parents=True)
    (copy / "log.txt").write_text(text)
    return {f"trials/{trial_id}": copy}, work


def stage(staging: Staging, trial_id: str, text: str = "clean") -> None:
    publish, work = redacted(staging.run_dir, trial_id, text)
    staging.accept_redacted(trial_id, publish, work_dir=work, by="f", counts={"x": 2})


def archive(staging: Staging, trial_id: str, place: str, text: str = "tar") -> None:
    work = staging.run_dir / "trials" / trial_id / "steps/archive"
    work.mkdir(parents=True, exist_ok=True)
    (work / "made.tar").write_text(text)
    staging.accept({place: work / "made.tar"}, work_dir=work, trial_id=trial_id)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        trial(tmp_path, name)
    return tmp_path


def test_what_is_accepted_is_moved_and_remembered(run: Path) -> None:
    secrets = Secrets(["a-known-secret"])
    with Staging(run, secrets=secrets) as staging:
        stage(staging, "a")
        archive(staging, "a", "archives/a.tar")
        assert staging.is_fresh("a", by="f") and not staging.is_fresh("a", by="other")
        assert not list((run / "trials/a/steps/redact").iterdir())
    with Staging(run, secrets=secrets) as staging:
        assert staging.is_fresh("a", by="f") and staging.counts("a") == {"x": 2}
        assert staging.is_whole("archives/a.tar")
        assert (run / "archives/a.tar").samefile(run / ".staging/archives/a.tar")
        assert "a-known-secret" not in staging.ledger.path.read_text()
        assert not staging.is_fresh("b", by="f")


@pytest.mark.parametrize(
    "change",
    [
        lambda run, secrets: secrets.add("one-more-secret"),
        lambda run, secrets: (run / ".staging/trials/a/log.txt").write_text("dirty"),
        lambda run, secrets: (run / ".staging/trials/a/more.txt").write_text("more"),
        lambda run, secrets: (run / ".staging/trials/a/log.txt").unlink(),
        lambda run, secrets: os.replace(trial(run, "tmp", "{ }") / "trial.json", run / "trials/a/trial.json"),
        lambda run, secrets: (run / "trials/a/trial.json").unlink(),
        lambda run, secrets: (run / ".publishing/ledger.jsonl").unlink(),
        lambda run, secrets: (run / ".staging/trials/a/link").symlink_to("/etc/passwd"),
    ],
    ids=["a secret", "a file", "another file", "one file less", "the trial", "no trial", "no ledger", "a link"],
)
def test_what_was_staged_before_something_changed_is_not_fresh(run: Path, change) -> None:
    secrets = Secrets(["a-known-secret"])
    with Staging(run, secrets=secrets) as staging:
        stage(staging, "a")
    change(run, secrets)
    with Staging(run, secrets=secrets) as staging:
        assert not staging.is_fresh("a", by="f")
        stage(staging, "b")
        assert staging.is_fresh("b", by="f")


def test_fewer_secrets_than_before_make_nothing_stale(run: Path) -> None:
    with Staging(run, secrets=Secrets(["a-known-secret", "another-secret"])) as staging:
        stage(staging, "a")
    with Staging(run, secrets=Secrets(["another-secret"])) as staging:
        assert staging.is_fresh("a", by="f")


def test_of_a_withdrawn_trial_nothing_is_left(run: Path) -> None:
    with Staging(run, secrets=Secrets()) as staging:
        stage(staging, "a")
        archive(staging, "a", "archives/a.tar")
        staging.withdraw("a")
        assert not staging.knows("a")
        assert not (run / "archives").exists() and not (run / ".staging/archives").exists()
        assert list((run / ".staging/trials").iterdir()) == []
        assert [p.name for p in staging.room.iterdir()] == ["ledger.jsonl"]


def test_a_place_belongs_to_one_trial_or_step(run: Path) -> None:
    with Staging(run, secrets=Secrets()) as staging:
        archive(staging, "a", "archives/x.tar", "first")
        with pytest.raises(NotPublished, match="was published by trial a already"):
            archive(staging, "b", "archives/x.tar")
        with pytest.raises(NotPublished, match=r"archives/x\.tar was published by trial a"):
            archive(staging, "b", "archives/x.tar/below")
        archive(staging, "a", "archives/x.tar", "second")
        assert (run / ".staging/archives/x.tar").read_text() == "second"


def test_what_a_step_of_the_run_does_not_publish_any_more_is_gone(run: Path) -> None:
    work = run / "steps/shards"
    work.mkdir(parents=True)
    with Staging(run, secrets=Secrets()) as staging:
        for count in (3, 1):
            for number in range(count):
                (work / f"{number}.tar").write_text(f"{count}")
            publish = {f"archives/{number}.tar": work / f"{number}.tar" for number in range(count)}
            staging.accept(publish, work_dir=work, step="shards")
        assert [p.name for p in (run / "archives").iterdir()] == ["0.tar"]
        assert [p.name for p in (run / ".staging/archives").iterdir()] == ["0.tar"]


def test_a_directory_takes_the_place_of_one_and_of_a_file(run: Path) -> None:
    work = run / "steps/dataset"
    work.mkdir(parents=True)
    with Staging(run, secrets=Secrets()) as staging:
        for text in ("one", "two"):
            (work / "made/data").mkdir(parents=True)
            (work / "made/data/rows").write_text(text)
            staging.accept({"dataset": work / "made"}, work_dir=work, step="d")
            assert (run / "dataset/data/rows").read_text() == text
            assert (run / ".staging/dataset/data/rows").read_text() == text
        (work / "made").write_text("a file")
        staging.accept({"dataset": work / "made"}, work_dir=work, step="d")
        assert (run / ".staging/dataset").read_text() == "a file"


def test_where_there_are_no_hard_links_there_are_copies(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(trees.os, "link", none)
    with Staging(run, secrets=Secrets()) as staging:
        archive(staging, "a", "archives/a.tar")
        assert not (run / "archives/a.tar").samefile(run / ".staging/archives/a.tar")
        assert trees.is_linked(run / "archives/a.tar", run / ".staging/archives/a.tar")


def test_a_link_in_the_tree_is_never_followed(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a.tar").write_text("kept")
    with Staging(run, secrets=Secrets()):
        pass
    (run / ".staging/archives").symlink_to(outside)
    (run / ".staging/trials").rmdir()
    (run / ".staging/trials").symlink_to(outside)
    with Staging(run, secrets=Secrets()) as staging:
        archive(staging, "a", "archives/a.tar", "new")
        stage(staging, "a")
    assert [p.name for p in outside.iterdir()] == ["a.tar"] and (outside / "a.tar").read_text() == "kept"


@pytest.mark.parametrize("where", ["rename", "link", "write"])
def test_a_full_disk_leaves_the_old_or_the_new_one(run: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Staging(run, secrets=Secrets()) as staging:
        archive(staging, "a", "archives/a.tar", "old")
        with monkeypatch.context() as patch:
            if where == "rename":
                patch.setattr(Path, "replace", full)
            elif where == "link":
                patch.setattr(trees.os, "link", full)
            else:
                patch.setattr("agentix.plugins.experiments.publishing.ledger.os.write", lambda fd, data: full())
            with pytest.raises(OSError, match="No space left"):
                archive(staging, "a", "archives/a.tar", "new")
        assert (run / "archives/a.tar").read_text() in ("old", "new")
        assert (run / ".staging/archives/a.tar").read_text() in ("old", "new")
        archive(staging, "a", "archives/a.tar", "new")
        assert (run / ".staging/archives/a.tar").read_text() == "new"
    with Staging(run, secrets=Secrets()) as staging:
        assert staging.is_whole("archives/a.tar")


def test_a_write_that_came_short_does_not_spoil_the_next_line(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with Staging(run, secrets=Secrets()) as staging:
        stage(staging, "a")
        with monkeypatch.context() as patch:
            patch.setattr(
                "agentix.plugins.experiments.publishing.ledger.os.write", lambda fd, data: real(fd, bytes(data)[:7])
            )
            with pytest.raises(OSError, match="No space left"):
                staging.withdraw("a")
        stage(staging, "b")
    with Staging(run, secrets=Secrets()) as staging:
        assert staging.is_fresh("b", by="f") and not staging.is_fresh("a", by="f")


@settings(max_examples=50, deadline=None)
@given(cut=st.integers(0, 2000), junk=st.binary(max_size=20))
def test_a_torn_or_damaged_ledger_vouches_for_nothing_that_it_does_not_know(
    tmp_path_factory: pytest.TempPathFactory, cut: int, junk: bytes
) -> None:
    place = tmp_path_factory.mktemp("ledger") / "ledger.jsonl"
    with Ledger(place) as ledger:
        mark = ledger.mark([digest("a secret", salt=ledger.salt)])
        for number in range(5):
            ledger.stage(f"t{number}", Staged((number,), "tree", "by", mark))
            ledger.begin([f"archives/{number}"], of_trial(f"t{number}"))
            ledger.put(f"archives/{number}", tree="tree", mark=mark)
        whole_trials, whole_places = dict(ledger.trials), dict(ledger.places)
    data = place.read_bytes()
    place.write_bytes(data[: min(cut, len(data))] + junk)
    with Ledger(place) as ledger:
        assert ledger.trials.items() <= whole_trials.items()
        assert {p for p, placed in ledger.places.items() if placed.tree} <= whole_places.keys()
        ledger.stage("new", Staged((9,), "tree", "by", ledger.mark([])))
    with Ledger(place) as ledger:
        assert ledger.trials["new"].source == (9,)


def test_a_ledger_does_not_grow_with_what_was_done_but_with_what_there_is(tmp_path: Path) -> None:
    place = tmp_path / "ledger.jsonl"
    for _ in range(3):
        with Ledger(place) as ledger:
            for number in range(1500):
                ledger.stage("t", Staged((number,), "tree", "by", ledger.mark([])))
    with Ledger(place):
        assert len(place.read_text().splitlines()) < 10


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("ANTHROPIC_API_KEY", True),
        ("HF_TOKEN", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("MYAPIKEY", True),
        ("DB_PASSWORD", True),
        ("SESSION_COOKIE", True),
        ("githubToken", True),
        ("BASIC_AUTH", True),
        ("GIT_AUTHOR_NAME", False),
        ("PATH", False),
        ("KEYBOARD_LAYOUT", False),
        ("PWD", False),
        ("HOME", False),
        ("TOKENIZERS_PARALLELISM", False),
    ],
)
def test_secrets_are_known_by_their_names(name: str, is_secret: bool) -> None:
    assert looks_secret(name) is is_secret


def test_options_whose_names_say_so_are_secret_and_names_of_variables_are_not(tmp_path: Path) -> None:
    secrets = Secrets()
    given = {
        "api_key": "the-key-itself",
        "api_key_env": "NAME_OF_VARIABLE",
        "env": {"X_TOKEN": "token-of-an-env", "LANG": "en_US.UTF-8"},
        "keys": "required-by-all",
        "token": "{{.RunID}}-template",
        "password": "short",
    }
    host = {"SSH_AUTH_SOCK": str(tmp_path), "A_TOKEN": "  value-of-a-token\n", "EMPTY_TOKEN": ""}
    notices = learn(secrets, host_env=host, options=[("agents[0].options", given)])
    assert secrets.values == {"the-key-itself", "token-of-an-env", "value-of-a-token"}
    assert len(notices) == 1 and notices[0].endswith(": agents[0].options.password")
