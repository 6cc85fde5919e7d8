"""Experiment files as people write them load, and mean what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentix.plugins.experiments.documents import AgentSpec, Submission, load

LONG = (Path(__file__).parent / "files" / "annotated.yaml").read_text()


def _load(tmp_path: Path, text: str, **files: str) -> Submission:
    for name, content in files.items():
        (tmp_path / f"{name}.yaml").write_text(content)
    (tmp_path / "experiment.yaml").write_text(text)
    return load(tmp_path / "experiment.yaml")


def test_the_long_annotated_file_loads(tmp_path: Path) -> None:
    submission = _load(tmp_path, LONG)
    experiment = submission.experiment
    assert [(case.source, case.path, case.ref) for case in experiment.cases] == [
        ("git", "spring/CVE-2026-1234", "main"),
        ("git", "apache/CVE-2026-5678", "v2.1"),
    ]
    assert {case.repo for case in experiment.cases} == {"https://github.com/org/eval-cases"}
    assert [agent.name for agent in experiment.matrix.agents] == ["claude-code", "oracle", "nop"]
    assert experiment.matrix.trials == 10
    assert (experiment.concurrency, experiment.max_attempts, experiment.pipeline.concurrency) == (4, 2, 16)
    assert [step.label for step in experiment.pipeline.per_trial] == ["harbor", "redact", "only-hard", "archive"]
    assert experiment.pipeline.per_trial[1].inputs == {"keys": "required", "ips": {"traj": True, "logs": False}}
    assert experiment.pipeline.per_trial[2].on_violation == "drop"
    assert experiment.pipeline.per_experiment[1].inputs["using"] == "ship_hf"
    assert submission.commands.timeout == 1800
    assert submission.commands.max_attempts == 2
    assert submission.commands.inherit_env is True
    assert submission.commands.commands["ship"].run == (
        "rclone",
        "copyto",
        "--",
        "{{.LocalPath}}",
        "onedrive:{{.Key}}",
    )
    script = submission.commands.commands["source_git"].script
    assert script is not None
    assert script.splitlines()[0] == "set -euo pipefail"
    spec = submission.llm_specs["opus-prod"]
    assert (spec.model, spec.api_key_env) == ("claude-opus-4-7", "ANTHROPIC_API_KEY")


def test_five_lines_are_an_experiment(tmp_path: Path) -> None:
    text = '---\nkind: Experiment\nname: nightly\ncases: [{path: "cases/*"}]\nmatrix: {agents: [oracle], trials: 1}\n'
    experiment = _load(tmp_path, text).experiment
    assert (experiment.cases[0].source, experiment.cases[0].path) == ("local", "cases/*")
    assert experiment.matrix.agents == (AgentSpec(name="oracle"),)
    assert (experiment.matrix.trials, experiment.concurrency, experiment.pipeline.per_trial) == (1, 1, ())


def test_the_seventh_and_eighth_line_name_an_adapter(tmp_path: Path) -> None:
    text = (
        '---\nkind: Experiment\nname: nightly\ncases: [{path: "cases/*"}]\nmatrix: {agents: [oracle], trials: 1}\n'
        "---\nkind: Commands\nharbor: {uses: adapters/harbor.sh}\n"
    )
    submission = _load(tmp_path, text)
    assert submission.commands.commands["harbor"].uses == "adapters/harbor.sh"
    assert submission.commands.files["harbor"] == tmp_path / "experiment.yaml"


EXPERIMENT = "---\nkind: Experiment\nname: e\ncases: [{path: a}]\nmatrix: {agents: [nop]}\n"


def test_an_including_file_wins(tmp_path: Path) -> None:
    library = "kind: Commands\ntimeout: 5m\nharbor: {uses: a.sh}\nship: {uses: ship.sh}\n"
    text = EXPERIMENT + "---\nkind: Commands\ninclude: [commands.yaml]\nharbor:\n  uses: adapters/my-harbor.sh\n"
    commands = _load(tmp_path, text, commands=library).commands
    assert commands.commands["harbor"].uses == "adapters/my-harbor.sh"
    assert commands.commands["ship"].uses == "ship.sh"
    assert commands.timeout == 300
    assert commands.files == {"harbor": tmp_path / "experiment.yaml", "ship": tmp_path / "commands.yaml"}


def test_the_three_forms_of_a_command(tmp_path: Path) -> None:
    pin = "d822f0cf2ea4" + "0" * 52
    text = EXPERIMENT + (
        "---\nkind: Commands\ninherit_env: false\n"
        'harbor:\n  run: ["harbor", "run", "--case", "{{.CaseDir}}"]\n  env: [DOCKER_HOST]\n  timeout: 1h30m\n'
        "ship:\n  script: |\n    echo\n"
        f"trial: {{uses: adapters/harbor.sh, sha256: {pin}}}\n"
    )
    commands = _load(tmp_path, text).commands
    assert commands.inherit_env is False
    assert (commands.commands["harbor"].timeout, commands.commands["harbor"].env) == (5400, ("DOCKER_HOST",))
    assert commands.commands["ship"].script == "echo\n"
    assert commands.commands["trial"].sha256 == pin


def test_the_mapping_form_is_read_as_a_list_of_steps(tmp_path: Path) -> None:
    text = EXPERIMENT + (
        "pipeline:\n  per_case:\n    admission: {trials: 2, on_failure: skip}\n    check_case:\n"
        "  per_experiment:\n    ship:\n      using: ship\n"
        '      dest: "test/cases/jobs/{{.Experiment}}/{{.RunID}}"\n'
    )
    pipeline = _load(tmp_path, text).experiment.pipeline
    assert [(step.uses, step.inputs) for step in pipeline.per_case] == [
        ("admission", {"trials": 2}),
        ("check_case", {}),
    ]
    assert pipeline.per_case[0].on_failure == "skip"
    assert pipeline.per_experiment[0].inputs == {
        "using": "ship",
        "dest": "test/cases/jobs/{{.Experiment}}/{{.RunID}}",
    }


def test_a_fix_is_read(tmp_path: Path) -> None:
    text = EXPERIMENT + (
        "pipeline:\n  per_case:\n    - uses: check_quality\n      fix: fix_quality_audit\n"
        "      fix_writeback: true\n      fix_attempts: 2\n"
        "---\nkind: Commands\nfix_quality_audit: {uses: fix.sh}\ncheck_quality: {uses: check.sh}\n"
    )
    step = _load(tmp_path, text).experiment.pipeline.per_case[0]
    assert (step.fix, step.fix_writeback, step.fix_attempts) == ("fix_quality_audit", True, 2)


def test_a_report_that_says_where_it_goes(tmp_path: Path) -> None:
    text = EXPERIMENT + ("pipeline:\n  per_experiment:\n  - uses: report\n    with: {dest: summary.md, pass_at: 0.8}\n")
    step = _load(tmp_path, text).experiment.pipeline.per_experiment[0]
    assert step.inputs == {"dest": "summary.md", "pass_at": 0.8}


@pytest.mark.parametrize(
    ("written", "options"),
    [
        ("docker", {}),
        ("{name: docker, network: none, cpus: 2}", {"network": "none", "cpus": 2}),
        ("{name: docker, options: {network: none}}", {"network": "none"}),
        ("{name: docker, cpus: 2, options: {network: none}}", {"network": "none", "cpus": 2}),
    ],
)
def test_a_provider_is_a_name_or_a_mapping(tmp_path: Path, written: str, options: dict[str, object]) -> None:
    provider = _load(tmp_path, EXPERIMENT + f"provider: {written}\n").experiment.provider
    assert provider is not None
    assert (provider.name, provider.options) == ("docker", options)


def test_api_may_be_called_provider_and_prices_in_and_out(tmp_path: Path) -> None:
    text = EXPERIMENT + (
        "---\nkind: LLMSpec\nname: m\nmodel: x\nprovider: openai\nprice: {in: 1, out: 2.5, cached: 0.1}\n"
        "api_key_cmd: [pass, show, key]\nparameters: {temperature: 0}\n"
    )
    spec = _load(tmp_path, text).llm_specs["m"]
    assert spec.api == "openai"
    assert spec.price is not None
    assert (spec.price.input, spec.price.output, spec.price.cached) == (1, 2.5, 0.1)
    assert (spec.api_key_cmd, spec.parameters) == (("pass", "show", "key"), {"temperature": 0})


def test_defaults_that_say_nothing_about_a_case_are_not_taken(tmp_path: Path) -> None:
    text = (
        "kind: Experiment\nname: e\nmatrix: {agents: [nop]}\n"
        "case_defaults: {source: git, repo: r, ref: main, dataset: harbor}\n"
        "cases: [{path: a}, {source: local, path: b}, {source: dataset, dataset: swe, ids: ['d*']}]\n"
    )
    git, local, dataset = _load(tmp_path, text).experiment.cases
    assert (git.repo, git.ref) == ("r", "main")
    assert (local.source, local.repo, local.dataset) == ("local", None, "harbor")
    assert (dataset.dataset, dataset.ref, dataset.ids) == ("swe", None, ("d*",))


def test_words_of_old_yaml_are_text(tmp_path: Path) -> None:
    text = (
        "kind: Experiment\nname: NO\ncases: [{path: on}]\nmatrix: {agents: [yes]}\npipeline: {with: {at: 2026-01-02}}\n"
    )
    experiment = _load(tmp_path, text).experiment
    assert (experiment.name, experiment.cases[0].path, experiment.matrix.agents[0].name) == ("NO", "on", "yes")
    assert experiment.pipeline.inputs == {"at": "2026-01-02"}


def test_anchors_aliases_and_merge_keys(tmp_path: Path) -> None:
    text = (
        "kind: Experiment\nname: e\ncases: [{path: a}]\n"
        "matrix:\n  agents:\n    - &base {name: nop, options: {a: 1}}\n    - {<<: *base, id: second}\n"
        "    - {<<: [{trials: 3}, *base], name: oracle}\n"
    )
    first, second, third = _load(tmp_path, text).experiment.matrix.agents
    assert second == first.model_copy(update={"id": "second"})
    assert (third.name, third.trials, third.options) == ("oracle", 3, {"a": 1})


def test_a_byte_order_mark_and_carriage_returns_are_read_over(tmp_path: Path) -> None:
    path = tmp_path / "e.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + EXPERIMENT.replace("\n", "\r\n").encode())
    submission = load(path)
    assert submission.place("matrix.agents[0]").line == 5
    assert submission.text == path.read_bytes()


def test_places_are_told_for_what_was_written_and_for_what_was_not(tmp_path: Path) -> None:
    submission = _load(tmp_path, LONG)
    lines = LONG.splitlines()
    expected = {
        "cases[1].ref": "    ref: v2.1",
        "matrix.agents[2].name": "    - name: nop",
        "pipeline.per_trial[1].with.ips.traj": "      with: {keys: required, ips: {traj: true, logs: false}}",
        "pipeline.per_trial[1].with.ips.none": "      with: {keys: required, ips: {traj: true, logs: false}}",
        "commands.ship.run[0]": '  run: ["rclone", "copyto", "--", "{{.LocalPath}}", "onedrive:{{.Key}}"]',
        "llm_specs.opus-prod.model": "model: claude-opus-4-7",
    }
    for path, line in expected.items():
        assert lines[submission.place(path).line - 1] == line, path
    assert submission.place("cases[0].ref").path == "case_defaults.ref"
