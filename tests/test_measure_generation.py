"""``drift measure`` on what was written freely: judged again from the store, and held against what was logged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from drift_runs import schema
from drift_runs.cli.main import main
from drift_runs.lanes.bounds import WHOLE
from drift_runs.lanes.identity import futures_lane
from drift_runs.protocol.load import load_protocol
from drift_runs.store import Store, plans, read_table, write_table
from drift_runs.tracking import artifacts, reader
from drift_runs.tracking.mlflow_store import Tracker
from tests.campaigns import Campaign, copied
from tests.test_campaign_generation import prepared, run_id


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path) -> Campaign:
    campaign = prepared(tmp_path_factory.mktemp("measured") / "campaign", tiny_arms)
    campaign.run()
    return campaign


@pytest.fixture
def copy(generated: Campaign, tmp_path: Path) -> Campaign:
    """One whose store may be changed."""
    return copied(generated, tmp_path / "copy")


def check(campaign: Campaign, *options: str) -> int:
    return main([*campaign.arguments("measure"), "--check", *options])


def change(path: Path, wanted: pa.Schema, changed: Callable[[dict], dict]) -> None:
    """Rewrite the first row of a stored table."""
    first, *rest = read_table(path, wanted).to_pylist()
    write_table(path, pa.Table.from_pylist([changed(first), *rest], schema=wanted), wanted)


def candidates_future(campaign: Campaign) -> tuple[dict, Path]:
    """A root of q4_0, and where its own future from its own token lies."""
    root = reader.load_roots(campaign.uri, run_id(campaign, "q4_0")).to_pylist()[0]
    lane = futures_lane(load_protocol(campaign.protocol), campaign.executions()["q4_0"], WHOLE)
    return root, campaign.store.future_file(lane.id, root["window"], root["position"], root["candidate_top"])


def test_everything_is_judged_again_and_equals_what_was_logged(
    generated: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(generated) == 0
    shown = capsys.readouterr()
    assert "differs" not in shown.err and "not measured" not in shown.err
    # Not from what was logged: the table of a campaign's own end is there again.
    assert "Written freely:" in shown.out and "q4_0-json" in shown.out
    equal, _, of = shown.err.split(" figures equal")[0].splitlines()[-1].partition(" of ")
    assert equal == of
    (record,) = generated.records()
    rows = sum(reader.load_outcomes(generated.uri, arm.run_id).num_rows for arm in record.arms)
    assert rows > 0 and int(equal.replace(",", "")) > rows


def test_a_future_of_a_constrained_decode_that_was_changed_is_found(
    copy: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    logged = reader.load_constrained(copy.uri, run_id(copy, "q4_0"), "q4_0-tools").to_pylist()[0]
    window, position, first, best = (logged[key] for key in ("window", "position", "first", "best"))
    execution = copy.executions()["q4_0"]
    lane = futures_lane(load_protocol(copy.protocol), execution, WHOLE, grammar="tools")
    path = copy.store.future_file(lane.id, window, position, first)
    change(path, schema.FUTURES, lambda row: row | {"best": best + 1})
    assert check(copy) == 1
    said = f"differs: q4_0-tools future {window}/{position}/{first}: logged best {best}; now best {best + 1}"
    assert said in capsys.readouterr().err


def test_what_an_older_version_did_not_log_is_no_difference(
    generated: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    run, name = run_id(generated, "q4_0"), artifacts.constrained_file("q4_0-tools")
    logged = reader.load_constrained(generated.uri, run, "q4_0-tools")
    tracker = Tracker(generated.uri)
    tracker.log_files(run, {name: artifacts.parquet_bytes(logged.slice(0, 0), schema.FUTURES)})
    try:
        assert check(generated) == 0
        said = f"{logged.num_rows} figures are computed now that were not logged then"
        assert logged.num_rows and said in capsys.readouterr().err
    finally:
        tracker.log_files(run, {name: artifacts.parquet_bytes(logged, schema.FUTURES)})


def test_one_arm_alone_is_measured_with_what_it_stands_beside(
    generated: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(generated, "--arm", "q4_0", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    logged = reader.load_generation_figures(generated.uri, run_id(generated, "q4_0")).to_pylist()
    assert [row for row in figures["q4_0"] if row["spec"] == "branches"] == [
        row for row in logged if row["spec"] == "branches"
    ]


def test_a_future_that_was_changed_is_found(copy: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    root, path = candidates_future(copy)
    dictionary = copy.store.read_dictionary(next((copy.root / "dictionaries").glob("*.parquet")).stem)

    def changed(row: dict) -> dict:
        count = max(1, len(row["tokens"]) - 2)
        text = b"".join(dictionary[token] for token in row["tokens"][:count]).decode()
        names = ("tokens", "written", "logprobs", "top_ids", "top_logprobs")
        lists = {name: row[name][:count] for name in names}
        return row | lists | {"text": text, "ended": "horizon"}

    before = read_table(path, schema.FUTURES).to_pylist()[0]
    change(path, schema.FUTURES, changed)
    assert check(copy) == 1
    place = f"{root['window']}/{root['position']}"
    found = [line for line in capsys.readouterr().err.splitlines() if line.startswith("differs: ")]
    (outcome,) = (line for line in found if f"q4_0 outcome q4_0/branch/{place}:" in line)
    length = len(before["tokens"])
    assert f"candidate_tokens {length}" in outcome.split("; now ")[0]
    assert f"candidate_tokens {length - 2}" in outcome.split("; now ")[1]
    assert any(line.startswith(f"differs: q4_0 future {place}/{root['candidate_top']}: logged") for line in found)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"text": "something else"}, "a future whose text is not that of its tokens"),
        ({"written": [True]}, "a future whose columns are not of one length"),
        ({"ended": "never"}, "a future that is none"),
        ({"position": 1}, "not the future that its name says"),
    ],
)
def test_a_damaged_future_is_an_error_and_no_number(
    copy: Campaign, capsys: pytest.CaptureFixture[str], changed: dict, said: str
) -> None:
    _, path = candidates_future(copy)
    change(path, schema.FUTURES, lambda row: row | changed)
    assert check(copy) == 2
    shown = capsys.readouterr()
    assert said in shown.err and path.name in shown.err and "remove the file and run again" in shown.err
    assert shown.out == ""


def test_a_token_outside_the_dictionary_is_an_error(copy: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    _, path = candidates_future(copy)
    change(path, schema.FUTURES, lambda row: row | {"tokens": [*row["tokens"][:-1], 10**6]})
    assert check(copy) == 2
    assert "a token that the dictionary has not" in capsys.readouterr().err


def test_what_is_missing_is_said(copy: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    _, path = candidates_future(copy)
    path.unlink()
    assert check(copy) == 4
    shown = capsys.readouterr()
    assert "arm q4_0: 1 of its futures, rollouts and answers are not there; go on with 'drift run'" in shown.err
    assert "differs" not in shown.err
    assert not any(line.startswith("q4_0-json") for line in shown.out.splitlines())


def test_a_rollout_and_an_answer_that_were_changed_are_found(
    copy: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in copy.root.glob("generation/*/rollouts-0.parquet"):
        change(path, schema.ROLLOUTS, lambda row: row | {"logprobs": [-9.0] * len(row["logprobs"])})
    for path in copy.root.glob("generation/*/a-word.parquet"):
        change(path, schema.FUTURES, lambda row: row | {"ended": "context"})
    assert check(copy) == 1
    err = capsys.readouterr().err
    assert "q4_0 rollout one/0: logged logprobs" in err
    # An answer that was cut off is not known to have failed.
    (answer,) = (line for line in err.splitlines() if "q4_0 task a-word: " in line)
    logged, now = answer.split("; now ")
    assert "passed False" in logged and "passed None" in now and "ended context" in now


def test_half_a_rollout_is_an_error(copy: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    for path in copy.root.glob("generation/*/rollouts-0.parquet"):
        change(path, schema.ROLLOUTS, lambda row: row | {"token_ids": row["token_ids"][:-1]})
    assert check(copy) == 2
    assert "a damaged rollout of prompt one" in capsys.readouterr().err


def edit_plan(campaign: Campaign, changed: Callable[[dict], object]) -> None:
    (path,) = (campaign.root / "campaigns").iterdir()
    content = json.loads(path.read_text(encoding="utf-8"))
    changed(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_an_older_plan_says_that_generation_is_not_measured(copy: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    edit_plan(copy, lambda plan: plan.pop("generation"))
    assert check(copy) == 4
    shown = capsys.readouterr()
    assert "generation is not measured again: the plan of this campaign does not say how much" in shown.err
    assert "differs" not in shown.err and "Written freely:" not in shown.out
    assert main(copy.arguments("measure")) == 0


def test_bounds_that_are_none_are_an_error(copy: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ({"roots": -1}, {"roots": "six"}, {"another": 3}):
        edit_plan(copy, lambda plan, wrong=wrong: plan["generation"].update(bounds=wrong))
        assert check(copy) == 2
        assert "a plan with bounds of generation that cannot be read" in capsys.readouterr().err


def test_a_foreign_capture_is_an_error(copy: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    entry = next(found for found in plans(Store(copy.root))[0].captures if found.name == "q4_0")
    path = copy.store.capture_folder(entry.capture) / "capture.json"
    other = next(found for found in plans(Store(copy.root))[0].captures if found.kind == "reference")
    shutil.copy(copy.store.capture_folder(other.capture) / "capture.json", path)
    assert check(copy) == 2
    assert f"{path}: not the identity of this capture" in capsys.readouterr().err


def test_what_was_logged_with_other_bounds_is_no_difference(copy: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    edit_plan(copy, lambda plan: plan["generation"]["bounds"].update(roots=1))
    assert check(copy) == 4
    said = capsys.readouterr().err
    assert "q4_0: logged bounded to nothing, now bounded to 1 roots" in said
    assert "its generation is not compared" in said and "differs: q4_0 outcome" not in said


def test_without_the_streams_it_is_said_what_is_needed(
    generated: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (record,) = generated.records()
    assert main(["measure", record.run_id[:10], "--check", "--store", str(generated.root)]) == 4
    assert "name the protocol's file in place of its name or run" in capsys.readouterr().err
    options = ["--tracking-uri", generated.uri, "--store", str(tmp_path / "none")]
    assert main(["measure", record.run_id, "--check", *options]) == 4
    assert "futures and rollouts are read from the store's folder" in capsys.readouterr().err
