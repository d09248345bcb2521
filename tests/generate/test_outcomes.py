"""Every outcome by hand-made futures, in the order in which they are tried."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drift_runs.errors import ProtocolError
from drift_runs.generate.future import CONTEXT, HORIZON, STRUCTURE, TURN
from drift_runs.generate.outcomes import OUTCOMES, Outcome, judge
from drift_runs.schema import OUTCOMES as TABLE
from tests.generate.scenes import DATABASE, END, WORDS, call, future, ids, scene

EOT = "<|im_end|>"
OPENED = '<tool_call>\n{"name": "open_port", "arguments": {"host": "db-3", "port": '
"""A call that is open where its port is to come."""
CACHE = call(host="db-3", port=6379)
CLOSED = call("close_port", host="db-3", port=5432)


def judged(
    turn: str,
    reference: str | tuple[str | list[int], ...],
    candidate: str | tuple[str | list[int], ...],
    ended: tuple[str, str] | None = None,
    **changed: object,
) -> Outcome:
    """A text that ends with the end token ended its turn; others end as ``ended`` says, or were cut."""
    place = scene(turn, **changed)
    sides = []
    for at, pieces in enumerate((reference, candidate)):
        pieces = (pieces,) if isinstance(pieces, str) else pieces
        over = pieces[-1][-1:] == [END] or (isinstance(pieces[-1], str) and pieces[-1].endswith(EOT))
        how = ended[at] if ended else HORIZON
        sides.append(future(place, *pieces, ended=TURN if over else how))
    return judge(place, *sides)


def verdict(*arguments: object, **changed: object) -> tuple[str, str]:
    found = judged(*arguments, **changed)
    return found.outcome, found.rule


BOTH_CLOSED = (STRUCTURE, STRUCTURE)


def test_the_outcomes_are_those_of_the_table_of_rules() -> None:
    assert len(set(OUTCOMES)) == 9
    judged_columns = set(Outcome.__dataclass_fields__)
    assert judged_columns < set(TABLE.names)


# --- malformed ---------------------------------------------------------------------------------------------------


def test_both_are_malformed() -> None:
    found = judged(OPENED, "5432}}}\n</tool_call>", "543ql}}\n</tool_call>", BOTH_CLOSED)
    assert (found.outcome, found.rule) == ("both-malformed", "both: does not parse")
    assert found.structure == "call"
    assert found.evidence["faults"]["reference"]["why"]
    assert found.evidence["faults"]["candidate"]["why"]


def test_a_call_that_does_not_parse_is_malformed_with_the_message_of_its_parser() -> None:
    found = judged(OPENED, "5432}}\n</tool_call>", "543ql}}\n</tool_call>", BOTH_CLOSED)
    assert (found.outcome, found.rule) == ("malformed", "does not parse")
    assert found.evidence["faults"]["reference"] is None
    assert "no JSON" in found.evidence["faults"]["candidate"]["why"]
    assert found.evidence["not_copied"] == {
        "reference": "5432",
        "candidate": "543ql",
        "in_history": True,
        "letters": [["equal", "543", "543"], ["replace", "2", "ql"]],
    }


def test_the_reference_alone_is_malformed() -> None:
    assert verdict(OPENED, "543ql}}\n</tool_call>", "5432}}\n</tool_call>", BOTH_CLOSED) == (
        "reference-malformed",
        "does not parse",
    )


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (call(host="db-3", port="5432"), "'5432' is not of type 'number'"),
        (call(host="db-3"), "'port' is a required property"),
        (call("open_ports", host="db-3", port=5432), "no tool 'open_ports'"),
    ],
)
def test_a_call_that_fits_no_schema_is_malformed(candidate: str, why: str) -> None:
    found = judged("", f"{DATABASE}{EOT}", f"{candidate}{EOT}")
    assert (found.outcome, found.rule) == ("malformed", "fits no schema")
    assert why in found.evidence["faults"]["candidate"]["why"]


def test_without_tools_no_schema_is_asked() -> None:
    odd = call("anything", host=1)
    assert verdict("", f"{odd}{EOT}", f"{odd} {EOT}", tools=()) == ("recovers", "calls equal by value")


@pytest.mark.parametrize("turn", [OPENED, ""])
def test_an_end_token_inside_an_open_call_is_malformed(turn: str) -> None:
    whole = DATABASE.removeprefix(turn)
    assert verdict(turn, f"{whole}{EOT}", f"{whole[:-20]}{EOT}") == (
        "malformed",
        "was left open at the end of the turn",
    )


def test_an_end_token_right_away_inside_an_open_call_is_malformed() -> None:
    assert verdict(OPENED, "5432}}\n</tool_call>", EOT, (STRUCTURE, TURN))[0] == "malformed"


def test_a_fault_of_the_history_is_no_fault_of_the_futures() -> None:
    broken = "<tool_call>\n{name: oh}\n</tool_call>\nAgain: "
    assert verdict(broken, f"{DATABASE}{EOT}", f"{CACHE}{EOT}") == ("wrong-call", "other argument values")
    still_open = "<tool_call>\n{name: oh"
    assert verdict(still_open, f"}}\n</tool_call>{DATABASE}{EOT}", f"}}\n</tool_call>{CACHE}{EOT}")[0] == "wrong-call"


def test_calls_of_the_history_are_not_the_futures() -> None:
    assert verdict(f"{DATABASE}\n", f"Done.{EOT}", f"Finished.{EOT}") == ("changes", "both ended")
    assert judged(f"{DATABASE}\n", f"{CACHE}{EOT}", f"{CLOSED}{EOT}").rule == "another tool"


@pytest.mark.parametrize(
    ("turn", "reference", "candidate"),
    [
        ("```sql\nSELECT name FROM ", "hosts;\n```", "hosts WHERE;\n```"),
        ("```python\nport = ", "5432\n```", "543ql(\n```"),
        ('```json\n{"port": ', "5432}\n```", "543ql}\n```"),
        ("```bash\nfor host in a b; do ", "ping $host; done\n```", "ping $host; fi\n```"),
    ],
)
def test_other_structures_are_held_against_their_grammar(turn: str, reference: str, candidate: str) -> None:
    found = judged(turn, reference, candidate, BOTH_CLOSED)
    assert (found.outcome, found.rule) == ("malformed", "does not parse")
    assert found.structure in ("sql", "python", "json", "shell")
    assert found.evidence["faults"]["candidate"]["why"]


def test_an_end_token_in_an_open_block_is_malformed() -> None:
    assert verdict("```python\nport = ", "5432\n```", f"5433{EOT}", (STRUCTURE, TURN)) == (
        "malformed",
        "was left open at the end of the turn",
    )


# --- calls -------------------------------------------------------------------------------------------------------


def test_no_call() -> None:
    found = judged("", f"{DATABASE}{EOT}", f"The port is open.{EOT}")
    assert (found.outcome, found.rule) == ("no-call", "the turn ended without a call")
    assert [pair["candidate"] for pair in found.evidence["calls"]] == [None]
    assert verdict("", f"{DATABASE}{EOT}", EOT)[0] == "no-call"


def test_unasked_call() -> None:
    assert verdict("", f"The port is open.{EOT}", f"{DATABASE}{EOT}") == (
        "unasked-call",
        "the reference's turn ended without a call",
    )


def test_another_tool() -> None:
    found = judged("", f"{DATABASE}{EOT}", f"{CLOSED}{EOT}")
    assert (found.outcome, found.rule) == ("wrong-call", "another tool")
    (pair,) = found.evidence["calls"]
    assert (pair["reference"]["name"], pair["candidate"]["name"]) == ("open_port", "close_port")


def test_another_argument_with_both_values_side_by_side() -> None:
    found = judged(OPENED, "5432}}\n</tool_call>", "6379}}\n</tool_call>", BOTH_CLOSED)
    assert (found.outcome, found.rule) == ("wrong-call", "other argument values")
    assert found.evidence["calls"] == [
        {
            "equal": False,
            "settled": True,
            "reference": {"turn": 0, "name": "open_port", "arguments": {"host": "db-3", "port": 5432}},
            "candidate": {"turn": 0, "name": "open_port", "arguments": {"host": "db-3", "port": 6379}},
            "differences": [{"path": ["port"], "reference": 5432, "candidate": 6379}],
        }
    ]


def test_a_missing_argument_is_no_null() -> None:
    noted = call(host="db-3", port=5432, note="db")
    (pair,) = judged("", f"{noted}{EOT}", f"{DATABASE}{EOT}").evidence["calls"]
    assert pair["differences"] == [{"path": ["note"], "reference": "db"}]


def test_another_number_of_calls() -> None:
    both = f"{DATABASE}\n{CACHE}"
    assert verdict("", f"{both}{EOT}", f"{DATABASE}{EOT}") == ("wrong-call", "another number of calls")
    assert verdict("", f"{DATABASE}{EOT}", f"{both}{EOT}") == ("wrong-call", "another number of calls")
    assert verdict("", f"{DATABASE}{EOT}", f"{DATABASE}{DATABASE}{EOT}")[0] == "wrong-call"


def test_two_parallel_calls_in_another_order_are_the_same() -> None:
    found = judged("", f"{DATABASE}\n{CACHE}{EOT}", f"{CACHE}\n{DATABASE}{EOT}")
    assert (found.outcome, found.rule) == ("recovers", "calls equal by value")
    assert all(pair["equal"] for pair in found.evidence["calls"])


@pytest.mark.parametrize(
    "candidate",
    [
        '<tool_call>\n{"name": "open_port", "arguments": {"host": "db-3", "port": 5432.0}}\n</tool_call>',
        '<tool_call>\n{"arguments": {"port": 5432, "host": "db-3"}, "name": "open_port"}\n</tool_call>',
        '<tool_call>{"name":"open_port","arguments":{"host":"db-3",\n"port":5.432e3}}</tool_call>',
        '<tool_call>\n{"name": "open_port", "arguments": {"host": "db\\u002d3", "port": 5432}}\n</tool_call>',
    ],
)
def test_equal_values_in_another_spelling_are_the_same_call(candidate: str) -> None:
    assert verdict("", f"{DATABASE}{EOT}", f"{candidate}{EOT}") == ("recovers", "calls equal by value")


def test_true_is_not_one() -> None:
    one, true = call("run", command="x", times=1), call("run", command="x", times=True)
    assert verdict("", f"{one}{EOT}", f"{true}{EOT}") == ("wrong-call", "other argument values")


def test_prose_around_a_call_does_not_change_it() -> None:
    assert verdict("", f"{DATABASE}{EOT}", f"I open 5432 now.\n{DATABASE}\nDone, I hope.{EOT}") == (
        "recovers",
        "calls equal by value",
    )


# --- calls and the horizon -----------------------------------------------------------------------------------------


def test_a_call_that_the_horizon_cut_is_no_fault_and_no_other_call() -> None:
    found = judged("", f"{DATABASE}{EOT}", f"I shall think about it first. {CACHE[:-14]}")
    assert (found.outcome, found.rule) == ("unresolved", "the horizon ended first")
    assert verdict("", CACHE[:-14], f"Well: {DATABASE}{EOT}")[0] == "unresolved"
    # Equal to the end of the shorter one, as far as it goes.
    assert verdict("", f"{DATABASE}{EOT}", f"I think: {DATABASE[:60]}")[0] == "recovers"


def test_a_call_that_can_never_parse_is_malformed_though_it_was_cut() -> None:
    assert verdict("", f"{DATABASE}{EOT}", '<tool_call>\n{"name": "open_port", "arguments": {"host": db') == (
        "malformed",
        "does not parse",
    )


def test_silence_that_was_cut_is_no_refusal() -> None:
    assert verdict("", f"{DATABASE}{EOT}", "Let me explain what a port is")[0] == "unresolved"
    assert verdict("", "Let me explain what a port is", f"{DATABASE}{EOT}")[0] == "unresolved"


def test_what_no_later_call_can_undo_is_decided_before_the_horizon() -> None:
    assert verdict("", f"{DATABASE}{EOT}", f"{CACHE}\nAnd then") == ("wrong-call", "other argument values")
    assert verdict("", f"{DATABASE}\nAnd then", f"No.{EOT}")[0] == "no-call"
    assert verdict("", f"No.{EOT}", f"{DATABASE}\nAnd then")[0] == "unasked-call"


def test_what_a_later_call_can_undo_is_left_open() -> None:
    found = judged("", f"{DATABASE}\nAnd then", f"{CACHE}\nAnd then some")
    assert found.outcome == "unresolved"
    assert [pair["settled"] for pair in found.evidence["calls"]] == [False]
    assert verdict("", f"{DATABASE}\n{CACHE}{EOT}", f"{CACHE}\nAnd then")[0] == "unresolved"
    # The same call so far, and one side is still talking.
    assert verdict("", f"{DATABASE}{EOT}", f"{DATABASE}\nNow I explain")[0] == "unresolved"


# --- recovers and changes ------------------------------------------------------------------------------------------


def test_texts_equal_but_tokens_different() -> None:
    place = "Open "
    one, other = ids("port 5432", WORDS), ids("port 5432")
    assert one != other
    assert verdict(place, ([*one, END],), ([*other, END],), dictionary=WORDS) == ("recovers", "texts equal")


def test_texts_equal_but_for_white_space() -> None:
    assert verdict("It is ", f"open, and\nso is db-4.{EOT}", f"open,  and so is\tdb-4. \n{EOT}") == (
        "recovers",
        "texts equal",
    )


def test_white_space_at_the_root_belongs_to_the_words_beside_it() -> None:
    assert verdict("It is open", f" now{EOT}", f"now{EOT}") == ("changes", "both ended")
    assert verdict("It is open ", f" now{EOT}", f"now{EOT}") == ("recovers", "texts equal")


def test_halves_of_different_characters_are_not_equal() -> None:
    place = scene("caf")
    place = replace(place, history=[*place.history, 0xC3])
    one, other = (future(place, [last, END], ended=TURN) for last in (0xA9, 0xA8))
    assert judge(place, one, other).outcome == "changes"
    assert judge(place, one, one).outcome == "recovers"


def test_equal_texts_that_were_both_cut() -> None:
    assert verdict("", "The same", "The same") == ("recovers", "texts equal up to where both were cut")


def test_one_that_ended_is_not_equal_to_one_that_was_cut() -> None:
    assert verdict("", f"Done{EOT}", "Done") == ("unresolved", "the horizon ended first")


def test_an_empty_answer() -> None:
    assert verdict("", f"It is open.{EOT}", EOT) == ("changes", "both ended")
    assert verdict("", EOT, EOT) == ("recovers", "texts equal")


REST = ", as the ticket says; the rest of this sentence is the same on both sides"


def test_text_that_runs_together_again_with_the_same_literals() -> None:
    found = judged("Port 5432 of db-3 is ", f"open{REST}", f"now reachable{REST} and goes on")
    assert (found.outcome, found.rule) == ("recovers", "re-synchronised with the same literals")
    assert (found.resync_reference, found.resync_candidate) == (4, 13)
    assert found.evidence["resync"] == {
        "reference": {"tokens": 4, "characters": 4},
        "candidate": {"tokens": 13, "characters": 13},
    }
    assert not found.literal


@pytest.mark.parametrize(
    ("turn", "reference", "candidate", "literals"),
    [
        # The wrong part of the number ends right where the texts run together.
        ("I open port 543", "2", "ql", ("5432", "543ql")),
        # They run together inside the number.
        ("I open port 5", "4", "9", ("5432", "5932")),
        ("I open port ", "5432", "5433", ("5432", "5433")),
        # Only one of them goes on with the number that the history began.
        ("I open port 5432", " of db-3 alone", "9 of db-3 alone", (None, "54329")),
    ],
)
def test_a_wrong_literal_does_not_recover_because_the_next_line_is_right(
    turn: str, reference: str, candidate: str, literals: tuple[str | None, str]
) -> None:
    inside = "32" if turn.endswith("5") else ""
    found = judged(turn, f"{reference}{inside}{REST}", f"{candidate}{inside}{REST}")
    assert (found.outcome, found.rule, found.literal) == ("changes", "re-synchronised with other literals", True)
    assert found.resync_reference is not None
    before = found.evidence["literals"]
    assert before["before"] == "resync"
    assert literals[1] in before["candidate"] and literals[1] not in before["reference"]
    if literals[0] is not None:
        assert literals[0] in before["reference"]
        assert found.evidence["not_copied"]["reference"] == literals[0]
        assert found.evidence["not_copied"]["candidate"] == literals[1]


def test_a_literal_that_ends_behind_the_place_counts_whole() -> None:
    tail = "-primary-of-the-northern-site.example.org/backups/latest is full"
    found = judged("See /srv/", f"alpha{tail}", f"beta{tail}")
    assert found.resync_reference is not None
    assert found.rule == "re-synchronised with other literals"
    assert (
        "/srv/beta-primary-of-the-northern-site.example.org/backups/latest" in found.evidence["literals"]["candidate"]
    )


def test_a_literal_that_the_shorter_one_does_not_finish_is_no_difference() -> None:
    tail = ' says "the database is being restarted by its operator'
    assert (
        verdict("The log ", f"once{tail}", f'twice{tail}" and goes on')[1] == "re-synchronised with the same literals"
    )


def test_literals_alone_differ_in_short_answers() -> None:
    found = judged("Port ", f"5432.{EOT}", f"543ql.{EOT}")
    assert (found.outcome, found.rule, found.literal) == ("changes", "both ended and differ in literals alone", True)
    assert verdict("Port ", f"5432.{EOT}", f"5432 it is.{EOT}") == ("changes", "both ended")


def test_records_that_share_long_runs_of_tokens_do_not_recover() -> None:
    def records(*ports: int) -> str:
        return json.dumps([{"service": "database", "protocol": "tcp", "port": port} for port in ports])[1:]

    assert verdict("[", f"{records(5432, 6379)}{EOT}", f"{records(5433, 6380)}{EOT}") == (
        "changes",
        "both ended and differ in literals alone",
    )
    # The same literals in another order are no other literals, and yet another text.
    assert verdict("[", f"{records(5432, 6379)}{EOT}", f"{records(6379, 5432)}{EOT}") == ("changes", "both ended")
    cut = judged("[", records(5432, 6379, 8080)[:-2], records(5433, 6380, 9091)[:-2])
    assert cut.resync_reference is None
    assert cut.outcome == "unresolved"


# --- unresolved ----------------------------------------------------------------------------------------------------


def test_the_horizon_ended_first() -> None:
    found = judged("", f"It is open.{EOT}", "Now I shall tell you a long story about the sea")
    assert (found.outcome, found.rule, found.loop) == ("unresolved", "the horizon ended first", False)
    assert verdict("", f"Open.{EOT}", "Now I shall", (TURN, CONTEXT)) == ("unresolved", "the context ended first")


def test_repetition_until_the_horizon() -> None:
    found = judged("", f"It is open.{EOT}", "and on " * 12)
    assert (found.outcome, found.rule, found.loop) == ("unresolved", "the horizon ended first, in a loop", True)
    report = found.evidence["loops"]["candidate"]
    assert (report["period"], report["stretch"], report["is_loop"]) == (7, 84, True)
    assert not found.evidence["loops"]["reference"]["is_loop"]
    assert not judged("", "and on " * 12, f"It is open.{EOT}").loop


# --- several turns -------------------------------------------------------------------------------------------------

ANSWERED = "\n<|im_start|>tool\nok: 5433 refused<|im_end|>\n<|im_start|>assistant\n"


def test_calls_of_every_turn_count_in_order() -> None:
    again = (f"{DATABASE}{EOT}", ANSWERED, f"{CACHE}{EOT}", ANSWERED, f"Done.{EOT}")
    assert verdict("", again, again) == ("recovers", "calls equal by value")
    turned = (f"{CACHE}{EOT}", ANSWERED, f"{DATABASE}{EOT}", ANSWERED, f"Done.{EOT}")
    assert verdict("", again, turned) == ("wrong-call", "other argument values")
    at_once = (f"{CACHE}{DATABASE}{EOT}", ANSWERED, f"Done.{EOT}")
    assert verdict("", again, at_once) == ("recovers", "calls equal by value")
    rerun = (f"{DATABASE}{EOT}", ANSWERED, f"{DATABASE}{EOT}", ANSWERED, f"Done.{EOT}")
    found = judged("", again, rerun)
    assert found.rule == "other argument values"
    assert [(pair["equal"], pair["candidate"]["turn"]) for pair in found.evidence["calls"]] == [(True, 0), (False, 1)]


def test_a_turn_that_was_answered_is_whole_though_the_next_one_was_cut() -> None:
    one = (f"{DATABASE}{EOT}", ANSWERED, "And now")
    other = (f"{CACHE}{EOT}", ANSWERED, "So")
    assert verdict("", one, other) == ("wrong-call", "other argument values")
    assert verdict("", one, (f"{DATABASE}{EOT}", ANSWERED))[1] == "re-synchronised with the same literals"


def test_a_fault_in_a_later_turn_is_named_with_its_turn() -> None:
    found = judged(
        "", (f"{DATABASE}{EOT}", ANSWERED, f"Done.{EOT}"), (f"{DATABASE}{EOT}", ANSWERED, f"<tool_call>{EOT}")
    )
    assert found.outcome == "malformed"
    assert found.evidence["faults"]["candidate"]["turn"] == 1


# --- syntaxes, texts without turns, hostile texts -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("syntax", "form"),
    [
        ("openai-json", '[{"function": {"name": "open_port", "arguments": {"host": "db-3", "port": PORT}}}]'),
        ("mistral", '[TOOL_CALLS] [{"name": "open_port", "arguments": {"host": "db-3", "port": PORT}}]'),
        ("llama3", '{"name": "open_port", "parameters": {"host": "db-3", "port": PORT}}'),
        ("fenced-json", '```json\n{"name": "open_port", "arguments": {"host": "db-3", "port": PORT}}\n```'),
        (
            "qwen3-coder",
            "<tool_call>\n<function=open_port>\n<parameter=host>\ndb-3\n</parameter>\n<parameter=port>\nPORT\n</parameter>"
            "\n</function>\n</tool_call>",
        ),
    ],
)
def test_calls_of_every_syntax(syntax: str, form: str) -> None:
    right, spelled, wrong, broken = (form.replace("PORT", port) for port in ("5432", "5432.0", "6379", "543ql"))
    half = form.index("PORT")
    assert verdict("", f"{right}{EOT}", f"{spelled}{EOT}", syntax=syntax) == ("recovers", "calls equal by value")
    assert verdict("", f"{right}{EOT}", f"{wrong}{EOT}", syntax=syntax) == ("wrong-call", "other argument values")
    assert verdict("", f"{right}{EOT}", f"{broken}{EOT}", syntax=syntax)[0] == "malformed"
    assert verdict("", f"{right}{EOT}", f"No.{EOT}", syntax=syntax)[0] == "no-call"
    inside = judged(right[:half], f"{right[half:]}{EOT}", f"{wrong[half:]}{EOT}", syntax=syntax)
    assert (inside.structure, inside.rule) == ("call", "other argument values")
    left_open = judged(right[:half], f"{right[half:]}{EOT}", f"54{EOT}", syntax=syntax)
    assert (left_open.outcome, left_open.rule) == ("malformed", "was left open at the end of the turn")


def test_a_syntax_that_no_parser_claims_is_an_error_of_the_protocol() -> None:
    with pytest.raises(ProtocolError, match="no parser claims"):
        judged("", "a", "b", syntax="morse")


def test_a_text_without_turns() -> None:
    found = judged("Port 5", f"432{REST}", f"932{REST}", assistant="", end_tokens=frozenset())
    assert (found.outcome, found.literal) == ("changes", True)
    assert "5932" in found.evidence["literals"]["candidate"]


def test_tokens_of_several_bytes() -> None:
    place = scene("Open 543", dictionary=WORDS)
    one = future(place, [ord("2"), *ids(REST, WORDS)])
    other = future(place, [*ids("9 port 54", WORDS), *ids(REST, WORDS)])
    found = judge(place, one, other)
    assert (found.resync_reference, found.resync_candidate) == (1, 3)
    assert found.evidence["resync"]["candidate"] == {"tokens": 3, "characters": 9}
    assert found.evidence["literals"] == {"before": "resync", "reference": ["5432"], "candidate": ["5439", "54"]}


@pytest.mark.parametrize(
    "body",
    [
        "[" * 700 + "]" * 700,
        '{"a":' * 300 + "1" + "}" * 300,
        "9" * 4000,
        f'"{"a" * 3000}"',
    ],
)
def test_deep_and_large_arguments(body: str) -> None:
    form = '<tool_call>{"name": "run", "arguments": {"command": %s}}</tool_call>'
    one, other = form % body, form % body.replace("1", "2").replace("9", "8", 1).replace("a", "b", 1)
    equal = judged("", f"{one}{EOT}", f"{one}{EOT}", tools=())
    assert equal.outcome in ("recovers", "both-malformed")
    found = judged("", f"{one}{EOT}", f"{other}{EOT}", tools=())
    assert found.outcome in ("recovers", "wrong-call", "both-malformed")
    assert len(json.dumps(found.evidence)) < 200_000


# --- what spreads --------------------------------------------------------------------------------------------------


def test_a_wrong_port_that_is_called_again_and_written_again() -> None:
    wrong = call(host="db-3", port=5433)
    found = judged(
        "",
        (f"{DATABASE}{EOT}", ANSWERED, f"Done.{EOT}"),
        (f"{wrong}{EOT}", ANSWERED, f"{wrong}{EOT}", ANSWERED, f"Port 5433 of db-3 refuses, so 5433 is shut.{EOT}"),
    )
    assert found.outcome == "wrong-call"
    assert found.propagated == 3
    assert found.evidence["propagated"] == {"values": ["5433", 5433], "calls": 2, "literals": 2}


def test_a_wrong_literal_in_prose_that_a_call_takes_up() -> None:
    said = "The database listens on {0}. "
    found = judged(
        said[:24],
        said[24:].format(5432) + call("run", command="psql -p 5432") + EOT,
        said[24:].format(5433) + call("run", command="psql -p 5433") + EOT,
    )
    assert found.evidence["not_copied"]["candidate"] == "5433"
    assert found.propagated == 1


def test_nothing_wrong_is_known_of_equal_futures() -> None:
    assert judged("", f"{DATABASE}{EOT}", f"{DATABASE}{EOT}").propagated is None


def test_a_wrong_literal_that_stays_alone() -> None:
    assert judged("Port ", f"5432 is open.{EOT}", f"5433 is open.{EOT}").propagated == 0


def test_a_literal_that_is_new_was_not_copied() -> None:
    found = judged("Port ", f"7777.{EOT}", f"7778.{EOT}")
    assert found.evidence["not_copied"]["in_history"] is False


def test_a_literal_that_the_horizon_cut_is_not_held_against_it() -> None:
    assert judged("Port ", f"5432 it is{EOT}", "54").evidence["not_copied"] is None
    assert judged("Port ", "54", f"5432 it is{EOT}").evidence["not_copied"] is None
    ended = judged("Port ", f"5432 it is{EOT}", f"54{EOT}").evidence["not_copied"]
    assert (ended["reference"], ended["candidate"], ended["letters"]) == (
        "5432",
        "54",
        [["equal", "54", "54"], ["delete", "32", ""]],
    )


def test_the_copied_one_goes_before_a_new_one() -> None:
    found = judged("", f"Ticket 991 asks for 5432.{EOT}", f"Ticket 992 asks for 5433.{EOT}")
    assert (found.evidence["not_copied"]["reference"], found.evidence["not_copied"]["candidate"]) == ("5432", "5433")


def test_a_word_in_place_of_a_literal() -> None:
    found = judged("Port ", f"5432 of db-3.{EOT}", f"unknown, sadly.{EOT}")
    assert found.evidence["not_copied"]["candidate"] == "unknown"
    assert found.propagated is None


# --- every case ----------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        DATABASE,
        CACHE,
        CLOSED,
        DATABASE[:40],
        "<tool_call>",
        "</tool_call>",
        " 5432",
        " 543ql",
        "é",
        REST,
        "on " * 12,
        '"',
    ]
)
TEXTS = st.lists(PIECES, max_size=4).map("".join)
ENDS = st.sampled_from([EOT, ""])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["", OPENED, "Port 5", "```sql\nSELECT ", "[1, "]), TEXTS, ENDS, TEXTS, ENDS)
def test_whatever_is_written_has_one_outcome_that_can_be_stored(
    turn: str, one: str, one_end: str, other: str, other_end: str
) -> None:
    left, right = f"x{one}{one_end}", f"y{other}{other_end}"
    found = judged(turn, left, right)
    assert found.outcome in OUTCOMES
    assert not found.literal or found.outcome == "changes"
    assert (found.resync_reference is None) == (found.resync_candidate is None)
    assert json.loads(json.dumps(found.evidence, allow_nan=False)) == found.evidence
    json.dumps(found.evidence, ensure_ascii=False).encode()
    mirrored = judged(turn, right, left)
    exchanged = {
        "malformed": "reference-malformed",
        "reference-malformed": "malformed",
        "no-call": "unasked-call",
        "unasked-call": "no-call",
    }
    assert mirrored.outcome == exchanged.get(found.outcome, found.outcome)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["", OPENED, "Port 5"]), TEXTS, ENDS)
def test_a_future_against_itself_never_differs(turn: str, text: str, end: str) -> None:
    found = judged(turn, f"x{text}{end}", f"x{text}{end}")
    assert found.outcome in ("both-malformed", "recovers")
    assert found.propagated is None
    assert found.evidence["not_copied"] is None


def test_two_arguments_that_changed_places_do_not_recover_before_the_call_is_whole() -> None:
    """The same literals in another order, and then the same text up to the horizon: a call for something else."""
    turn = '<tool_call>\n{"name": "run", "arguments": {"command": "'
    tail = '", "then": "keep all the other settings exactly as they are written in the file'
    one, other = f"vol-6d53e8 build_12{tail}", f"build_12 vol-6d53e8{tail}"
    found = judged(turn, one, other, (HORIZON, HORIZON))
    assert (found.outcome, found.rule, found.literal) == ("changes", "re-synchronised with other literals", True)
    # In prose the order is not what they mean.
    assert verdict("", one, other, (HORIZON, HORIZON)) == ("recovers", "re-synchronised with the same literals")
