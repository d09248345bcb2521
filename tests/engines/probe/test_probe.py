"""What the probe finds out, by servers whose right answers are known, and by the real engine of this process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from drift_runs.engines.probe.answers import NO, OPEN, YES, Needs, ProbeReport, ProbeTask
from drift_runs.engines.probe.limits import type_of
from drift_runs.engines.probe.run import QUESTIONS, not_opened, probe
from drift_runs.engines.probe.task import probe_task
from drift_runs.errors import ContextOverflow, EngineMissing
from drift_runs.protocol.load import LoadedProtocol, load_protocol
from drift_runs.protocol.model import HERE
from tests.conftest import DELETE, copy_tiny, tiny_dictionary
from tests.engines.conftest import Opener, settings
from tests.engines.probe import toy
from tests.tiny_model import write_tiny_model

ALL = Needs(scoring=True, dictionary=True, wanted=True, generation=True, text=True, repeats=True, sense=True)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LoadedProtocol:
    return load_protocol(copy_tiny(tmp_path_factory.mktemp("protocol")))


@pytest.fixture(scope="module")
def task(tiny: LoadedProtocol) -> ProbeTask:
    """Of the tiny protocol, with every answer needed that a server can give."""
    found = probe_task(tiny, tiny.protocol.reference, settings())
    return replace(found, needs=ALL, full_vocabulary=False)


def asked(server: toy.ToyServer, task: ProbeTask, **how: object) -> ProbeReport:
    return probe(toy.ToyEngine(server, **how), task)


def not_yes(report: ProbeReport) -> dict[str, str]:
    return {answer.question: answer.answer for answer in report.answers if answer.answer != YES}


class TestAnHonestServer:
    @pytest.mark.parametrize("path_shape", ["prefill", "decode"])
    def test_every_answer_is_yes(self, task: ProbeTask, path_shape: str) -> None:
        report = asked(toy.ToyServer(), replace(task, path_shape=path_shape), path_shape=path_shape)
        assert [answer.question for answer in report.answers] == list(QUESTIONS)
        assert not_yes(report) == {}
        assert report.blocking == () and report.remarks == ()

    def test_it_says_what_it_measured(self, task: ProbeTask) -> None:
        measured = asked(toy.ToyServer(), task).measured
        assert measured["largest_top_k"] == toy.SIZE and measured["context_tokens"] == 64
        assert measured["cache_largest_nats"] == measured["repeat_largest_nats"] == 0
        assert abs(measured["log_mass_mean_nats"]) < 1e-12
        window = task.windows[0]
        rows = [toy.ToyServer().row(window.tokens[:at])[window.tokens[at]] for at in range(1, 33)]
        more = task.windows[2].tokens
        rows += [toy.ToyServer().row(more[:at])[more[at]] for at in range(1, len(more))]
        assert measured["own_token_logprob_mean_nats"] == pytest.approx(sum(rows) / len(rows))

    def test_few_and_short_requests(self, task: ProbeTask) -> None:
        """A probe takes seconds: on a real server each of these is tens of milliseconds."""
        server = toy.ToyServer()
        report = asked(server, task)
        assert len(server.requests) < 30 and report.calls < 40
        assert max(len(request["prompt"]) for request in server.requests) <= 128

    def test_the_engine_is_left_as_it_was(self, task: ProbeTask) -> None:
        engine = toy.ToyEngine(toy.ToyServer())
        transport = engine.transport
        probe(engine, task)
        assert engine.transport is transport and not engine.closed


# Double, and all answers that are no yes: a question that is not among them is answered yes.
WRONG: list[tuple[type[toy.ToyServer], Mapping[str, str], str]] = [
    # ids
    (toy.HasTwoEntriesSwapped, {"dictionary": NO}, "id 4"),
    (toy.HasASmallerDictionary, {"dictionary": NO}, "2 fewer"),
    (toy.HasALargerDictionary, {"dictionary": NO}, "id 33"),
    (toy.HasAPaddedDictionary, {}, "2 more are padding"),
    (toy.TellsNoDictionary, {"dictionary": OPEN}, "nothing says the bytes"),
    (toy.ReadsNoTexts, {"round-trip": OPEN}, "no text into ids"),
    (toy.PutsABosBeforeTexts, {"round-trip": NO}, "puts id 0 in front of the text's own 41"),
    (toy.LosesBlanks, {"round-trip": NO}, "30 ids for 41; at 4 the engine has id 4"),
    (toy.PutsABosInFront, {"bos": NO}, "34 ids read of 33 sent"),
    # rows
    (toy.ReadsNoHistory, {"history": NO}, "the same to the last bit"),
    (toy.SendsUnsortedLists, {"rows": NO}, "not sorted"),
    (toy.KnowsNotTheOwnToken, {"own-token": NO}, "of 63 rows"),
    # entries
    (toy.CapsSilently, {"top-k": NO, "full-rows": NO}, "up to 5 entries a row were listed; the protocol takes 8"),
    (toy.CapsLoudly, {"top-k": NO, "full-rows": NO}, "at most 5"),
    (toy.IgnoresNamedIds, {"wanted": NO}, "8 of 8 ids are not told at position 1"),
    (toy.TellsOtherIds, {"wanted": NO}, "are not told"),
    (toy.TellsPlaceholders, {"wanted": NO}, "8 of 8 ids are not told"),
    (toy.TellsAnotherRow, {"wanted": NO}, "as named and"),
    # numbers
    (toy.SamplesBeforeItTells, {"temperature": NO}, "asked for temperature 1.7 too: up to"),
    (toy.PenalisesBeforeItTells, {"penalties": NO}, "asked for penalties of 1.7 too: up to"),
    (toy.TakesNoPenalties, {"penalties": OPEN}, "repetition_penalty is not supported"),
    (toy.AddsAConstant, {}, "is +4.00e-04, within"),
    (toy.AddsSomething, {"mass": NO}, "log-mass"),
    (toy.HasMassAboveOne, {"mass": NO, "full-rows": NO}, "above 1"),
    # the same again
    (toy.HasAnotherRowInItsCache, {"cache": NO}, "behind another text, and again from what is held"),
    # limits
    (toy.HasAShortContext, {"context": NO, "chunks": OPEN}, "n_ctx is 36; the longest window takes 41"),
    (toy.RunsAnotherCache, {"declared": NO}, "kv_cache_dtype is q4_0, declared is f16"),
    (toy.IsSwappedMeanwhile, {"declared": NO}, "model was toy at first and is another now"),
    (toy.SaysNoContext, {"declared": OPEN}, "the longest window, 41 tokens, came through"),
    (
        toy.HidesAShortContext,
        {"context": NO, "chunks": NO, "declared": OPEN, "repeats": OPEN, "cache": OPEN},
        "the context holds 36",
    ),
    (toy.SaysNothing, {"declared": OPEN}, "status 404"),
    # writing
    (toy.WritesNothing, {"writes": NO, "sense": OPEN}, "nothing is written behind"),
    (toy.WritesALoop, {"sense": NO}, "a loop of 2 tokens"),
    (toy.WritesGibberish, {"sense": NO, "chunks": OPEN}, "improbable"),
    (toy.DecodesOtherwise, {"writes": NO}, "nats apart in the mean"),
    (toy.MislabelsWhatItWrites, {"writes": NO}, "the best of its row is id"),
    (toy.WritesZeros, {"writes": NO}, "exactly 0"),
]


class TestAServerThatDoesOneThingOtherwise:
    @pytest.mark.parametrize(
        ("double", "expected", "evidence"), WRONG, ids=lambda value: getattr(value, "__name__", "")
    )
    def test_that_is_found_and_nothing_else(
        self, task: ProbeTask, double: type[toy.ToyServer], expected: Mapping[str, str], evidence: str
    ) -> None:
        report = asked(double(), task)
        assert not_yes(report) == expected
        assert any(evidence in answer.evidence for answer in report.answers), [str(a.evidence) for a in report.answers]
        # The way round stands beside it, and beside nothing else.
        assert {answer.question for answer in report.answers if answer.way_round} == set(expected)


class TestNumbersThatAreNoLogProbabilities:
    """One fault shows in several answers: what matters is which of them must be no."""

    def test_logits(self, task: ProbeTask) -> None:
        report = asked(toy.SendsLogits(), task)
        assert report.answer("raw").answer == NO and "above 0: logits" in report.answer("raw").evidence
        assert report.answer("mass").answer == NO
        assert report.answer("writes").answer == NO

    def test_what_a_sampler_has_left(self, task: ProbeTask) -> None:
        report = asked(toy.SendsOneHotRows(), task)
        assert report.answer("raw").answer == NO and "63 of 63 rows" in report.answer("raw").evidence

    def test_zeros(self, task: ProbeTask) -> None:
        report = asked(toy.SendsZeros(), task)
        assert report.answer("speculation").answer == NO
        assert "63 of 63 rows are zeros alone" in report.answer("speculation").evidence
        assert report.answer("mass").answer == NO

    def test_noise(self, task: ProbeTask) -> None:
        report = asked(toy.NeverRepeatsItself(), task)
        assert report.answer("repeats").answer == NO
        assert 1e-5 < report.measured["repeat_largest_nats"] < 1e-2
        # What the cache does cannot be told from what the noise does.
        assert report.answer("cache").answer == OPEN
        assert report.answer("temperature").answer == YES


class TestRowsThatCannotBeRead:
    @pytest.mark.parametrize(
        ("double", "evidence"),
        [
            (toy.SendsNoRows, "32 of 32 rows are missing, the first at 1"),
            (toy.SendsTheLastRowAlone, "31 of 32 rows are missing, the first at 1"),
            (toy.SendsAnIdTwice, "an id is listed twice"),
            (toy.SendsIdsOfAnotherDictionary, "id 39 is listed"),
            (toy.BreaksTheDialect, "TypeError"),
            (toy.IsDown, "no connection"),
        ],
        ids=lambda value: getattr(value, "__name__", ""),
    )
    def test_nothing_that_hangs_on_them_is_yes(
        self, task: ProbeTask, double: type[toy.ToyServer], evidence: str
    ) -> None:
        """HTTP 200 with the request ignored is a no, and an exception is an answer."""
        report = asked(double(), task)
        assert report.answer("rows").answer == NO and evidence in report.answer("rows").evidence
        hanging = ("own-token", "history", "raw", "speculation", "temperature", "mass", "repeats", "cache", "top-k")
        assert {report.answer(name).answer for name in hanging} <= {NO, OPEN}
        assert {"rows", "raw", "mass", "top-k"} <= {answer.question for answer in report.blocking}

    def test_a_stepwise_engine_without_prompt_rows_needs_them_not(self, task: ProbeTask) -> None:
        """One request a position asks for the last row alone."""
        report = asked(toy.SendsTheLastRowAlone(), replace(task, path_shape="decode"), path_shape="decode")
        assert not_yes(report) == {}


class TestStepwise:
    def test_a_history_in_the_cache_is_another_geometry(self, task: ProbeTask) -> None:
        stepwise = replace(task, path_shape="decode")
        report = asked(toy.HasAnotherRowInItsCache(), stepwise, path_shape="decode")
        assert report.answer("cache").answer == NO and "at once" in report.answer("cache").evidence
        assert 0.005 < report.measured["cache_largest_nats"] < 0.05
        assert report.answer("repeats").answer == YES

    def test_few_requests(self, task: ProbeTask) -> None:
        server = toy.ToyServer()
        asked(server, replace(task, path_shape="decode"), path_shape="decode")
        assert len(server.requests) < 60


class TestNeeds:
    def test_only_what_is_needed_blocks(self, task: ProbeTask) -> None:
        nothing = Needs(scoring=True, dictionary=True)
        for double in (
            toy.IgnoresNamedIds,
            toy.WritesNothing,
            toy.WritesALoop,
            toy.NeverRepeatsItself,
            toy.LosesBlanks,
        ):
            report = asked(double(), replace(task, needs=nothing))
            assert report.blocking == (), double.__name__
            assert not_yes(report) != {}
        assert [answer.question for answer in asked(toy.WritesALoop(), replace(task, needs=nothing)).remarks] == [
            "sense"
        ]

    def test_whole_rows_where_whole_rows_are_compared(self, task: ProbeTask) -> None:
        report = asked(toy.CapsLoudly(), replace(task, full_vocabulary=True, top_k=5))
        assert [answer.question for answer in report.blocking] == ["full-rows"]
        assert 'full_vocabulary = "no"' in report.blocking[0].way_round

    def test_an_engine_that_says_that_it_takes_no_ids(self, task: ProbeTask) -> None:
        report = asked(toy.ToyServer(), task, named=False)
        assert not_yes(report) == {"wanted": NO}
        assert [answer.question for answer in report.blocking] == ["wanted"]

    def test_a_cache_that_is_declared_off_must_be_off(self, task: ProbeTask) -> None:
        off = replace(task, needs=Needs(), cache_prompt=False)
        assert [answer.question for answer in asked(toy.HasAnotherRowInItsCache(), off).blocking] == ["cache"]
        assert asked(toy.HasAnotherRowInItsCache(), replace(off, cache_prompt=None)).blocking == ()

    def test_the_first_entry_that_differs_is_shown_with_both_sides(self, task: ProbeTask) -> None:
        report = asked(toy.HasTwoEntriesSwapped(), replace(task, dictionary=tuple(tiny_dictionary())))
        assert "the first difference is id 4: b'd' here, b'c' in the protocol's" in report.answer("dictionary").evidence

    def test_options_that_the_server_was_started_with(self, task: ProbeTask) -> None:
        def declared(**server: str) -> tuple[str, str]:
            found = replace(task, server=tuple(server.items()))
            answer = asked(toy.ToyServer(), found).answer("declared")
            return answer.answer, answer.evidence

        assert declared(**{"--n-ctx": "64"})[0] == YES
        assert declared(n_ctx="64.0", unheard_of="1")[0] == YES
        assert declared(n_ctx="32") == (NO, "n_ctx is 64, declared is 32")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("f16", "F16"),
        ("f16", "float16"),
        ("bf16", "torch.bfloat16"),
        ("q4_k_m", "Q4_K - Medium"),
        ("q4_k_s", "Q4_K - Small"),
        ("q8_0", "mostly Q8_0"),
    ],
)
def test_a_type_has_many_names(one: str, other: str) -> None:
    assert type_of(one) == type_of(other) is not None


@pytest.mark.parametrize("words", ["auto", "not said", "None", "", "awq", "some model"])
def test_words_that_name_no_type_say_nothing(words: str) -> None:
    assert type_of(words) is None


class TestAnEngineThatDoesNotAnswer:
    def test_it_is_not_asked_for_every_question(self, task: ProbeTask) -> None:
        """A request that waits for a dead server's timeout is waited for twice, and not forty times."""
        now = [0.0]

        class Hangs(toy.IsDown):
            def post(self, body: Mapping) -> dict:
                now[0] += 30.0
                return super().post(body)

            def said(self) -> dict[str, str]:
                now[0] += 30.0
                return super().said()

        report = probe(toy.ToyEngine(Hangs()), task, clock=lambda: now[0], budget_s=1e9)
        assert now[0] <= 90.0
        assert "not asked: " in report.answer("wanted").evidence
        assert {answer.answer for answer in report.answers} == {NO, OPEN}

    def test_the_time_is_bounded(self, task: ProbeTask) -> None:
        now = [0.0]

        class Slow(toy.ToyServer):
            def post(self, body: Mapping) -> dict:
                now[0] += 3.0
                return super().post(body)

        report = probe(toy.ToyEngine(Slow()), task, clock=lambda: now[0], budget_s=20.0)
        assert now[0] <= 24.0
        assert any("20 s are over" in answer.evidence for answer in report.answers)

    def test_an_interrupt_is_no_answer(self, task: ProbeTask) -> None:
        class Interrupted(toy.ToyServer):
            def post(self, body: Mapping) -> dict:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            asked(Interrupted(), task)


class TestTheReport:
    def test_json_is_json(self, task: ProbeTask) -> None:
        for double in (toy.ToyServer, toy.SendsLogits, toy.IsDown, toy.SendsZeros, toy.SendsOneHotRows):
            content = asked(double(), task).as_json()
            again = json.loads(json.dumps(content, allow_nan=False))
            assert [answer["question"] for answer in again["answers"]] == list(QUESTIONS)

    def test_lines_mark_what_blocks_and_steer_no_terminal(self, task: ProbeTask) -> None:
        class Steers(toy.ToyServer):
            def said(self) -> dict[str, str]:
                return super().said() | {"kv_cache_dtype": "q4_0\x1b[2J", "speculative": "on\x1b[2J\nyes"}

        lines = asked(Steers(), task).lines()
        assert not any("\x1b" in line or "\n" in line for line in lines)
        blocked = asked(toy.CapsSilently(), task).lines()
        marked = [line.split()[2] for line in blocked if line.startswith("! no ")]
        assert marked == ["top-k"]
        assert sum("way round: " in line for line in blocked) == 2

    def test_an_engine_that_does_not_open(self) -> None:
        report = not_opened("vllm", EngineMissing("the library is not installed", todo="pip install it"))
        assert [answer.question for answer in report.blocking] == ["opens"]
        assert report.lines()[1].startswith("! no")

    def test_no_answer_of_that_name(self, task: ProbeTask) -> None:
        with pytest.raises(KeyError):
            asked(toy.ToyServer(), task).answer("nothing")


class TestTheRealEngineOfThisProcess:
    @pytest.mark.parametrize("path_shape", ["prefill", "decode"])
    def test_every_answer_is_yes(self, tiny: LoadedProtocol, open_tiny: Opener, path_shape: str) -> None:
        engine = open_tiny(path_shape=path_shape)
        own = probe_task(tiny, tiny.protocol.reference, engine.settings)
        report = probe(engine, replace(own, needs=replace(ALL, sense=False)))
        assert not_yes(report) == {}
        assert own.full_vocabulary and report.engine == "llama_cpp" and report.said["kv"] == "f16"
        assert report.measured["largest_top_k"] == 32

    def test_what_is_listed_is_what_its_logits_say(self, tiny: LoadedProtocol, open_tiny: Opener) -> None:
        import numpy as np

        from drift_runs.engines.probe.logits import ListedLogits

        engine = open_tiny()
        tokens = list(tiny.tokens("alpha-1"))
        (block,) = ListedLogits(engine, 32).score_listed(tokens, [3, 7], top_k=4, wanted=[[5, 6], [0]])
        (raw,) = [found.logits.astype(float) for found in engine.score(tokens, [3, 7])]
        expected = raw - np.log(np.exp(raw).sum(axis=1, keepdims=True))
        for row, at in enumerate((3, 7)):
            order = sorted(range(32), key=lambda token, row=row: (-expected[row, token], token))
            assert block.ids[row].tolist() == order[:4]
            assert block.logprobs[row] == pytest.approx(expected[row, order[:4]], abs=1e-9)
            assert block.token_logprob[row] == pytest.approx(expected[row, tokens[at]], abs=1e-9)
            assert block.token_rank[row] == order.index(tokens[at]) + 1
        assert block.wanted_ids.tolist() == [[5, 6], [0, -1]]
        assert block.wanted_logprobs[0] == pytest.approx(expected[0, [5, 6]], abs=1e-9)
        assert np.isnan(block.wanted_logprobs[1, 1])

    def test_a_model_of_other_weights_and_dictionary(
        self, tiny: LoadedProtocol, open_tiny: Opener, tmp_path: Path
    ) -> None:
        swapped = tiny_dictionary()
        swapped[4], swapped[5] = swapped[5], swapped[4]
        engine = open_tiny(write_tiny_model(tmp_path / "swapped.gguf", tokens=swapped))
        report = probe(engine, probe_task(tiny, tiny.protocol.reference, engine.settings))
        assert report.answer("dictionary").answer == NO
        assert [answer.question for answer in report.blocking] == ["dictionary"]

    def test_a_model_whose_weights_are_broken(self, tiny: LoadedProtocol, open_tiny: Opener, tmp_path: Path) -> None:
        engine = open_tiny(write_tiny_model(tmp_path / "nan.gguf", poison="output.weight"))
        report = probe(engine, probe_task(tiny, tiny.protocol.reference, engine.settings))
        assert report.answer("rows").answer == NO and "NaN" in report.answer("rows").evidence
        assert {"rows", "raw", "mass"} <= {answer.question for answer in report.blocking}

    def test_a_context_that_is_too_short(self, tiny: LoadedProtocol, open_tiny: Opener) -> None:
        engine = open_tiny(context_tokens=36)
        report = probe(engine, probe_task(tiny, tiny.protocol.reference, engine.settings))
        assert [answer.question for answer in report.blocking] == ["context"]
        with pytest.raises(ContextOverflow):
            list(engine.score(tiny.tokens("alpha-2"), [39]))

    def test_a_cache_of_another_type_than_declared(self, tiny: LoadedProtocol, open_tiny: Opener) -> None:
        engine = open_tiny(kv="q4_0")
        report = probe(engine, probe_task(tiny, tiny.protocol.reference, settings()))
        assert [answer.question for answer in report.blocking] == ["declared"]
        assert report.answer("declared").evidence == "kv is q4_0, declared is f16"


class TestTheTaskOfAnArm:
    def needs(self, folder: Path, arm: str = "q8_0", **changes: object) -> Needs:
        loaded = load_protocol(copy_tiny(folder, {key.replace("__", "."): value for key, value in changes.items()}))
        found = next(item for item in loaded.protocol.arms if item.name == arm)
        return probe_task(loaded, found, settings()).needs

    def test_windows_spans_and_texts(self, task: ProbeTask) -> None:
        window = task.windows[0]
        assert window.name == "alpha-1" and window.positions == (*range(1, 13), *range(15, 24))
        assert toy.toy_ids(window.text) == list(window.tokens)
        assert [window.generated for window in task.windows] == [False, False, True, True]
        assert task.longest_tokens == 39 and task.dictionary_size == 32

    def test_scoring_alone(self, tmp_path: Path) -> None:
        assert self.needs(tmp_path) == Needs(scoring=True, dictionary=True)

    def test_a_floor_that_says_identical_needs_the_same_bytes(self, tmp_path: Path) -> None:
        assert self.needs(tmp_path / "a", arm="f16").repeats
        assert not self.needs(tmp_path / "b", arm="f16", floors=DELETE).repeats

    def test_a_reference_beside_one_that_travelled_is_compared_with_it(self, tmp_path: Path) -> None:
        listed = {"capture.full_vocabulary": "no", "capture.divergence": "kl.topk-tail"}

        def of(folder: str, changes: Mapping[str, object], end: str) -> Needs:
            loaded = load_protocol(copy_tiny(tmp_path / folder, dict(changes)))
            reference = loaded.protocol.reference
            arm = reference.model_copy(update={"name": f"{reference.name}{end}"})
            return probe_task(loaded, arm, settings()).needs

        alone = {**listed, "floors": DELETE}
        assert not of("a", alone, "").wanted, "nothing is held against its list"
        assert of("b", alone, HERE).wanted and not of("c", {"floors": DELETE}, HERE).wanted
        assert of("d", listed, HERE).repeats and not of("e", alone, HERE).repeats
        # A second pass belongs to the reference's own process, which is elsewhere.
        passes = {"floors": [{"name": "again", "arm": "f16", "kind": "pass", "rows": "identical"}]}
        assert of("f", passes, "").repeats and not of("g", passes, HERE).repeats
