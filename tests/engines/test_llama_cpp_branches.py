"""Branches on the tiny model: the capture's history, the same bytes in any order, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from drift_runs.engines.llama_cpp import LlamaCpp
from drift_runs.engines.llama_cpp_branches import BranchingLlamaCpp
from drift_runs.errors import ConfigError, ContextOverflow, EngineError
from drift_runs.generate.future import Scene
from drift_runs.generate.futures import Rule, follow
from drift_runs.protocol.generation import Environment
from tests.conftest import tiny_dictionary
from tests.engines.conftest import Opener, rows, settings
from tests.tiny_model import vocabulary_name, write_tiny_model

BranchingOpener = Callable[..., BranchingLlamaCpp]
FUTURE = (3, 4, 5, 29, 7, 11)
SHAPES = [
    {},
    {"path_shape": "decode"},
    {"batch": 16, "micro_batch": 8},
    {"flash_attention": "off"},
    {"kv": "q8_0"},
    {"threads": 2},
]


@pytest.fixture
def open_branching(tiny_arms: Path) -> Iterator[BranchingOpener]:
    opened: list[BranchingLlamaCpp] = []

    def open_it(model: Path | None = None, branch_tokens: int | None = None, **changed: object) -> BranchingLlamaCpp:
        file = model or tiny_arms.parent / "f16.gguf"
        engine = BranchingLlamaCpp(file, settings(**changed), branch_tokens=branch_tokens)
        opened.append(engine)
        return engine

    yield open_it
    for engine in opened:
        engine.close()


def future(engine: LlamaCpp, tokens: tuple[int, ...] = FUTURE) -> np.ndarray:
    return np.stack([engine.append(token) for token in tokens])


def fresh(engine: LlamaCpp, history: list[int], tokens: tuple[int, ...] = FUTURE) -> np.ndarray:
    """The future behind a history of its own, in the path shape of the settings."""
    list(engine.score([*history, 0], [len(history)]))
    return future(engine, tokens)


class TestHeld:
    @pytest.mark.parametrize("changed", SHAPES)
    def test_the_history_is_the_captures_to_the_byte(
        self, open_tiny: Opener, open_branching: BranchingOpener, tokens: list[int], changed: dict
    ) -> None:
        captured = rows(open_tiny(**changed), tokens)
        held = open_branching(**changed).hold(tokens[:-1], range(len(tokens) - 1))
        assert held.tobytes() == captured.tobytes()

    def test_some_rows_of_it(self, open_tiny: Opener, open_branching: BranchingOpener, tokens: list[int]) -> None:
        wanted = [0, 6, 7, 8, 30, 39]
        held = open_branching(batch=8, micro_batch=8).hold(tokens, wanted)
        every = rows(open_tiny(batch=8, micro_batch=8), tokens)
        np.testing.assert_allclose(held, every[wanted], atol=0.05)

    def test_a_text_of_which_nothing_is_wanted(self, open_branching: BranchingOpener, tokens: list[int]) -> None:
        engine = open_branching()
        assert engine.hold(tokens, []).shape == (0, 32)
        engine.branch(10)
        assert future(engine).shape == (len(FUTURE), 32)

    def test_rows_are_a_copy(self, open_branching: BranchingOpener, tokens: list[int]) -> None:
        engine = open_branching()
        held = engine.hold(tokens, [20])
        kept = held.copy()
        engine.branch(21)
        future(engine)
        assert np.array_equal(held, kept)


class TestBranches:
    @pytest.mark.parametrize("changed", SHAPES)
    def test_the_order_of_roots_changes_no_bit(
        self, open_branching: BranchingOpener, tokens: list[int], changed: dict
    ) -> None:
        engine = open_branching(**changed)
        places = [12, 41, 1, 30, 29]

        def follow(count: int, length: int = len(FUTURE)) -> bytes:
            engine.branch(count)
            return future(engine, FUTURE[:length]).tobytes()

        engine.hold(tokens, [])
        first = {count: follow(count) for count in places}
        for count in places:
            follow(count, length=1 + count % 4)
        assert {count: follow(count) for count in reversed(places)} == first
        assert len(set(first.values())) == len(places)
        engine.hold(tokens[::-1], [])
        assert follow(12) != first[12]
        engine.hold(tokens, [])
        assert follow(30) == first[30], "what was held before leaves nothing behind"

    @pytest.mark.parametrize("changed", SHAPES)
    def test_a_branch_is_a_history_of_its_own(
        self, open_tiny: Opener, open_branching: BranchingOpener, tokens: list[int], changed: dict
    ) -> None:
        engine, other = open_branching(**changed), open_tiny(**changed)
        engine.hold(tokens, [])
        for count in (1, 12, 31, 41):
            engine.branch(count)
            np.testing.assert_allclose(future(engine), fresh(other, tokens[:count]), atol=0.05)

    def test_to_the_byte_in_decode_shape(
        self, open_tiny: Opener, open_branching: BranchingOpener, tokens: list[int]
    ) -> None:
        engine, other = open_branching(path_shape="decode"), open_tiny(path_shape="decode")
        engine.hold(tokens, [])
        for count in (1, 12, 31, 41):
            engine.branch(count)
            assert future(engine).tobytes() == fresh(other, tokens[:count]).tobytes()

    def test_what_lies_behind_the_root_is_not_seen(self, open_branching: BranchingOpener, tokens: list[int]) -> None:
        engine = open_branching(path_shape="decode")
        found = []
        for rest in (tokens[12:], tokens[:11:-1], []):
            engine.hold([*tokens[:12], *rest], [])
            engine.branch(12)
            found.append(future(engine).tobytes())
        assert found[0] == found[1] == found[2]


class TestStates:
    """What one engine's memory held, read by another."""

    @pytest.mark.parametrize("changed", SHAPES)
    def test_branches_are_those_of_the_held_text_to_the_byte(
        self, open_tiny: Opener, open_branching: BranchingOpener, tokens: list[int], tmp_path: Path, changed: dict
    ) -> None:
        capturing, held, engine = open_tiny(**changed), open_branching(**changed), open_branching(**changed)
        list(capturing.score(tokens, [5, len(tokens) - 1]))
        file = tmp_path / "new" / "a.state"
        assert capturing.keep_state(tokens, file)
        assert file.stat().st_size == capturing.state_bytes + 32 and [file] == list(file.parent.iterdir())
        held.hold(tokens[:-1], [])
        assert engine.take_state(tokens[:-1], file)
        for count in (len(tokens) - 1, 1, 12, 31):
            held.branch(count)
            engine.branch(count)
            assert future(engine).tobytes() == future(held).tobytes()

    def test_of_other_tokens_damaged_or_missing_it_is_not_taken(
        self, open_tiny: Opener, open_branching: BranchingOpener, tokens: list[int], tmp_path: Path
    ) -> None:
        capturing, engine = open_tiny(), open_branching()
        list(capturing.score(tokens, [len(tokens) - 1]))
        file = tmp_path / "a.state"
        assert capturing.keep_state(tokens, file)
        kept = file.read_bytes()
        assert not engine.take_state(tokens[:-2], file)
        assert not engine.take_state([*tokens[:-2], 7], file)
        assert not engine.take_state(tokens[:-1], tmp_path / "none.state")
        for damaged in (kept[:-1], kept[:40], b"", kept[:100] + bytes([kept[100] ^ 1]) + kept[101:]):
            file.write_bytes(damaged)
            assert not engine.take_state(tokens[:-1], file)
            with pytest.raises(ConfigError, match="no branch behind"):
                engine.branch(1)
        file.write_bytes(kept)
        assert engine.take_state(tokens[:-1], file)

    def test_of_another_kind_of_memory_it_is_not_taken(
        self, open_tiny: Opener, open_branching: BranchingOpener, tokens: list[int], tmp_path: Path
    ) -> None:
        capturing, engine = open_tiny(kv="q8_0"), open_branching()
        list(capturing.score(tokens, [len(tokens) - 1]))
        assert capturing.keep_state(tokens, tmp_path / "a.state")
        assert not engine.take_state(tokens[:-1], tmp_path / "a.state")
        engine.hold(tokens[:-1], [])
        engine.branch(3)
        assert np.isfinite(future(engine)).all()

    def test_where_nothing_can_be_written_it_says_so(
        self, open_tiny: Opener, tokens: list[int], tmp_path: Path
    ) -> None:
        capturing = open_tiny()
        list(capturing.score(tokens, [len(tokens) - 1]))
        (tmp_path / "file").write_text("")
        assert not capturing.keep_state(tokens, tmp_path / "file" / "a.state")


class TestRoom:
    def test_it_is_counted_by_positions_and_by_cells(self, open_branching: BranchingOpener, tokens: list[int]) -> None:
        engine = open_branching()
        engine.hold(tokens, [])
        engine.branch(41)
        assert engine.context_left == 64 - 41
        for left in range(22, -1, -1):
            engine.append(3)
            assert engine.context_left == left
        with pytest.raises(ContextOverflow, match="a branch of 24 tokens behind 41 does not fit"):
            engine.append(3)
        engine.branch(1)
        for _ in range(63):
            engine.append(3)
        assert engine.context_left == 0, "a whole context fits beside the held text"

    def test_less_room_may_be_asked_for(self, open_branching: BranchingOpener) -> None:
        engine = open_branching(context_tokens=250, batch=250, branch_tokens=6)
        engine.hold([3] * 250, [])
        engine.branch(100)
        assert engine.context_left == 6
        future(engine)
        with pytest.raises(ContextOverflow, match="250 positions, and 6 tokens a branch at most"):
            engine.append(3)

    def test_a_text_longer_than_the_context(self, open_branching: BranchingOpener, tokens: list[int]) -> None:
        with pytest.raises(ContextOverflow, match="41 tokens do not fit; expected at most 40"):
            open_branching(context_tokens=40, batch=40).hold(tokens, [])


class TestRefusals:
    @pytest.mark.parametrize("count", [-1, 0, 42])
    def test_a_branch_behind_what_is_not_held(
        self, open_branching: BranchingOpener, tokens: list[int], count: int
    ) -> None:
        engine = open_branching()
        with pytest.raises(ConfigError, match="expected a held text"):
            engine.branch(count)
        engine.hold(tokens, [])
        with pytest.raises(ConfigError, match=f"no branch behind {count} tokens; expected 1 to 41, as held"):
            engine.branch(count)

    @pytest.mark.parametrize("wanted", [[-1], [41], [3, 3], [4, 2]])
    def test_rows_that_there_are_not(
        self, open_branching: BranchingOpener, tokens: list[int], wanted: list[int]
    ) -> None:
        with pytest.raises(ConfigError, match="logits wanted"):
            open_branching().hold(tokens, wanted)

    def test_no_text(self, open_branching: BranchingOpener) -> None:
        with pytest.raises(ConfigError, match="no text to hold"):
            open_branching().hold([], [])
        with pytest.raises(ConfigError, match="room for branches of 0 tokens"):
            open_branching(branch_tokens=0)

    def test_the_held_text_is_left_as_it_is(self, open_branching: BranchingOpener, tokens: list[int]) -> None:
        engine = open_branching()
        engine.hold(tokens, [])
        for change in (lambda: engine.append(3), lambda: engine.rewind(5), lambda: engine.extend([3], [0])):
            with pytest.raises(ConfigError):
                change()

    def test_a_closed_engine(self, open_branching: BranchingOpener, tokens: list[int]) -> None:
        engine = open_branching()
        engine.hold(tokens, [])
        engine.close()
        for use in (lambda: engine.branch(3), lambda: engine.hold(tokens, [])):
            with pytest.raises(EngineError, match="closed"):
                use()


def test_it_is_an_engine_like_any_other(open_tiny: Opener, open_branching: BranchingOpener, tokens: list[int]) -> None:
    engine, other = open_branching(), open_tiny()
    engine.hold(tokens, [])
    engine.branch(5)
    engine.append(3)
    assert rows(engine, tokens).tobytes() == rows(other, tokens).tobytes()
    assert engine.start(tokens[:9]).tobytes() == other.start(tokens[:9]).tobytes()
    assert future(engine).tobytes() == future(other).tobytes()
    assert engine.context_left == 64 - 9 - len(FUTURE)
    with pytest.raises(ConfigError, match="expected a held text"):
        engine.branch(5)


def write_tiny_mamba(path: Path) -> Path:
    """A model with a state in place of cells: one block of random weights, the tiny dictionary."""
    import gguf

    width, inner, state, rank, kernel = 16, 32, 4, 2, 4
    words = tiny_dictionary()
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_context_length(128)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([vocabulary_name(token) for token in words])
    writer.add_token_types([3, 3] + [1] * (len(words) - 2))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    shapes = {
        "token_embd.weight": (len(words), width),
        "output_norm.weight": (width,),
        "blk.0.attn_norm.weight": (width,),
        "blk.0.ssm_in.weight": (2 * inner, width),
        "blk.0.ssm_conv1d.weight": (inner, kernel),
        "blk.0.ssm_conv1d.bias": (inner,),
        "blk.0.ssm_x.weight": (rank + 2 * state, inner),
        "blk.0.ssm_dt.weight": (inner, rank),
        "blk.0.ssm_dt.bias": (inner,),
        "blk.0.ssm_a": (inner, state),
        "blk.0.ssm_d": (inner,),
        "blk.0.ssm_out.weight": (width, inner),
    }
    for name, shape in shapes.items():
        writer.add_tensor(name, rng.standard_normal(shape, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_memory_that_cannot_be_cut_at_a_place(
    open_tiny: Opener, open_branching: BranchingOpener, tmp_path: Path, tokens: list[int]
) -> None:
    mamba = write_tiny_mamba(tmp_path / "mamba.gguf")
    assert len(rows(open_tiny(mamba), tokens)) == 40, "it is a model that can be scored"
    with pytest.raises(EngineError, match=r"memory is a state that cannot be cut.*leave the arm out of \[branches\]"):
        open_branching(mamba)


CALL = b'<tool_call>{"name": "open", "arguments": {}}</tool_call>'


class Ending(BranchingLlamaCpp):
    """The real engine, but for one logit: what it writes next is always the end of its turn."""

    def append(self, token: int) -> np.ndarray:
        logits = super().append(token)
        logits[1] = logits.max() + 1
        return logits


def test_what_a_tool_answers_goes_into_the_real_engine(tmp_path: Path) -> None:
    """A whole call is one token of this dictionary, so that a model of noise can end a turn with one."""
    dictionary = [*tiny_dictionary(), CALL]
    call, end = len(dictionary) - 1, 1
    file = write_tiny_model(tmp_path / "calls.gguf", tokens=dictionary)
    history = [0, 2, 3, 4, 30]
    scene = Scene(
        history=tuple(history),
        dictionary=dictionary,
        end_tokens=frozenset([end]),
        assistant="{",
        tools=({"name": "open", "parameters": {"type": "object"}},),
        syntax="hermes",
        sql_dialect="sqlite",
    )
    environment = Environment(name="shop", windows=("w",), otherwise="no")
    rule = Rule(horizon_tokens=8, turns=2, tool_turn="\n{text}{")
    with Ending(file, settings()) as engine:
        engine.hold(history, [len(history) - 1])
        found = follow(engine, scene, call, rule, window="w", position=5, best=call, environment=environment)
        answer = engine.tokenize("\nno{")
        # The same history in one piece gives the same next row.
        engine.branch(len(history))
        rows_ = [super(Ending, engine).append(token) for token in (call, end, *answer)]
    assert found.tokens == (call, end, *answer, end) and found.turns == 2 and found.ended == "turn"
    assert found.written == (False, True, *[False] * len(answer), True)
    assert np.isfinite(rows_[-1]).all()
