"""Campaigns in which a row is its best entries: what is compared then, and what it has to do with full rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drift_runs import schema
from drift_runs.capture.group import Launch, pending
from drift_runs.cli.main import main
from drift_runs.errors import ModelFileError, NotComparable
from drift_runs.lanes.identity import rollouts_lane
from drift_runs.protocol.load import load_protocol
from drift_runs.report.content import find_campaign, load_content
from drift_runs.store import read_table, write_table
from drift_runs.tracking import artifacts
from drift_runs.tracking.decisions import decide, load_decisions
from drift_runs.tracking.mlflow_store import artifact
from drift_runs.tracking.reader import load_figures
from tests.campaigns import SOUND, TWO_ARMS, Campaign, copied, new_campaign
from tests.conftest import tiny_dictionary
from tests.test_campaign_generation import CHAT, write_prompts
from tests.tiny_model import write_tiny_model

K = 8
LISTED = {**SOUND, "capture.full_vocabulary": "no", "capture.top_k": K, "capture.divergence": "kl.topk-tail"}


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Campaign:
    campaign = new_campaign(tmp_path_factory.mktemp("listed") / "campaign", tiny_arms, empty_database, LISTED)
    assert campaign.run().failed == ()
    return campaign


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path) -> Campaign:
    """The same with full rows, and the same K."""
    changes = {**SOUND, "capture.top_k": K}
    campaign = new_campaign(tmp_path_factory.mktemp("full") / "campaign", tiny_arms, empty_database, changes)
    assert campaign.run().failed == ()
    return campaign


def columns(campaign: Campaign, name: str) -> dict[str, np.ndarray]:
    found = campaign.executions()
    table = campaign.store.read_comparison(found[name].compared_with(found["f16"]), found[name].windows)
    return {field: table[field].to_numpy(zero_copy_only=False) for field in table.column_names}


@pytest.mark.parametrize("arm", ["q4_0", "f16-launch", "f16-decode"])
def test_stored_rows_say_what_full_rows_say(listed: Campaign, full: Campaign, arm: str) -> None:
    one, other = columns(listed, arm), columns(full, arm)
    for name in ("kl_topk_tail_nats", "kl_topk_shared_nats", "kl_topk_lower_nats", "kl_topk_floor_nats"):
        # Rows are stored as float32: that is all that is lost.
        np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=2e-6, err_msg=name)
    for name in ("flip", "flip_strict", "swap", "shared_support", "missed", "reference_top", "candidate_top", "token"):
        assert one[name].tolist() == other[name].tolist(), name
    for name in ("copy", "literal", "row_identical"):
        assert one[name].tolist() == other[name].tolist(), name
    assert np.isnan(one["kl_full_nats"]).all() and not np.isnan(other["kl_full_nats"]).any()
    assert (one["kl_topk_tail_nats"] <= other["kl_full_nats"] + 1e-6).all()


def test_the_candidates_are_asked_for_the_references_ids(listed: Campaign) -> None:
    found = listed.executions()
    for name in ("q4_0", "f16-decode"):
        assert found[name].wanted_from == found["f16"].capture_id
        reference, rows = (
            listed.store.read_rows(found[arm].capture_id, found[name].windows).to_pylist() for arm in ("f16", name)
        )
        for one, other in zip(reference, rows, strict=True):
            assert other["wanted_ids"] == sorted(one["top_ids"])
            known = dict(zip(other["top_ids"], other["top_logprobs"], strict=True))
            for token, logprob in zip(other["wanted_ids"], other["wanted_logprobs"], strict=True):
                assert logprob == pytest.approx(known.get(token, logprob), abs=2e-6)
    assert found["f16"].wanted_from == ""


def test_nothing_is_spilled_and_nothing_taken_twice(listed: Campaign) -> None:
    found = tuple(listed.executions().values())
    names = [window.name for window in load_protocol(listed.protocol).protocol.windows]
    assert pending(listed.store, found, names) == ()
    assert not listed.store.spill_folder.exists()
    lost = listed.store.rows_file(listed.executions()["q4_0"].capture_id, names[0])
    kept = lost.read_bytes()
    lost.unlink()
    left = pending(listed.store, found, names)
    assert [(launch.execution.name, [step.window for step in launch.steps]) for launch in left] == [
        ("q4_0", [names[0]])
    ], "the reference's rows are on disk: it is not run again"
    assert isinstance(left[0], Launch)
    assert listed.run().failed == ()
    assert lost.read_bytes() == kept


def test_what_was_made_of_rows_that_are_gone_is_made_again(listed: Campaign) -> None:
    found = listed.executions()
    comparison = found["q4_0"].compared_with(found["f16"])
    one, other = (listed.store.comparison_file(comparison, name) for name in ("alpha-1", "alpha-2"))
    kept, figures = one.read_bytes(), {arm.arm: arm.run_id for arm in listed.records()[0].arms}
    one.write_bytes(other.read_bytes())
    listed.store.rows_file(found["q4_0"].capture_id, "alpha-1").unlink()
    assert listed.run().failed == ()
    assert one.read_bytes() == kept
    again = {arm.arm: arm.run_id for arm in listed.records()[0].arms}
    assert {name for name in figures if figures[name] != again[name]} == {"q4_0"}


def losing_rows(campaign: Campaign) -> tuple[str, str]:
    """Lose a window of q4_0 and run again: run ids of its comparison before and after."""
    before = next(arm.run_id for arm in campaign.records()[0].arms if arm.arm == "q4_0")
    campaign.store.rows_file(campaign.executions()["q4_0"].capture_id, "alpha-1").unlink()
    assert campaign.run().failed == ()
    return before, next(arm.run_id for arm in campaign.records()[0].arms if arm.arm == "q4_0")


def test_decisions_stay_with_figures_that_come_back_the_same_and_with_no_others(
    listed: Campaign, tmp_path: Path
) -> None:
    campaign = copied(listed, tmp_path / "copy")
    for number, decision in enumerate(("needs more", "rejected")):
        decide(campaign.uri, campaign.records()[0], "q4_0", decision=decision, reason=f"{number}", name="n")
    made = load_decisions(campaign.uri, campaign.records()[0]).entries
    assert len(made) == 2
    for _ in range(2):
        before, after = losing_rows(campaign)
        kept = load_decisions(campaign.uri, campaign.records()[0]).entries
        assert before != after and {entry.run_id for entry in kept} == {after}
        assert [replace(entry, run_id="") for entry in kept] == [replace(entry, run_id="") for entry in made]

    with artifact(campaign.uri, after, artifacts.FIGURES_FILE) as path:
        table = pq.read_table(path)
        at = table.schema.get_field_index("value")
        other = pa.array([None if value is None else value + 1e-9 for value in table["value"].to_pylist()])
        pq.write_table(table.set_column(at, table.schema.field(at), other), path)
    losing_rows(campaign)
    assert load_decisions(campaign.uri, campaign.records()[0]).entries == (), "nobody decided about these figures"


def test_decisions_stay_with_what_was_written_too(tmp_path: Path, tiny_arms: Path, empty_database: Path) -> None:
    """The figures of the rows come back the same each time; a rollout that does not was decided about by nobody."""
    (tmp_path / "one" / "protocol").mkdir(parents=True)
    write_prompts(tmp_path / "one" / "protocol")
    changes = {
        **LISTED,
        "arms": TWO_ARMS["arms"],
        "floors": [],
        "chat": CHAT,
        "rollouts": {"prompts": "prompts.toml", "ids": "prompt-ids.json", "tokens": 8},
    }
    changes.pop("floors[1]")
    campaign = new_campaign(tmp_path / "one", tiny_arms, empty_database, changes)
    assert campaign.run().failed_generation == ()
    decide(campaign.uri, campaign.records()[0], "q4_0", decision="accepted", reason="r", name="n")
    before, after = losing_rows(campaign)
    (kept,) = load_decisions(campaign.uri, campaign.records()[0]).entries
    assert before != after and (kept.run_id, kept.decision) == (after, "accepted")

    lane = rollouts_lane(load_protocol(campaign.protocol), campaign.executions()["q4_0"])
    path = campaign.store.rollouts_file(lane.id, 0)
    written = read_table(path, schema.ROLLOUTS)
    at = written.schema.get_field_index("token_ids")
    ids = [[(token + 1) % 32 for token in tokens] for tokens in written["token_ids"].to_pylist()]
    write_table(
        path,
        written.set_column(at, written.schema.field(at), pa.array(ids, type=written.schema.field(at).type)),
        schema.ROLLOUTS,
    )
    figures = load_figures(campaign.uri, after)
    _, last = losing_rows(campaign)
    assert load_figures(campaign.uri, last).equals(figures), "the rows are the same"
    assert load_decisions(campaign.uri, campaign.records()[0]).entries == ()


def test_lists_that_cannot_be_compared_cost_their_arm_and_not_the_campaign(listed: Campaign, tmp_path: Path) -> None:
    campaign = copied(listed, tmp_path / "copy")
    found = campaign.executions()["q4_0"]
    path = campaign.store.rows_file(found.capture_id, "odd")
    rows = read_table(path, schema.ROWS)
    for name in ("top_ids", "top_logprobs"):
        at = rows.schema.get_field_index(name)
        short = pa.array([entries[:-1] for entries in rows[name].to_pylist()], type=rows.schema.field(at).type)
        rows = rows.set_column(at, rows.schema.field(at), short)
    write_table(path, rows, schema.ROWS)
    campaign.store.remove_comparison(found.compared_with(campaign.executions()["f16"]), "odd")
    result = campaign.run()
    assert [outcome.execution.name for outcome in result.failed] == ["q4_0"]
    assert isinstance(result.failed[0].error, NotComparable)
    assert {outcome.execution.name for outcome in result.outcomes} >= {"q8_0", "f16-launch"}


def test_figures_carry_the_definition_and_k(listed: Campaign) -> None:
    result = listed.run()
    assert result.already_complete
    figures = {outcome.execution.name: outcome.figures for outcome in result.outcomes}
    specs = set(figures["q4_0"]["spec"].to_pylist())
    assert f"kl.topk-tail@{K}" in specs and "kl.full" not in specs
    assert not any(spec.startswith("kl.topk") and not spec.endswith(f"@{K}") for spec in specs)


def test_an_arm_with_another_dictionary_is_refused_with_the_first_difference(
    tmp_path: Path, tiny_arms: Path, empty_database: Path
) -> None:
    """Same size, same ids, two tokens that change places: every id-level figure would be wrong without a sign."""
    tokens = tiny_dictionary()
    tokens[25], tokens[26] = tokens[26], tokens[25]
    weights = tmp_path / "other.gguf"
    write_tiny_model(weights, tokens=tokens)
    arms = [{"name": "f16", "role": "reference", "derivative": "stock", "weights": "f16"}]
    arms.append({**arms[0], "name": "other", "role": "candidate", "derivative": "other"})
    campaign = new_campaign(tmp_path / "campaign", tiny_arms, empty_database, {**LISTED, "arms": arms, "floors": []})
    campaign.machine = tmp_path / "drift.toml"
    models = {"f16": tiny_arms.parent / "f16.gguf", "other": weights}
    tables = [f"[arms.{name}]\nmodel = {json.dumps(str(path))}" for name, path in models.items()]
    campaign.machine.write_text("\n".join(['schema = "drift.machine/1"', *tables]), "utf-8")
    (outcome,) = [found for found in campaign.run().outcomes if found.execution.name == "other"]
    assert isinstance(outcome.error, ModelFileError) and outcome.figures is None
    assert "the first difference is id 25: b'y' here, b'x' in the protocol's" in outcome.error.line()


def stored(campaign: Campaign, arm: str, spec: str, statistic: str) -> dict:
    """The logged figure of an arm over all positions."""
    run = next(found.run_id for found in campaign.records()[0].arms if found.arm == arm)
    rows = load_figures(campaign.uri, run).to_pylist()
    wanted = {"scope_kind": "all", "outliers": "with", "spec": spec, "statistic": statistic}
    (row,) = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return row


def test_commands_that_read_it_name_k_and_what_is_absent(
    listed: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = f"kl.topk-tail@{K}"
    values = columns(listed, "q4_0")["kl_topk_tail_nats"]
    mean = stored(listed, "q4_0", spec, "mean")
    assert mean["value"] == pytest.approx(values.mean()) and mean["n"] == len(values)
    assert main(listed.arguments()) == 0
    out = capsys.readouterr().out
    assert (
        f"kl.topk-tail is {spec}: of the best {K} entries of a row" in out
        and "kl.full and js.full are not known" in out
    )

    assert main(["subsample", "tiny", "--store", str(listed.root), "--arm", "q4_0", "--stride", "2"]) == 0
    out = capsys.readouterr().out
    assert f"all {len(values)} positions: {spec} mean {values.mean():.4f}"[:-1] in out
    assert "all positions name no range" in out and "full rows" not in out
    assert main(["subsample", "tiny", "--store", str(listed.root), "--arm", "q4_0", "--stride", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["q4_0"]
    means = [row["full_value"] for row in found if (row["statistic"], row["outliers"]) == ("mean", "with")]
    assert means == [pytest.approx(values.mean())] * len(means) and means

    options = ["--store", str(listed.root), "--out", str(tmp_path / "a.html"), "--markdown", str(tmp_path / "a.md")]
    assert main(["report", *options, "--csv", str(tmp_path / "csv")]) == 0
    content = load_content(listed.uri, find_campaign(listed.uri, "latest"))
    assert content.columns.headline == spec
    for file in ("a.html", "a.md"):
        text = (tmp_path / file).read_text("utf-8")
        assert spec in text.replace("\\", "") and "kl.full" not in text

    capsys.readouterr()
    found = listed.executions()
    one, other = (str(listed.store.rows_file(found[name].capture_id, "odd")) for name in ("f16", "q4_0"))
    assert main(["compare", one, other, "--format", "rows", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    here = listed.store.read_comparison(found["q4_0"].compared_with(found["f16"]), ["odd"])
    assert figures[spec]["mean"] == pytest.approx(np.mean(here["kl_topk_tail_nats"].to_pylist()))
    assert figures[spec]["n"] == here.num_rows and "no position has it" in figures["kl.full"]["reason"]
