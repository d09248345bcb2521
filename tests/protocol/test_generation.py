"""What a protocol says of generation: sound tables, each refusal with its key, and the files of prompts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from drift_runs.errors import LockMismatch, ProtocolError
from drift_runs.protocol import prompts as prompts_module
from drift_runs.protocol.canonical import file_sha256
from drift_runs.protocol.freeze import freeze
from drift_runs.protocol.generation import Branches
from drift_runs.protocol.load import load_followups, load_protocol
from drift_runs.protocol.lock import lock_path
from drift_runs.protocol.prompts import load_prompts
from tests.conftest import DELETE, TINY, change_json, change_toml, copy_tiny, dump_toml

DICTIONARY = "8193d98943e84a01c62446e471a0be14ba5396703ea8d1377712e507a47d56d9"
CHAT = {"assistant": "a\n", "ends": ["</s>"], "tool_turn": "\nt\n{text}</s>\na\n", "user_turn": "u\n{text}</s>\na\n"}
RESULT = {"tool": "open", "arguments": {"port": 1}, "result": "done"}
ENVIRONMENT = {"name": "shop", "windows": ["beta", "odd"], "results": [RESULT], "otherwise": "no such call"}
PANEL = {
    "schema": "drift.prompts/1",
    "name": "panel",
    "title": "Two prompts",
    "prompts": [
        {"name": "one", "kind": "terminal", "text": "ab", "quick": True},
        {"name": "two", "kind": "non-latin", "text": "cd", "system": "e"},
    ],
}
SOUND = {
    "chat": CHAT,
    "branches": {"horizon_tokens": 20, "turns": 2},
    "environments": [ENVIRONMENT],
    "rollouts": {"prompts": "panel.toml", "ids": "streams/panel-ids.json", "tokens": 8},
    "sampled": {"temperatures": [0.5, 1.0], "tokens": 8},
    "answers": [{"name": "call", "window": "beta", "from": 6, "to": 20, "form": "call"}],
    "tasks": [
        {"name": "shut", "window": "beta", "at": 6, "check": "calls", "answer": "call", "horizon_tokens": 8},
        {"name": "find", "window": "odd", "at": 5, "check": "pattern", "expected": ["a+"], "horizon_tokens": 8},
    ],
    "constrained": [{"name": "q4-json", "arm": "q4_0", "grammar": "json"}],
}


def make(folder: Path, changes: dict | None = None, *, panel: dict | None = None, ids: dict | None = None) -> Path:
    """The tiny protocol with every table of generation, and its files of prompts, each with changes."""
    path = copy_tiny(folder, SOUND)
    file = folder / "panel.toml"
    file.write_text(dump_toml(PANEL), "utf-8")
    if panel:
        change_toml(file, panel)
    content = {
        "schema": "drift.prompt-ids/1",
        "prompts_sha256": file_sha256(file),
        "dictionary_sha256": DICTIONARY,
        "ids": {"one": [0, 2, 3], "two": [0, 4, 5, 6]},
    }
    (folder / "streams" / "panel-ids.json").write_text(json.dumps(content), "utf-8")
    if ids:
        change_json(folder / "streams" / "panel-ids.json", ids)
    if changes:
        change_toml(path, changes)
    return path


def lines(path: Path) -> list[str]:
    with pytest.raises(ProtocolError) as caught:
        load_protocol(path)
    return [str(error).removeprefix("tiny.toml: ") for error in (caught.value, *caught.value.others)]


def test_a_sound_protocol_is_loaded_with_its_prompts(tmp_path):
    loaded = load_protocol(make(tmp_path))
    assert loaded.prompts.prompts[1].system == "e" and loaded.prompt_ids.ids["two"] == (0, 4, 5, 6)
    assert {"panel.toml", "streams/panel-ids.json"} < set(loaded.file_digests)
    assert loaded.file_digests["panel.toml"] == file_sha256(tmp_path / "panel.toml")
    assert loaded.protocol.branches.syntax == "hermes" and loaded.protocol.environments[0].results[0].tool == "open"


def test_a_protocol_without_these_tables_is_as_it_was():
    loaded = load_protocol(TINY / "tiny.toml")  # its lock was frozen before there were any
    assert loaded.lock is not None and (loaded.prompts, loaded.prompt_ids, loaded.protocol.branches) == (None,) * 3
    assert set(loaded.file_digests) == {"streams/alpha.json", "streams/beta.json", "streams/odd.json"}


def test_the_lock_covers_the_files_of_prompts(tmp_path):
    path = make(tmp_path)
    lock = freeze(path).lock
    assert set(lock.files) == set(load_protocol(path).file_digests) and "streams/panel-ids.json" in lock.files
    change_json(tmp_path / "streams" / "panel-ids.json", {"ids.one": [0, 2, 4]})
    with pytest.raises(LockMismatch, match=r"file streams/panel-ids.json: frozen sha256 .*now sha256"):
        load_protocol(path)
    lock_path(path).unlink()
    assert load_protocol(path).prompt_ids.ids["one"] == (0, 2, 4)


def task(**changes: object) -> dict:
    found = {"name": "t", "window": "odd", "at": 5, "check": "literals", "expected": ["a"], "horizon_tokens": 8}
    return {"tasks": [{key: value for key, value in (found | changes).items() if value is not DELETE}]}


CASES = {
    "tool turn that does not open the next": (
        {"chat.tool_turn": "t {text}"},
        r"chat\.tool_turn: 't\}' at its end is not where a turn of the assistant begins; expected an end of 'a\\n'",
    ),
    "two texts in a turn": ({"chat.user_turn": "{text}{text}a\n"}, r"chat\.user_turn: \{text\} stands in it 2 times"),
    "two texts in a system's turn": (
        {"chat.system_turn": "{text}{text}"},
        r"chat\.system_turn: \{text\} stands in it 2 times; expected once",
    ),
    "no text in a turn": ({"chat.user_turn": "a\n"}, r"chat\.user_turn: 'a\\n' does not fit; expected a text with"),
    "no end of a turn": ({"chat.ends": []}, r"chat\.ends: nothing is in it; expected one or more"),
    "an end twice": ({"chat.ends": ["</s>", "</s>"]}, r"chat\.ends\[1\]: '</s>' is named twice"),
    "nothing in front of a turn": ({"chat.assistant": ""}, r"chat\.assistant: the text is empty; expected some text"),
    "turns without an environment": (
        {"environments": []},
        r"branches\.turns: 2 turns, and no environment answers a call; expected 1, or \[\[environments\]\]",
    ),
    "horizon beyond the context": (
        {"branches.horizon_tokens": 25},
        r"branches\.horizon_tokens: 25 tokens behind position 39, the last that is scored, do not fit; "
        r"expected at most 24 tokens, or a larger capture\.context_tokens than 64",
    ),
    "unknown syntax": ({"branches.syntax": "herms"}, r"branches\.syntax: 'herms' is not allowed; .*'hermes'\?"),
    "a dialect in other letters": (
        {"branches.sql_dialect": "PostgreSQL"},
        r"branches\.sql_dialect: sqlglot has no dialect 'PostgreSQL'; expected one of postgres, tsql, prql; "
        r"did you mean 'postgres'\?$",
    ),
    "a dialect near several": (
        {"branches.sql_dialect": "spark3"},
        r"branches\.sql_dialect: sqlglot has no dialect 'spark3'; expected one of spark2?, spark2?\b",
    ),
    "a dialect near none": (
        {"branches.sql_dialect": "zzz"},
        r"branches\.sql_dialect: sqlglot has no dialect 'zzz'; expected one of athena, .*\bsqlite, .*, tsql$",
    ),
    "no dialect": ({"branches.sql_dialect": ""}, r"branches\.sql_dialect: sqlglot has no dialect ''; expected one of"),
    "a dialect with a setting": (
        {"branches.sql_dialect": "mysql, normalization_strategy=lowercase"},
        r"branches\.sql_dialect: sqlglot has no dialect 'mysql, ",
    ),
    "environment without a chat": (
        {"chat": DELETE},
        r"environments\[0\] 'shop': nothing says how a turn of a tool is written; expected \[chat\]",
    ),
    "environment of one turn": (
        {"branches.turns": 1},
        r"environments\[0\] 'shop': a future of one turn ends before its calls are answered; expected branches\.turns",
    ),
    "environment without branches": (
        {"branches": DELETE},
        r"environments\[0\] 'shop': nothing is followed that it could answer; expected \[branches\]",
    ),
    "unknown window of an environment": (
        {"environments[0].windows": ["bete"]},
        r"environments\[0\]\.windows\[0\] of 'shop': unknown window 'bete'; .*did you mean 'beta'\?",
    ),
    "no window of an environment": ({"environments[0].windows": []}, r"environments\[0\]\.windows of 'shop': no win"),
    "window of two environments": (
        {"environments[1]": ENVIRONMENT | {"name": "other", "windows": ["odd"]}},
        r"environments\[1\]\.windows\[0\] of 'other': 'odd' belongs to environment 'shop'",
    ),
    "environments of one name": (
        {"environments[1]": ENVIRONMENT | {"name": "Shop", "windows": ["alpha-1"]}},
        r"environments\[1\]\.name of 'Shop': duplicate name 'Shop'",
    ),
    "a call answered twice": (
        {"environments[0].results[1]": RESULT | {"result": "other"}},
        r"environments\[0\]\.results\[1\] of 'shop': the call of results\[0\] again",
    ),
    "nothing for any other call": (
        {"environments[0].otherwise": ""},
        r"environments\[0\]\.otherwise of 'shop': the text is empty; expected some text",
    ),
    "unknown window of a task": (task(window="ood"), r"tasks\[0\]\.window of 't': unknown window 'ood'"),
    "task where nothing begins": (
        task(at=7),
        r"tasks\[0\]\.at of 't': nothing that is written begins at 7 of window 'odd'; expected .*answer: 5",
    ),
    "task beyond its stream": (task(at=24), r"tasks\[0\]\.at of 't': 24 is beyond the stream; expected at most 23"),
    "task beyond the context": (
        task(horizon_tokens=60),
        r"tasks\[0\]\.horizon_tokens of 't': 60 tokens behind 5 do not fit; expected at most 59",
    ),
    "task of nothing": (task(expected=[]), r"tasks\[0\]\.expected of 't': check 'literals' with nothing to expect"),
    "task of a blank": (task(expected=["a", " "]), r"tasks\[0\]\.expected\[1\] of 't': no text"),
    "answer for literals": (
        task(window="beta", at=6, answer="call", expected=DELETE),
        r"tasks\[0\]\.answer of 't': check 'literals' takes no answer; expected expected",
    ),
    "answer and expected": (
        task(window="beta", at=6, check="calls", answer="call"),
        r"tasks\[0\]\.expected of 't': given beside an answer; expected one of the two",
    ),
    "unknown answer": (
        task(window="beta", at=6, check="calls", answer="cal", expected=DELETE),
        r"tasks\[0\]\.answer of 't': unknown answer 'cal'; expected call; did you mean 'call'\?",
    ),
    "answer of another window": (
        task(check="calls", answer="call", expected=DELETE),
        r"tasks\[0\]\.answer of 't': 'call' belongs to window 'beta'; expected an answer of window 'odd'",
    ),
    "answer from elsewhere on": (
        {**task(window="beta", at=6, check="calls", answer="call", expected=DELETE), "answers[0].from": 7},
        r"tasks\[0\]\.answer of 't': 'call' begins at 7, the task at 6",
    ),
    "answer of another form": (
        task(window="beta", at=6, check="json", answer="call", expected=DELETE),
        r"tasks\[0\]\.answer of 't': 'call' is of form 'call'; expected form 'json' for check 'json'",
    ),
    "no regular expression": (
        task(check="pattern", expected=["a("]),
        r"tasks\[0\]\.expected\[0\] of 't': no regular expression: .*; expected a regular expression of Python",
    ),
    "two patterns": (
        task(check="pattern", expected=["a", "b"]),
        r"tasks\[0\]\.expected of 't': 2 texts for one pattern",
    ),
    "no JSON": (task(check="json", expected=["{"]), r"tasks\[0\]\.expected\[0\] of 't': no JSON: "),
    "no number of JSON": (
        task(check="json", expected=["NaN"]),
        r"tasks\[0\]\.expected\[0\] of 't': no JSON: NaN is no number",
    ),
    "query without tables": (
        task(check="sql", expected=["select 1"]),
        r"tasks\[0\]\.fixture of 't': no table for the query",
    ),
    "tables without a query": (task(fixture="create"), r"tasks\[0\]\.fixture of 't': check 'literals' has no use for"),
    "order without a query": (task(ordered=True), r"tasks\[0\]\.ordered of 't': check 'literals' has no use for it"),
    "tasks of one name": (
        {"tasks[1].name": "SHUT"},
        r"tasks\[1\]\.name of 'SHUT': duplicate name 'SHUT', first used by tasks\[0\]",
    ),
    "unknown arm of a constrained decode": (
        {"constrained[0].arm": "q4"},
        r"constrained\[0\]\.arm of 'q4-json': unknown arm 'q4'; .*did you mean 'q4_0'\?",
    ),
    "constrained like an arm": (
        {"constrained[0].name": "Q8_0"},
        r"constrained\[0\]\.name of 'Q8_0': an arm is named 'Q8_0' too; expected a name of its own",
    ),
    "constrained like a floor": (
        {"constrained[0].name": "f16-launch"},
        r"constrained\[0\]\.name of 'f16-launch': a floor is named 'f16-launch' too",
    ),
    "constrained twice": (
        {"constrained[1]": SOUND["constrained"][0]},
        r"constrained\[1\]\.name of 'q4-json': duplicate name",
    ),
    "constrained reference": (
        {"constrained[0].arm": "f16"},
        r"constrained\[0\]\.arm of 'q4-json': 'f16' is the reference: .*; expected a candidate",
    ),
    "constrained without generation": (
        {"branches": DELETE, "tasks": [], "environments": []},
        r"constrained\[0\] 'q4-json': no future is followed that it could hold; expected \[branches\]",
    ),
    "constrained beside tasks alone": (
        {"branches": DELETE, "environments": []},
        r"constrained\[0\] 'q4-json': no future is followed that it could hold: the answers to tasks are not held to a "
        r"grammar; expected \[branches\]",
    ),
    "an engine that only writes as reference": (
        {"arms[0].engine": "generic", "sampled": DELETE},
        r"arms\[0\]\.engine of 'f16': engine 'generic' writes and scores nothing: a reference needs rows",
    ),
    "an engine that only writes, and nothing to write": (
        {
            **{"arms[2].engine": "tgi", "branches": DELETE, "tasks": [], "environments": [], "rollouts": DELETE},
            **{"sampled": DELETE, "constrained": []},
        },
        r"arms\[2\]\.engine of 'q4_0': engine 'tgi' writes and scores nothing, and the protocol asks for nothing",
    ),
    "launches of an engine that only writes": (
        {"arms[2].engine": "mlx_lm_server", "arms[2].launches": 2, "sampled": DELETE, "constrained": []},
        r"arms\[2\]\.launches of 'q4_0': engine 'mlx_lm_server' writes and scores nothing: a further launch",
    ),
    "a path shape of an engine that only writes": (
        {"arms[2].engine": "generic", "arms[2].settings": {"path_shape": "decode"}, "sampled": DELETE},
        r"arms\[2\]\.settings\.path_shape of 'q4_0': engine 'generic' writes and scores nothing: rows in no shape",
    ),
    "a floor of an engine that only writes": (
        {"arms[2].engine": "generic", "floors[0].arm": "q4_0", "floors[0].kind": "launch", "sampled": DELETE},
        r"floors\[0\]\.arm of '[^']*': 'q4_0' has no rows: engine 'generic' writes and scores nothing",
    ),
    "no file of prompts": (
        {"rollouts.prompts": "none.toml"},
        r"rollouts\.prompts: 'none\.toml': no such file; expected a panel of prompts",
    ),
    "no file of ids": (
        {"rollouts.ids": "none.json"},
        r"rollouts\.ids: 'none\.json': no such file; expected the prompts' token ids; write it with drift record",
    ),
    "prompts elsewhere": (
        {"rollouts.prompts": "../panel.toml"},
        r"rollouts\.prompts: '\.\./panel\.toml' leaves the protocol's folder",
    ),
    "rollouts beyond the context": (
        {"rollouts.tokens": 61},
        r"rollouts\.tokens: 61 tokens behind the 4 of prompt 'two' do not fit; expected at most 60",
    ),
    "samples beyond the context": (
        {"sampled.tokens": 61},
        r"sampled\.tokens: 61 tokens behind the 4 of prompt 'two' do not fit",
    ),
    "samples without prompts": ({"rollouts": DELETE}, r"sampled: nothing says what is sampled behind; expected \[roll"),
    "a temperature twice": (
        {"sampled.temperatures": [1.0, 1]},
        r"sampled\.temperatures\[1\]: 1 is given twice; expected each once",
    ),
    "no temperature": ({"sampled.temperatures": []}, r"sampled\.temperatures: nothing is in it; expected one or more"),
    "temperature of 0": ({"sampled.temperatures": [0]}, r"sampled\.temperatures\[0\]: 0 is out of bounds; expected m"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_names_its_key(tmp_path, case):
    changes, message = CASES[case]
    found = lines(make(tmp_path, changes))
    assert [line for line in found if re.match(message, line)], found


@pytest.mark.parametrize("engine", ["generic", "tgi", "mlx_lm_server"])
def test_an_engine_that_only_writes_needs_no_lists(tmp_path, engine):
    """Full rows and draws with common noise are compared of the others: it takes no part in that."""
    changes = {"arms[2].engine": engine, "constrained": []}
    loaded = load_protocol(make(tmp_path, changes))
    assert loaded.protocol.capture.full_vocabulary == "yes" and loaded.protocol.arms[2].engine == engine


@pytest.mark.parametrize("dialect", ["sqlite", "postgres", "tsql"])
def test_a_dialect_of_sqlglot_is_taken(tmp_path, dialect):
    path = make(tmp_path, {"branches.sql_dialect": dialect})
    assert load_protocol(path).protocol.branches.sql_dialect == dialect


def test_the_usual_dialect_costs_no_import(tmp_path):
    """Where it is taken unseen, it has to be one."""
    from drift_runs.generate.languages import sql_problem

    assert sql_problem("SELECT 1", Branches().sql_dialect) == ""
    path = make(tmp_path)
    probe = "import sys; from drift_runs.protocol.load import find_protocol, load_protocol\n"
    probe += f"load_protocol(find_protocol({str(path)!r})); print('sqlglot' in sys.modules)"
    outcome = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert outcome.stdout.strip() == "False"


def test_a_grammar_of_tools_needs_a_tool(tmp_path):
    path = make(tmp_path, {"constrained[0].grammar": "tools"})
    assert load_protocol(path).protocol.constrained[0].grammar == "tools"
    change_json(tmp_path / "streams" / "beta.json", {"tools": []})
    assert lines(path) == [
        "constrained[0].grammar of 'q4-json': no stream offers a tool; expected tools in a stream, or 'json'"
    ]


PANEL_CASES = {
    "unknown kind": ({"prompts[0].kind": "shell"}, r"panel\.toml: prompts\[0\]\.kind of 'one': 'shell' is not allowed"),
    "unknown key": ({"prompts[0].txt": "a"}, r"panel\.toml: prompts\[0\]\.txt of 'one': unknown key 'txt'; .*'text'\?"),
    "no text": ({"prompts[0].text": ""}, r"panel\.toml: prompts\[0\]\.text of 'one': the text is empty"),
    "two of one name": (
        {"prompts[1].name": "ONE"},
        r"panel\.toml: prompts\[1\]\.name of 'ONE': duplicate name 'ONE', first used by prompts\[0\]",
    ),
    "no prompt": ({"prompts": []}, r"panel\.toml: prompts: nothing is in it; expected one or more"),
    "another schema": ({"schema": "drift.prompts/2"}, r"panel\.toml: schema: 'drift\.prompts/2' is not allowed"),
    "none is quick": ({"prompts[0].quick": False}, r"sampled\.prompts: no prompt belongs to the quick subset"),
}


@pytest.mark.parametrize("case", PANEL_CASES)
def test_a_wrong_panel_is_refused(tmp_path, case):
    changes, message = PANEL_CASES[case]
    found = lines(make(tmp_path, panel=changes))
    assert re.match(message, found[0]), found


def test_a_panel_that_is_no_toml_is_refused(tmp_path):
    path = make(tmp_path)
    (tmp_path / "panel.toml").write_text("schema =\n", "utf-8")
    assert re.match(r"panel\.toml: not valid TOML: .*line 1", lines(path)[0])


IDS_CASES = {
    "of another panel": (
        {"prompts_sha256": "0" * 64},
        r"rollouts\.ids: streams/panel-ids\.json belongs to another state of panel\.toml: sha256 000000000000…",
    ),
    "of another dictionary": (
        {"dictionary_sha256": "0" * 64},
        r"rollouts\.ids: streams/panel-ids\.json is of another dictionary: sha256 0+…; expected 8193d98943e8…",
    ),
    "a prompt too few": (
        {"ids.two": DELETE},
        r"rollouts\.ids: streams/panel-ids\.json has no ids of prompt 'two'; write them again with drift record",
    ),
    "a prompt too many": (
        {"ids.three": [1]},
        r"rollouts\.ids: .* has ids of a prompt that is not in the panel: 'three'",
    ),
    "beyond the dictionary": (
        {"ids.one": [0, 32]},
        r"rollouts\.ids: id 32 of prompt 'one' in streams/panel-ids\.json is beyond the dictionary; expected ids below",
    ),
    "no token": ({"ids.one": []}, r"rollouts\.ids: streams/panel-ids\.json gives prompt 'one' no token"),
    "a negative id": ({"ids.one": [-1]}, r"streams/panel-ids\.json: ids\.one\[0\]: -1 is out of bounds"),
    "unknown key": ({"id": {}}, r"streams/panel-ids\.json: id: unknown key 'id'"),
}


@pytest.mark.parametrize("case", IDS_CASES)
def test_wrong_ids_are_refused(tmp_path, case):
    changes, message = IDS_CASES[case]
    found = lines(make(tmp_path, ids=changes))
    assert re.match(message, found[0]), found


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "no table; expected a table in UTF-8 JSON"),
        (b'{"ids": {}, "ids": {}}', "key 'ids' is given twice"),
        (b"\xff", "not valid JSON"),
    ],
)
def test_ids_that_are_no_table_are_refused(tmp_path, raw, message):
    path = make(tmp_path)
    (tmp_path / "streams" / "panel-ids.json").write_bytes(raw)
    assert message in lines(path)[0]


def test_huge_prompts_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(prompts_module, "PROMPTS_LIMIT_BYTES", 10)
    assert re.match(r"rollouts\.prompts: 'panel\.toml': the file is too large; exp", lines(make(tmp_path))[0])


def test_a_panel_of_its_own(tmp_path):
    make(tmp_path)
    assert [prompt.name for prompt in load_prompts(tmp_path / "panel.toml").prompts] == ["one", "two"]
    (tmp_path / "panel.json").write_text(json.dumps(PANEL), "utf-8")
    assert load_prompts(tmp_path / "panel.json") == load_prompts(tmp_path / "panel.toml")
    with pytest.raises(ProtocolError, match=r"none\.toml: no such file"):
        load_prompts(tmp_path / "none.toml")


def test_a_follow_up_is_not_named_like_a_constrained_decode(tmp_path):
    loaded = load_protocol(make(tmp_path))
    arm = {"name": "Q4-json", "role": "follow-up", "derivative": "stock", "weights": "f16"}
    content = {"schema": "drift.followups/1", "protocol": "tiny", "protocol_sha256": loaded.protocol_sha256}
    (tmp_path / "more.toml").write_text(dump_toml({**content, "arms": [arm]}), "utf-8")
    with pytest.raises(ProtocolError, match="the protocol has a constrained decode named 'Q4-json'"):
        load_followups(tmp_path / "more.toml", loaded)
