"""A panel of prompts as ids: turns around the texts, one form of the file, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from drift_runs.authoring.prompt_ids import prompt_ids, prompt_ids_bytes, prompt_text, write_prompt_ids
from drift_runs.errors import ProtocolError
from drift_runs.protocol.generation import Chat, Prompt, PromptIds, Prompts

CHAT = Chat(
    assistant="<|im_start|>assistant\n",
    ends=("<|im_end|>",),
    tool_turn="\n<|im_start|>tool\n{text}<|im_end|>\n<|im_start|>assistant\n",
    user_turn="<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n",
    system_turn="<|im_start|>system\n{text}<|im_end|>\n",
)
PLAIN = CHAT.model_copy(update={"system_turn": ""})


def panel(*prompts: Prompt) -> Prompts:
    return Prompts(schema_="drift.prompts/1", name="panel", title="A panel", prompts=prompts)


def letters(text: str) -> list[int]:
    return list(text.encode())


ONE = Prompt(name="one", kind="software", text="Why does {text} stay?\n日")
TWO = Prompt(name="two", kind="tool-use", system="You may call: {text}", text="Restart it.")


def test_turns_stand_around_the_texts_and_texts_stay_as_they_are():
    assert prompt_text(ONE, CHAT) == ("<|im_start|>user\nWhy does {text} stay?\n日<|im_end|>\n<|im_start|>assistant\n")
    assert prompt_text(TWO, CHAT) == (
        "<|im_start|>system\nYou may call: {text}<|im_end|>\n"
        "<|im_start|>user\nRestart it.<|im_end|>\n<|im_start|>assistant\n"
    )
    assert prompt_text(ONE, PLAIN) == prompt_text(ONE, CHAT)


def test_ids_by_name_in_the_panels_order():
    found = prompt_ids(panel(TWO, ONE), CHAT, letters, "d" * 64, "a" * 64)
    assert list(found.ids) == ["two", "one"]
    assert bytes(found.ids["one"]).decode() == prompt_text(ONE, CHAT)
    assert (found.dictionary_sha256, found.prompts_sha256) == ("d" * 64, "a" * 64)


def test_the_file_reads_back_and_is_always_the_same(tmp_path: Path):
    found = prompt_ids(panel(ONE, TWO), CHAT, letters, "d" * 64, "a" * 64)
    write_prompt_ids(tmp_path / "ids" / "panel.json", found)
    raw = (tmp_path / "ids" / "panel.json").read_bytes()
    assert raw == prompt_ids_bytes(found)
    again = PromptIds.model_validate_json(raw, strict=True)
    assert again == found and list(again.ids) == ["one", "two"]
    assert raw.count(b"\n") == 5 + 2 + 2  # a line a prompt


@pytest.mark.parametrize(
    ("prompts", "chat", "words"),
    [
        ((ONE, TWO), PLAIN, r"prompt two: it has a system text.*system_turn"),
        ((ONE, ONE.model_copy(update={"name": "again"})), CHAT, "prompt again: it has the ids of prompt one"),
    ],
)
def test_what_is_refused(prompts: tuple[Prompt, ...], chat: Chat, words: str):
    with pytest.raises(ProtocolError, match=words):
        prompt_ids(panel(*prompts), chat, letters, "d" * 64, "a" * 64)


def test_a_text_without_ids_is_refused():
    with pytest.raises(ProtocolError, match="prompt one: the tokenizer gives no ids"):
        prompt_ids(panel(ONE), CHAT, lambda _text: [], "d" * 64, "a" * 64)


def test_a_system_turn_needs_a_place_for_its_text():
    with pytest.raises(ValueError, match="system_turn"):
        Chat(**{**CHAT.model_dump(), "system_turn": "no place"})
