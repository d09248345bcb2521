"""The page of rollouts and tasks on a real campaign of the tiny model: what it shows is what is stored."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

from dashboard.figures import write_number
from drift_runs.generate.rollouts import compare_rollouts
from drift_runs.tracking import reader
from tests.campaigns import Campaign
from tests.ui.conftest import OpenApp
from tests.ui.reading import Cells, arms, figure_text, markup, table_html
from tests.ui.synthetic import InventedStore

VIEW = "views/rollouts.py"


def run_id(campaign: Campaign, arm: str) -> str:
    (record,) = campaign.records()
    return next(found.run_id for found in record.arms if found.arm == arm)


def stored(campaign: Campaign, arm: str, spec: str, statistic: str) -> dict:
    figures = reader.load_generation_figures(campaign.uri, run_id(campaign, arm)).to_pylist()
    (row,) = [
        row
        for row in figures
        if (row["arm"], row["spec"], row["statistic"], row["scope_kind"], row["outliers"])
        == (arm, spec, statistic, "all", "with")
    ]
    return row


def test_all_four_readings_of_every_arm_are_the_stored_ones(generated_store: Campaign, open_app: OpenApp) -> None:
    app = open_app(generated_store.root, VIEW)
    assert arms(app, "Rollouts") == ["q4_0", "f16-decode"]
    for arm in ("q4_0", "f16-decode"):
        for key in ("exact", "prefix", "agree"):
            row = stored(generated_store, arm, f"rollout.{key}", "share")
            text = figure_text(app, "Rollouts", arm, key)
            assert text.startswith(write_number(row["value"], "share", low=row["low"], high=row["high"]))
        exact = stored(generated_store, arm, "rollout.exact", "count")
        assert f"{exact['value']:.0f} of {exact['n']}" in figure_text(app, "Rollouts", arm, "exact")
        stops = stored(generated_store, arm, "rollout.early_stop", "candidate.count")
        assert figure_text(app, "Rollouts", arm, "early_stop").startswith(f"{stops['value']:.0f} of {stops['n']}")
        loops = stored(generated_store, arm, "rollout.loop", "reference.count")
        assert f"reference {loops['value']:.0f} of" in figure_text(app, "Rollouts", arm, "loop")


def test_where_rollouts_part_adds_up(generated_store: Campaign, open_app: OpenApp) -> None:
    app = open_app(generated_store.root, VIEW)
    figures = reader.load_generation_figures(generated_store.uri, run_id(generated_store, "q4_0"))
    first = [
        row
        for row in figures.to_pylist()
        if row["spec"] == "rollout.first" and row["outliers"] == "with" and row["arm"] == "q4_0"
    ]
    parted = sum(row["value"] for row in first)
    assert f"{3 - parted:.0f} of 3 never" in figure_text(app, "Rollouts", "q4_0", "first") or not first
    earliest = min((int(row["scope"]) for row in first), default=None)
    assert earliest is None or f"earliest at step {earliest}" in figure_text(app, "Rollouts", "q4_0", "first")


def test_the_texts_part_where_the_rows_do(generated_store: Campaign, open_app: OpenApp) -> None:
    (record,) = generated_store.records()
    left = reader.load_rollouts(generated_store.uri, record.run_id)
    right = reader.load_rollouts(generated_store.uri, run_id(generated_store, "q4_0"))
    expected = {item.prompt: item.prefix_tokens for item in compare_rollouts(left, right).prompts}
    for prompt, equal in expected.items():
        app = open_app(generated_store.root, VIEW, v="1", arm="q4_0", prompt=prompt)
        (row, *_) = [row for row in Cells(table_html(app, "Both rollouts")).rows if row.get("data-prompt")]
        assert row["data-prompt"] == prompt and row["data-equal"] == str(equal)
        assert 'tabindex="0"' in table_html(app, "Both rollouts")
        steps = [row["data-step"] for row in Cells(table_html(app, "Tokens around the first difference")).rows[1:]]
        assert str(min(equal, 7)) in steps
        assert app.query_params["prompt"] == prompt


def test_kinds_of_prompts_come_from_the_stored_panel(generated_store: Campaign, open_app: OpenApp) -> None:
    app = open_app(generated_store.root, VIEW)
    # All three prompts are of one kind, so its reading is that of all.
    row = stored(generated_store, "q4_0", "rollout.prefix", "share")
    text = figure_text(app, "Rollouts by kind of prompt", "q4_0", "terminal")
    assert text.startswith(write_number(row["value"], "share", low=row["low"], high=row["high"]))
    assert "n 3" in text


def test_sampled_readings_stand_beside_the_greedy_one_of_the_same_prompts(
    generated_store: Campaign, open_app: OpenApp
) -> None:
    app = open_app(generated_store.root, VIEW, v="1", plot="rollout.agree/share")
    for name in ("0.5", "1"):
        row = stored(generated_store, "q4_0", f"sampled.agree@{name}", "share")
        text = figure_text(app, "Sampled drift", "q4_0", name)
        assert text.startswith(write_number(row["value"], "share", low=row["low"], high=row["high"]))
        assert "n 2 prompts, 4 pairs" in text
    # Three prompts of 8 tokens were rolled out, two of 6 sampled: the greedy column is of the latter.
    (record,) = generated_store.records()
    rows = [
        {
            item["prompt"]: item["token_ids"][:6]
            for item in reader.load_rollouts(generated_store.uri, run).to_pylist()
            if item["prompt"] in ("one", "two")
        }
        for run in (record.run_id, run_id(generated_store, "q4_0"))
    ]
    share = (
        sum(sum(a == b for a, b in zip(rows[0][name], rows[1][name], strict=True)) / 6 for name in ("one", "two")) / 2
    )
    greedy = figure_text(app, "Sampled drift", "q4_0", "greedy")
    assert "n 2 prompts" in greedy
    assert float(greedy.split()[0]) == pytest.approx(100 * share, abs=0.6)
    assert "At T = 0.5, of 1 arm 1 is" in markup(app)


def test_tasks_are_passed_as_stored_and_failure_is_a_word(generated_store: Campaign, open_app: OpenApp) -> None:
    app = open_app(generated_store.root, VIEW)
    rows = reader.load_tasks(generated_store.uri, run_id(generated_store, "q4_0")).to_pylist()
    passed = sum(row["passed"] is True for row in rows)
    assert figure_text(app, "Tasks passed", "q4_0", "passed").startswith(f"{passed} of 1")
    word = "pass" if passed else "fail"
    assert word in figure_text(app, "Tasks by arms", None, "task")
    (record,) = generated_store.records()
    order = reader.load_task_order(generated_store.uri, record.run_id).to_pylist()
    lead = next(row for row in order if (row["over"], row["among"], row["figure"]) == ("pairs", "all", "flips"))
    assert lead["says"].replace("'", "&#x27;") in markup(app)
    shown = [row for row in Cells(table_html(app, "Drift and failure")).rows if row.get("data-over")]
    assert len(shown) == len([row for row in order if row["outliers"] == "with"])


def test_what_is_not_measured_is_said_with_its_command(invented_store: InventedStore, open_app: OpenApp) -> None:
    app = open_app(invented_store.folder, VIEW)
    said = markup(app)
    for lane in ("[rollouts]", "[sampled]", "[[tasks]]"):
        assert f"<code>{lane}</code>" in said
    assert "drift run invented.toml" in said
    assert not [item for item in app.get("html") if 'aria-label="Rollouts"' in item.proto.body]


def test_a_bounded_campaign_says_its_bounds(
    generated_store: Campaign, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dashboard import data

    monkeypatch.setattr(data, "bounds", lambda uri, run, complete: ("2 rollout prompts", "no sampled decoding"))
    said = markup(open_app(generated_store.root, VIEW))
    assert "Generation was bounded: 2 rollout prompts; no sampled decoding." in said


def test_a_prompt_that_is_not_there_is_replaced_with_a_note(generated_store: Campaign, open_app: OpenApp) -> None:
    app = open_app(generated_store.root, VIEW, v="1", prompt="<b>gone</b>")
    assert "prompt = &lt;b&gt;gone&lt;/b&gt; in the link does not exist here" in markup(app)


def test_rollouts_of_the_store_are_what_the_chart_is_drawn_from(generated_store: Campaign, open_app: OpenApp) -> None:
    app = open_app(generated_store.root, VIEW)
    assert len(app.get("arrow_vega_lite_chart") or app.get("vega_lite_chart")) >= 3
    reference = reader.load_rollouts(generated_store.uri, generated_store.records()[0].run_id)
    assert pc.count_distinct(reference["prompt"]).as_py() == 3
