"""Campaigns with arms that write and give no rows: a real llama.cpp server behind OpenAI's interfaces."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from drift_runs.cli.generated import lines as written_lines
from drift_runs.cli.main import main
from drift_runs.lanes.identity import Lane
from drift_runs.lanes.steps import visit_steps
from drift_runs.lanes.visits import came_of, left
from drift_runs.protocol.load import load_protocol
from drift_runs.tracking import artifacts, reader
from drift_runs.tracking.mlflow_store import artifact
from drift_runs.weights.hf_folder import write_hf_folder
from tests.campaigns import SOUND, Campaign, new_campaign
from tests.conftest import TINY, tiny_dictionary
from tests.engines.canned_server import Canned, answering
from tests.engines.llama_server_process import RunningServer, llama_server
from tests.test_campaign_generation import CHAT, write_prompts

F16 = {"name": "f16", "role": "reference", "derivative": "stock", "weights": "f16"}
Q4_0 = {**F16, "name": "q4_0", "role": "candidate", "weights": "q4_0"}
WRITER = {**Q4_0, "name": "writer", "engine": "generic"}
PROTOCOL = {
    **SOUND,
    "arms": [F16, Q4_0, WRITER],
    "floors": [],
    "chat": CHAT,
    "branches": {"cap": 6, "per_range": 3, "horizon_tokens": 16},
    "rollouts": {"prompts": "prompts.toml", "ids": "prompt-ids.json", "tokens": 8},
    "tasks": [
        {"name": "a-word", "window": "beta", "at": 6, "check": "pattern", "expected": ["[a-z]"], "horizon_tokens": 12}
    ],
}


@pytest.fixture(scope="module")
def server(tiny_arms: Path) -> Iterator[RunningServer]:
    with llama_server(tiny_arms.parent / "q4_0.gguf") as running:
        yield running


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer") / "folder"
    write_hf_folder(tiny_arms.parent / "f16.gguf", folder, dtype="float16")
    return folder


def prepared(
    folder: Path, arms: Path, database: Path, url: str, tokenizer: Path, changes: dict | None = None
) -> Campaign:
    (folder / "protocol").mkdir(parents=True)
    write_prompts(folder / "protocol")
    campaign = new_campaign(folder, arms, database, {**PROTOCOL, **(changes or {})})
    models = {name: json.dumps(str(arms.parent / f"{name}.gguf")) for name in ("f16", "q4_0")}
    campaign.machine = folder / "drift.toml"
    campaign.machine.write_text(
        f'schema = "drift.machine/1"\n[defaults]\nthreads = 1\n[arms.f16]\nmodel = {models["f16"]}\n'
        f"[arms.q4_0]\nmodel = {models['q4_0']}\n"
        f'[arms.writer]\nurl = "{url}"\ntokenizer = {json.dumps(str(tokenizer))}\n',
        "utf-8",
    )
    return campaign


@pytest.fixture(scope="module")
def ran(
    tmp_path_factory: pytest.TempPathFactory,
    tiny_arms: Path,
    empty_database: Path,
    server: RunningServer,
    tokenizer: Path,
) -> Campaign:
    folder = tmp_path_factory.mktemp("written") / "campaign"
    campaign = prepared(folder, tiny_arms, empty_database, server.url, tokenizer)
    campaign.result = campaign.run()
    return campaign


def run_of(campaign: Campaign, arm: str) -> str:
    (record,) = campaign.records()
    return next(found.run_id for found in record.arms if found.arm == arm)


def report_of(campaign: Campaign, arm: str):
    return next(found for found in campaign.result.generation if found.execution.name == arm)


def test_it_is_followed_from_where_the_other_arm_left_the_reference(ran: Campaign) -> None:
    """The server holds the other arm's weights: it must write that arm's tokens, whatever way they come."""
    assert ran.result.failed == () and ran.result.failed_generation == ()
    other, writer = (report_of(ran, name) for name in ("q4_0", "writer"))
    assert writer.explored.existing is None and set(writer.explored.visited["why"].to_pylist()) == {"left"}

    def futures(report) -> dict:
        return {
            (row["window"], row["position"]): (row["outcome"], row["reference_text"], row["candidate_text"])
            for row in report.outcomes.to_pylist()
            if row["pair"] == "branch"
        }

    assert len(futures(writer)) == writer.outcomes.num_rows == PROTOCOL["branches"]["cap"]
    assert futures(writer) == futures(other)
    tops = [
        dict(zip(t["position"].to_pylist(), t["candidate_top"].to_pylist(), strict=True))
        for t in (writer.explored.roots, other.explored.roots)
    ]
    assert tops[0] == tops[1]
    assert set(writer.explored.roots["why"].to_pylist()) == {"visited"}


def test_its_rollouts_end_with_the_end_token(ran: Campaign) -> None:
    (record,) = ran.records()
    reference, other, writer = (
        reader.load_rollouts(ran.uri, run) for run in (record.run_id, run_of(ran, "q4_0"), run_of(ran, "writer"))
    )

    def cut(table) -> dict[str, list[int]]:
        rows = zip(table["prompt"].to_pylist(), table["token_ids"].to_pylist(), strict=True)
        return {prompt: ids[: ids.index(1) + 1] if 1 in ids else ids for prompt, ids in rows}

    written = dict(zip(writer["prompt"].to_pylist(), writer["token_ids"].to_pylist(), strict=True))
    assert written == cut(other)
    assert any(len(ids) < 8 for ids in written.values()), "nothing ended early: the test shows nothing"
    theirs = cut(reference)
    equal = sum(theirs[prompt] == ids for prompt, ids in written.items())
    figures = {
        (row["spec"], row["statistic"]): row
        for row in report_of(ran, "writer").figures.to_pylist()
        if (row["scope_kind"], row["outliers"]) == ("all", "with")
    }
    exact = figures["rollout.exact", "count"]
    assert (exact["value"], exact["n"]) == (equal, 3)
    assert exact["reason"].endswith("each side up to its first end token")
    assert figures["task.passed", "rate"]["n"] == 1


def test_what_has_no_rows_has_no_figures_of_rows(ran: Campaign) -> None:
    (record,) = ran.records()
    arm = next(found for found in record.arms if found.arm == "writer")
    assert arm.complete and arm.engine.startswith("generic (")
    assert reader.load_figures(ran.uri, arm.run_id).num_rows == 0
    orders = ran.result.agreement.to_pylist()
    ranked = {row["arms"] for row in orders if "branches/invalid" in (row["left"], row["right"])}
    assert ranked <= {0, 1}, "its roots are no sample of its flips"
    with artifact(ran.uri, arm.run_id, artifacts.PROBE_FILE) as path:
        found = {answer["question"]: answer for answer in json.loads(path.read_text("utf-8"))["answers"]}
    assert found["writes"]["answer"] == "yes" and found["writes"]["needed"]
    assert found["rows"]["answer"] == "no" and not found["rows"]["needed"]


def test_it_goes_on_where_it_stopped(ran: Campaign) -> None:
    folder = ran.store.root / "generation" / _lane(ran, "futures")
    lost = sorted(folder.glob("*/*.parquet"))[0]
    kept = lost.read_bytes()
    lost.unlink()
    again = ran.run()
    assert again.failed_generation == () and ran.reporter.items_left == 1
    assert lost.read_bytes() == kept
    assert ran.run().already_complete and ran.reporter.items_left == 0


def _lane(campaign: Campaign, kind: str) -> str:
    for path in (campaign.store.root / "generation").glob("*/generation.json"):
        identity = json.loads(path.read_text("utf-8"))
        if identity["lane"] == kind and identity["engine"]["engine"] == "generic":
            return path.parent.name
    raise AssertionError(kind)


def test_it_is_measured_again_and_shown(ran: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(ran.store.root)]
    assert main(["measure", str(ran.protocol), *store, "--tracking-uri", ran.uri]) == 0
    out = capsys.readouterr().out
    assert "writer        no rows" in out and "6 at 6 asked" in out
    assert "wrote another token than the reference at 6 of 6 places" in out


def test_without_other_arms_it_is_asked_where_the_reference_is_uncertain(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, server: RunningServer, tokenizer: Path
) -> None:
    floor = {"name": "again", "arm": "f16", "kind": "launch"}
    changes = {"arms": [F16, WRITER], "floors": [floor], "tasks": [], "bands.uncertain_below": 0.3}
    campaign = prepared(tmp_path / "alone", tiny_arms, empty_database, server.url, tokenizer, changes)
    campaign.result = campaign.run()
    assert campaign.result.failed == () and campaign.result.failed_generation == ()
    visited = report_of(campaign, "writer").explored.visited
    assert visited.num_rows and max(visited["reference_p1"].to_pylist()) < 0.3
    ranges = Counter(visited["range"].to_pylist())
    assert max(ranges.values()) <= PROTOCOL["branches"]["per_range"]
    assert set(visited["why"].to_pylist()) <= {"left", "kept"}


@contextmanager
def between(server: RunningServer, changed: Callable[[Any, Any], Any]) -> Iterator[Canned]:
    """A server between us and the real one: ``changed(body, answer)`` is what is handed on of a completion."""

    def forwarded(path: str, body: Any) -> Any:
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{server.url}{path}", content, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def completions(body: Any) -> Any:
        return changed(body, forwarded("/v1/completions", body))

    pages = {"/v1/completions": completions, "/v1/models": partial(forwarded, "/v1/models")}
    with answering(pages) as running:
        yield running


def miscounted(wrong: Callable[[str], bool]) -> Callable[[Any, Any], Any]:
    """It reads a token more than it is sent, as a server does that adds one or cuts a text otherwise."""

    def changed(body: Any, answer: Any) -> Any:
        answer["usage"]["prompt_tokens"] += wrong(body["prompt"])
        return answer

    return changed


def test_a_place_that_its_server_cannot_be_asked_at_is_counted(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, server: RunningServer, tokenizer: Path
) -> None:
    busy = [(503, {"error": "busy"})]
    wrong = miscounted(lambda prompt: len(prompt) > 20 or "cd e" in prompt)

    def changed(body: Any, answer: Any) -> Any:
        return busy.pop() if busy and "cd e" in body["prompt"] else wrong(body, answer)

    with between(server, changed) as running:
        campaign = prepared(tmp_path / "refused", tiny_arms, empty_database, running.url, tokenizer)
        campaign.result = campaign.run()
        assert campaign.result.failed == () and campaign.result.failed_generation == ()
        report = report_of(campaign, "writer")
        visited = report.explored.visited.to_pylist()
        refused = [row["position"] for row in visited if row["why"] == "refused"]
        assert refused and len(refused) < len(visited) == PROTOCOL["branches"]["cap"]
        assert min(refused) > max(row["position"] for row in visited if row["why"] == "left")
        protocol = load_protocol(campaign.protocol).protocol
        lines = written_lines([report], protocol, (), campaign.result.task_order)
        assert any(f"could not be asked at {len(refused)}" in line for line in lines)
        assert any("writer was not rolled out from 1 of 3 prompts" in line and "two: " in line for line in lines)
        assert any(line.endswith("unless drift run is given --ask-again.") for line in lines)
        rolled = {
            row["spec"]: (row["value"], row["n"])
            for row in report.figures.to_pylist()
            if row["spec"] in ("rollout.exact", "rollout.refused")
            and row["outliers"] == "with"
            and row["statistic"] in ("share", "count")
        }
        assert rolled["rollout.refused"] == (1, 3) and rolled["rollout.exact"][1] == 2
        assert report.retries == {"futures": 0, "rollouts": 1, "tasks": 0} and not busy
        with artifact(campaign.uri, run_of(campaign, "writer"), artifacts.GENERATION_RETRIES_FILE) as path:
            assert json.loads(path.read_text("utf-8")) == report.retries
        asked = len(running.asked)
        assert campaign.run().already_complete and campaign.reporter.items_left == 0
        assert len(running.asked) - asked < 3, "nothing is asked twice"
        # The server was put right: it is asked again once that is wanted.
        wrong = miscounted(lambda prompt: False)
        campaign.result = campaign.run(ask_again=True)
        assert campaign.reporter.items_left == len(refused) + 1
        whole = report_of(campaign, "writer")
        assert set(whole.explored.visited["why"].to_pylist()) == {"left"}
        assert "rollout.refused" not in whole.figures["spec"].to_pylist()


def test_a_task_that_its_server_cannot_be_asked_costs_that_task(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, server: RunningServer, tokenizer: Path
) -> None:
    task = {"check": "pattern", "expected": ["[a-z]"], "horizon_tokens": 6}
    tasks = [{"name": "first", "window": "beta", "at": 6, **task}, {"name": "other", "window": "odd", "at": 5, **task}]
    odd = json.loads((TINY / "streams" / "odd.json").read_text("utf-8"))["tokens"][:5]
    history = b"".join(tiny_dictionary()[number] for number in odd).decode()
    with between(server, miscounted(lambda prompt: prompt == history)) as running:
        campaign = prepared(tmp_path / "task", tiny_arms, empty_database, running.url, tokenizer, {"tasks": tasks})
        campaign.result = campaign.run()
        assert campaign.result.failed_generation == ()
        report, reference = report_of(campaign, "writer"), report_of(campaign, "f16")
        assert reference.tasks["task"].to_pylist() == ["first", "other"]
        assert report.tasks["task"].to_pylist() == ["first"]
        figures = {
            (row["spec"], row["statistic"]): row
            for row in report.figures.to_pylist()
            if (row["scope_kind"], row["outliers"]) == ("all", "with")
        }
        refused = figures["task.refused", "count"]
        assert (refused["value"], refused["n"]) == (1, 2) and refused["reason"].startswith("tasks that its server")
        assert "other: " in refused["reason"] and figures["task.passed", "rate"]["n"] == 1
        lines = written_lines([report], load_protocol(campaign.protocol).protocol, (), campaign.result.task_order)
        assert any("writer was not asked 1 of 2 tasks" in line for line in lines)


def test_an_answer_that_lacks_what_was_asked_for_is_no_refusal(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, server: RunningServer, tokenizer: Path
) -> None:
    """One answer without log-probabilities ends the arm, and the next run asks again: nothing is dropped for ever."""
    bare = True

    def changed(body: Any, answer: Any) -> Any:
        if bare and "cd e" in body["prompt"]:
            answer["choices"][0].pop("logprobs")
        return answer

    with between(server, changed) as running:
        campaign = prepared(tmp_path / "bare", tiny_arms, empty_database, running.url, tokenizer)
        campaign.result = campaign.run()
        (failed,) = campaign.result.failed_generation
        assert failed.execution.name == "writer" and "no logprobs" in failed.error.line()
        bare = False
        campaign.result = campaign.run()
        assert campaign.result.failed_generation == ()
        assert report_of(campaign, "writer").tables[artifacts.ROLLOUTS_FILE].num_rows == 3


def test_a_server_that_reads_the_shortest_prompts_otherwise_is_asked_the_others(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, server: RunningServer, tokenizer: Path
) -> None:
    with between(server, miscounted(lambda prompt: prompt.endswith(("ab{", "fgh{")))) as running:
        campaign = prepared(tmp_path / "short", tiny_arms, empty_database, running.url, tokenizer, {"tasks": []})
        campaign.result = campaign.run()
        assert campaign.result.failed_generation == ()
        report = report_of(campaign, "writer")
        assert report.tables[artifacts.ROLLOUTS_FILE]["prompt"].to_pylist() == ["two"]


def test_another_reference_makes_other_roots_of_what_was_written(ran: Campaign) -> None:
    """A place is kept or left by the reference of now: what is stored is the token, not the verdict."""
    report = report_of(ran, "writer")
    visited = report.explored.visited
    lane = Lane(kind="futures", execution=report.execution, rule={}, identity={}, id=_lane(ran, "futures"))
    own = visited["candidate_top"].to_pylist()
    at = visited.schema.get_field_index("reference_top")
    agreeing = visited.set_column(at, visited.schema.field(at), pa.array(own, pa.int32()))
    assert set(came_of(ran.store, lane, agreeing)["why"].to_pylist()) == {"kept"}
    assert left(came_of(ran.store, lane, agreeing)).num_rows == 0
    others = visited.set_column(at, visited.schema.field(at), pa.array([(top + 1) % 32 for top in own], pa.int32()))
    found = came_of(ran.store, lane, others)
    assert set(found["why"].to_pylist()) == {"left"} and found["candidate_top"].to_pylist() == own
    loaded = load_protocol(ran.protocol)
    assert visit_steps(loaded, ran.store, lane, others) == [], "the futures from its own tokens are there"
