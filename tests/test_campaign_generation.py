"""Campaigns that generate: the tiny protocol on the real engine, its futures, rollouts, draws and tasks."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.compute as pc
import pytest

from drift_runs.cli.generated import lines
from drift_runs.cli.main import main
from drift_runs.errors import EngineError
from drift_runs.lanes import process as lanes_process
from drift_runs.lanes.bounds import Bounds
from drift_runs.protocol.canonical import dictionary_sha256, file_sha256
from drift_runs.protocol.load import load_protocol
from drift_runs.tracking import reader
from tests.campaigns import TWO_ARMS, Campaign, new_campaign, tree
from tests.conftest import tiny_dictionary

CHAT = {"assistant": "{", "ends": ["</s>"], "tool_turn": "\n{text}{", "user_turn": "<s>{text}{"}
GENERATION = {
    **TWO_ARMS,
    "floors": [
        {
            "name": "f16-decode",
            "arm": "f16",
            "kind": "geometry",
            "rows": "differ",
            "settings": {"path_shape": "decode"},
        }
    ],
    "chat": CHAT,
    "branches": {"cap": 6, "per_range": 2, "horizon_tokens": 20},
    "rollouts": {"prompts": "prompts.toml", "ids": "prompt-ids.json", "tokens": 8},
    "sampled": {"temperatures": [0.5, 1.0], "draws": 2, "prompts": "quick", "tokens": 6},
    "constrained": [
        {"name": "q4_0-json", "arm": "q4_0", "grammar": "json"},
        {"name": "q4_0-tools", "arm": "q4_0", "grammar": "tools"},
    ],
    "tasks": [
        {
            "name": "a-word",
            "window": "beta",
            "at": 6,
            "check": "pattern",
            "expected": ["[a-z]"],
            "horizon_tokens": 12,
        }
    ],
}


def write_prompts(folder: Path) -> None:
    """Three prompts and their ids, two of the quick subset."""
    texts = {"one": "ab", "two": "cd e", "three": "fgh"}
    lines = ['schema = "drift.prompts/1"', 'name = "three"', 'title = "Three"']
    for at, (name, text) in enumerate(texts.items()):
        quick = "true" if at < 2 else "false"
        lines += ["[[prompts]]", f'name = "{name}"', 'kind = "terminal"', f"quick = {quick}", f'text = "{text}"']
    (folder / "prompts.toml").write_text("\n".join(lines), encoding="utf-8")
    table = {token: at for at, token in enumerate(tiny_dictionary())}
    ids = {name: [0, *(table[letter.encode()] for letter in text), table[b"{"]] for name, text in texts.items()}
    content = {
        "schema": "drift.prompt-ids/1",
        "prompts_sha256": file_sha256(folder / "prompts.toml"),
        "dictionary_sha256": dictionary_sha256(tiny_dictionary()),
        "ids": ids,
    }
    (folder / "prompt-ids.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path) -> Campaign:
    """A campaign that generated all that its protocol asks for."""
    campaign = prepared(tmp_path_factory.mktemp("generated"), tiny_arms)
    campaign.result = campaign.run()
    return campaign


def prepared(folder: Path, arms: Path) -> Campaign:
    (folder / "protocol").mkdir(parents=True)
    write_prompts(folder / "protocol")
    return new_campaign(folder, arms, None, GENERATION)


def run_id(campaign: Campaign, arm: str) -> str:
    (record,) = campaign.records()
    return next(found.run_id for found in record.arms if found.arm == arm)


def test_every_lane_is_logged_beside_the_comparison(generated: Campaign) -> None:
    arm = run_id(generated, "q4_0")
    roots = reader.load_roots(generated.uri, arm)
    outcomes = reader.load_outcomes(generated.uri, arm)
    assert 0 < roots.num_rows <= 6
    outcomes = outcomes.filter(pc.equal(outcomes["arm"], "q4_0"))
    assert outcomes.num_rows == 3 * roots.num_rows
    assert set(outcomes["pair"].to_pylist()) == {"branch", "token", "weights"}
    futures = reader.load_futures(generated.uri, arm)
    assert futures.num_rows == 2 * roots.num_rows
    assert reader.load_rollouts(generated.uri, arm)["prompt"].to_pylist() == ["one", "two", "three"]
    assert reader.load_tasks(generated.uri, arm)["task"].to_pylist() == ["a-word"]
    figures = reader.load_generation_figures(generated.uri, arm)
    specs = set(figures["spec"].to_pylist())
    assert {"branches", "rollout.exact", "sampled.exact@0.5", "sampled.exact@1", "task.passed"} <= specs
    metrics = reader.load_metrics(generated.uri, arm)
    assert "branches/all/explored" in metrics and "rollout.exact/all/share" in metrics


def test_it_is_the_same_to_the_byte_whether_the_captures_left_their_states_or_not(
    generated: Campaign, tmp_path: Path, tiny_arms: Path
) -> None:
    campaign = prepared(tmp_path, tiny_arms)
    result = campaign.run(state_bytes=0)
    assert tree(campaign.root / "generation") == tree(generated.root / "generation")
    # Every window of a root was evaluated again.
    assert result.generation_timing.tokens > generated.result.generation_timing.tokens
    assert not (generated.root / "states").exists() and not (campaign.root / "states").exists()


def test_what_the_engines_would_have_chosen_at_a_root_is_what_was_captured(generated: Campaign) -> None:
    arm = run_id(generated, "q4_0")
    roots = {(row["window"], row["position"]): row for row in reader.load_roots(generated.uri, arm).to_pylist()}
    for future in reader.load_futures(generated.uri, arm).to_pylist():
        assert future["best"] == roots[future["window"], future["position"]]["candidate_top"]


def test_a_future_has_what_its_table_says(generated: Campaign) -> None:
    for future in reader.load_futures(generated.uri, run_id(generated, "q4_0")).to_pylist():
        assert future["tokens"][0] == future["first"] and not future["written"][0]
        assert all(future["written"][1:]) and sum(future["written"]) <= 20
        assert [found is None for found in future["logprobs"]] == [not found for found in future["written"]]
        assert (future["ended"] == "turn") == (future["tokens"][-1] == 1)


def test_a_constrained_decode_keeps_to_its_grammar_and_its_refusals_are_kept(generated: Campaign) -> None:
    arm = run_id(generated, "q4_0")
    outcomes = reader.load_outcomes(generated.uri, arm)
    held = outcomes.filter(pc.equal(outcomes["arm"], "q4_0-json")).to_pylist()
    roots = {(row["window"], row["position"]) for row in reader.load_roots(generated.uri, arm).to_pylist()}
    refused = {(path.parent.name, int(path.name.partition(".")[0])) for path in generated.root.rglob("*.none.json")}
    # A root is followed, or the text before it is the beginning of no JSON value: never neither.
    assert {(row["window"], row["position"]) for row in held} | refused == roots
    assert refused and all(row["pair"] == "branch" for row in held)


def test_futures_of_a_constrained_decode_are_logged_token_by_token(generated: Campaign) -> None:
    arm = run_id(generated, "q4_0")
    outcomes = reader.load_outcomes(generated.uri, arm)
    for name in ("q4_0-tools", "q4_0-json"):
        futures = reader.load_constrained(generated.uri, arm, name).to_pylist()
        of_it = outcomes.filter(pc.equal(outcomes["arm"], name)).to_pylist()
        said = ("window", "position", "candidate_text", "candidate_ended", "candidate_tokens")
        assert [tuple(row[key] for key in said) for row in of_it] == [
            (row["window"], row["position"], row["text"], row["ended"], len(row["tokens"])) for row in futures
        ]
        for future in futures:
            assert future["tokens"][0] == future["first"] and len(future["top_ids"]) == len(future["tokens"])
    roots = reader.load_roots(generated.uri, arm)
    # No call can be opened with these letters, so that the grammar allows every root.
    tools = reader.load_constrained(generated.uri, arm, "q4_0-tools")
    assert tools.select(["window", "position"]).to_pylist() == roots.select(["window", "position"]).to_pylist()
    assert reader.load_constrained(generated.uri, arm, "another").num_rows == 0


def test_the_null_is_followed_from_one_token_on_both_sides(generated: Campaign) -> None:
    roots = reader.load_roots(generated.uri, run_id(generated, "f16-decode"))
    drawn = roots.filter(pc.equal(roots["why"], "floor"))
    assert drawn.num_rows and drawn["reference_top"].equals(drawn["candidate_top"])
    outcomes = reader.load_outcomes(generated.uri, run_id(generated, "f16-decode"))
    assert set(outcomes["pair"].to_pylist()) == {"branch"}


def test_a_second_run_writes_nothing_and_says_the_same(generated: Campaign) -> None:
    before = tree(generated.root)
    again = generated.run()
    assert generated.reporter.items_left == 0 and generated.reporter.written_events == []
    assert tree(generated.root) == before
    for one, other in zip(generated.result.generation, again.generation, strict=True):
        assert one.figures.equals(other.figures) and one.outcomes.equals(other.outcomes)


def test_a_killed_run_goes_on_to_the_same_bytes(
    generated: Campaign, tmp_path: Path, tiny_arms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = prepared(tmp_path / "killed", tiny_arms)
    real = lanes_process.events_of

    def dying(module: str, job: dict):
        for number, event in enumerate(real(module, job)):
            yield event
            if number == 3:
                raise KeyboardInterrupt

    monkeypatch.setattr(lanes_process, "events_of", dying)
    with pytest.raises(KeyboardInterrupt):
        campaign.run()
    monkeypatch.undo()
    assert not campaign.records()[0].complete
    campaign.run()
    assert campaign.records()[0].complete
    assert tree(campaign.root) == tree(generated.root)


def test_bounds_are_the_first_of_all_and_are_said(
    generated: Campaign, tmp_path: Path, tiny_arms: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = prepared(tmp_path / "bounded", tiny_arms)
    bounds = Bounds(roots=2, prompts=1, sampled=False)
    campaign.run(bounds=bounds)
    arm = run_id(campaign, "q4_0")
    assert reader.load_roots(campaign.uri, arm).equals(reader.load_roots(generated.uri, run_id(generated, "q4_0"))[:2])
    assert reader.load_bounds(campaign.uri, arm) == bounds.said(load_protocol(campaign.protocol).protocol)
    assert reader.load_rollouts(campaign.uri, arm)["prompt"].to_pylist() == ["one"]
    # Measured again within the bounds that its plan holds.
    assert main([*campaign.arguments("measure"), "--check"]) == 0
    assert "Bounded to 2 roots an arm of at most 6, 1 rollout prompts" in capsys.readouterr().out
    # What is there is not written again, and the whole is what it would have been at once.
    campaign.run()
    assert tree(campaign.root) == tree(generated.root)
    assert reader.load_bounds(campaign.uri, arm) == ()
    assert reader.load_roots(campaign.uri, arm).num_rows > 2


def test_a_candidate_that_dies_leaves_the_others(
    tmp_path: Path, tiny_arms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = prepared(tmp_path / "dies", tiny_arms)
    real = lanes_process.events_of

    def failing(module: str, job: dict):
        if job["arm"] == "q4_0":
            raise EngineError("gone", where="arm q4_0")
        yield from real(module, job)

    monkeypatch.setattr(lanes_process, "events_of", failing)
    result = campaign.run()
    assert [report.execution.name for report in result.failed_generation] == ["q4_0"]
    assert {report.execution.name for report in result.generation if report.error is None} == {"f16", "f16-decode"}
    assert not campaign.records()[0].complete


def test_measuring_again_finds_what_was_logged(generated: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*generated.arguments("measure"), "--check"]) == 0
    assert "differs" not in capsys.readouterr().err


def test_the_table_has_a_row_an_arm_and_says_what_was_bounded(generated: Campaign) -> None:
    protocol = load_protocol(generated.protocol).protocol
    shown = lines(generated.result.generation, protocol, ("2 rollout prompts",), generated.result.task_order)
    rows = {line.split()[0]: line for line in shown[3:6]}
    assert set(rows) == {"f16", "f16-decode", "q4_0"}
    explored = generated.result.generation[-1].explored
    assert explored is not None
    assert f"{explored.roots.num_rows} of {explored.existing.flips}" in rows["q4_0"]
    assert any("Bounded to 2 rollout prompts" in line for line in shown)
    assert lines((), protocol, (), generated.result.task_order) == []


def test_drift_beside_passed_tasks_is_in_the_campaigns_own_run(generated: Campaign) -> None:
    (record,) = generated.records()
    drift = reader.load_task_drift(generated.uri, record.run_id)
    assert set(drift["arm"].to_pylist()) == {"q4_0"} and set(drift["task"].to_pylist()) == {"a-word"}
    assert reader.load_task_order(generated.uri, record.run_id).num_rows
    # The reference's own writing has no comparison to stand beside.
    assert reader.load_rollouts(generated.uri, record.run_id).num_rows == 3


def test_the_command_line_bounds_what_is_generated(
    tmp_path: Path, tiny_arms: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = prepared(tmp_path / "commands", tiny_arms)
    bounds = ["--roots", "1", "--horizon", "16", "--prompts", "1", "--tasks", "0", "--no-sampled"]
    assert main([*campaign.arguments(), *bounds, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["generation"]
    assert [arm["arm"] for arm in said] == ["f16", "f16-decode", "q4_0"]
    assert len({row["position"] for row in said[-1]["outcomes"]}) == 1 and said[-1]["tasks"] == []
    for option, value in (("--roots", "0"), ("--horizon", "3"), ("--prompts", "-1")):
        assert main([*campaign.arguments(), option, value]) == 2
        assert option in capsys.readouterr().err
