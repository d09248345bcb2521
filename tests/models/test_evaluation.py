"""Evaluation: what is exact, valid and copied, with which interval, and that a stopped run goes on."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ops_evaluation import plain_text
from ops_evaluation.answers import AnswerRow, Encoded, answer_rows, encode, literal_spans, preferred
from ops_evaluation.call_answers import CallVerdict, calls_in, is_lost, judge, tools_for
from ops_evaluation.shares import ALL, clustered_share, shares, wilson
from ops_tasks.draw import draw
from ops_tasks.tasks import Task, Turn, call_text

from drift_runs.engines.llama_cpp import LlamaCpp
from tests.models.conftest import Drawn, settings
from tests.models.scripted import Scripted
from tests.tiny_model import write_tiny_model

evaluate = importlib.import_module("evaluate")


def tool(name: str, **properties: str) -> dict:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    return {"type": "function", "function": {"name": name, "description": "Does it.", "parameters": schema}}


TOOLS = (tool("open_port", host="string", port="integer"), tool("close_port", host="string", port="integer"))
CALL = call_text("open_port", {"host": "web-3", "port": 5432})
SAID = "The port 5432 of web-3 is open."


def conversation(*turns: tuple[str, str], literals: tuple[str, ...] = ("web-3", "5432")) -> Task:
    made = (
        Turn(role=role, text=text, literals=literals if role == "assistant" else ())
        for role, text in (("system", "Tools."), *turns)
    )
    return Task(kind="tool-call", template="made", turns=tuple(made), tools=TOOLS)


class TestExact:
    def test_greedy_decoding_writes_what_is_exact_and_nothing_else(self, chatty: Path, drawn: dict[str, Drawn]) -> None:
        """Teacher-forced on its own greedy text every token is preferred; on another text, up to where that differs."""
        with LlamaCpp(chatty, settings(context_tokens=512)) as engine:
            for task in drawn["values"].tasks[:6]:
                prompt = engine.tokenize(task.turns[0].text[:60])
                logits, greedy = engine.start(prompt), []
                for _ in range(24):
                    first, second = np.sort(logits)[-2:][::-1]
                    assert first - second > 1e-3, "no tie, which rounding might turn"
                    greedy.append(int(logits.argmax()))
                    logits = engine.append(greedy[-1])
                span = (len(prompt), len(prompt) + len(greedy))
                best = preferred(engine, Encoded(prompt + greedy, [span]))
                assert [best[position] for position in range(*span)] == greedy
                for at in (0, 7, 23):
                    other = greedy.copy()
                    other[at] = (other[at] + 1) % engine.dictionary_size
                    best = preferred(engine, Encoded(prompt + other, [span]))
                    is_right = [best[span[0] + step] == token for step, token in enumerate(other)]
                    assert is_right.index(False) == at and best[span[0] + at] == greedy[at]

    def test_an_answer_goes_on_as_if_it_had_been_decoded_from_its_start(self, chatty: Path) -> None:
        task = conversation(("user", "Open it."), ("assistant", CALL), ("tool", "{}"), ("assistant", SAID))
        with LlamaCpp(chatty, settings(context_tokens=1024)) as engine:
            encoded = encode(task, engine)
            (start, _end), _second = encoded.answers
            best = preferred(engine, encoded)
            engine.rewind(start + 4)
            after_rewind = [int(engine.append(best[start + 4]).argmax()) for _ in range(1)]
            history = [*encoded.tokens[: start + 4], best[start + 4]]
            assert after_rewind == [int(engine.start(history).argmax())]

    def test_a_model_of_random_weights_is_wrong_everywhere(self, chatty: Path, drawn: dict[str, Drawn]) -> None:
        with LlamaCpp(chatty, settings()) as engine:
            table = engine.token_bytes()
            for task in drawn["templates"].tasks[:8]:
                rows = answer_rows(engine, task, 3, table)
                answers = [turn for turn in task.turns if turn.role == "assistant"]
                assert [row.tokens for row in rows] == [len(turn.text) + 1 for turn in answers]
                assert not any(row.exact or row.valid for row in rows)
                assert all(row.right_tokens < row.tokens / 2 for row in rows)
                assert [row.is_call for row in rows] == ["<tool_call>" in turn.text for turn in answers]


class TestRows:
    """With a model whose every letter is known."""

    def one(self, written: str, expected: str = CALL) -> AnswerRow:
        engine = Scripted({"Open it.<|im_end|>\n<|im_start|>assistant\n": f"{written}<|im_end|>"})
        (row,) = answer_rows(engine, conversation(("user", "Open it."), ("assistant", expected)), 0, engine.table)
        return row

    def test_an_exact_answer(self) -> None:
        row = self.one(CALL)
        assert row.exact and row.tokens == len(CALL) + 1
        assert (row.literals, row.right_literals, row.written_tokens) == (2, 2, 0)
        assert row.valid and row.right_tool and row.same_call

    def test_a_digit_of_a_port(self) -> None:
        row = self.one(CALL.replace("5432", "5433"))
        assert not row.exact and row.valid and row.right_tool and not row.same_call
        assert (row.literals, row.right_literals) == (2, 1)

    def test_another_order_of_arguments_is_the_same_call(self) -> None:
        row = self.one(call_text("open_port", {"port": 5432, "host": "web-3"}))
        assert not row.exact and row.same_call and row.valid

    def test_another_tool(self) -> None:
        row = self.one(CALL.replace("open_port", "close_port"))
        assert row.valid and not row.right_tool and not row.same_call

    @pytest.mark.parametrize(
        ("written", "most"),
        [
            ("Sure! " + CALL, 0),
            (CALL.replace("open_port", "open_ports"), 12),
            (CALL.replace("5432", '"5432"'), 20),
            (CALL.replace("}}", "}"), 40),
            (CALL + "\nDone.", 20),
            (f"{CALL}\n{CALL.replace('open', 'shut')}", 40),
            ("", 0),
            ("<tool_call>\n" + "[" * 500, 200),
        ],
    )
    def test_what_is_no_valid_call(self, written: str, most: int) -> None:
        row = self.one(written)
        assert row.is_call and not row.valid and not row.right_tool and not row.exact
        assert row.written_tokens <= most, "decoding ends where a call cannot be valid any more"

    def test_one_call_too_many_is_valid_and_not_right(self) -> None:
        row = self.one(f"{CALL}\n{CALL}")
        assert row.valid and not row.right_tool

    def test_words_for_a_call(self) -> None:
        row = self.one(CALL, SAID)
        assert not row.is_call and not row.valid and not row.exact

    def test_every_answer_is_judged_in_its_place(self) -> None:
        engine = Scripted(
            {
                "First.<|im_end|>\n<|im_start|>assistant\n": f"{CALL.replace('5432', '5431')}<|im_end|>",
                "{}<|im_end|>\n<|im_start|>assistant\n": f"{SAID}<|im_end|>",
                "Second.<|im_end|>\n<|im_start|>assistant\n": f"{CALL.replace('web-3', 'web-4')}<|im_end|>",
            }
        )
        turns = (("user", "First."), ("assistant", CALL), ("tool", "{}"), ("assistant", SAID))
        task = conversation(*turns, ("user", "Second."), ("assistant", CALL))
        first, second, third = answer_rows(engine, task, 7, engine.table)
        assert [row.exact for row in (first, second, third)] == [False, True, False]
        assert first.valid and third.valid and not second.is_call
        assert {row.conversation for row in (first, second, third)} == {7}
        assert first.right_tokens == CALL.index("5432") + 3
        assert engine.read_tokens < 2 * len(encode(task, engine).tokens), "the conversation is read once"


class TestCalls:
    def test_expected_answers_are_never_lost(self, drawn: dict[str, Drawn]) -> None:
        seen = 0
        for task in [one for one in drawn["templates"].tasks if one.tools][:40]:
            for at, turn in enumerate(task.turns):
                if turn.role == "assistant" and calls_in(turn.text):
                    tools = tools_for(task, at)
                    assert judge(turn.text, turn.text, tools) == CallVerdict(True, True, True)
                    assert not any(is_lost(turn.text[:end], tools) for end in range(0, len(turn.text) + 1, 7))
                    seen += 1
        assert seen > 60

    @hypothesis.settings(max_examples=60, deadline=None)
    @given(
        st.integers(0, len(CALL)), st.integers(0, 6), st.sampled_from(["", '"', "}", "{", "x", "\\", "7", "</", ","])
    )
    def test_what_is_lost_is_not_valid(self, at: int, cut: int, put: str) -> None:
        text = CALL[:at] + put + CALL[at + cut :]
        if any(is_lost(text[:end], TOOLS) for end in range(len(text) + 1)):
            assert not judge(text, CALL, TOOLS).valid

    @pytest.mark.parametrize(
        "text",
        ["I", "<tool_call>\nopen", '<tool_call>\n{"name": "open"', "<tool_call>\n[", f"{CALL} and", "</tool_call>"],
    )
    def test_what_is_lost_at_once(self, text: str) -> None:
        assert is_lost(text, TOOLS)

    def test_a_corrected_call_may_use_the_name_that_the_error_gave(self, drawn: dict[str, Drawn]) -> None:
        renamed = 0
        for task in [one for one in drawn["train"].tasks if one.kind == "recovery"]:
            for at, turn in enumerate(task.turns):
                if turn.role == "assistant":
                    tools = tools_for(task, at)
                    assert judge(turn.text, turn.text, tools).same_call
                    if tools != task.tools:
                        assert not judge(turn.text, turn.text, task.tools).valid
                        renamed += 1
        assert renamed > 30


class TestLiterals:
    @pytest.mark.parametrize(
        ("text", "literals", "expected"),
        [
            ("port 5432", ("5432",), [(5, 9)]),
            ("5432 and 15432 and 5432", ("5432",), [(0, 4), (19, 23)]),
            ("a-1.b 1", ("1",), [(2, 3), (6, 7)]),
            ("10.0.0.1/24", ("10.0.0.1/24", "10.0.0.1", "24"), [(0, 11)]),
            ("é /srv/a", ("/srv/a",), [(3, 9)]),
            ("nothing", ("some",), []),
            ("twice twice", ("twice", "twice"), [(0, 5), (6, 11)]),
            ("anything", ("",), []),
        ],
    )
    def test_where_they_stand(self, text: str, literals: tuple[str, ...], expected: list[tuple[int, int]]) -> None:
        assert literal_spans(text, literals) == expected

    def test_every_literal_of_a_task_is_found(self, drawn: dict[str, Drawn]) -> None:
        missed = total = 0
        for task in drawn["values"].tasks:
            for turn in task.turns:
                found = [
                    turn.text.encode()[start:end].decode() for start, end in literal_spans(turn.text, turn.literals)
                ]
                missed += sum(not any(literal in one for one in found) for literal in turn.literals)
                total += len(turn.literals)
        assert missed < 0.002 * total


class TestShares:
    def test_wilson_as_published(self) -> None:
        """Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
        for right, n, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611)):
            assert wilson(right / n, n) == pytest.approx((low, high), abs=5e-5)
        assert wilson(1 / 29, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)

    def test_whole_conversations_count_once(self) -> None:
        """Five answers of one fate are one observation, not five."""
        spread = clustered_share([5, 0, 5, 5, 0, 5, 5, 0, 5, 5], [5] * 10)
        alone = clustered_share([1, 0, 1, 1, 0, 1, 1, 0, 1, 1], [1] * 10)
        assert (spread.share, spread.n, alone.n) == (0.7, 50, 10)
        assert (spread.low, spread.high) == pytest.approx((alone.low, alone.high))
        assert (alone.low, alone.high) == pytest.approx(wilson(0.7, 9))

    def test_where_nothing_varies_a_conversation_counts_as_one(self) -> None:
        found = clustered_share([3, 3, 3, 3], [3, 3, 3, 3])
        assert (found.share, found.high) == (1, 1) and found.low == pytest.approx(wilson(1, 4)[0])
        assert clustered_share([0, 0], [3, 1]).high == pytest.approx(wilson(0, 2)[1])

    def test_nothing_and_one(self) -> None:
        assert clustered_share([], []) == clustered_share([0, 0], [0, 0]) == (None, None, None, 0, 0)
        assert clustered_share([1], [2])[:1] + clustered_share([1], [2])[3:] == (0.5, 2, 1)

    @hypothesis.settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12), st.randoms())
    def test_order_does_not_matter_and_the_interval_holds_the_share(self, pairs: list, random) -> None:
        pairs = [(min(pair), max(pair)) for pair in pairs]
        found = clustered_share(*zip(*pairs, strict=True))
        random.shuffle(pairs)
        again = clustered_share(*zip(*pairs, strict=True))
        assert again[3:] == found[3:]
        if found.share is not None:
            assert again[:3] == pytest.approx(found[:3])
            assert 0 <= found.low <= found.share + 1e-12 and found.share - 1e-12 <= found.high <= 1

    @pytest.mark.parametrize("share", [0.6, 0.9])
    def test_intervals_cover_what_they_claim(self, share: float) -> None:
        """40 conversations of 1 to 3 answers that lean on one another: seen 94 and 96 of 100."""
        rng = np.random.default_rng(4)
        covered = 0
        for _ in range(1000):
            sizes = rng.integers(1, 4, 40)
            own = rng.beta(share * 3, (1 - share) * 3, 40)
            found = clustered_share(rng.binomial(sizes, own), sizes)
            covered += found.low <= share <= found.high
        assert 920 <= covered <= 980

    def test_by_kind_and_over_all(self) -> None:
        plain = {"tokens": 5, "literals": 2, "right_literals": 1, "written_tokens": 0}
        call = {"is_call": True, "valid": True, "right_tool": True, "same_call": False}
        none = {"is_call": False, "valid": False, "right_tool": False, "same_call": False}
        rows = [
            AnswerRow(conversation=0, kind="sql", right_tokens=5, **plain, **none),
            AnswerRow(conversation=1, kind="tool-call", right_tokens=4, **plain, **call),
            AnswerRow(conversation=1, kind="tool-call", right_tokens=5, **plain, **none),
        ]
        found = shares(rows)
        assert list(found) == [ALL, "tool-call", "sql"]
        assert found[ALL]["exact"][::3] == (pytest.approx(2 / 3), 3) and found[ALL]["exact"].conversations == 2
        assert found["sql"]["valid"].share is None and found[ALL]["valid"][::3] == (1, 1)
        assert found["tool-call"]["tokens"].share == 0.9 and found[ALL]["literals"].share == 0.5
        assert found[ALL]["same_call"].share == 0


class TestPlainText:
    def test_perplexity_by_another_way(self, chatty: Path) -> None:
        text = "The quick brown fox jumps over the lazy dog. " * 3
        with LlamaCpp(chatty, settings(context_tokens=256, batch=64, micro_batch=64)) as engine:
            tokens = engine.tokenize(text)
            logits = np.concatenate([block.logits.copy() for block in engine.score(tokens, range(1, len(tokens)))])
            shifted = np.exp(logits.astype(np.float64))
            probabilities = shifted[np.arange(len(tokens) - 1), tokens[1:]] / shifted.sum(axis=1)
            loss = plain_text.window_loss(engine, tokens)
        assert loss.tokens == len(text) - 1
        assert plain_text.perplexity([loss, loss]) == pytest.approx(np.prod(probabilities ** (-1 / loss.tokens)))

    def test_the_ratio_of_windows(self) -> None:
        base = [plain_text.WindowLoss(nats, 10) for nats in (20.0, 30.0, 25.0, 22.0)]
        worse = [plain_text.WindowLoss(one.nats + more, 10) for one, more in zip(base, (1, 2, 1, 2), strict=True)]
        assert plain_text.ratio_of(base, base) == (1, 1, 1)
        found = plain_text.ratio_of(worse, base)
        assert found.ratio == pytest.approx(plain_text.perplexity(worse) / plain_text.perplexity(base))
        half = 3.182446305 * np.std([0.1, 0.2, 0.1, 0.2], ddof=1) / 2
        assert found[1:] == pytest.approx((np.exp(0.15 - half), np.exp(0.15 + half)))
        assert plain_text.ratio_of(worse[:1], base[:1])[1:] == (None, None)

    def test_windows_are_whole_but_for_a_short_text(self, chatty: Path) -> None:
        with LlamaCpp(chatty, settings(context_tokens=64, batch=64)) as engine:
            for letters, most, expected in ((3000, 2500, [1024, 1024]), (300, 9999, [300]), (1024, 1024, [1024])):
                text = plain_text.PlainText("a", "a", "x" * letters, most)
                assert [len(window) for window in plain_text.windows(engine, text)] == expected

    def test_the_texts_are_there_and_bear_no_directive(self) -> None:
        reference, prose = plain_text.plain_texts(8192)
        assert len(reference.text) > 100_000 and "pydoc_data.topics of Python 3" in reference.origin
        assert "%%" not in prose.text and prose.text.startswith("The harbour office\n")
        assert len(reference.sha256) == 64


class TestWhole:
    @pytest.fixture
    def models(self, tmp_path: Path, chatty: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Two models of random weights, a short reference text in ASCII, and room for letters as tokens."""
        monkeypatch.setattr(evaluate, "CONTEXT_TOKENS", 8192)
        text = plain_text.PlainText("reference", "a made text", "Some words of it. " * 200, 2048)
        monkeypatch.setattr(plain_text, "plain_texts", lambda most_tokens: (text,))
        with LlamaCpp(chatty, settings(context_tokens=64, batch=64)) as engine:
            tokens = engine.token_bytes()
        tokens[2] = "\u0109".encode()
        other = write_tiny_model(tmp_path / "other.gguf", seed=2, tokens=tokens)
        return ["--model", f"base={chatty}", "--model", f"tuned={other}"]

    def test_figures_are_whole_and_a_stopped_run_goes_on(
        self, models: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
    ) -> None:
        out = tmp_path / "figures.json"
        asked = [*models, "--per-kind", "1", "--threads", "1", "--out", str(out)]
        evaluate.main(asked)
        printed = capsys.readouterr()
        assert "2 models, 22 conversations and 2,048 tokens of plain text each" in printed.err
        first, figures = out.read_bytes(), json.loads(out.read_bytes())
        assert str(tmp_path) not in first.decode() and figures["seed"] == 20252
        assert list(figures) == sorted(figures) and set(figures["models"]) == {"base", "tuned"}
        by_kind = figures["splits"]["templates"]["figures"]["tuned"]
        assert set(by_kind) == {ALL, *evaluate.JUDGED_KINDS}
        assert by_kind[ALL]["exact"] == {
            "share": 0.0, "low": 0.0, "high": by_kind[ALL]["exact"]["high"],
            "n": sum(by_kind[kind]["exact"]["n"] for kind in evaluate.JUDGED_KINDS), "conversations": 11,
        }  # fmt: skip
        ratio = figures["plain_text"]["reference"]["models"]["tuned"]["ratio"]
        assert ratio["low"] < ratio["ratio"] < ratio["high"] and ratio["ratio"] != 1

        kept = out.with_suffix(".rows.json")
        parts = json.loads(kept.read_text("utf-8"))
        assert len(parts) == 6, "two splits and one text of two models"
        lost = next(key for key in parts if '"answers"' in key)
        kept.write_text(json.dumps({key: part for key, part in parts.items() if key != lost}), "utf-8")
        judged = []
        monkeypatch.setattr(evaluate, "answer_rows", lambda *given: judged.append(1) or answer_rows(*given))
        evaluate.main(asked)
        assert out.read_bytes() == first and len(judged) == 11, "only what was lost is measured again"
        assert capsys.readouterr().out == printed.out
        evaluate.main(["--table", str(out)])
        assert capsys.readouterr().out == printed.out
        _check_tables(printed.out)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ([], "give --model"),
            (["--model", "a=x", "--model", "a=y"], "a name of its own"),
            (["--model", "a"], "expected NAME=FILE"),
            (["--model", "a=x", "--seed", "20251"], "that of training"),
            (["--model", "a=x", "--per-kind", "0"], "must be positive"),
        ],
    )
    def test_what_is_refused(self, given: list[str], said: str, capsys: pytest.CaptureFixture) -> None:
        with pytest.raises(SystemExit) as caught:
            evaluate.main(given)
        assert caught.value.code == 2 and said in capsys.readouterr().err

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(SystemExit, match=r"none\.gguf: no such file"):
            evaluate.main(["--model", f"a={tmp_path / 'none.gguf'}", "--out", str(tmp_path / "figures.json")])


def _check_tables(printed: str) -> None:
    blocks = printed.strip().split("\n\n")
    assert len(blocks) == 5
    for block in blocks:
        widths = {line.count(" | ") for line in block.splitlines() if not line.startswith("|---")}
        assert len(widths) == 1 and len(block.splitlines()) > 2
    assert "no-call" in blocks[1] and "sql" not in blocks[2] and "a made text" in blocks[4]


def test_evaluation_draws_what_training_did_not() -> None:
    trained = {draw("train", evaluate.TRAINED_SEED, index).turns for index in range(200)}
    for split, kind in itertools.product(evaluate.SPLITS, evaluate.JUDGED_KINDS):
        assert draw(split, 20252, 0, kind).turns not in trained
