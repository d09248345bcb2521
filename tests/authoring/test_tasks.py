"""Expected answers as tasks: what is checked of each form."""

from __future__ import annotations

from drift_runs.authoring.recipe import RecipeWindow
from drift_runs.authoring.record import Layout, Recorded
from drift_runs.authoring.spans import TokenSpan
from drift_runs.authoring.tasks import tasks_of
from drift_runs.protocol.generation import Task
from drift_runs.protocol.model import Stream

BYTES = [bytes([value]) for value in range(256)]


def tasks(text: str, *answers: tuple[str, str]) -> list[Task]:
    """Tasks of a text; each answer is its form and a part of the text, the last place where it stands."""
    raw = text.encode()
    spans = []
    for number, (form, part) in enumerate(answers):
        start = raw.rindex(part.encode())
        spans.append(TokenSpan(form, f"a.{number}", start, start + len(part.encode())))
    window = RecipeWindow(name="w", panel="P", document="d", title="", source="w.txt", tasks=True)
    stream = Stream(schema_="drift.stream/1", name="w", tokens=tuple(raw), text=text, source="generated")
    return list(tasks_of(Recorded(window=window, stream=stream, layout=Layout((), tuple(spans), ())), BYTES))


def test_a_call_and_json_are_compared_with_the_answer_itself() -> None:
    found = tasks("ask: <call> or {}", ("call", "<call>"), ("json", "{}"))
    assert [(task.check, task.answer, task.expected) for task in found] == [
        ("calls", "a.0", ()),
        ("json", "a.1", ()),
    ]
    assert [task.at for task in found] == [5, 15]


def test_of_a_text_the_literals_that_it_repeats_count_once_each() -> None:
    (found,) = tasks(
        "copy /srv/a/b.txt to host-7:5432 and port 6379: cp /srv/a/b.txt host-7:5432 5432 9999",
        ("text", "cp /srv/a/b.txt host-7:5432 5432 9999"),
    )
    assert found.check == "literals"
    # 5432 stands alone too, and 9999 is nowhere before: whoever writes it did not copy it.
    assert set(found.expected) == {"/srv/a/b.txt", "host-7:5432", "5432"}
    assert len(found.expected) == len(set(found.expected))


def test_a_text_that_repeats_nothing_is_no_task() -> None:
    assert tasks("say it: shut down", ("text", "shut down")) == []


def test_there_is_room_for_an_answer_in_other_words() -> None:
    (found,) = tasks("port 5432: 5432", ("text", "5432"))
    assert found.horizon_tokens == 2 * 4 + 32
