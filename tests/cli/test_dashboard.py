"""``drift dashboard`` as a process: it serves, refuses what it cannot serve, and leaves nothing behind when it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from drift_runs.cli import dashboard
from drift_runs.errors import ConfigError

STOP_LIMIT_S = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["ctrl-c", "kill", "closed-terminal"]
)
def test_it_serves_this_machine_and_ends_with_its_server(how: signal.Signals, tmp_path: Path) -> None:
    port = free_port()
    store = tmp_path / "store"
    store.mkdir()
    command = [sys.executable, "-m", "drift_runs.cli.main", "dashboard", "--no-browser"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"http://127.0.0.1:{port} ")
        with urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as answer:
            assert answer.read() == b"ok"
        process.send_signal(how)
        _, errors = process.communicate(timeout=STOP_LIMIT_S)
        assert process.returncode == 0
        assert "the dashboard is closed" in errors
        with pytest.raises(URLError):
            urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5)
    finally:
        process.kill()


def test_a_taken_port_is_refused_by_name() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"cannot listen on 127\.0\.0\.1 port {port}"):
            dashboard.refuse_taken_port("127.0.0.1", port)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match="1 to 65535"):
        dashboard.refuse_taken_port("127.0.0.1", port)


def test_an_empty_address_is_not_taken_for_every_address() -> None:
    with pytest.raises(ConfigError, match="option --address: the address is empty"):
        dashboard.refuse_taken_port("", 8501)


def test_a_store_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--store"):
        dashboard.environment_for(str(tmp_path / "none"), None)


def test_the_server_sends_no_usage_data_and_asks_for_nothing() -> None:
    command = dashboard.command_for("127.0.0.1", 8501)
    options = dict(zip(command[5::2], command[6::2], strict=False))
    assert Path(command[4]).name == "asgi.py"
    assert options["--browser.gatherUsageStats"] == "false"
    assert options["--server.headless"] == "true"
    assert options["--server.address"] == "127.0.0.1"
