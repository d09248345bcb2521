"""Futures: where they end, what is written and how likely it was, turns that are answered, grammars, real engines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from drift_runs.errors import EngineError, NonFiniteLogits
from drift_runs.generate.environment import recorded_results
from drift_runs.generate.future import Future, Scene
from drift_runs.generate.futures import Rule, follow, futures_of, futures_table
from drift_runs.protocol.generation import Chat, Environment, ScriptedResult
from drift_runs.schema import FUTURES
from drift_runs.store import read_table
from tests.generate.written_engine import ASSISTANT, DICTIONARY, END, WrittenEngine, ids

USER = "<|im_start|>user\nplease<|im_end|>\n" + ASSISTANT
CALL = '<tool_call>\n{"name": "open", "arguments": {"port": 1}}\n</tool_call>'
SHUT = '<tool_call>\n{"name": "shut", "arguments": {}}\n</tool_call>'
CHAT = Chat(
    assistant=ASSISTANT,
    ends=("<|im_end|>",),
    tool_turn=f"\n<|im_start|>tool\n{{text}}<|im_end|>\n{ASSISTANT}",
    user_turn=f"{{text}}{ASSISTANT}",
)
ENVIRONMENT = Environment(
    name="e",
    windows=("w",),
    results=(ScriptedResult(tool="open", arguments={"port": 1}, result="opened 1"),),
    otherwise="error",
)


def scene(text: str, **changes: object) -> Scene:
    given = {
        "history": tuple(ids(text)),
        "dictionary": DICTIONARY,
        "end_tokens": frozenset({END}),
        "assistant": ASSISTANT,
        "tools": (),
        "syntax": "hermes",
        "sql_dialect": "sqlite",
    }
    return Scene(**(given | changes))


def run(
    history: str,
    first: str,
    *turns: str,
    horizon: int = 400,
    stops: str = "structure",
    rounds: int = 1,
    engine: dict | None = None,
    **more: object,
) -> tuple[Future, WrittenEngine]:
    (token,) = ids(first)
    place = scene(history)
    written = WrittenEngine(place.history, *turns, **(engine or {}))
    rule = Rule(horizon_tokens=horizon, stops=stops, turns=rounds, tool_turn=CHAT.tool_turn)
    found = follow(written, place, token, rule, window="w", position=len(place.history), best=3, **more)
    assert len(found.tokens) == len(found.written) == len(found.logprobs)
    assert len(found.top_ids) == len(found.top_logprobs) == len(found.tokens)
    assert not found.written[0]
    assert [one is not None for one in found.logprobs] == list(found.written)
    assert found.text == place.read(found.tokens)
    return found, written


class TestEnds:
    def test_with_the_token_that_ends_the_turn(self):
        found, engine = run(USER, "A", "nswer.<|im_end|>never")
        assert (found.text, found.ended, found.turns) == ("Answer.<|im_end|>", "turn", 1)
        assert (found.window, found.position, found.first, found.best) == ("w", len(ids(USER)), ids("A")[0], 3)
        assert DICTIONARY[engine.taken[-1]] == b"."  # nothing is asked behind the end

    def test_with_the_structure_that_was_open(self):
        history = USER + CALL[:30]
        found, _ = run(history, CALL[30], CALL[31:] + "more<|im_end|>")
        assert (found.text, found.ended) == (CALL[30:], "structure")

    def test_a_structure_that_opens_later_ends_nothing(self):
        found, _ = run(USER, "I", f" do.\n{CALL}\nDone.<|im_end|>")
        assert (found.text, found.ended) == (f"I do.\n{CALL}\nDone.<|im_end|>", "turn")

    def test_a_task_goes_on_behind_a_structure(self):
        history = USER + CALL[:30]
        found, _ = run(history, CALL[30], CALL[31:] + "\nDone.<|im_end|>", stops="turn")
        assert (found.text, found.ended) == (CALL[30:] + "\nDone.<|im_end|>", "turn")

    def test_an_end_token_inside_an_open_structure_is_the_end(self):
        found, _ = run(USER + CALL[:30], "x", "<|im_end|>")
        assert (found.text, found.ended) == ("x<|im_end|>", "turn")

    def test_at_the_horizon_the_first_token_not_counted(self):
        found, engine = run(USER, "A", "bcdefgh", horizon=3)
        assert (found.text, found.ended, sum(found.written)) == ("Abcd", "horizon", 3)
        assert len(engine.taken) == 3  # the last token is not evaluated

    def test_an_end_that_comes_with_the_horizon_is_an_end(self):
        assert run(USER, "A", "b<|im_end|>", horizon=2)[0].ended == "turn"
        assert run(USER + CALL[:-1], "\n", "bc", horizon=2)[0].ended == "horizon"

    def test_where_the_context_is_full(self):
        found, engine = run(USER, "A", "bcdefgh", engine={"room": 2})
        assert (found.text, found.ended, engine.context_left) == ("Abc", "context", 0)
        assert run(USER, "A", "b", engine={"room": 0})[0].tokens == tuple(ids("A"))

    def test_the_first_token_may_be_the_end(self):
        for history, first, ended in ((USER, "<|im_end|>", "turn"), (USER + CALL[:-12], "</tool_call>", "structure")):
            found, engine = run(history, first, "x")
            assert (found.tokens, found.ended, engine.taken) == ((ids(first)[0],), ended, [])

    def test_a_text_without_turns(self):
        place = scene("once", assistant="", end_tokens=frozenset())
        engine = WrittenEngine(place.history, "pon")
        found = follow(engine, place, ids("u")[0], Rule(horizon_tokens=3), window="w", position=4, best=0)
        assert (found.text, found.ended) == ("upon", "horizon")

    def test_a_character_that_the_history_began(self):
        place = scene(USER + "caf\u00e9")
        cut = scene("", history=place.history[:-1])
        found = follow(
            WrittenEngine(cut.history, "!<|im_end|>"),
            cut,
            place.history[-1],
            Rule(horizon_tokens=5),
            window="w",
            position=1,
            best=0,
        )
        # The lone byte is no character in the future's own text, and one in the turn.
        assert found.text == "\ufffd!<|im_end|>" and found.ended == "turn"


class TestChoice:
    def test_the_logarithm_is_of_the_dictionarys_columns_alone(self):
        found, _ = run(USER, "A", "bc<|im_end|>", engine={"padding": 5, "margin": 3.0})
        expected = 3.0 - np.log(np.exp(3.0) + len(DICTIONARY) - 1)
        assert found.logprobs[1:] == pytest.approx([expected] * 3, rel=1e-12)

    def test_the_lowest_id_wins_a_tie(self):
        def tie(row, _):
            row[[7, 9, 40]] = 4.0

        found, _ = run(USER, "A", "z", horizon=1, engine={"changed": tie})
        assert found.tokens[1] == 7 and found.logprobs[1] == pytest.approx(
            np.log(1 / (4 + (len(DICTIONARY) - 4) * np.exp(-4)))
        )

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_a_logit_that_is_no_number(self, value):
        def poison(row, at):
            if at == 1:
                row[50] = value

        with pytest.raises(NonFiniteLogits, match=r"window w, position \d+, 2 tokens behind it: the largest logit is"):
            run(USER, "A", "bcd", engine={"changed": poison})

    def test_minus_infinity_everywhere(self):
        with pytest.raises(NonFiniteLogits, match="-inf"):
            run(USER, "A", "b", engine={"changed": lambda row, _: row.fill(-np.inf)})

    def test_the_best_few_stand_beside_each_written_token(self):
        rows = []

        def order(row, _):
            row[[40, 9, 7, 30, 8, 3]] = [4.0, 4.0, 4.0, 2.0, 3.0, 1.0]
            rows.append(row[: len(DICTIONARY)].astype(np.float64))

        found, _ = run(USER, "A", "z", horizon=1, engine={"changed": order})
        assert found.top_ids[0] == () == found.top_logprobs[0], "the first token was given"
        (row,) = rows
        best = sorted(range(len(row)), key=lambda token: (-row[token], token))[:5]
        assert found.top_ids[1] == tuple(best) and best[:3] == [7, 9, 40]
        assert found.top_logprobs[1] == pytest.approx(row[best] - np.log(np.exp(row).sum()))
        assert found.logprobs[1] == found.top_logprobs[1][0]

    def test_what_is_ruled_out_is_none_of_the_best(self):
        def rule_out(row, _):
            row[:] = -np.inf
            row[[3, 50]] = 0.0

        found, _ = run(USER, "A", "b", horizon=1, engine={"changed": rule_out})
        assert found.top_ids[1] == (3, 50) and found.top_logprobs[1] == pytest.approx([np.log(0.5)] * 2)

    def test_minus_infinity_somewhere_is_a_probability_of_0(self):
        def rule_out(row, _):
            row[50:] = -np.inf

        found, _ = run(USER, "A", '"', horizon=1, engine={"changed": rule_out})
        assert found.logprobs[1] == pytest.approx(4 - np.log(np.exp(4) + 49))

    def test_padding_that_is_no_number_is_none_of_its_business(self):
        def poison(row, _):
            row[len(DICTIONARY) :] = np.nan

        assert run(USER, "A", "b<|im_end|>", engine={"padding": 2, "changed": poison})[0].text == "Ab<|im_end|>"


class Only:
    """A grammar of the tokens of one text, in their order."""

    def __init__(self, text: str) -> None:
        self.left = ids(text)
        self.accepted: list[int] = []

    def mask(self, logits):
        allowed = np.full_like(logits, -np.inf)
        if self.left:
            allowed[self.left[0]] = logits[self.left[0]]
        return allowed

    def accept(self, token: int) -> None:
        self.accepted.append(token)
        if self.left and token == self.left[0]:
            self.left.pop(0)


class TestGrammar:
    def test_it_decides_what_is_written_and_not_how_likely_that_was(self):
        grammar = Only("Ayy<|im_end|>")
        found, _ = run(USER, "A", "bcd", grammar=grammar)
        assert (found.text, found.ended) == ("Ayy<|im_end|>", "turn")
        assert grammar.accepted == list(found.tokens)
        assert found.logprobs[1] == pytest.approx(-np.log(np.exp(4.0) + len(DICTIONARY) - 1))

    def test_a_grammar_that_allows_nothing(self):
        with pytest.raises(EngineError, match=r"2 tokens behind it: the grammar allows no token"):
            run(USER, "A", "bcd", grammar=Only("Ay"))


class TestTurns:
    def answered(self, first: str, *turns: str, rounds: int = 3, **more: object):
        given = {"environment": ENVIRONMENT} | more
        return run(USER, first, *turns, rounds=rounds, **given)

    def test_a_call_is_answered_and_the_next_turn_follows(self):
        found, engine = self.answered("<tool_call>", CALL[11:] + "<|im_end|>", "Done.<|im_end|>")
        answer = CHAT.tool_turn.format(text="opened 1")
        assert found.text == f"{CALL}<|im_end|>{answer}Done.<|im_end|>"
        assert (found.ended, found.turns) == ("turn", 2)
        length = len(ids(CALL)) + 1
        between = slice(length, length + len(ids(answer)))
        assert list(found.tokens[between]) == ids(answer) and not any(found.written[between])
        assert all(found.written[1:length]) and all(found.written[between.stop :])
        # The engine read all of it but the last token, in this order.
        assert engine.taken == list(found.tokens[:-1])

    def test_calls_of_one_turn_are_answered_in_order(self):
        found, _ = self.answered("<tool_call>", f"{SHUT[11:]}\n{CALL}<|im_end|>", "Done.<|im_end|>")
        assert "<|im_start|>tool\nerror\nopened 1<|im_end|>" in found.text

    def test_turn_after_turn_up_to_the_limit(self):
        again = f"{CALL}<|im_end|>"
        found, _ = self.answered("<tool_call>", again[11:], again, again, again, rounds=3)
        assert (found.ended, found.turns, found.text.count("opened 1")) == ("turn", 3, 2)

    def test_a_structure_that_was_open_at_the_root_ends_nothing_here(self):
        found, _ = run(
            USER + CALL[:30], CALL[30], CALL[31:] + "<|im_end|>", "Done.<|im_end|>", rounds=2, environment=ENVIRONMENT
        )
        assert found.ended == "turn" and "opened 1" in found.text and found.text.endswith("Done.<|im_end|>")

    @pytest.mark.parametrize("turn", ["No tool fits.", CALL[:-3], CALL + CALL[:20]])
    def test_a_turn_without_sound_calls_is_the_end(self, turn):
        first, rest = ("<tool_call>", turn[11:]) if turn.startswith("<tool_call>") else (turn[0], turn[1:])
        found, _ = self.answered(first, rest + "<|im_end|>", "more")
        assert (found.ended, found.turns, found.text) == ("turn", 1, turn + "<|im_end|>")

    def test_without_an_environment_or_turns_left_nothing_is_answered(self):
        turns = (CALL[11:] + "<|im_end|>", "more")
        assert run(USER, "<tool_call>", *turns, rounds=3)[0].turns == 1
        assert self.answered("<tool_call>", *turns, rounds=1)[0].text == f"{CALL}<|im_end|>"

    def test_the_answer_does_not_count_for_the_horizon(self):
        length = len(ids(CALL))  # written: all of the call but its first token, and the end of the turn
        turns = (CALL[11:] + "<|im_end|>", "Done.<|im_end|>")
        found, _ = self.answered("<tool_call>", *turns, horizon=length + 2)
        assert (found.ended, found.turns, sum(found.written)) == ("horizon", 2, length + 2)
        assert found.text.endswith("Do")

    def test_a_turn_that_ends_with_the_horizon_is_not_answered(self):
        found, _ = self.answered("<tool_call>", CALL[11:] + "<|im_end|>", "more", horizon=len(ids(CALL)))
        assert (found.ended, found.turns, found.text) == ("horizon", 1, f"{CALL}<|im_end|>")

    def test_an_answer_that_does_not_fit_is_not_begun(self):
        answer = ids(CHAT.tool_turn.format(text="opened 1"))
        turns = (CALL[11:] + "<|im_end|>", "Done.<|im_end|>")
        room = len(ids(CALL)) + 1 + len(answer)
        found, _ = self.answered("<tool_call>", *turns, engine={"room": room - 1})
        assert (found.ended, found.turns, found.text) == ("context", 1, f"{CALL}<|im_end|>")
        found, _ = self.answered("<tool_call>", *turns, engine={"room": room})
        assert (found.ended, found.turns, found.text[-1]) == ("context", 2, "D")

    def test_what_looks_like_markup_in_an_answer_is_text(self):
        result = ScriptedResult(tool="open", arguments={"port": 1}, result="<|im_end|>\n<tool_call>")
        environment = ENVIRONMENT.model_copy(update={"results": (result,)})
        found, _ = self.answered("<tool_call>", CALL[11:] + "<|im_end|>", "Done.<|im_end|>", environment=environment)
        assert found.tokens.count(END) == 3 and found.tokens.count(ids("<tool_call>")[0]) == 1
        assert "tool\n<|im_end|>\n<tool_call><|im_end|>" in found.text

    def test_recorded_results_are_those_of_the_stream(self):
        stream = USER + SHUT + "<|im_end|>" + CHAT.tool_turn.format(text="shut it") + "Done.<|im_end|>"
        environment = ENVIRONMENT.model_copy(update={"recorded": True})
        found, _ = self.answered(
            "<tool_call>",
            SHUT[11:] + "<|im_end|>",
            "Done.<|im_end|>",
            environment=environment,
            recorded=recorded_results(stream, "hermes", CHAT),
        )
        # The future is the text itself, to the token.
        assert USER + found.text == stream and list(found.tokens) == ids(stream)[len(ids(USER)) :]


class TestTables:
    def test_futures_come_back_from_their_rows(self):
        futures = [run(USER, "A", "b<|im_end|>")[0], run(USER, "A", "\u00e9bc", horizon=1)[0]]
        table = futures_table(futures)
        assert table.schema.equals(FUTURES, check_metadata=True) and futures_of(table) == tuple(futures)
        assert table["logprobs"].to_pylist()[0][0] is None

    def test_a_future_of_the_first_version_has_no_alternatives(self):
        path = Path(__file__).parents[1] / "data" / "stored" / "futures-1.parquet"
        for future in futures_of(read_table(path, FUTURES)):
            assert future.top_ids is None and future.top_logprobs is None
            (row,) = futures_table([future]).to_pylist()
            assert row["top_ids"] is None and row["tokens"] == list(future.tokens)

    def test_no_futures(self):
        assert futures_table([]).num_rows == 0 and futures_of(FUTURES.empty_table()) == ()


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    from drift_runs.engines.base import EngineSettings
    from drift_runs.engines.llama_cpp_branches import BranchingLlamaCpp
    from tests.tiny_model import write_tiny_model

    path = write_tiny_model(tmp_path_factory.mktemp("model") / "tiny.gguf")
    settings = EngineSettings(
        path_shape="prefill",
        context_tokens=64,
        batch=64,
        micro_batch=32,
        threads=1,
        kv="f16",
        flash_attention="on",
    )
    with BranchingLlamaCpp(path, settings) as engine:
        yield engine


class TestRealEngine:
    def test_a_future_is_greedy_decoding_of_the_same_history(self, opened):
        dictionary = opened.token_bytes()
        tokens = [0, 5, 9, 14, 3, 28, 7, 7, 21, 2, 11, 30]
        ends = frozenset(token for token in range(len(dictionary)) if opened.ends_generation(token))
        position = len(tokens) - 1
        (row,) = opened.hold(tokens[:position], [position - 1])
        place = scene("", history=tuple(tokens[:position]), dictionary=dictionary, end_tokens=ends, assistant="")
        found = {
            first: follow(
                opened, place, first, Rule(horizon_tokens=20), window="w", position=position, best=int(row.argmax())
            )
            for first in (int(row.argmax()), int(row.argmin()))
        }
        for first, future in found.items():
            opened.start(tokens[:position])
            expected, logits = [first], opened.append(first)
            while len(expected) <= 20 and expected[-1] not in ends:
                expected.append(int(logits.argmax()))
                logits = opened.append(expected[-1])
            assert list(future.tokens) == expected
            assert future.ended == ("turn" if expected[-1] in ends else "horizon")
            assert all(one <= 0 for one in future.logprobs[1:])
        assert len({future.tokens for future in found.values()}) == 2

    def test_the_context_ends_a_future(self, opened):
        opened.hold([0] * 50, [49])
        place = scene("", history=(0,) * 50, dictionary=opened.token_bytes(), end_tokens=frozenset(), assistant="")
        found = follow(opened, place, 5, Rule(horizon_tokens=100), window="w", position=50, best=0)
        # Positions 50 to 63 are read, and one more token is predicted.
        assert (found.ended, len(found.tokens)) == ("context", 15)
