"""The panel of 300 prompts holds what it promises: kinds, the quick subset, scripts, documents, tools."""

from __future__ import annotations

import ipaddress
import json
import re
import unicodedata
from collections import Counter
from pathlib import Path

import pytest

from drift_runs.protocol.generation import Prompt, Prompts
from drift_runs.protocol.prompts import load_prompts

PANEL = Path(__file__).parents[2] / "protocols" / "divergence.toml"
KINDS = ("terminal", "software", "mathematics", "non-latin", "long-document", "tool-use")


@pytest.fixture(scope="module")
def panel() -> Prompts:
    return load_prompts(PANEL)


def of_kind(panel: Prompts, kind: str) -> list[Prompt]:
    return [prompt for prompt in panel.prompts if prompt.kind == kind]


def scripts(text: str) -> Counter[str]:
    """Letters by the first word of their name: LATIN, CYRILLIC, CJK."""
    return Counter(unicodedata.name(letter).split()[0] for letter in text if letter.isalpha())


def test_fifty_of_each_kind(panel: Prompts):
    assert len(panel.prompts) == 300
    assert Counter(prompt.kind for prompt in panel.prompts) == dict.fromkeys(KINDS, 50)
    assert len({prompt.text for prompt in panel.prompts}) == 300


def test_the_quick_prompts_stand_first_and_are_of_all_kinds(panel: Prompts):
    quick = [prompt for prompt in panel.prompts if prompt.quick]
    assert len(quick) == 32 and tuple(quick) == panel.prompts[:32]
    assert set(Counter(prompt.kind for prompt in quick).values()) == {4, 5, 6}
    assert {prompt.kind for prompt in quick[:6]} == set(KINDS)


def test_no_two_prompts_share_a_sentence(panel: Prompts):
    owner: dict[tuple[str, ...], str] = {}
    for prompt in panel.prompts:
        words = prompt.text.split()
        for begin in range(len(words) - 9):
            gram = tuple(words[begin : begin + 10])
            assert owner.setdefault(gram, prompt.name) == prompt.name, (gram, prompt.name)


def test_many_scripts(panel: Prompts):
    found: Counter[str] = Counter()
    for prompt in of_kind(panel, "non-latin"):
        letters = scripts(prompt.text)
        del letters["LATIN"]  # of commands and error messages that a question quotes
        assert letters.total() >= 12, prompt.name
        found[letters.most_common(1)[0][0]] += 1
    assert len(found) >= 13 and max(found.values()) <= 16


def test_documents_are_long(panel: Prompts):
    for prompt in of_kind(panel, "long-document"):
        # Counted with the demo's tokenizer when it was written: 600 to 1,290 tokens, the question included.
        assert 900 <= len(prompt.text) <= 3500, prompt.name
        assert "\n\n" in prompt.text


def test_tools_are_schemas_in_the_system_text(panel: Prompts):
    from jsonschema import Draft202012Validator

    systems = []
    for prompt in of_kind(panel, "tool-use"):
        head, *lines = prompt.system.split("\n")
        assert "<tool_call>" in head or "tools are" in head
        tools = [json.loads(line) for line in lines]
        assert 1 <= len(tools) <= 3
        for tool, line in zip(tools, lines, strict=True):
            assert set(tool) == {"name", "description", "parameters"}
            assert json.dumps(tool, ensure_ascii=False) == line
            Draft202012Validator.check_schema(tool["parameters"])
            assert set(tool["parameters"]["required"]) <= set(tool["parameters"]["properties"])
        systems += [tool["name"] for tool in tools]
    assert len(set(systems)) >= 45
    assert all(not prompt.system for prompt in panel.prompts if prompt.kind != "tool-use")


def test_no_markup_of_turns(panel: Prompts):
    assert not [prompt.name for prompt in panel.prompts if "<|" in prompt.text + prompt.system]


def test_addresses_and_domains_are_nobodys(panel: Prompts):
    everything = "\n".join(prompt.system + "\n" + prompt.text for prompt in panel.prompts)
    everything = everything.replace("20.2.0.192.in-addr.arpa", "")
    for found in re.findall(r"\b(?:\d{1,3}\.){3}\d{1,3}\b", everything):
        if found != "10.70.4.300":  # a mistake that a prompt asks for
            assert ipaddress.ip_address(found).is_private, found
    domains = re.findall(r"[\w.-]+@([A-Za-z-]+(?:\.[A-Za-z-]+)+)", everything)
    assert len(domains) >= 20
    assert not [found for found in domains if not re.search(r"(^|\.)example(\.(com|net|org))?$", found)]
