"""Campaigns with a real llama.cpp server as an arm: rows, floors, futures and rollouts over HTTP."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drift_runs.campaign.facts import observed_weights
from drift_runs.cli.main import main
from drift_runs.engines.openai_server import transport
from drift_runs.errors import CannotGive, ConfigError, ServerError
from drift_runs.protocol.load import load_protocol
from drift_runs.tracking import artifacts, reader
from drift_runs.tracking.mlflow_store import artifact
from tests.campaigns import SOUND, Campaign, new_campaign
from tests.engines.canned_server import answering
from tests.engines.llama_server_process import RunningServer, llama_server
from tests.test_campaign_generation import CHAT, write_prompts

K = 8
SIZE = 32
"""Of the tiny dictionary."""
DECODE = {"settings": {"path_shape": "decode"}}
F16 = {"name": "f16", "role": "reference", "derivative": "stock", "weights": "f16", **DECODE}
SERVER = {**F16, "name": "server", "role": "candidate", "engine": "llama_server"}
Q4_0 = {**F16, "name": "q4_0", "role": "candidate", "weights": "q4_0"}
COLD = {
    "name": "cold",
    "arm": "server",
    "kind": "geometry",
    "rows": "differ",
    "settings": {"cache_prompt": False},
    "windows": ["alpha-1"],
}
PROTOCOL = {
    **SOUND,
    "capture.full_vocabulary": "no",
    "capture.top_k": K,
    "capture.divergence": "kl.topk-lower",
    "arms": [F16, SERVER, Q4_0],
    "floors": [{"name": "again", "arm": "f16", "kind": "launch", "windows": ["alpha-1"]}, COLD],
    "chat": CHAT,
    "branches": {"cap": 4, "per_range": 2, "horizon_tokens": 16},
    "rollouts": {"prompts": "prompts.toml", "ids": "prompt-ids.json", "tokens": 8},
}
TOLERANCE_NATS = 0.02
"""Of a log-probability: 0.005 was measured. The engine here takes every token by itself, a server those that are not
scored in one batch; where every position is scored the two agree to 5e-7 (tests/engines/test_llama_server.py)."""


PATHS = ("/v1/models", "/props", "/lora-adapters", "/completion", "/v1/completions", "/tokenize", "/detokenize")


def relayed(server: RunningServer, path: str, body: object) -> tuple[int, Any]:
    """What the server answers to a request that is handed on to it."""
    request = urllib.request.Request(
        server.url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.status, json.load(answer)


@pytest.fixture(scope="module")
def server(tiny_arms: Path) -> Iterator[RunningServer]:
    with llama_server(tiny_arms.parent / "f16.gguf") as running:
        yield running


def prepared(folder: Path, arms: Path, database: Path, url: str, changes: dict | None = None) -> Campaign:
    (folder / "protocol").mkdir(parents=True)
    write_prompts(folder / "protocol")
    wanted = {key: value for key, value in {**PROTOCOL, **(changes or {})}.items() if value is not None}
    campaign = new_campaign(folder, arms, database, wanted)
    models = {name: json.dumps(str(arms.parent / f"{name}.gguf")) for name in ("f16", "q4_0")}
    campaign.machine = folder / "drift.toml"
    campaign.machine.write_text(
        f'schema = "drift.machine/1"\n[defaults]\nthreads = 1\n[arms.f16]\nmodel = {models["f16"]}\n'
        f"[arms.q4_0]\nmodel = {models['q4_0']}\n"
        f'[arms.server]\nurl = "{url}"\nmodel = {models["f16"]}\nhardware = "the test\'s own processor"\n',
        "utf-8",
    )
    return campaign


@pytest.fixture(scope="module")
def ran(
    tmp_path_factory: pytest.TempPathFactory, tiny_arms: Path, empty_database: Path, server: RunningServer
) -> Campaign:
    campaign = prepared(tmp_path_factory.mktemp("served") / "campaign", tiny_arms, empty_database, server.url)
    campaign.result = campaign.run()
    campaign.notes = campaign.reporter.notes
    return campaign


def test_the_servers_rows_are_the_engines_rows(ran: Campaign) -> None:
    assert ran.result.failed == () and ran.result.failed_generation == ()
    found = ran.executions()
    ours, theirs = (ran.store.read_rows(found[name].capture_id, found["f16"].windows) for name in ("f16", "server"))
    worst = 0.0
    for one, other in zip(ours.to_pylist(), theirs.to_pylist(), strict=True):
        known = dict(zip(one["top_ids"], one["top_logprobs"], strict=True))
        listed = dict(zip(other["top_ids"], other["top_logprobs"], strict=True))
        # Two entries that nearly tie may change places, at the K-th even in and out.
        assert len(known.keys() & listed.keys()) >= K - 1
        worst = max(worst, *(abs(listed[token] - known[token]) for token in known.keys() & listed.keys()))
    assert 0 < worst < TOLERANCE_NATS
    assert theirs["row_full"].null_count == theirs.num_rows and theirs["row_top"].null_count == 0


def test_the_same_weights_behind_an_address_lie_far_below_other_weights(ran: Campaign) -> None:
    def mean(arm: str) -> float:
        (outcome,) = [outcome for outcome in ran.result.outcomes if outcome.execution.name == arm]
        rows = outcome.figures.to_pylist()
        (row,) = [
            row
            for row in rows
            if (row["scope_kind"], row["outliers"], row["spec"], row["statistic"])
            == ("all", "with", f"kl.topk-lower@{K}", "mean")
        ]
        return row["value"]

    assert abs(mean("server")) < 1e-6 and abs(mean("cold")) < 1e-5 < mean("q4_0") / 100


def test_what_a_list_does_not_say_of_the_text_is_told_and_set_against_nothing(
    ran: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server lists the text's own token where it is among the best 8; the engine here knows all of them."""
    run = next(found.run_id for found in ran.records()[0].arms if found.arm == "server")
    rows = reader.load_figures(ran.uri, run).to_pylist()
    found = {
        (row["spec"], row["statistic"]): row for row in rows if (row["scope_kind"], row["outliers"]) == ("all", "with")
    }
    dnll, candidate, reference = (found[name, "mean"] for name in ("dnll", "nll.candidate", "nll.reference"))
    assert dnll["n"] == candidate["n"] < reference["n"] and reference["excluded"] == 0
    for row in (dnll, candidate):
        assert "left out are positions where a side's list does not hold the text's own token" in row["reason"]
    assert "left out" not in reference["reason"]
    above = found["nll", "windows_above"]
    assert (above["value"], above["n"]) == (None, 0) and "in no window do both sides say it" in above["reason"]
    executions = ran.executions()
    one, other = (str(ran.store.rows_file(executions[name].capture_id, "odd")) for name in ("f16", "server"))
    capsys.readouterr()
    assert main(["compare", one, other, "--format", "rows"]) == 0
    out = capsys.readouterr().out
    for spec in ("dnll", "nll.candidate", "dp"):
        assert f"{spec}: no position has it: it needs the log-probability of the text's own token" in out
    assert "nll.reference: no position" not in out


def test_a_cold_cache_is_another_geometry(ran: Campaign) -> None:
    (cold,) = [outcome for outcome in ran.result.outcomes if outcome.execution.name == "cold"]
    assert cold.determinism.rows_identical < cold.determinism.rows
    assert cold.determinism.row_hash == f"row.top@{K}"
    assert 1e-6 < cold.determinism.max_abs_dlogprob < 0.05


def test_what_the_server_says_and_what_was_found_is_kept(ran: Campaign) -> None:
    (record,) = ran.records()
    arm = next(found for found in record.arms if found.arm == "server")
    assert observed_weights(replace(ran.executions()["server"], weights=None)) == "f16.gguf"
    assert arm.engine.startswith("llama_server (") and arm.hardware == "the test's own processor"
    with artifact(ran.uri, arm.run_id, artifacts.PROBE_FILE) as path:
        found = {answer["question"]: answer["answer"] for answer in json.loads(path.read_text("utf-8"))["answers"]}
    assert {found[name] for name in ("dictionary", "rows", "repeats", "raw")} == {"yes"}


def test_what_it_does_not_give_is_said_once_an_arm(ran: Campaign) -> None:
    """The arm's floor is asked too, and says the same."""
    said = [note for note in ran.notes if note.startswith("warning: the probe of ")]
    assert sum("own-token (told in " in note for note in said) == 1
    assert said[0].startswith("warning: the probe of server says no to own-token (told in ")
    assert ", wanted (the engine lists its best entries, and takes no ids)" in said[0]


def test_texts_that_become_other_ids_are_a_warning_and_rows_are_taken_by_ids(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, server: RunningServer
) -> None:
    def through(path: str, body: Any) -> tuple[int, Any]:
        if path == "/tokenize":
            body = {**body, "content": body["content"].replace(" ", "")}
        return relayed(server, path, body)

    with answering({path: partial(through, path) for path in PATHS}) as relay:
        changes = {**NOTHING_FREE, "floors": [], "arms": [F16, SERVER]}
        campaign = prepared(tmp_path / "relayed", tiny_arms, empty_database, relay.url, changes)
        assert campaign.run().failed == ()
    (said,) = [note for note in campaign.reporter.notes if note.startswith("warning: the probe of server")]
    assert "round-trip (window alpha-1: 30 ids for 41; at 4 the engine has id 4, the window id 28)" in said
    with artifact(campaign.uri, campaign.records()[0].arms[0].run_id, artifacts.PROBE_FILE) as path:
        report = json.loads(path.read_text("utf-8"))
    assert "round-trip" in report["remarks"] and report["blocking"] == []


def test_the_server_writes_what_the_engine_writes(ran: Campaign) -> None:
    """Same weights, same shape: rollouts and futures are the same tokens, through streams that are asked ahead."""
    (record,) = ran.records()
    arm = next(found.run_id for found in record.arms if found.arm == "server")
    ours, theirs = (reader.load_rollouts(ran.uri, run) for run in (record.run_id, arm))
    assert theirs["prompt"].to_pylist() == ["one", "two", "three"]
    assert theirs["token_ids"].to_pylist() == ours["token_ids"].to_pylist()
    for one, other in zip(ours["logprobs"].to_pylist(), theirs["logprobs"].to_pylist(), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-3)
    weak = next(found.run_id for found in record.arms if found.arm == "q4_0")
    assert reader.load_outcomes(ran.uri, weak).num_rows > 0


def test_it_goes_on_with_the_same_bytes(ran: Campaign) -> None:
    found = ran.executions()["server"]
    lost = ran.store.rows_file(found.capture_id, "beta")
    kept = lost.read_bytes()
    lost.unlink()
    assert ran.run().failed == ()
    assert lost.read_bytes() == kept


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is gone is asked as often as ever, and waited for a moment."""
    monkeypatch.setattr(transport, "Backoff", partial(transport.Backoff, first_s=0.01))


def planned(campaign: Campaign, capsys: pytest.CaptureFixture[str], *, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*campaign.arguments("plan"), "--json"]) == code
    return json.loads(capsys.readouterr().out)


NOTHING_FREE = {"chat": None, "branches": None, "rollouts": None, "floors": []}


def test_rows_that_are_whole_need_no_server(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, capsys: pytest.CaptureFixture[str], impatient: None
) -> None:
    """Who has room for one server at a time takes one arm after the other."""
    with llama_server(tiny_arms.parent / "f16.gguf") as mortal:
        campaign = prepared(tmp_path / "one", tiny_arms, empty_database, mortal.url, NOTHING_FREE)
        assert campaign.run().failed == ()
        before = sorted(campaign.root.rglob("*"))
        assert planned(campaign, capsys)["servers"] == []
        mortal.kill()
    plan = planned(campaign, capsys)
    (silent,) = plan["servers"]
    assert (silent["name"], silent["state"]) == ("server", "remembered") and "the connection failed" in silent["why"]
    assert plan["estimate"]["tokens_left"] == 0, "its rows are found by what it said"
    assert silent["last_answered"].endswith(" UTC") and plan["probe"] is not None
    assert main(campaign.arguments("plan")) == 0
    assert "servers  server: from memory, as it said when it last answered at 20" in capsys.readouterr().out
    assert sorted(campaign.root.rglob("*")) == before, "a plan writes nothing"
    again = campaign.run()
    assert again.already_complete and again.left_out == ()
    lost = campaign.store.rows_file(
        next(found.execution.capture_id for found in again.outcomes if found.execution.name == "server"), "beta"
    )
    lost.unlink()
    (outcome,) = [found for found in campaign.run().outcomes if found.execution.name == "server"]
    assert isinstance(outcome.error, ServerError) and "the connection failed" in outcome.error.line()


def test_a_server_that_never_answered_costs_its_arm_alone(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, capsys: pytest.CaptureFixture[str], impatient: None
) -> None:
    with llama_server(tiny_arms.parent / "f16.gguf") as mortal:
        url = mortal.url
    campaign = prepared(tmp_path / "gone", tiny_arms, empty_database, url, NOTHING_FREE)
    result = campaign.run()
    assert [found.arm for found in result.left_out] == ["server"] and result.failed == ()
    assert [found.execution.name for found in result.outcomes] == ["q4_0"]
    assert not campaign.records()[0].complete
    assert main(campaign.arguments()) == 5
    said = capsys.readouterr().err
    assert "drift: arm server was left out: " in said and "the connection failed" in said
    assert "drift: put that right and run the same command again" in said
    plan = planned(campaign, capsys, code=5)
    assert [(silent["name"], silent["state"]) for silent in plan["servers"]] == [("server", "left out")]
    whole = sum(window.scored[-1][1] - 1 for window in load_protocol(campaign.protocol).protocol.windows)
    assert plan["estimate"]["tokens_left"] == whole, "those of the other arms are there"
    assert main(campaign.arguments("plan")) == 5
    said = capsys.readouterr()
    assert "servers  server: left out, nothing of it is known" in said.out
    assert "drift: arm server is left out: " in said.err and "the connection failed" in said.err


def test_a_plan_knows_a_reference_that_answers_no_more_and_names_one_that_never_did(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, capsys: pytest.CaptureFixture[str], impatient: None
) -> None:
    changes = {**NOTHING_FREE, "arms": [{**SERVER, "role": "reference"}, Q4_0]}
    with llama_server(tiny_arms.parent / "f16.gguf") as mortal:
        campaign = prepared(tmp_path / "served", tiny_arms, empty_database, mortal.url, changes)
        campaign.run(only=["q4_0"])
        mortal.kill()
    plan = planned(campaign, capsys)
    assert [silent["state"] for silent in plan["servers"]] == ["remembered"]
    assert plan["estimate"]["tokens_left"] == 0 and plan["no_probe_because"] == (
        "the reference's server could not be asked now"
    )
    other = prepared(tmp_path / "never", tiny_arms, empty_database, mortal.url, changes)
    plan = planned(other, capsys, code=5)
    assert [(silent["name"], silent["state"]) for silent in plan["servers"]] == [("server", "left out")]
    assert plan["estimate"]["tokens_left"] is None and "nothing of it is known" in plan["no_probe_because"]


def test_a_launch_takes_a_server_of_its_own(tmp_path: Path, tiny_arms: Path, empty_database: Path, server) -> None:
    floor = {"name": "server-again", "arm": "server", "kind": "launch"}
    campaign = prepared(tmp_path / "launch", tiny_arms, empty_database, server.url, {"floors": [floor]})
    with pytest.raises(ConfigError, match="a further launch needs a server of its own"):
        campaign.executions()
    with llama_server(tiny_arms.parent / "f16.gguf") as another:
        text = campaign.machine.read_text("utf-8")
        campaign.machine.write_text(f'{text}[arms.server-again]\nurl = "{another.url}"\n', "utf-8")
        found = campaign.executions()
        assert found["server-again"].place.url == another.url and found["server-again"].launch == 2
    campaign.machine.write_text(f'{text}[arms.server-again]\nurl = "{server.url}/"\n', "utf-8")
    with pytest.raises(ConfigError, match=r"arms\.server-again: server is found there too"):
        campaign.executions()
    with llama_server(tiny_arms.parent / "q4_0.gguf") as another:
        campaign.machine.write_text(f'{text}[arms.server-again]\nurl = "{another.url}"\n', "utf-8")
        with pytest.raises(ConfigError, match="another server than that of arm server: "):
            campaign.executions()


def test_a_second_pass_stays_with_its_server(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, server: RunningServer
) -> None:
    arms = [{**SERVER, "role": "reference"}, {**Q4_0, "settings": {"path_shape": "decode"}}]
    floor = {"name": "pass", "arm": "server", "kind": "pass"}
    campaign = prepared(tmp_path / "pass", tiny_arms, empty_database, server.url, {"arms": arms, "floors": [floor]})
    with campaign.machine.open("a", encoding="utf-8") as file:
        file.write('[arms.pass]\nurl = "http://127.0.0.1:9"\n')
    assert campaign.executions()["pass"].place.url == server.url


def test_what_a_server_cannot_give_is_refused_before_a_row_is_taken(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, server: RunningServer
) -> None:
    changes = {"capture.divergence": "kl.topk-tail", "floors": [], "arms": [F16, SERVER]}
    campaign = prepared(tmp_path / "tail", tiny_arms, empty_database, server.url, changes)
    (outcome,) = [found for found in campaign.run().outcomes if found.execution.name == "server"]
    assert isinstance(outcome.error, CannotGive) and "kl.topk-lower" in outcome.error.todo
    assert not list(campaign.store.capture_folder(outcome.execution.capture_id).glob("*.parquet"))


def test_requests_that_failed_are_sent_again_and_counted(
    ran: Campaign, tmp_path: Path, tiny_arms: Path, empty_database: Path, server: RunningServer
) -> None:
    """Behind a relay that refuses every twelfth request the rows are the same bytes; the number of repeats is kept."""
    asked = []

    def through(path: str, body: object) -> tuple[int, object]:
        asked.append(path)
        if path == "/completion" and len(asked) % 12 == 0:
            return 503, {"error": "loading"}
        return relayed(server, path, body)

    with answering({path: partial(through, path) for path in PATHS}) as relay:
        floor = {"floors": [], "arms": [F16, SERVER]}
        campaign = prepared(tmp_path / "relayed", tiny_arms, empty_database, relay.url, floor)
        (outcome,) = [found for found in campaign.run().outcomes if found.execution.name == "server"]
    assert outcome.error is None
    retries = campaign.store.retries(outcome.execution.capture_id)
    assert set(retries) == set(outcome.execution.windows) and sum(retries.values()) > 2
    assert f"{sum(retries.values())} requests of" in outcome.warnings[0]
    one = ran.store.read_rows(ran.executions()["server"].capture_id, outcome.execution.windows)
    other = campaign.store.read_rows(outcome.execution.capture_id, outcome.execution.windows)
    assert one.equals(other)


class Noisy:
    """Pages of a relay behind which whole rows, from which the log-mass is measured, are off by ``nats``."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.nats = 0.0
        self.short = False
        """Whether a list lacks an entry."""

    def pages(self) -> dict[str, Any]:
        return {path: partial(self._answer, path) for path in PATHS}

    def _answer(self, path: str, body: Any) -> tuple[int, Any]:
        status, found = relayed(self.server, path, body)
        if path == "/completion" and body["n_probs"] == SIZE:
            for entry in found["completion_probabilities"][0]["top_logprobs"]:
                entry["logprob"] += self.nats
        elif path == "/completion" and self.short:
            for row in found["completion_probabilities"]:
                row["top_logprobs"].pop()
        return status, found


def test_another_measured_log_mass_goes_on_with_the_same_capture_and_the_first_number(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, server: RunningServer
) -> None:
    noisy = Noisy(server)
    with answering(noisy.pages()) as relay:
        changes = {"floors": [], "arms": [F16, SERVER], "branches": None}
        campaign = prepared(tmp_path / "noisy", tiny_arms, empty_database, relay.url, changes)
        noisy.nats = 1e-4
        assert campaign.run().failed == ()
        found = campaign.executions()["server"]
        kept = campaign.store.measured(found.capture_id)
        assert kept["log_mass_mean_nats"] == pytest.approx(1e-4, abs=1e-5) and kept["log_mass_rows"] == 4
        assert not {"log_mass", "normalised", "cache"} & found.identity["server"].keys()
        files = {path: path.read_bytes() for path in campaign.store.capture_folder(found.capture_id).iterdir()}
        rows = [path for path in files if path.suffix == ".parquet"]
        written = {path: path.read_bytes() for path in (campaign.store.root / "generation").rglob("*.parquet")}
        assert len(rows) == len(found.windows) and len(written) == 2

        noisy.nats = 3e-4
        rows[0].unlink()
        for path in written:
            path.unlink()
        again = campaign.run()
        assert again.failed == () and again.failed_generation == ()
        assert campaign.executions()["server"].capture_id == found.capture_id
        assert rows[0].read_bytes() == files[rows[0]], "taken with the number of the others"
        assert {path: path.read_bytes() for path in written} == written
        assert campaign.store.measured(found.capture_id) == kept
        with artifact(campaign.uri, campaign.records()[0].arms[0].run_id, artifacts.PROBE_FILE) as path:
            assert json.loads(path.read_text("utf-8"))["said"]["log_mass"].startswith("1.00e-04")

        noisy.nats = 2e-3
        rows[0].unlink()
        (outcome,) = [item for item in campaign.run().outcomes if item.execution.name == "server"]
        assert isinstance(outcome.error, ServerError) and "off by" in outcome.error.what
        assert not rows[0].exists()


def test_a_server_that_the_probe_refuses_leaves_no_number_behind(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, server: RunningServer
) -> None:
    """The one that is started rightly in its place is not held to what was measured of the first."""
    noisy = Noisy(server)
    noisy.nats, noisy.short = 2e-3, True
    with answering(noisy.pages()) as relay:
        changes = {**NOTHING_FREE, "arms": [F16, SERVER]}
        campaign = prepared(tmp_path / "refused", tiny_arms, empty_database, relay.url, changes)
        (outcome,) = campaign.run().outcomes
        assert isinstance(outcome.error, CannotGive) and "probe" in outcome.error.where
        folder = campaign.store.capture_folder(outcome.execution.capture_id)
        assert [path.name for path in folder.iterdir()] == ["capture.json"]
        noisy.nats, noisy.short = 0.0, False
        (again,) = campaign.run().outcomes
        assert again.error is None and again.execution.capture_id == outcome.execution.capture_id
        assert abs(campaign.store.measured(again.execution.capture_id)["log_mass_mean_nats"]) < 1e-4
