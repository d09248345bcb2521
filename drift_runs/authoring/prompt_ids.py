"""A panel of prompts as token ids: what rollouts are run from, written once and kept, as streams are."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from drift_runs.errors import ProtocolError
from drift_runs.protocol.canonical import write_atomically
from drift_runs.protocol.generation import Chat, Prompt, PromptIds, Prompts

SCHEMA = "drift.prompt-ids/1"
_TEXT = "{text}"


def prompt_text(prompt: Prompt, chat: Chat) -> str:
    """The whole text of a prompt, markup included, up to where the assistant's turn begins.

    Raises ``ProtocolError`` for a system text where the chat says nothing of one.
    """
    turn = chat.user_turn.replace(_TEXT, prompt.text)
    if not prompt.system:
        return turn
    if not chat.system_turn:
        raise ProtocolError(
            "it has a system text, and the chat says nothing of one",
            where=f"prompt {prompt.name}",
            expected="system_turn in [chat]",
        )
    return chat.system_turn.replace(_TEXT, prompt.system) + turn


def prompt_ids(
    prompts: Prompts,
    chat: Chat,
    tokenize: Callable[[str], Sequence[int]],
    dictionary_sha256: str,
    prompts_sha256: str,
) -> PromptIds:
    """Token ids of every prompt. ``tokenize``: ids of a text in which markup is recognised, without an automatic BOS.

    Raises ``ProtocolError`` for a text without ids, or for two prompts of the same ids: they would count twice.
    """
    found: dict[str, tuple[int, ...]] = {}
    seen: dict[tuple[int, ...], str] = {}
    for prompt in prompts.prompts:
        ids = tuple(tokenize(prompt_text(prompt, chat)))
        if not ids:
            raise ProtocolError("the tokenizer gives no ids", where=f"prompt {prompt.name}")
        if ids in seen:
            raise ProtocolError(
                f"it has the ids of prompt {seen[ids]}", where=f"prompt {prompt.name}", expected="a prompt of its own"
            )
        seen[ids] = prompt.name
        found[prompt.name] = ids
    return PromptIds(schema_=SCHEMA, prompts_sha256=prompts_sha256, dictionary_sha256=dictionary_sha256, ids=found)


def prompt_ids_bytes(ids: PromptIds) -> bytes:
    """The one form of the file: a line for each key and for each prompt, in the panel's order."""
    head = [
        f"  {json.dumps(key)}: {json.dumps(value)}"
        for key, value in (
            ("schema", ids.schema_),
            ("prompts_sha256", ids.prompts_sha256),
            ("dictionary_sha256", ids.dictionary_sha256),
        )
    ]
    lines = [f"    {json.dumps(name)}: {json.dumps(list(tokens))}" for name, tokens in ids.ids.items()]
    body = ",\n".join(lines)
    return ("{\n" + ",\n".join(head) + ',\n  "ids": {\n' + body + "\n  }\n}\n").encode()


def write_prompt_ids(path: Path, ids: PromptIds) -> None:
    """Write the file: the same ids always give the same bytes, so its digest says whether they changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, prompt_ids_bytes(ids))
