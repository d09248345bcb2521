"""The operations protocol holds what it promises: tasks that are passed, every kind, room for tails, no loops."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from drift_runs.authoring.recipe import load_recipe
from drift_runs.authoring.source import render
from drift_runs.cli.check import scored_in_range
from drift_runs.generate.answer_forms import answer_text, form_report
from drift_runs.generate.environment import recorded_results
from drift_runs.generate.loops import loop_report
from drift_runs.generate.tools import WellFormed, parse_calls
from drift_runs.protocol.amend import superseded_lock
from drift_runs.protocol.load import LoadedProtocol, load_followups, load_protocol
from drift_runs.protocol.model import RANGE_KINDS
from drift_runs.protocol.streams import decode_text, dictionary_sha256, stream_bytes
from drift_runs.weights.demo import OPS

PROTOCOLS = Path(__file__).parents[2] / "protocols"
RECIPE = load_recipe(PROTOCOLS / "smollm2-ops.recipe.toml")


@pytest.fixture(scope="module")
def loaded() -> LoadedProtocol:
    if not (PROTOCOLS / RECIPE.streams).is_dir():
        pytest.skip("the streams of smollm2-ops are not recorded yet")
    return load_protocol(PROTOCOLS / "smollm2-ops.toml")


def scored(loaded: LoadedProtocol, panel: str) -> int:
    return sum(end - start for one in loaded.protocol.windows if one.panel == panel for start, end in one.scored)


def test_it_is_frozen_and_supersedes_the_first_demo(loaded: LoadedProtocol) -> None:
    assert not loaded.draft
    lock = superseded_lock(loaded)
    assert lock is not None
    assert lock.protocol["name"] == "smollm2-quick"


def test_panels_and_their_sizes(loaded: LoadedProtocol) -> None:
    roles = [(panel.name, panel.role) for panel in loaded.protocol.panels]
    assert roles == [("P-T", "generated"), ("P-A", "prompt"), ("P-B", "generated")]
    assert scored(loaded, "P-T") >= 11 * 210
    # A quick run is the point: the engine takes about 4 s for every 1,000 tokens of an arm. The first demo has 8,251.
    assert sum(len(stream.tokens) for stream in loaded.streams.values()) <= 8_400
    assert len({window.document for window in loaded.protocol.windows}) >= 18


def test_every_kind_has_a_range_and_every_range_is_long_enough_for_a_tail(loaded: LoadedProtocol) -> None:
    assert {item.kind for item in loaded.protocol.ranges} == set(RANGE_KINDS)
    for item in loaded.protocol.ranges:
        assert scored_in_range(loaded.protocol, item) >= 200, item.name


def test_of_the_tasks_the_answers_alone_are_scored_and_each_lies_in_one_range(loaded: LoadedProtocol) -> None:
    protocol = loaded.protocol
    for window in protocol.windows:
        answers = tuple((one.start, one.end) for one in protocol.answers if one.window == window.name)
        if window.panel == "P-T":
            assert window.scored == answers, window.name
            (item,) = [item for item in protocol.ranges if item.window == window.name]
            assert (item.start, item.end) == (answers[0][0], answers[-1][1])
            assert loaded.streams[window.name].recorded["mode"] == "passed"
        else:
            assert not answers
    assert len(protocol.answers) >= 40


def test_answers_have_their_form_and_calls_are_what_their_kind_says(loaded: LoadedProtocol) -> None:
    report = form_report(loaded)
    assert (report.errors, report.unknown) == ((), ())
    kinds = {item.window: item.kind for item in loaded.protocol.ranges}
    forms = Counter((kinds[answer.window], answer.form) for answer in loaded.protocol.answers)
    assert all(forms[kind, "call"] >= 4 for kind in ("tool-call", "multi-tool", "recovery"))
    assert forms["json", "json"] >= 3
    assert set(forms) >= {(kind, "text") for kind in ("literal-copy", "sql", "cli")}
    for answer in loaded.protocol.answers:
        if kinds[answer.window] == "multi-tool":
            parsed = parse_calls(answer_text(loaded.streams[answer.window], answer) or "")
            assert isinstance(parsed, WellFormed)
            assert len(parsed.calls) >= 2, answer.name


def test_a_recovery_follows_an_error(loaded: LoadedProtocol) -> None:
    for item in loaded.protocol.ranges:
        if item.kind == "recovery":
            assert loaded.streams[item.window].text.count('<|im_start|>tool\n{"error": ') >= 2, item.window


def test_no_range_repeats_itself(loaded: LoadedProtocol) -> None:
    for item in loaded.protocol.ranges:
        spans = loaded.protocol.window(item.window).scored
        tokens = loaded.streams[item.window].tokens
        inside = [t for s, e in spans if item.start <= s and e <= item.end for t in tokens[s:e]]
        assert not loop_report(inside).is_loop, item.name


def test_the_one_outlier_is_the_text_that_the_tokenizer_was_not_made_for(loaded: LoadedProtocol) -> None:
    (outlier,) = loaded.protocol.outliers
    assert outlier.window == "pa-japanese"
    first = load_protocol(PROTOCOLS / "smollm2-quick.toml")
    assert loaded.streams["pa-japanese"].tokens == first.streams["pa-japanese"].tokens
    assert outlier.reason == first.protocol.outliers[0].reason


def test_the_notes_say_how_often_the_reference_is_right(loaded: LoadedProtocol) -> None:
    kept = json.loads((PROTOCOLS / RECIPE.sources / "drawn.json").read_text(encoding="utf-8"))
    passed, drawn = kept["all"]["answers_passed"], kept["all"]["answers_drawn"]
    assert passed == sum(one["answers_passed"] for one in kept["windows"].values()) > 0
    assert any(f"the reference passed {passed} of {drawn} (" in note for note in loaded.protocol.notes)
    assert kept["all"]["answers"] == len(loaded.protocol.answers)
    assert kept["all"]["scored_tokens"] == scored(loaded, "P-T")
    assert {stream.recorded["weights_sha256"] for stream in loaded.streams.values() if stream.recorded.get("mode")} == {
        kept["reference_sha256"]
    }


def test_arms_are_those_of_the_demo_and_floors_are_the_references(loaded: LoadedProtocol) -> None:
    protocol = loaded.protocol
    (follow_up,) = load_followups(PROTOCOLS / "smollm2-ops.followups.toml", loaded)
    assert (follow_up.name, follow_up.settings.adapter_scale) == ("adapter-loaded", 1.0)
    assert {arm.name for arm in protocol.arms} | {follow_up.name} == OPS.arms.keys() | OPS.same_model.keys()
    assert protocol.reference.name == OPS.reference
    assert {arm.name: arm.weights for arm in protocol.arms if arm.name in OPS.arms} == {
        name: recipe.weights for name, recipe in OPS.arms.items() if name != follow_up.name
    }
    derivatives = {arm.derivative for arm in protocol.arms}
    assert derivatives == {"ops", "base", "adapter-0.5", "adapter-1.5", "ablated"}
    assert {floor.arm for floor in protocol.floors} == {"f16"}
    assert next(floor for floor in protocol.floors if floor.name == "micro-batch").windows == ()


def test_streams_are_in_the_one_form_and_belong_to_their_recipe(loaded: LoadedProtocol) -> None:
    assert [window.name for window in RECIPE.windows] == [window.name for window in loaded.protocol.windows]
    for window in RECIPE.windows:
        stream = loaded.streams[window.name]
        assert (PROTOCOLS / RECIPE.streams / f"{window.name}.json").read_bytes() == stream_bytes(stream)
        rendered = render(PROTOCOLS / RECIPE.sources / window.source)
        assert rendered.tools == stream.tools
        assert stream.text.startswith(rendered.text) if window.generate else stream.text == rendered.text


def test_text_and_dictionary_are_those_of_the_model(loaded: LoadedProtocol, smollm2: Path) -> None:
    from drift_runs.engines.base import EngineSettings
    from drift_runs.engines.llama_cpp import LlamaCpp

    settings = EngineSettings(
        path_shape="prefill", context_tokens=64, batch=64, micro_batch=64, threads=1, kv="f16", flash_attention="on"
    )
    with LlamaCpp(smollm2, settings) as engine:
        table = engine.token_bytes()
    dictionary = loaded.protocol.dictionary
    assert dictionary is not None
    assert (len(table), dictionary_sha256(table)) == (dictionary.size, dictionary.sha256)
    for name, stream in loaded.streams.items():
        assert decode_text(stream.tokens, table) == stream.text, name


def test_what_is_generated_is_asked_of_what_the_reference_passes(loaded: LoadedProtocol) -> None:
    protocol = loaded.protocol
    answers = {answer.name: answer for answer in protocol.answers}
    assert {task.name for task in protocol.tasks} <= set(answers)
    for task in protocol.tasks:
        answer = answers[task.name]
        assert (task.window, task.at) == (answer.window, answer.start)
        assert task.check == {"call": "calls", "json": "json", "text": "literals"}[answer.form]
        text = loaded.streams[task.window].text
        assert all(text.count(literal) > 1 for literal in task.expected), "it stands before, and in the answer"
    # A text that copies nothing cannot be checked so; every call and JSON value can.
    missing = [answer.form for name, answer in answers.items() if name not in {task.name for task in protocol.tasks}]
    assert set(missing) <= {"text"} and len(missing) <= 2


def test_the_rollouts_have_the_ids_of_the_whole_panel(loaded: LoadedProtocol) -> None:
    assert loaded.prompts is not None and loaded.prompt_ids is not None
    assert [prompt.name for prompt in loaded.prompts.prompts] == list(loaded.prompt_ids.ids)
    assert sum(prompt.quick for prompt in loaded.prompts.prompts) == 32
    assert loaded.prompt_ids.dictionary_sha256 == loaded.protocol.dictionary.sha256


def test_windows_with_recorded_tools_have_calls_that_were_answered(loaded: LoadedProtocol) -> None:
    protocol = loaded.protocol
    assert protocol.chat is not None and protocol.branches is not None
    for environment in protocol.environments:
        for name in environment.windows:
            stream = loaded.streams[name]
            assert recorded_results(stream.text, protocol.branches.syntax, protocol.chat, tools=stream.tools), name
