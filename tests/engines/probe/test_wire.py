"""What is sent otherwise than a dialect has it, and what is counted on the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from drift_runs.engines.probe.wire import Counted, on_the_wire


class Transport:
    """Keeps what it is sent, and answers by ``answers`` in order."""

    retries = 3

    def __init__(self, *answers: Any) -> None:
        self.sent: list[dict[str, Any]] = []
        self.answers = list(answers)

    def post(self, _path: str, body: dict[str, Any]) -> SimpleNamespace:
        self.sent.append(body)
        return SimpleNamespace(body=self.answers.pop(0) if self.answers else {})

    def post_all(self, path: str, bodies: Iterable[dict[str, Any]]) -> Iterator[SimpleNamespace]:
        return (self.post(path, body) for body in bodies)


def test_an_option_is_changed_wherever_it_stands_and_nothing_else() -> None:
    engine = SimpleNamespace(transport=Transport())
    body = {"input_ids": [4, 5], "sampling_params": {"temperature": 0, "top_p": 1.0}, "temperature": 0.0}
    with on_the_wire(engine, temperature=1.7) as wire:
        engine.transport.post("/generate", body)
        assert wire is not None and wire.changed == 2 and engine.transport.retries == 3
    changed = {"sampling_params": {"temperature": 1.7, "top_p": 1.0}, "temperature": 1.7}
    assert engine.transport.sent == [body | changed]
    assert body["temperature"] == 0.0 and body["sampling_params"]["temperature"] == 0


def test_a_request_without_the_option_is_not_changed() -> None:
    engine = SimpleNamespace(transport=Transport())
    with on_the_wire(engine, temperature=1.7) as wire:
        list(engine.transport.post_all("/p", iter([{"prompt": [1]}, {"prompt": [1, 2]}])))
        assert wire is not None and wire.changed == 0
    assert engine.transport.sent == [{"prompt": [1]}, {"prompt": [1, 2]}]


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ({"tokens_evaluated": 3}, 3),
        ({"usage": {"prompt_tokens": 4}}, 4),
        ({"meta_info": {"prompt_tokens": 3}}, 3),
        ({"usage": None}, None),
        ({"tokens_evaluated": True}, None),
        ([{"usage": {"prompt_tokens": 3}}], None),
        ("text", None),
    ],
)
def test_ids_are_counted_by_what_the_server_says(answer: object, read: int | None) -> None:
    engine = SimpleNamespace(transport=Transport(answer, answer))
    with on_the_wire(engine) as wire:
        engine.transport.post("/p", {"prompt": [7, 8, 9]})
        list(engine.transport.post_all("/p", [{"prompt": "a text has no ids to be counted"}]))
    assert wire is not None and wire.counted == ([] if read is None else [Counted(3, read)])


def test_the_transport_comes_back_whatever_happens() -> None:
    transport = Transport()
    engine = SimpleNamespace(transport=transport)
    with pytest.raises(RuntimeError), on_the_wire(engine):
        raise RuntimeError
    assert engine.transport is transport


def test_an_engine_without_a_connection() -> None:
    with on_the_wire(SimpleNamespace(transport=None)) as wire:
        assert wire is None
