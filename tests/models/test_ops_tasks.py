"""The generator of tasks: pure, split, and right by construction."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from ops_tasks import calls, commands, configs
from ops_tasks.calls import HELD_OUT_TOOLS, TOOLS
from ops_tasks.draw import TRAINED_SHARES, draw
from ops_tasks.tasks import KINDS, Task, pieces
from ops_tasks.values import Values, held_out_text

from drift_runs.engines.llama_cpp import LlamaCpp
from tests.models.conftest import SPLITS, Drawn, settings

UNSPLIT = {"small", "percent", "yes"}
"""Draws of closed sets that both sides share."""
FIRST_TRAINED = "fb6af3db9934c014bda165f946828142a7fd7aa4d787e7d346d1da9552815947"
"""SHA-256 of the first 100 tasks of training."""
MODEL_FOLDER = Path(calls.__file__).parent.parent


def text_of(task: Task) -> str:
    return "".join(piece.text for piece in pieces(task))


def histories(task: Task) -> Iterator[tuple[str, str]]:
    """Each answer with all that stands before it."""
    before = ""
    for piece in pieces(task):
        if piece.answer is not None:
            yield before, piece.text
        before += piece.text


def calls_of(answer: str) -> list[dict]:
    return [json.loads(body) for body in re.findall(r"<tool_call>\n(.*)\n</tool_call>", answer)]


class TestPure:
    @pytest.mark.parametrize("split", SPLITS)
    def test_the_same_arguments_give_the_same_task(self, split: str) -> None:
        first = [draw(split, 5, index) for index in range(20)]
        np.random.seed(3)
        np.random.random(10)
        assert [draw(split, 5, index) for index in reversed(range(20))][::-1] == first

    @pytest.mark.parametrize("kind", ["", *TRAINED_SHARES])
    def test_any_other_argument_gives_another(self, kind: str) -> None:
        tasks = [text_of(draw(split, seed, index, kind)) for split in SPLITS for seed in (5, 6) for index in (1, 2, 3)]
        assert len(set(tasks)) == len(tasks)

    @pytest.mark.parametrize("hash_seed", ["1", "2"])
    def test_another_process_draws_the_same(self, hash_seed: str) -> None:
        code = (
            "import sys; from ops_tasks.draw import draw; from ops_tasks.tasks import pieces\n"
            "tasks = [draw('train', 20251, index) for index in range(100)]\n"
            r"sys.stdout.write('\0'.join(''.join(piece.text for piece in pieces(task)) for task in tasks))"
        )
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(MODEL_FOLDER)}
        ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
        assert hashlib.sha256(ran.stdout).hexdigest() == FIRST_TRAINED, (
            "the adapter was trained on other tasks than these: a change to them asks for a new training"
        )


class TestHeldOut:
    @pytest.mark.parametrize("held_out", [False, True])
    def test_every_literal_is_on_its_side(self, held_out: bool) -> None:
        values = Values(np.random.default_rng(1), held_out=held_out)
        names = {param.draws for tool in TOOLS + HELD_OUT_TOOLS for param in tool.params if param.draws}
        assert len(names) > 25
        for name in sorted(names - UNSPLIT):
            for _ in range(40):
                assert held_out_text(str(getattr(values, name)())) == held_out, name

    def test_no_literal_of_training_is_one_of_a_test(self, drawn: dict[str, Drawn]) -> None:
        trained = drawn["train"].literals
        assert len(trained) > 3000 and not any(map(held_out_text, trained))
        for split in ("values", "templates"):
            assert len(drawn[split].literals) > 2000
            assert all(map(held_out_text, drawn[split].literals))

    @pytest.mark.parametrize("split", ["values", "templates"])
    def test_what_is_to_be_copied_was_held_out(self, drawn: dict[str, Drawn], split: str) -> None:
        """An answer's literals are drawn ones, but for closed sets (a protocol, a count) and pairs (host:port)."""
        said = [one for task in drawn[split].tasks for turn in task.turns for one in turn.literals]
        held = [one for one in said if one in drawn[split].literals]
        assert len(held) > 0.7 * len(said)
        known = set(said) & drawn["train"].literals
        assert all(re.fullmatch(r"\d{1,3}", one) for one in known), "a count or a status: another set's number"

    def test_tools_share_no_name(self) -> None:
        trained, held = (
            {name for tool in tools for name in (tool.name, f"{tool.name}_v2", *tool.aliases)}
            for tools in (TOOLS, HELD_OUT_TOOLS)
        )
        assert not trained & held
        assert not {tool.about for tool in TOOLS} & {tool.about for tool in HELD_OUT_TOOLS}
        assert len(TOOLS) == len({tool.name for tool in TOOLS}) and len(HELD_OUT_TOOLS) >= 20

    def test_conversations_offer_the_tools_of_their_split(self, drawn: dict[str, Drawn]) -> None:
        offered = {
            split: {tool["function"]["name"] for task in drawn[split].tasks for tool in task.tools} for split in SPLITS
        }
        assert not offered["templates"] & (offered["train"] | offered["values"])
        assert all(offered.values())

    def test_templates_share_no_name_and_no_system_turn(self, drawn: dict[str, Drawn]) -> None:
        families = {"tool-calls", "parallel-calls", "recovery", "no-calls"}
        names = {split: {task.template for task in drawn[split].tasks} - families for split in SPLITS}
        assert not names["templates"] & (names["train"] | names["values"])
        assert names["values"] <= {one.__name__ for one in configs.TRAIN + commands.TRAIN}
        assert names["templates"] == {one.__name__ for one in configs.HELD_OUT + commands.HELD_OUT}
        heads = {
            split: {
                task.turns[0].text.partition("\n")[0] for task in drawn[split].tasks if task.turns[0].role == "system"
            }
            for split in SPLITS
        }
        assert not heads["templates"] & heads["train"]

    def test_errors_are_worded_apart(self) -> None:
        for name in ("_DID_YOU_MEAN", "_LIMITED", "_RENAMED", "_MOVED", "_NO_TOOL_REQUESTS"):
            held = "_HELD_OUT_NO_TOOL" if name == "_NO_TOOL_REQUESTS" else f"{name}_HELD_OUT"
            assert not set(getattr(calls, name)) & set(getattr(calls, held))


class TestRight:
    @pytest.mark.parametrize("split", SPLITS)
    def test_calls_fit_the_schema_that_is_shown(self, drawn: dict[str, Drawn], split: str) -> None:
        """But for those that an error asks for: they differ from the call before in one thing, which it names."""
        judged = corrected = 0
        for task in drawn[split].tasks:
            shown = {tool["function"]["name"]: tool["function"] for tool in task.tools}
            assert len(shown) == len(task.tools)
            for line in task.turns[0].text.splitlines()[1:] if task.tools else []:
                assert json.loads(line) == shown[json.loads(line)["name"]]
            for at, turn in enumerate(task.turns):
                if turn.role != "assistant" or "<tool_call>" not in turn.text:
                    continue
                made = calls_of(turn.text)
                assert len(made) == turn.text.count("<tool_call>") == turn.text.count("</tool_call>")
                before = task.turns[at - 1]
                if before.role == "tool":
                    (call,), (failed,) = made, calls_of(task.turns[at - 2].text)
                    assert _news(failed, call) in json.loads(before.text)["error"]
                    corrected += 1
                    continue
                for call in made:
                    assert list(call) == ["name", "arguments"]
                    schema = shown[call["name"]]["parameters"] | {"additionalProperties": False}
                    jsonschema.Draft202012Validator(schema).validate(call["arguments"])
                    judged += 1
        assert judged > 500 and corrected > 100

    @pytest.mark.parametrize("split", SPLITS)
    def test_literals_stand_in_the_answer_and_before_it(self, drawn: dict[str, Drawn], split: str) -> None:
        seen = 0
        for task in drawn[split].tasks:
            before = ""
            for turn in task.turns:
                for literal in turn.literals:
                    assert turn.role == "assistant" and literal in turn.text
                    assert literal in before, (task.template, literal)
                    seen += 1
                before += f"{turn.text}\n"
        assert seen > 3000

    def test_one_prompt_has_one_answer(self, drawn: dict[str, Drawn]) -> None:
        answers: dict[str, str] = {}
        for split in SPLITS:
            for task in drawn[split].tasks:
                for before, answer in histories(task):
                    assert answers.setdefault(before, answer) == answer, before[-500:]
        assert len(answers) > 3000

    @pytest.mark.parametrize("tools", [TOOLS, HELD_OUT_TOOLS], ids=["trained", "held-out"])
    def test_a_request_says_which_tool_it_means(self, tools: tuple) -> None:
        """Two tools may be asked for in the same words only where the values are of different kinds."""
        meant = defaultdict(list)
        for tool in tools:
            required = {param.name for param in tool.params if not param.also}
            by_name = {param.name: param for param in tool.params}
            for ask in tool.asks:
                said = re.findall(r"\{(\w+)\}", ask)
                assert set(said) == required, (tool.name, ask)
                kinds = tuple(by_name[name].draws or by_name[name].choices for name in said)
                meant[re.sub(r"\{\w+\}", "{}", ask).lower(), kinds].append(tool.name)
        assert [names for names in meant.values() if len(names) > 1] == []

    def test_roles_and_ends(self, drawn: dict[str, Drawn]) -> None:
        for task in drawn["train"].tasks:
            roles = [turn.role for turn in task.turns]
            assert roles[0] in ("system", "user") and roles[-1] == "assistant" and "assistant" in roles
            assert all(pair in _FOLLOWS for pair in itertools.pairwise(roles))
            assert all(turn.text == turn.text.strip() and turn.text for turn in task.turns)


_FOLLOWS = {
    ("system", "user"), ("user", "assistant"), ("assistant", "user"), ("assistant", "tool"), ("tool", "assistant"),
}  # fmt: skip


def _news(old: dict, new: dict) -> str:
    """The one thing in which a corrected call differs, as an error would name it."""
    if old["name"] != new["name"]:
        assert old["arguments"] == new["arguments"]
        return new["name"]
    assert len(old["arguments"]) == len(new["arguments"])
    pairs = zip(old["arguments"].items(), new["arguments"].items(), strict=True)
    ((old_item, new_item),) = [pair for pair in pairs if pair[0] != pair[1]]
    assert (old_item[0] == new_item[0]) != (old_item[1] == new_item[1]), "a name or a value, not both"
    return new_item[0] if old_item[0] != new_item[0] else str(new_item[1])


class TestShares:
    def test_kinds_come_in_their_shares(self, drawn: dict[str, Drawn]) -> None:
        assert sum(TRAINED_SHARES.values()) == pytest.approx(1)
        assert {*TRAINED_SHARES, "chat"} == set(KINDS)
        for split in SPLITS:
            found = Counter(task.kind for task in drawn[split].tasks)
            for kind, share in TRAINED_SHARES.items():
                spread = (share * (1 - share) / 1000) ** 0.5
                assert abs(found[kind] / 1000 - share) < 4 * spread, (split, kind)

    @pytest.mark.parametrize("kind", TRAINED_SHARES)
    @pytest.mark.parametrize("split", SPLITS)
    def test_a_kind_may_be_asked_for(self, split: str, kind: str) -> None:
        assert {draw(split, 1, index, kind).kind for index in range(5)} == {kind}

    @pytest.mark.parametrize("template", [*configs.TRAIN, *configs.HELD_OUT, *commands.TRAIN, *commands.HELD_OUT])
    def test_a_template_goes_by_its_name_and_varies(self, template) -> None:
        values = Values(np.random.default_rng(1), held_out=False)
        tasks = [template(values) for _ in range(10)]
        assert {task.template for task in tasks} == {template.__name__}
        assert len({task.kind for task in tasks}) == 1 and tasks[0].kind in KINDS
        assert len({task.turns[-1].text for task in tasks}) > 5


class TestText:
    def test_pieces_are_chatml(self, drawn: dict[str, Drawn]) -> None:
        for task in drawn["values"].tasks[:200]:
            rendered = "".join(f"<|im_start|>{turn.role}\n{turn.text}<|im_end|>\n" for turn in task.turns)
            assert text_of(task) + "\n" == rendered
            answers = [f"{turn.text}<|im_end|>" for turn in task.turns if turn.role == "assistant"]
            parts = pieces(task)
            assert [part.text for part in parts if part.answer is not None] == answers
            assert [part.answer for part in parts if part.answer is not None] == list(range(len(answers)))

    def test_a_tiny_tokenizer_cuts_where_pieces_are_cut(self, drawn: dict[str, Drawn], chatty: Path) -> None:
        with LlamaCpp(chatty, settings(context_tokens=64, batch=64)) as engine:
            _check_tokens(engine, drawn)

    def test_the_models_own_tokenizer_does_too(self, drawn: dict[str, Drawn], smollm2: Path) -> None:
        with LlamaCpp(smollm2, settings(context_tokens=64, batch=64)) as engine:
            lengths = _check_tokens(engine, drawn)
        assert np.mean(np.array(lengths) > 1024) < 0.01, "training leaves out what is longer"


def _check_tokens(engine: LlamaCpp, drawn: dict[str, Drawn]) -> list[int]:
    """Pieces and the whole give the same ids, and these the text back; lengths in tokens."""
    table, lengths = engine.token_bytes(), []
    for split in SPLITS:
        for task in drawn[split].tasks[:200]:
            parts = [token for piece in pieces(task) for token in engine.tokenize(piece.text)]
            assert parts == engine.tokenize(text_of(task)), task.template
            assert b"".join(table[token] for token in parts).decode() == text_of(task)
            lengths.append(len(parts))
    return lengths


def test_the_card_says_how_often_each_kind_is_trained() -> None:
    card = (MODEL_FOLDER / "README.md").read_text(encoding="utf-8")
    said = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) % \|", card, re.MULTILINE))
    assert said == {kind: f"{100 * share:.0f}" for kind, share in TRAINED_SHARES.items()}
