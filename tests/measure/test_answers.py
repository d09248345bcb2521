"""Expected answers: which are exact, where the first wrong token stands, and what is not judged."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drift_runs import schema
from drift_runs.measure import answers as answers_module
from drift_runs.measure.answer_figures import STATISTICS, answer_figures
from drift_runs.measure.answers import answers_table
from drift_runs.measure.figures import Figure
from drift_runs.measure.results import Results
from drift_runs.measure.text import Texts, TokenText
from drift_runs.schema import ANSWERS

NAN = math.nan
OF_AN_ANSWER = ("reference_exact", "exact", "wrong", "first_wrong", "token", "candidate_top", "candidate_p1", "literal")


def answer(name: str, window: str, start: int, end: int, **more: str) -> dict:
    return {"name": name, "window": window, "from": start, "to": end, **more}


@pytest.fixture
def protocol(make_protocol):
    """Positions b 3 4 5 8 9, a 1 2 3; window a is an outlier. One answer lies in no range."""
    return make_protocol(
        {"b": ("A", "one", [(3, 6), (8, 10)]), "a": ("B", "two", [(1, 4)])},
        outliers=("a",),
        answers=[
            answer("late", "b", 8, 10, form="call"),
            answer("early", "b", 3, 6, form="json"),
            answer("other", "a", 1, 3),
        ],
    )


def of(table: pa.Table) -> dict[str, dict]:
    assert table.schema.equals(ANSWERS, check_metadata=True)
    return {row["answer"]: row for row in table.to_pylist()}


def figure(figures: list[Figure], statistic: str, scope: tuple[str, str] = ("all", "all"), outliers="with") -> Figure:
    (found,) = [
        item
        for item in figures
        if (item.scope_kind, item.scope) == scope and (item.statistic, item.outliers) == (statistic, outliers)
    ]
    assert found.spec == "answer.exact"
    return found


def values(figures: list[Figure], scope: tuple[str, str] = ("all", "all"), outliers="with") -> list[float | None]:
    return [figure(figures, name, scope, outliers).value for name in STATISTICS]


class TestTable:
    def test_an_answer_is_exact_where_every_best_token_is_the_texts_own(self, protocol, make_table):
        table = make_table(
            protocol,
            token=np.array([1, 2, 3, 4, 5, 6, 7, 8]),
            candidate_top=np.array([1, 9, 8, 4, 5, 6, 7, 0]),
            reference_top=np.array([1, 2, 3, 4, 0, 6, 7, 0]),
            flip_text=np.array([0, 1, 1, 0, 0, 0, 0, 1]),
            reference_nll_nats=np.array([0, 0.5, 0, 0, 0, 0, 0, 0]),
            candidate_nll_nats=np.array([0, 2.0, 0, 0, 0, 0, 0, 0]),
            candidate_p1=np.array([1, 0.75, 1, 1, 1, 1, 1, 1]),
            literal=np.array([0, 1, 0, 0, 0, 0, 0, 0]),
        )
        found = of(answers_table(table, protocol, arm="q4_0"))
        assert list(found) == ["late", "early", "other"]  # in the protocol's order
        early, late, other = found["early"], found["late"], found["other"]
        assert (early["exact"], early["reference_exact"], early["wrong"], early["first_wrong"]) == (False, True, 2, 4)
        assert (early["token"], early["candidate_top"], early["literal"]) == (2, 9, True)
        assert early["reference_p"] == pytest.approx(math.exp(-0.5))
        assert early["candidate_p"] == pytest.approx(math.exp(-2)) and early["candidate_p1"] == 0.75
        assert (late["exact"], late["reference_exact"], late["wrong"], late["first_wrong"]) == (True, False, 0, None)
        # What is wrong at a position after the answer is not the answer's affair.
        assert other["exact"] is other["reference_exact"] is True
        assert (early["range"], early["kind"], early["form"], early["panel"]) == ("b-0", "prose", "json", "A")
        assert (other["document"], other["outlier"], early["outlier"], other["form"]) == ("two", True, False, "text")
        assert {row["arm"] for row in found.values()} == {"q4_0"} and early["text"] is early["token_text"] is None
        assert [late[name] for name in ("from", "to", "unknown")] == [8, 10, 0]

    @pytest.mark.parametrize("name", ["flip_text", "token", "reference_top"])
    def test_a_best_token_that_is_not_known_leaves_the_answer_unjudged(self, protocol, make_table, name):
        known = np.zeros(8)
        missing = np.array([0, NAN, NAN, 0, 0, 0, 0, 0])
        columns = {"flip_text": known, "token": known, "reference_top": known, name: missing}
        found = of(answers_table(make_table(protocol, **columns), protocol, arm="q"))
        assert [found[name]["unknown"] for name in ("early", "late", "other")] == [2, 0, 0]
        assert [found["early"][name] for name in OF_AN_ANSWER] == [None] * len(OF_AN_ANSWER)
        assert found["late"]["exact"] is True

    def test_an_unusable_row_is_not_known(self, protocol, make_table):
        table = make_table(protocol, flip_text=np.zeros(8), reference_top=np.array([0, 0, -1, 0, 0, 0, 0, 0]))
        assert of(answers_table(table, protocol, arm="q"))["early"]["unknown"] == 1

    def test_a_position_without_a_row_is_not_known(self, protocol, make_table):
        table = make_table(protocol, flip_text=np.zeros(8)).filter(pa.array([True] * 2 + [False] * 3 + [True] * 3))
        found = of(answers_table(table, protocol, arm="q"))
        assert [found[name]["unknown"] for name in ("early", "late", "other")] == [1, 2, 0]

    def test_windows_without_rows_are_left_out(self, protocol, make_table):
        table = make_table(protocol, windows=("a",), flip_text=np.zeros(3))
        assert list(of(answers_table(table, protocol, arm="q"))) == ["other"]
        assert answers_table(table.slice(0, 0), protocol, arm="q").equals(ANSWERS.empty_table())

    def test_a_protocol_that_expects_none(self, make_protocol, make_table):
        protocol = make_protocol({"b": ("A", "one", [(3, 6)])})
        found = answers_table(make_table(protocol, flip_text=np.zeros(3)), protocol, arm="q")
        assert found.equals(ANSWERS.empty_table()) and found.schema.equals(ANSWERS, check_metadata=True)

    def test_texts(self, protocol, make_table):
        tokens = TokenText([f"<{at}>".encode() for at in range(10)])
        texts = Texts(tokens=tokens, streams={"b": list(range(10))})
        table = make_table(
            protocol,
            token=np.array([3, 4, 5, 8, 9, 1, 2, 3]),
            candidate_top=np.array([3, 77, 5, 8, 9, 1, 0, 3]),
            flip_text=np.array([0, 1, 0, 0, 0, 0, 1, 0]),
        )
        found = of(answers_table(table, protocol, arm="q", texts=texts))
        assert (found["early"]["text"], found["late"]["text"]) == ("<3><4><5>", "<8><9>")
        assert (found["early"]["token_text"], found["early"]["candidate_text"]) == ("<4>", r"\{77}")
        assert (found["early"]["wrong_from"], found["early"]["wrong_to"]) == (3, 6)
        assert found["late"]["wrong_from"] is found["other"]["wrong_to"] is None
        # The stream of window a is not known; its tokens are.
        assert (found["other"]["text"], found["other"]["token_text"]) == (None, "<2>")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
    @given(data=st.data())
    def test_as_counted_one_position_after_the_other(self, monkeypatch, make_protocol, make_table, data):
        rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
        spans = {"b": [(3, 7), (9, 15)], "a": [(1, 9)]}
        places = [(window, start + at) for window in spans for start, end in spans[window] for at in range(end - start)]
        expected = []
        for number in range(data.draw(st.integers(0, 4))):
            window = data.draw(st.sampled_from(["a", "b"]))
            start = data.draw(st.integers(1, 13))
            expected.append(answer(f"n{number}", window, start, data.draw(st.integers(start + 1, 15))))
        protocol = make_protocol({name: ("A", name, scored) for name, scored in spans.items()}, answers=expected)
        flip, best, token = (rng.choice(levels, 18) for levels in ([0, 0, 0, 1, NAN], [5, 5, 5, 6, -1], [5, 5, 5, NAN]))
        table = make_table(protocol, flip_text=flip, reference_top=best, token=token)
        with monkeypatch.context() as patch:
            patch.setattr(answers_module, "_AT_ONCE", data.draw(st.integers(1, 18)))
            found = answers_table(table.take(pa.array(rng.permutation(18))), protocol, arm="q")
        assert found.equals(answers_table(table, protocol, arm="q"))
        assert found["answer"].to_pylist() == [item["name"] for item in expected]
        for item, row in zip(expected, found.to_pylist(), strict=True):
            at = [
                places.index(place) for t in range(item["from"], item["to"]) if (place := (item["window"], t)) in places
            ]
            known = [n for n in at if not (np.isnan(flip[n]) or np.isnan(token[n]) or best[n] == -1)]
            assert row["unknown"] == item["to"] - item["from"] - len(known)
            if row["unknown"]:
                assert row["exact"] is row["reference_exact"] is row["wrong"] is row["first_wrong"] is None
            else:
                assert row["wrong"] == sum(flip[n] == 1 for n in at) and row["exact"] == (row["wrong"] == 0)
                assert row["reference_exact"] == all(best[n] == token[n] for n in at)


def table_of(
    protocol, exact: list[bool | None], reference: list[bool | None] | None = None, arm: str = "q"
) -> pa.Table:
    """Answers of a protocol in its order; None is one that was not judged."""
    rows = []
    for item, own, other in zip(protocol.answers, exact, reference or exact, strict=True):
        window = protocol.window(item.window)
        kind = next((span.kind for span in protocol.ranges if span.name == f"{item.window}-0"), "")
        rows.append(
            {
                **dict.fromkeys(ANSWERS.names),
                "arm": arm,
                "answer": item.name,
                "window": item.window,
                "document": window.document,
                "panel": window.panel,
                "range": f"{item.window}-0",
                "kind": kind,
                "outlier": item.window in protocol.outlier_windows,
                "form": item.form,
                "from": item.start,
                "to": item.end,
                "unknown": int(own is None),
                "exact": own,
                "reference_exact": None if own is None else other,
            }
        )
    return pa.Table.from_pylist(rows, schema=ANSWERS)


@pytest.fixture
def six(make_protocol):
    """Two answers in each of three windows of three documents; w2 is an outlier, w3 of another panel."""
    return make_protocol(
        {f"w{n}": ("A" if n < 3 else "B", f"d{n}", [(1, 9)]) for n in (1, 2, 3)},
        outliers=("w2",),
        kinds=("tool-call", "json", "tool-call"),
        answers=[answer(f"w{n}-{at}", f"w{n}", at, at + 2) for n in (1, 2, 3) for at in (1, 5)],
    )


class TestFigures:
    def test_known_counts_of_every_scope(self, six):
        figures = answer_figures(
            table_of(six, [True, False, True, None, False, True], [True, True, False, None, True, True]), six
        )
        #                       rate, count, reference_count, lost, gained
        assert values(figures) == [3 / 5, 3, 4, 2, 1]
        assert values(figures, outliers="without") == [2 / 4, 2, 4, 2, 0]
        assert values(figures, outliers="only") == [1, 1, 0, 0, 1]
        assert values(figures, ("panel", "A")) == [2 / 3, 2, 2, 1, 1]
        assert values(figures, ("role", "prompt")) == values(figures)
        assert values(figures, ("kind", "tool-call")) == [2 / 4, 2, 4, 2, 0]
        assert values(figures, ("window", "w2"), "only") == [1, 1, 0, 0, 1]
        assert {item.scope_kind for item in figures} == {"all", "panel", "role", "kind", "window"}
        everything = figure(figures, "rate")
        assert (everything.n, everything.excluded, everything.clusters, everything.state) == (5, 1, 3, "firm")
        assert everything.low <= 3 / 5 <= everything.high and everything.standard_error > 0
        assert everything.bca_low is not None and everything.bca_high is not None
        assert everything.interval == "percentile bootstrap, 95 %, 3 documents"
        assert everything.reason == "3 documents: such intervals cover less than they claim"
        assert figure(figures, "count").interval == "" and figure(figures, "count").low is None
        kind, window = figure(figures, "rate", ("kind", "tool-call")), figure(figures, "rate", ("window", "w1"))
        assert kind.low is not None and kind.standard_error is None
        assert window.low is None and window.reason == "1 document: no interval between documents"

    def test_the_interval_is_that_of_a_ratio_of_sums_over_clusters(self, six):
        from drift_runs.measure.resampler import Resampler

        found = figure(answer_figures(table_of(six, [True, False, True, None, False, True]), six), "rate")
        drawn = Resampler.of(six).multiplicities(3).astype(float)
        rates = drawn @ np.array([1.0, 1, 1]) / (drawn @ np.array([2.0, 1, 2]))
        assert (found.low, found.high) == pytest.approx(tuple(np.quantile(rates, [0.025, 0.975])))

    @pytest.mark.parametrize(("every", "word"), [(True, "every"), (False, "no")])
    def test_a_rate_of_all_or_nothing_has_no_interval(self, six, every, word):
        figures = answer_figures(table_of(six, [every] * 6, [True] * 6), six)
        for scope in (("all", "all"), ("kind", "tool-call")):
            found = figure(figures, "rate", scope)
            assert (found.value, found.low, found.high, found.standard_error) == (float(every), None, None, None)
            assert (found.bca_low, found.t_high, found.interval) == (None, None, "")
            assert found.reason == f"{word} answer is exact: resamples are all alike and give no interval"
        assert figure(figures, "rate", ("window", "w1")).reason == "1 document: no interval between documents"

    def test_documents_without_a_judged_answer_are_not_counted(self, six):
        figures = answer_figures(table_of(six, [True, False, None, None, False, True]), six)
        found = figure(figures, "rate")
        assert (found.clusters, found.excluded) == (2, 2)
        assert found.interval == "percentile bootstrap, 95 %, 2 documents"
        alone = figure(answer_figures(table_of(six, [True, False, *[None] * 4]), six), "rate")
        assert (alone.clusters, alone.low, alone.reason) == (1, None, "1 document: no interval between documents")

    def test_no_end_of_an_interval_lies_beyond_1(self, six):
        found = figure(answer_figures(table_of(six, [True, True, True, True, True, False]), six), "rate")
        assert found.t_high == 1 and 0 < found.t_low < found.value <= found.high <= 1

    def test_none_judged_is_withheld(self, six):
        figures = answer_figures(table_of(six, [None] * 6), six)
        assert {item.state for item in figures} == {"withheld"} and values(figures) == [None] * 5
        assert figure(figures, "rate").reason == "6 answers not judged: a best token is not known"
        assert (figure(figures, "rate").n, figure(figures, "rate").excluded) == (0, 6)

    def test_one_answer(self, make_protocol):
        protocol = make_protocol({"w": ("A", "d", [(1, 9)])}, answers=[answer("one", "w", 2, 4)])
        figures = answer_figures(table_of(protocol, [False], [True]), protocol)
        assert values(figures) == [0, 0, 1, 1, 0]
        assert {item.low for item in figures} == {None} and figure(figures, "rate").clusters == 1

    def test_no_answers_no_figures(self, six):
        assert answer_figures(ANSWERS.empty_table(), six) == []

    def test_groups_and_another_cluster(self, make_protocol):
        protocol = make_protocol(
            {f"w{n}": ("A", "d", [(1, 9)]) for n in (1, 2)},
            answers=[answer(f"a{n}", f"w{n}", 1, 3) for n in (1, 2)],
            intervals={"cluster": "window"},
        )
        windows = tuple(window.model_copy(update={"group": "g" + window.name}) for window in protocol.windows)
        figures = answer_figures(table_of(protocol, [True, False]), protocol.model_copy(update={"windows": windows}))
        assert values(figures, ("group", "gw1"))[0] == 1 and values(figures, ("group", "gw2"))[0] == 0
        assert figure(figures, "rate").interval == "percentile bootstrap, 95 %, 2 windows"

    def test_the_floor_is_that_of_the_same_answers(self, six):
        arm = table_of(six, [True, False, False, None, False, True])
        good = table_of(six, [True] * 6, arm="good")
        bad = table_of(six, [True, True, True, False, False, True], [True] * 6, arm="bad")
        first = table_of(six, [False, False, None, None, None, None], arm="first")
        figures = answer_figures(arm, six, floors={"good": good, "bad": bad, "first": first})
        rate = figure(figures, "rate")
        # The arm's own unjudged answer does not count, though the floor gets it wrong.
        assert (rate.floor, rate.floor_value, rate.borrowed) == ("bad", 4 / 5, False)
        lost = figure(figures, "lost")
        assert (lost.floor_value, figure(figures, "reference_count").floor_value) == (1, 5)
        # The floor that has judged some answers only stands where these are all.
        assert figure(figures, "rate", ("window", "w1")).floor == "first"
        assert figure(figures, "rate", ("window", "w3")).floor == "bad"

    def test_a_borrowed_floor_stands_where_no_own_one_does(self, six):
        arm = table_of(six, [True] * 6)
        own = table_of(six, [True, True, None, None, None, None])
        figures = answer_figures(arm, six, floors={"own": own}, borrowed={"other": table_of(six, [False] * 6)})
        assert (figure(figures, "rate").floor, figure(figures, "rate").borrowed) == ("other", True)
        one = figure(figures, "rate", ("window", "w1"))
        assert (one.floor, one.borrowed) == ("own", False)

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
    @given(marks=st.lists(st.tuples(st.sampled_from([True, False, None]), st.booleans()), min_size=6, max_size=6))
    def test_counts_add_up_in_any_order(self, six, marks):
        exact, reference = map(list, zip(*marks, strict=True))
        table = table_of(six, exact, reference)
        figures = answer_figures(table, six)
        rate, count, of_reference, lost, gained = values(figures)
        judged = sum(own is not None for own in exact)
        assert figure(figures, "rate").n == judged and figure(figures, "rate").excluded == 6 - judged
        if judged:
            assert count == of_reference - lost + gained and rate == count / judged
        shuffled = table.take(pa.array(np.random.default_rng(judged).permutation(6)))
        again = answer_figures(shuffled, six)
        assert values(again) == values(figures)
        parts = [values(figures, ("window", f"w{n}"))[1] or 0 for n in (1, 2, 3)]
        assert sum(parts) == (count or 0)


class TestResults:
    def test_they_are_among_an_arms_figures_beside_its_floor(self, protocol, make_table):
        results = Results(protocol)
        floor = make_table(protocol, flip_text=np.zeros(8), kl_full_nats=np.full(8, 1e-3))
        results.measure(floor, arm="launch", kind="floor")
        flips = np.array([0, 1, 0, 0, 0, 0, 0, 0])
        found = results.measure(make_table(protocol, flip_text=flips), arm="q4_0", kind="candidate")
        assert [row["exact"] for row in found.answers.to_pylist()] == [True, False, True]
        rows = [row for row in found.figures.to_pylist() if row["spec"] == "answer.exact"]
        everything = {row["statistic"]: row for row in rows if (row["scope_kind"], row["outliers"]) == ("all", "with")}
        assert (everything["rate"]["value"], everything["rate"]["n"]) == (pytest.approx(2 / 3), 3)
        assert (everything["rate"]["floor"], everything["rate"]["floor_value"]) == ("launch", 1)
        assert found.figures.schema.equals(schema.FIGURES)

    def test_a_comparison_that_is_measured_in_shards_has_them_too(self, protocol, make_table, monkeypatch):
        from drift_runs.measure import results as results_module

        table = make_table(protocol, flip_text=np.array([0, 1, 0, 0, 0, 0, 0, 0]))
        monkeypatch.setattr(results_module, "LIMIT_POSITIONS", 7)
        results = Results(protocol)
        results.measure(table, arm="launch", kind="floor")
        found = results.measure(table, arm="q4_0", kind="candidate").figures.to_pylist()
        (rate,) = [
            row
            for row in found
            if (row["spec"], row["statistic"], row["scope_kind"], row["outliers"])
            == ("answer.exact", "rate", "all", "with")
        ]
        assert rate["value"] == pytest.approx(2 / 3) and rate["floor"] == ""

    def test_a_protocol_without_answers_has_no_such_figures(self, make_protocol, make_table):
        protocol = make_protocol({"b": ("A", "one", [(3, 6)])})
        found = Results(protocol).measure(make_table(protocol), arm="q4_0", kind="candidate")
        assert found.answers.num_rows == 0 and "answer.exact" not in found.figures["spec"].to_pylist()

    def test_the_order_by_exact_answers_is_turned_round(self, make_protocol, make_table):
        """The arm that flips most has the fewest exact answers: both figures put the arms in one order."""
        protocol = make_protocol(
            {"w": ("A", "d", [(1, 9)])}, answers=[answer(f"a{at}", "w", at, at + 1) for at in range(1, 9)]
        )
        results = Results(protocol)
        for number, arm in enumerate(("q8_0", "q5_0", "q4_0"), start=1):
            flips = (np.arange(8) < number).astype(float)
            table = make_table(protocol, flip_text=flips, flip=flips, kl_full_nats=flips)
            results.measure(table, arm=arm, kind="candidate")
        rows = {
            (row["left"], row["right"]): row
            for row in results.across().agreement.to_pylist()
            if row["outliers"] == "with"
        }
        found = rows["flip/rate", "answer.exact/rate"]
        assert (found["tau"], found["concordant"], found["discordant"], found["arms"]) == (1, 3, 0, 3)
