"""An arm whose engine or server refuses when it is asked costs itself alone; a file that is wrong stops everything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drift_runs.capture.planning import LeftOut
from drift_runs.cli.main import main
from drift_runs.errors import CannotGive, ConfigError, DriftError, EngineMissing, ModelFileError, ServedOtherwise
from tests.campaigns import Campaign, new_campaign
from tests.engines.canned_server import answering, tokenizer_folder
from tests.test_campaign_generation import write_prompts
from tests.test_campaign_server import DECODE, F16, NOTHING_FREE, PROTOCOL, Q4_0

SIZE = 32
CHOICE = {"index": 0, "text": "a", "finish_reason": "length", "logprobs": None}
ONE, TWO = ({"data": [{"id": name} for name in names]} for names in (("one",), ("one", "two")))
PROPS = {
    "default_generation_settings": {"n_ctx": 64, "params": {"speculative.types": "none"}},
    "total_slots": 1,
    "build_info": "made-up",
    "chat_template": "",
}
LLAMA = {"/v1/models": ONE, "/props": PROPS, "/lora-adapters": [], "/tokenize": {"tokens": [2, 3, 4]}}
SILENT = {"/v1/models": ONE, "/v1/completions": {"model": "one", "choices": [CHOICE]}}
"""Completions without log-probabilities, and no chat."""

SERVER = {**F16, "name": "odd", "role": "candidate", "engine": "llama_server"}
WRITER = {"name": "odd", "role": "candidate", "derivative": "stock", "weights": "f16", "engine": "generic"}

REFUSALS: dict[str, tuple[dict[str, Any], dict[str, Any], str, type[DriftError], str]] = {
    "no log-probabilities": (WRITER, SILENT, "", CannotGive, "an answer without log-probabilities"),
    "two models": (SERVER, {**LLAMA, "/v1/models": TWO}, "", ServedOtherwise, "lists 2 models, and none is named"),
    "no such model": (SERVER, LLAMA, 'served = "three"', ServedOtherwise, "does not list the model 'three'"),
    "another model": (
        {**WRITER, "engine": "tgi"},
        {"/info": {"model_id": "one"}},
        'served = "three"',
        ServedOtherwise,
        "the server runs one; expected three",
    ),
    "path shape": (
        {**SERVER, "settings": {"path_shape": "prefill"}},
        {**LLAMA, "/v1/completions": {"model": "one", "choices": [CHOICE]}},
        "",
        CannotGive,
        "no log-probabilities of prompt tokens",
    ),
}
"""By name: the arm, what its server answers, more lines of its table, the error, and words of it."""


def prepared(
    folder: Path, machine: Path, url: str, arm: dict, *, more: str = "", database: Path | None = None, **changes: Any
) -> Campaign:
    (folder / "protocol").mkdir(parents=True)
    write_prompts(folder / "protocol")
    wanted: dict[str, Any] = {**PROTOCOL, **NOTHING_FREE, "arms": [F16, arm, Q4_0], **changes}
    if arm.get("engine") in ("generic", "tgi"):
        wanted |= {name: PROTOCOL[name] for name in ("chat", "rollouts")}
    campaign = new_campaign(
        folder, machine, database, {name: value for name, value in wanted.items() if value is not None}
    )
    tokenizer = tokenizer_folder(folder / "tokenizer", SIZE)
    models = {name: json.dumps(str(machine.parent / f"{name}.gguf")) for name in ("f16", "q4_0")}
    campaign.machine = folder / "drift.toml"
    campaign.machine.write_text(
        f'schema = "drift.machine/1"\n[defaults]\nthreads = 1\n[arms.f16]\nmodel = {models["f16"]}\n'
        f"[arms.q4_0]\nmodel = {models['q4_0']}\n"
        f'[arms.{arm["name"]}]\nurl = "{url}"\ntokenizer = {json.dumps(str(tokenizer))}\n{more}\n',
        "utf-8",
    )
    return campaign


@pytest.mark.parametrize("name", REFUSALS)
def test_what_a_server_refuses_at_planning_costs_its_arm(name: str, tmp_path: Path, tiny_arms: Path) -> None:
    arm, pages, more, kind, words = REFUSALS[name]
    with answering(pages) as server:
        campaign = prepared(tmp_path / "one", tiny_arms, server.url, arm, more=more)
        found: list[LeftOut] = []
        assert list(campaign.executions(left_out=found)) == ["f16", "q4_0"]
        with pytest.raises(kind, match=words):
            campaign.executions()
    ((left_out, error),) = found
    assert left_out == "odd" and isinstance(error, kind) and words in error.line()


def test_its_launches_and_floors_go_with_it_and_the_others_run(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    floor = {"name": "cold", "arm": "odd", "kind": "geometry", "rows": "differ", "settings": {"cache_prompt": False}}
    with answering({**LLAMA, "/v1/models": TWO}) as server:
        campaign = prepared(tmp_path / "one", tiny_arms, server.url, SERVER, database=empty_database, floors=[floor])
        assert main([*campaign.arguments(), "--json"]) == 5
        said = capsys.readouterr()
        content = json.loads(said.out)
        assert [arm["arm"] for arm in content["arms"]] == ["q4_0"] and content["arms"][0]["error"] is None
        ((arm, why),) = [found.values() for found in content["left_out"]]
        assert arm == "odd" and "lists 2 models, and none is named" in why and "expected one of one, two" in why
        assert f"drift: arm odd was left out: {why}" in said.err and "no server answers" not in said.err
        (record,) = campaign.records()
        assert not record.complete and [found.arm for found in record.arms if found.complete] == ["q4_0"]
        assert main([*campaign.arguments("plan"), "--json"]) == 5
        said = capsys.readouterr()
        (silent,) = json.loads(said.out)["servers"]
        assert (silent["name"], silent["state"], silent["why"]) == ("odd", "left out", why)
        assert f"drift: arm odd is left out: {why}" in said.err


def test_a_reference_that_refuses_stops_everything(
    tmp_path: Path, tiny_arms: Path, empty_database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arm = {**SERVER, "role": "reference"}
    with answering({**LLAMA, "/v1/models": TWO}) as server:
        campaign = prepared(
            tmp_path / "one", tiny_arms, server.url, arm, database=empty_database, arms=[arm, {**Q4_0, **DECODE}]
        )
        with pytest.raises(ServedOtherwise):
            campaign.executions(left_out=[])
        assert main(campaign.arguments()) == 2
        assert campaign.records() == [] and not (campaign.root / "captures").exists()
        capsys.readouterr()
        assert main([*campaign.arguments("plan"), "--json"]) == 5
        content = json.loads(capsys.readouterr().out)
        assert [found["name"] for found in content["servers"]] == ["odd"] and content["probe"] is None


WRONG: dict[str, tuple[Callable[[str], str], type[DriftError]]] = {
    "no table": (lambda text: text.replace("[arms.odd]", "[arms.other]"), ConfigError),
    "no address": (lambda text: "\n".join(line for line in text.split("\n") if "url" not in line), ConfigError),
    "no key": (lambda text: f'{text}key_env = "NOT_SET_ANYWHERE"\n', ConfigError),
    "no tokenizer": (lambda text: "\n".join(line for line in text.split("\n") if "tokenizer" not in line), ConfigError),
    "no tokenizer there": (lambda text: text.replace("/tokenizer", "/nowhere"), ModelFileError),
    "no weights": (lambda text: f'{text}model = "nowhere.gguf"\n', ModelFileError),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_the_machine_file_stops_everything(name: str, tmp_path: Path, tiny_arms: Path) -> None:
    change, kind = WRONG[name]
    with answering(SILENT) as server:
        campaign = prepared(tmp_path / "one", tiny_arms, server.url, WRITER)
        campaign.machine.write_text(change(campaign.machine.read_text("utf-8")), "utf-8")
        found: list[LeftOut] = []
        with pytest.raises(kind) as caught:
            campaign.executions(left_out=found)
    assert found == [] and not isinstance(caught.value, ServedOtherwise)


def test_an_engine_without_its_library_costs_its_arms(
    tmp_path: Path, tiny_arms: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drift_runs.capture import observed

    def missing(engine: str, _: object) -> None:
        raise EngineMissing(f"{engine} is not installed", todo="install it")

    monkeypatch.setattr(observed, "process_identity", missing)
    arm = {**Q4_0, "name": "odd", "weights": "f16", "engine": "transformers"}
    campaign = prepared(tmp_path / "one", tiny_arms, "http://127.0.0.1:9", arm)
    text = campaign.machine.read_text("utf-8")
    campaign.machine.write_text(f"{text}model = {json.dumps(str(tiny_arms.parent / 'f16.gguf'))}\n", "utf-8")
    found: list[LeftOut] = []
    assert list(campaign.executions(left_out=found)) == ["f16", "q4_0"]
    assert [(left.arm, type(left.error)) for left in found] == [("odd", EngineMissing)]


def test_rows_that_are_known_stay_where_the_server_refuses_now(tmp_path: Path, tiny_arms: Path) -> None:
    """What it said when it last served is in the store; whole rows need no server."""
    from drift_runs.store import Store

    with answering({"/v1/models": ONE, "/version": {"version": "1"}}) as server:
        campaign = prepared(tmp_path / "one", tiny_arms, server.url, {**SERVER, "engine": "vllm"})
        store = Store(tmp_path / "store")
        store.open(create=True)
        first = campaign.executions(store=store)["odd"]
        server.pages["/v1/models"] = TWO
        found: list[LeftOut] = []
        again = campaign.executions(store=store, left_out=found)["odd"]
    assert found == [] and again.capture_id == first.capture_id
    assert first.remembered is None and "lists 2 models" in again.remembered.why
