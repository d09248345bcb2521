"""llama.cpp on the tiny model: what it refuses, what is repeatable, and which geometries differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drift_runs.engines.llama_cpp import LlamaCpp, identity
from drift_runs.errors import ConfigError, ContextOverflow, EngineError, ModelFileError
from tests.conftest import tiny_dictionary
from tests.engines.conftest import Opener, rows, settings
from tests.tiny_model import write_tiny_model


class TestRefusals:
    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ModelFileError, match=r"none\.gguf: no such file; expected a GGUF model"):
            LlamaCpp(tmp_path / "none.gguf", settings())

    @pytest.mark.parametrize("kept", [0.0, 0.05, 0.5, 0.999])
    def test_a_file_that_is_cut(self, tmp_path: Path, tiny_arms: Path, kept: float) -> None:
        whole = (tiny_arms.parent / "f16.gguf").read_bytes()
        cut = tmp_path / "cut.gguf"
        cut.write_bytes(whole[: int(len(whole) * kept)])
        with pytest.raises(ModelFileError, match=r"cut\.gguf: llama\.cpp cannot load it: .+; expected a whole GGUF"):
            LlamaCpp(cut, settings())

    def test_a_file_that_is_no_gguf(self, tmp_path: Path) -> None:
        text = tmp_path / "readme.gguf"
        text.write_text("This is a text.\n" * 100)
        with pytest.raises(ModelFileError, match=r"readme\.gguf"):
            LlamaCpp(text, settings())

    def test_a_quantised_v_cache_without_flash_attention(self, open_tiny: Opener) -> None:
        with pytest.raises(ConfigError, match="a q8_0 V cache needs flash attention"):
            open_tiny(kv="q8_0", flash_attention="off")

    def test_an_unknown_kv_type(self, open_tiny: Opener) -> None:
        with pytest.raises(ConfigError, match=r"unknown KV type 'q2_k'; expected one of f32, f16"):
            open_tiny(kv="q2_k")

    def test_a_window_longer_than_the_context(self, open_tiny: Opener, tokens: list[int]) -> None:
        engine = open_tiny(context_tokens=32, batch=32)
        with pytest.raises(ContextOverflow, match=r"40 tokens do not fit; expected at most 32"):
            rows(engine, tokens)
        assert len(rows(engine, tokens[:33])) == 32, "what fits exactly is scored, and the engine is still of use"

    def test_going_on_beyond_the_context(self, open_tiny: Opener, tokens: list[int]) -> None:
        engine = open_tiny(context_tokens=32, batch=32)
        engine.start(tokens[:32])
        with pytest.raises(ContextOverflow, match="33 tokens"):
            engine.append(3)

    @pytest.mark.parametrize("token", [-1, 32])
    def test_a_token_outside_the_dictionary(self, open_tiny: Opener, tokens: list[int], token: int) -> None:
        with pytest.raises(ConfigError, match="outside the dictionary of 32"):
            rows(open_tiny(), [*tokens[:5], token, *tokens[5:10]])

    @pytest.mark.parametrize("positions", [[0], [0, 1], [41], [3, 2], [2, 2]])
    def test_positions_that_cannot_be(self, open_tiny: Opener, tokens: list[int], positions: list[int]) -> None:
        assert len(tokens) == 41
        with pytest.raises(ConfigError, match="ascending positions from 1 to the last token"):
            rows(open_tiny(), tokens, positions)

    def test_an_empty_history(self, open_tiny: Opener) -> None:
        engine = open_tiny()
        with pytest.raises(ConfigError, match="one token or more"):
            engine.start([])


class TestRepeatable:
    def test_a_second_pass_gives_the_same_bytes(self, open_tiny: Opener, tokens: list[int]) -> None:
        engine = open_tiny()
        first = rows(engine, tokens)
        rows(engine, tokens[::-1])
        assert rows(engine, tokens).tobytes() == first.tobytes()

    @pytest.mark.parametrize("changed", [{"threads": 2}, {"batch": 7, "micro_batch": 7}, {"context_tokens": 128}])
    def test_what_must_not_matter_does_not(self, open_tiny: Opener, tokens: list[int], changed: dict) -> None:
        assert rows(open_tiny(**changed), tokens).tobytes() == rows(open_tiny(), tokens).tobytes()

    def test_two_engines_in_one_process_do_not_meet(self, open_tiny: Opener, tokens: list[int], tmp_path: Path) -> None:
        other = write_tiny_model(tmp_path / "other.gguf", seed=2)
        alone, alone_other = rows(open_tiny(), tokens), rows(open_tiny(other), tokens)
        one, two = open_tiny(), open_tiny(other)
        mixed, mixed_other = [], []
        for block, block_other in zip(one.score(tokens, range(1, 41)), two.score(tokens, range(1, 41)), strict=True):
            mixed.append(block.logits.copy())
            mixed_other.append(block_other.logits.copy())
        assert np.concatenate(mixed).tobytes() == alone.tobytes()
        assert np.concatenate(mixed_other).tobytes() == alone_other.tobytes()
        assert not np.array_equal(alone, alone_other)

    def test_closing_twice_is_harmless(self, open_tiny: Opener, tokens: list[int]) -> None:
        with open_tiny() as engine:
            rows(engine, tokens[:4])
        engine.close()
        engine.close()
        with pytest.raises(EngineError, match="closed"):
            rows(engine, tokens[:4])


class TestGeometry:
    @pytest.mark.parametrize("changed", [{"path_shape": "decode"}, {"micro_batch": 1}])
    def test_one_token_at_a_time_differs_in_bytes_and_agrees(
        self, open_tiny: Opener, tokens: list[int], changed: dict
    ) -> None:
        prefill, other = rows(open_tiny(), tokens), rows(open_tiny(**changed), tokens)
        assert prefill.tobytes() != other.tobytes()
        np.testing.assert_allclose(prefill, other, atol=0.05)
        assert np.ptp(prefill) > 1, "a model that says the same everywhere would agree with anything"

    @pytest.mark.parametrize(("kv", "least"), [("bf16", 1e-3), ("q8_0", 1e-2), ("q4_0", 1e-1)])
    def test_a_kv_type_takes_effect(self, open_tiny: Opener, tokens: list[int], kv: str, least: float) -> None:
        difference = np.abs(rows(open_tiny(kv=kv), tokens) - rows(open_tiny(), tokens)).max()
        assert least < difference < 5

    def test_flash_attention_takes_effect(self, open_tiny: Opener, tokens: list[int]) -> None:
        on, off = rows(open_tiny(), tokens), rows(open_tiny(flash_attention="off"), tokens)
        assert on.tobytes() != off.tobytes()
        np.testing.assert_allclose(on, off, atol=0.05)

    def test_rows_stand_at_their_positions(self, open_tiny: Opener, tokens: list[int]) -> None:
        engine = open_tiny(batch=16)
        every = rows(engine, tokens)
        chosen = [1, 2, 15, 16, 17, 31, 32, 33, 40]
        blocks = [(block.positions.copy(), block.logits.copy()) for block in engine.score(tokens, chosen)]
        assert [position for positions, _ in blocks for position in positions] == chosen
        np.testing.assert_allclose(
            np.concatenate([logits for _, logits in blocks]), every[[at - 1 for at in chosen]], atol=0.05
        )

    def test_nothing_is_scored_for_no_position(self, open_tiny: Opener, tokens: list[int]) -> None:
        assert list(open_tiny().score(tokens, [])) == []

    def test_going_on_is_decoding(self, open_tiny: Opener, tokens: list[int]) -> None:
        decoded = rows(open_tiny(path_shape="decode"), tokens)
        engine = open_tiny()
        stepped = [engine.start(tokens[:1]), *(engine.append(token) for token in tokens[1:-1])]
        assert np.stack(stepped).tobytes() == decoded.tobytes()

    def test_a_long_start_agrees_with_scoring(self, open_tiny: Opener, tokens: list[int]) -> None:
        engine = open_tiny(batch=16)
        every = rows(engine, tokens)
        np.testing.assert_allclose(engine.start(tokens[:30]), every[29], atol=0.05)
        np.testing.assert_allclose(engine.append(tokens[30]), every[30], atol=0.05)

    def test_going_on_after_a_rewind_is_going_on(self, open_tiny: Opener, tokens: list[int]) -> None:
        engine = open_tiny()
        engine.start(tokens[:12])
        straight = [engine.append(token) for token in (3, 4, 5)]
        engine.start(tokens[:12])
        for token in (9, 8, 7, 6):
            engine.append(token)
        engine.rewind(12)
        assert [engine.append(token).tobytes() for token in (3, 4, 5)] == [row.tobytes() for row in straight]
        rows(engine, tokens)
        engine.rewind(12)
        np.testing.assert_allclose(engine.append(3), straight[0], atol=0.05)

    @pytest.mark.parametrize("count", [-1, 0, 13])
    def test_a_rewind_to_what_was_not_evaluated(self, open_tiny: Opener, tokens: list[int], count: int) -> None:
        engine = open_tiny()
        engine.start(tokens[:12])
        with pytest.raises(ConfigError, match=f"cannot keep {count} tokens; expected 1 to 12"):
            engine.rewind(count)

    def test_a_batch_behind_a_history_gives_the_rows_of_the_whole(self, open_tiny: Opener, tokens: list[int]) -> None:
        engine = open_tiny()
        every = rows(engine, tokens)
        engine.reset()
        np.testing.assert_allclose(engine.extend(tokens[:12], [4, 11])[1], every[11], atol=0.05)
        got = engine.extend(tokens[12:20], [0, 3, 7])
        np.testing.assert_allclose(got, [every[12], every[15], every[19]], atol=0.05)
        engine.rewind(12)
        again = engine.extend(tokens[12:20], [0, 3, 7])
        np.testing.assert_allclose(again, got, atol=0.05)
        for wanted in ([3, 3], [-1], [8], [4, 2]):
            with pytest.raises(ConfigError, match="logits wanted"):
                engine.extend(tokens[12:20], wanted)
        assert engine.extend(tokens[20:22], []).shape == (0, got.shape[1])
        with pytest.raises(ConfigError, match="0 tokens at once"):
            engine.extend([], [])

    def test_logits_of_a_start_are_a_copy(self, open_tiny: Opener, tokens: list[int]) -> None:
        engine = open_tiny()
        first = engine.start(tokens[:5])
        kept = first.copy()
        engine.append(7)
        assert np.array_equal(first, kept)


def test_token_bytes_are_the_dictionary(open_tiny: Opener) -> None:
    engine = open_tiny()
    assert engine.dictionary_size == 32
    assert engine.token_bytes() == tiny_dictionary()


def test_ends_of_generation_are_known(open_tiny: Opener) -> None:
    engine = open_tiny()
    assert [token for token in range(32) if engine.ends_generation(token)] == [1]


def test_identity_names_the_processor_and_the_build() -> None:
    found = identity()
    assert (found.engine, found.backend) == ("llama_cpp", "cpu")
    assert found.build.startswith("xllamacpp 20")
    assert len(found.hardware) > 10 and "\n" not in found.hardware
    assert identity() == found


class TestDemoModel:
    """A real dictionary and real weights; few tokens."""

    TEXT = "<|im_start|>user\nDon't: naïve café, 東京 12:30, Ω≠ω, 🙂, \tif (x) { y += 3; }\n<|im_end|>"

    def test_bytes_of_tokens_give_the_text_back(self, smollm2: Path) -> None:
        with LlamaCpp(smollm2, settings()) as engine:
            ids, table = engine.tokenize(self.TEXT), engine.token_bytes()
            assert b"".join(table[token] for token in ids).decode() == self.TEXT
            assert table[ids[0]] == b"<|im_start|>" and engine.ends_generation(ids[-1])
            assert engine.tokenize("<|im_end|>", special=False) != ids[-1:]
            assert len(table) == engine.dictionary_size == 49_152
            assert 130e6 < engine.parameters < 140e6

    def test_geometry_and_threads(self, smollm2: Path) -> None:
        text = "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is"
        with LlamaCpp(smollm2, settings()) as engine:
            ids = engine.tokenize(text)
            prefill = rows(engine, [*ids, 0])
            best = engine.token_bytes()[int(prefill[-1].argmax())]
        assert best == b" Madrid"
        with LlamaCpp(smollm2, settings(threads=2)) as engine:
            assert rows(engine, [*ids, 0]).tobytes() == prefill.tobytes()
        with LlamaCpp(smollm2, settings(path_shape="decode")) as engine:
            decode = rows(engine, [*ids, 0])
        assert np.abs(decode - prefill).max() < 2.0
        assert (decode.argmax(axis=1) == prefill.argmax(axis=1)).mean() > 0.8


@pytest.mark.parametrize(("add_bos", "expected"), [(False, None), (True, 0)])
def test_the_token_that_a_vocabulary_puts_in_front(tmp_path: Path, add_bos: bool, expected: int | None) -> None:
    with LlamaCpp(write_tiny_model(tmp_path / "tiny.gguf", add_bos=add_bos), settings()) as engine:
        assert engine.automatic_bos == expected
