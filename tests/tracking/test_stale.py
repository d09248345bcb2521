"""Who writes a run, and whether that process still lives."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest

from drift_runs.tracking import stale

NOW_S = 1_800_000_000.0


@pytest.fixture
def me() -> stale.Owner:
    return stale.this_process(NOW_S)


def run(run_id: str, owner: stale.Owner | None) -> stale.UnfinishedRun:
    return stale.UnfinishedRun(run_id=run_id, kind="campaign", name="tiny", status="RUNNING", started_ms=0, owner=owner)


def test_this_process_is_alive(me):
    assert me.pid == os.getpid()
    assert stale.state_of(me, now_s=NOW_S + 1e6)[0] == "alive"


def test_tags_carry_an_owner_there_and_back(me):
    back = stale.owner_of(stale.tags_of(me))
    assert (back.host, back.pid, back.heartbeat_s) == (me.host, me.pid, me.heartbeat_s)
    assert back.started_s == pytest.approx(me.started_s, abs=0.01)


def test_a_process_that_has_ended_is_dead():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = dataclasses.replace(stale.this_process(NOW_S), pid=child.pid, started_s=_started_s(child.pid))
    assert stale.state_of(owner, now_s=NOW_S)[0] == "alive"
    child.kill()
    child.wait()
    state, reason = stale.state_of(owner, now_s=NOW_S)
    assert state == "dead" and str(child.pid) in reason


def test_a_reused_process_id_is_another_process(me):
    older = dataclasses.replace(me, started_s=me.started_s - 3600)
    assert stale.state_of(older, now_s=NOW_S)[0] == "dead"


@pytest.mark.parametrize(("silent_s", "state"), [(60, "alive"), (stale.SILENCE_S + 1, "silent")])
def test_another_host_is_judged_by_its_silence(me, silent_s, state):
    other = dataclasses.replace(me, host="another-host", pid=1)
    assert stale.state_of(other, now_s=NOW_S + silent_s)[0] == state


@pytest.mark.parametrize("damage", [{stale.PID_TAG: "many"}, {stale.HEARTBEAT_TAG: ""}])
def test_damaged_tags_name_no_owner(me, damage):
    assert stale.owner_of({**stale.tags_of(me), **damage}) is None
    assert stale.owner_of({}) is None


def test_only_runs_without_a_living_owner_are_listed_in_order(me):
    other = dataclasses.replace(me, host="another-host", heartbeat_s=0.0)
    found = stale.stale_of([run("a", other), run("b", me), run("c", None)], now_s=NOW_S)
    assert [(one.run.run_id, one.state) for one in found] == [("a", "silent"), ("c", "dead")]


def _started_s(pid: int) -> float:
    import psutil

    return psutil.Process(pid).create_time()
