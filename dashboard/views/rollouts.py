"""Rollouts and tasks: what is written from a prompt, and which tasks pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from dashboard import data
from dashboard.components.arm_order import order_controls, ordered
from dashboard.components.export import csv_button, shown_chart
from dashboard.components.generated import Generated
from dashboard.components.markup import tag, visible
from dashboard.components.rollout_kinds import kind_readings, kinds_csv, kinds_sentence, kinds_table
from dashboard.components.rollout_table import READINGS, RolloutTable
from dashboard.components.rollout_texts import pair_csv, pair_sentence, pair_table, pairs_of, steps_table
from dashboard.components.sampled_drift import SampledDrift
from dashboard.components.task_grid import TaskGrid, TaskOrder
from dashboard.components.task_passes import TaskPasses, answer_rows, answer_table
from dashboard.figures import EXACT, PREFIX
from dashboard.frame import Page, choose, control, open_page
from drift_runs.charts.first_difference import first_difference
from drift_runs.charts.rollout_readings import rollout_readings
from drift_runs.charts.sampled_readings import sampled_readings
from drift_runs.charts.task_matrix import task_matrix

if TYPE_CHECKING:
    from drift_runs.tracking.records import ArmRecord

SHOWN_ANSWERS = 40
MOST_CELLS = 600  # of the picture of tasks by arms: more are in the table, which can be scrolled


def show() -> None:
    page = open_page("Rollouts and tasks")
    order_controls(page)
    found = Generated(page)
    arms = [*ordered(page, page.arms("candidate")), *ordered(page, page.arms("follow-up"))]
    _bounds(found)
    _rollouts(page, found, arms)
    _sampled(page, found, arms)
    _tasks(page, found, arms)


def _bounds(found: Generated) -> None:
    said = found.bounds()
    if said:
        words = f"Generation was bounded: {'; '.join(said)}. A later run without bounds takes what is missing: "
        st.html(tag("div", words, tag("code", _command(found.page)), cls="dr-notes"))


def _command(page: Page) -> str:
    return f"drift run {page.campaign.protocol_name}.toml"


def _file(page: Page) -> str:
    return f"{page.campaign.protocol_name}-v{page.campaign.protocol_version}"


def _say(*parts: object) -> None:
    st.html(tag("p", parts, cls="dr-say"))


def _refused(found: Generated, arms: list[ArmRecord], spec: str, words: str) -> None:
    """Say what arms could not be asked, and why."""
    for arm in arms:
        if (refused := found.figure(arm.arm, spec, "count")) is not None:
            said = f" was not {words} {refused.value:,.0f} of {refused.n:,} {refused.reason}"
            st.html(tag("div", tag("b", arm.arm), said, cls="dr-notes"))


def _rollouts(page: Page, found: Generated, arms: list[ArmRecord]) -> None:
    st.subheader("Greedy rollouts", anchor=False)
    rollouts = RolloutTable(found, arms)
    if not rollouts:
        _no_lane(page, "rollouts", "No rollouts", page.protocol.rollouts is not None)
        return
    steps = rollouts.steps()
    said = "No published formula exists for the figure that others call Divergence-300 @32, so all four readings stand "
    said += f"here: {steps:,} tokens behind each prompt, decoded greedily on both sides."
    _say(said)
    _refused(found, arms, "rollout.refused", "rolled out from")
    _say(rollouts.sentence())
    st.html(rollouts.html(_rollout_caption(page)))
    csv_button(rollouts.csv_rows(), name=f"{_file(page)}-rollouts", key="rollouts")
    st.html(tag("p", tag("b", "Readings by arm"), cls="dr-key"))
    shown_chart(
        rollout_readings(rollouts.chart_rows(), colours=page.colours),
        name=f"{_file(page)}-rollout-readings",
        alt="readings of rollouts by arm with intervals; the band is the null",
    )
    st.html(tag("p", "Points with their intervals. The grey band behind a point spans the floors.", cls="dr-key"))
    st.html(tag("p", tag("b", "Where they part: rollout.first"), cls="dr-key"))
    shown_chart(
        first_difference(rollouts.step_rows(), steps=steps, colours=page.colours),
        name=f"{_file(page)}-first-difference",
        alt="histogram of the step of the first difference, one row an arm",
    )
    words = "The height of a bar is the share of the arm's prompts that part at the step."
    st.html(tag("p", words, cls="dr-key"))
    _kinds(page, found, rollouts)
    _prompts(page, found, rollouts)


def _rollout_caption(page: Page) -> str:
    words = "n counts prompts, and a prompt is a cluster of the intervals. Early stops and loops: of the arm, and of "
    words += "the reference beneath; an end token is an ordinary token here, so that every rollout is as long"
    if cut := [arm.arm for role in ("candidate", "follow-up") for arm in page.arms(role) if not arm.scored]:
        words += f", but not of {', '.join(cut)}: its server writes nothing behind one, and both sides are cut there"
    words += ". A share of "
    words += "all or none has resamples that are all alike: its interval says nothing."
    if page.campaign.outliers:
        words += " Prompts lie in no window: the outlier switch changes nothing here."
    return words


def _no_lane(page: Page, name: str, none: str, asked: bool) -> None:
    """Why a lane has no figures, and the command that measures it."""
    if page.campaign.imported:
        _say(f"{none}: the imported files hold none.")
    elif asked:
        _say(f"{none} here, although the protocol asks for it. It is measured by ", _code(page))
    else:
        _say(
            f"{none}: the protocol of this campaign has no table ",
            tag("code", f"[{name}]" if name != "tasks" else "[[tasks]]"),
            ". Write one into a new version, freeze it, and run ",
            _code(page),
        )


def _code(page: Page) -> object:
    return tag("code", _command(page))


def _kinds(page: Page, found: Generated, rollouts: RolloutTable) -> None:
    st.html(tag("h4", "By kind of prompt"))
    prompts = data.prompts(page.uri, page.campaign.run_id, page.campaign.complete)
    if prompts is None:
        why = (
            "the source does not say them" if page.campaign.imported else "an older version stored no panel of prompts"
        )
        more = [] if page.campaign.imported else [". Running it again stores it: ", _code(page)]
        _say(f"The kinds of the prompts are not known here: {why}", *more)
        return
    readings = kind_readings(found, rollouts.arms, prompts)
    if not readings:
        _say("The texts of the rollouts are not stored, so that they cannot be parted by kind.")
        return
    _say(kinds_sentence(readings, PREFIX.spec))
    caption = f"{READINGS[PREFIX.spec].capitalize()} ({PREFIX.spec}), made here from the stored texts. "
    caption += "The CSV has all readings."
    st.html(kinds_table(readings, PREFIX.spec, caption))
    csv_button(kinds_csv(readings), name=f"{_file(page)}-rollouts-by-kind", key="kinds")


def _prompts(page: Page, found: Generated, rollouts: RolloutTable) -> None:
    st.html(tag("h4", "One prompt, both texts"))
    names = [arm.arm for arm in rollouts.arms if found.rollouts(arm.arm).num_rows]
    if not names:
        why = "an import keeps the figures of continuations" if page.campaign.imported else "this store keeps figures"
        _say(f"The texts are not here: {why} and not what was written, so that no prompt can be shown.")
        return
    chosen = page.view.arm if page.view.arm in names else names[0]
    arm = next(arm for arm in rollouts.arms if arm.arm == chosen)
    against = found.against(arm)
    pairs = pairs_of(*found.rollout_pair(arm))
    row = st.container(horizontal=True)
    row.selectbox("Arm", names, width=215, **control("arm", chosen))
    if not pairs:
        _say(f"{against} has no rollout of a prompt of {chosen}: there is nothing to set side by side.")
        return
    # What parts comes first: that is what a reader looks for.
    order = sorted(pairs, key=lambda name: (pairs[name].exact, pairs[name].equal))
    prompt = choose("prompt", order)
    row.selectbox(
        f"Prompt ({len(pairs):,}, those that part soonest first)",
        order,
        format_func=lambda name: pairs[name].label,
        width=420,
        **control("prompt", prompt),
    )
    pair = pairs[prompt]
    ends = page.protocol.chat.ends if page.protocol.chat is not None else ()
    _prompt_text(page, prompt)
    _say(pair_sentence(pair, reference=against, arm=chosen, ends=ends))
    st.html(pair_table(pair, reference=against, arm=chosen, ends=ends))
    st.html(steps_table(pair, reference=against, arm=chosen))
    csv_button(pair_csv(pair), name=f"{_file(page)}-{chosen}-{prompt}", key="pair")


def _prompt_text(page: Page, name: str) -> None:
    prompts = data.prompts(page.uri, page.campaign.run_id, page.campaign.complete)
    found = next((prompt for prompt in prompts.prompts if prompt.name == name), None) if prompts else None
    if found is None:
        return
    with st.expander(f"The prompt ({found.kind})"):
        if found.system:
            st.html(tag("p", tag("b", "system: "), visible(found.system), cls="dr-text"))
        st.html(tag("p", visible(found.text), cls="dr-text"))


def _sampled(page: Page, found: Generated, arms: list[ArmRecord]) -> None:
    st.subheader("Sampled decoding with common noise", anchor=False)
    specs = {f"{spec}/share": spec.partition(".")[2] for spec in READINGS}
    # The field is another page's too, with other figures: what is not one of these is left alone.
    plot = page.view.plot if page.view.plot in specs else f"{PREFIX.spec}/share"
    drift = SampledDrift(found, arms, specs[plot])
    if not drift:
        _no_lane(page, "sampled", "No sampled decoding", page.protocol.sampled is not None)
        return
    st.segmented_control(
        "Reading",
        list(specs),
        format_func=lambda key: READINGS[key.partition("/")[0]],
        required=True,
        **control("plot", plot),
    )
    reading = READINGS[plot.partition("/")[0]]
    _say(f"Does sampling amplify drift or damp it? By {reading}, which is smaller the more two sides drift apart. ")
    _say(drift.sentence())
    shown_chart(
        sampled_readings(drift.chart_rows(), axis_title=f"{reading}, %", colours=page.colours),
        name=f"{_file(page)}-sampled-{drift.reading}",
        alt=f"{reading} by temperature with intervals; the null is dashed",
    )
    st.html(tag("p", "Points with their intervals over prompts; dashed and grey: the null.", cls="dr-key"))
    caption = (
        "Both sides meet the same noise, so that only their logits part them. The greedy column is of the prompts "
    )
    caption += "and the length that were sampled. Draws of one prompt are one cluster."
    st.html(drift.html(caption))
    csv_button(drift.csv_rows(), name=f"{_file(page)}-sampled-{drift.reading}", key="sampled")


def _tasks(page: Page, found: Generated, arms: list[ArmRecord]) -> None:
    st.subheader("Tasks", anchor=False)
    passes = TaskPasses(found, arms)
    if not passes:
        _no_lane(page, "tasks", "No tasks", bool(page.protocol.tasks))
        return
    _refused(found, arms, "task.refused", "asked")
    for words in passes.sentences() or ["No arm can be set against the reference."]:
        _say(words)
    caption = (
        "n counts tasks that were decided. Lost: the reference alone passed; gained: the arm alone. The sign-flip "
    )
    caption += "test over whole texts decides; McNemar's takes tasks of one text as independent."
    st.html(passes.html(caption))
    csv_button(passes.csv_rows(), name=f"{_file(page)}-tasks-{page.view.outliers}", key="tasks")
    _grid(page, arms)
    _order(page)
    _answers(page, found, passes)


def _grid(page: Page, arms: list[ArmRecord]) -> None:
    st.html(tag("h4", "Tasks by arms"))
    drift = data.task_drift(page.uri, page.campaign.run_id, page.run_ids)
    grid = TaskGrid(page, drift, [arm.arm for arm in arms])
    if not grid:
        _say("Drift was not laid beside the tasks: no arm shown has both. Measure it with ", _code(page))
        return
    _say(grid.sentence())
    if len(grid.rows) <= MOST_CELLS:
        title = "flips in the answer's span"
        shown_chart(
            task_matrix(grid.chart_rows(), drift_title=title),
            name=f"{_file(page)}-tasks-by-arms",
            alt="tasks by arms: pass or fail in words on a ground that says how many flips the answer's span has",
        )
    else:
        _say(f"{len(grid.rows):,} cells are too many for a picture; the table has all of them.")
    words = (
        "Drift is of the answer's span in the window's own text, pass or fail of what the arm wrote on its own. Worst "
    )
    words += "p95: of the window's ranges. n: scored positions of the span."
    st.html(grid.html(words))
    csv_button(grid.csv_rows(), name=f"{_file(page)}-task-drift-{page.view.outliers}", key="task-drift")


def _order(page: Page) -> None:
    st.html(tag("h4", "Does more drift go with more failures?"))
    order = TaskOrder(page, data.task_order(page.uri, page.campaign.run_id, page.run_ids))
    if not order:
        _say("No order was computed: the campaign has no table of drift and tasks.")
        return
    for words in order.sentences():
        _say(words)
    caption = (
        "Rank correlation of each figure with failure, intervals over whole texts. The CSV has each row's sentence."
    )
    st.html(order.html(caption))
    csv_button(order.rows, name=f"{_file(page)}-task-order-{page.view.outliers}", key="task-order")


def _answers(page: Page, found: Generated, passes: TaskPasses) -> None:
    st.html(tag("h4", "What an arm wrote"))
    names = [arm.arm for arm in passes.arms if found.tasks(arm.arm).num_rows]
    if not names:
        _say("The answers themselves are not stored.")
        return
    chosen = page.view.arm if page.view.arm in names else names[0]
    if not _has_texts(found, chosen):
        st.selectbox("Arm", names, width=215, **control("arm", chosen))
    rows = answer_rows(found, chosen, page.sets)
    shown = rows[:SHOWN_ANSWERS]
    words = f"{len(shown):,} of {len(rows):,} answers of {chosen}, failed ones first."
    words += " The arm is chosen above." if _has_texts(found, chosen) else ""
    st.html(answer_table(shown, words, reference=page.campaign.reference, arm=chosen))
    csv_button(rows, name=f"{_file(page)}-{chosen}-answers-to-tasks", key="task-answers")


def _has_texts(found: Generated, arm: str) -> bool:
    return found.figure(arm, EXACT.spec, "share") is not None and found.rollouts(arm).num_rows > 0


show()
