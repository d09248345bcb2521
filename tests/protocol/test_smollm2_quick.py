"""The demo's protocol holds what it promises: counts, kinds, histories, documents, no loops, text beside ids."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from drift_runs.authoring.recipe import load_recipe
from drift_runs.authoring.source import render
from drift_runs.generate.loops import loop_report
from drift_runs.protocol.load import LoadedProtocol, find_protocol, load_followups, load_protocol
from drift_runs.protocol.model import RANGE_KINDS
from drift_runs.protocol.streams import decode_text, dictionary_sha256, stream_bytes

PROTOCOLS = Path(__file__).parents[2] / "protocols"


@pytest.fixture(scope="module")
def loaded() -> LoadedProtocol:
    return load_protocol(PROTOCOLS / "smollm2-quick.toml")


def scored(loaded: LoadedProtocol, panel: str = "") -> int:
    return sum(
        end - start for window in loaded.protocol.windows if panel in ("", window.panel) for start, end in window.scored
    )


def test_it_is_frozen_and_is_the_one_that_the_demo_finds(loaded: LoadedProtocol) -> None:
    assert not loaded.draft
    assert find_protocol("smollm2-quick").resolve() == loaded.path.resolve()


def test_two_panels_of_either_role(loaded: LoadedProtocol) -> None:
    assert [(panel.name, panel.role) for panel in loaded.protocol.panels] == [("P-A", "prompt"), ("P-B", "generated")]


def test_counts(loaded: LoadedProtocol) -> None:
    assert len(loaded.protocol.windows) >= 14
    assert scored(loaded) >= 3000
    assert 0.5 <= scored(loaded, "P-B") / scored(loaded) <= 0.55
    # A quick run is the point: the engine takes about 4 s for every 1,000 tokens of an arm.
    assert sum(len(stream.tokens) for stream in loaded.streams.values()) <= 8_500


def test_every_kind_has_a_range_and_every_range_is_long_enough_for_a_tail(loaded: LoadedProtocol) -> None:
    assert {item.kind for item in loaded.protocol.ranges} == set(RANGE_KINDS)
    assert min(item.end - item.start for item in loaded.protocol.ranges) >= 200


def test_ranges_cover_exactly_what_is_scored(loaded: LoadedProtocol) -> None:
    for window in loaded.protocol.windows:
        spans = tuple((item.start, item.end) for item in loaded.protocol.ranges if item.window == window.name)
        assert spans == window.scored, window.name


def test_each_output_is_one_range_from_the_end_of_its_prompt(loaded: LoadedProtocol) -> None:
    for window in loaded.protocol.windows:
        stream = loaded.streams[window.name]
        if loaded.protocol.panel(window.panel).role == "generated":
            assert stream.source == "generated"
            assert window.scored == ((stream.prompt_tokens, len(stream.tokens)),)
            assert {"weights_sha256", "engine", "build", "mode"} <= set(stream.recorded)
        else:
            assert (stream.source, stream.prompt_tokens) == ("authored", 0)


def test_two_windows_are_scored_beyond_a_history_of_1100(loaded: LoadedProtocol) -> None:
    assert sum(window.scored[-1][0] > 1100 for window in loaded.protocol.windows) >= 2


def test_documents_with_several_windows(loaded: LoadedProtocol) -> None:
    several = [document for document, n in Counter(w.document for w in loaded.protocol.windows).items() if n > 1]
    assert len(several) >= 2


def test_windows_that_share_a_beginning_are_one_document(loaded: LoadedProtocol) -> None:
    windows = loaded.protocol.windows
    for one in windows:
        for two in windows:
            if one.document != two.document:
                first, second = loaded.streams[one.name].tokens, loaded.streams[two.name].tokens
                # System prompts open alike; a document of its own starts to differ before anything is scored.
                assert first[:64] != second[:64], (one.name, two.name)


def test_no_scored_span_repeats_itself(loaded: LoadedProtocol) -> None:
    for window in loaded.protocol.windows:
        for start, end in window.scored:
            report = loop_report(loaded.streams[window.name].tokens[start:end])
            assert not report.is_loop, (window.name, report)


def test_one_outlier_and_its_reason_is_true(loaded: LoadedProtocol) -> None:
    (outlier,) = loaded.protocol.outliers
    assert outlier.window == "pa-japanese"
    text = loaded.streams[outlier.window].text
    assert sum(ord(character) > 0x3000 for character in text) > 0.8 * len(text)
    others = [stream.text for name, stream in loaded.streams.items() if name != outlier.window]
    assert all(character < "\u2000" for text in others for character in text)


def test_tools_of_a_call_are_beside_it(loaded: LoadedProtocol) -> None:
    for item in loaded.protocol.ranges:
        if item.kind in ("tool-call", "multi-tool"):
            stream = loaded.streams[item.window]
            names = {tool["function"]["name"] for tool in stream.tools}
            assert "run_command" in names
            assert all(f'"name": "{name}"' in stream.text for name in names)
            assert all(tool["function"]["parameters"]["type"] == "object" for tool in stream.tools)


def test_arms_and_floors(loaded: LoadedProtocol) -> None:
    protocol = loaded.protocol
    assert protocol.reference.name == "f16"
    assert {arm.name for arm in protocol.arms if arm.role == "candidate"} == {
        *("q8_0", "q5_0", "q4_0", "q4_1", "kv-q8_0", "kv-q4_0", "fa-off", "ablated")
    }
    floors = {floor.name: floor for floor in protocol.floors}
    assert {name: (floor.kind, floor.rows) for name, floor in floors.items()} == {
        "launch": ("launch", "identical"),
        "pass": ("pass", "identical"),
        "threads": ("geometry", "identical"),
        "micro-batch": ("geometry", "differ"),
    }
    assert floors["micro-batch"].windows == ()
    tokens = {name: len(stream.tokens) for name, stream in loaded.streams.items()}
    share = sum(tokens[name] for name in floors["launch"].windows) / sum(tokens.values())
    assert floors["threads"].windows == floors["pass"].windows == floors["launch"].windows
    assert 0.12 <= share <= 0.18
    assert any("dequantised to F16" in note for note in protocol.notes)


def test_the_follow_up_leaves_the_digest_as_it_is(loaded: LoadedProtocol) -> None:
    (arm,) = load_followups(PROTOCOLS / "smollm2-quick.followups.toml", loaded)
    assert (arm.name, arm.kv, arm.role) == ("kv-bf16", "bf16", "follow-up")


def test_streams_are_in_the_one_form_and_belong_to_their_recipe(loaded: LoadedProtocol) -> None:
    recipe = load_recipe(PROTOCOLS / "smollm2-quick.recipe.toml")
    assert [window.name for window in recipe.windows] == [window.name for window in loaded.protocol.windows]
    for window in recipe.windows:
        stream = loaded.streams[window.name]
        file = PROTOCOLS / recipe.streams / f"{window.name}.json"
        assert file.read_bytes() == stream_bytes(stream)
        rendered = render(PROTOCOLS / recipe.sources / window.source)
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
    assert (len(table), dictionary_sha256(table)) == (
        loaded.protocol.dictionary.size,
        loaded.protocol.dictionary.sha256,
    )
    for name, stream in loaded.streams.items():
        assert decode_text(stream.tokens, table) == stream.text, name
