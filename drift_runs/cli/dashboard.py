"""``drift dashboard``: serve the pages on this machine until Ctrl-C."""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.request import urlopen

from drift_runs.charts import palette
from drift_runs.errors import ConfigError, DriftError

HELP = (
    "Show the results in a browser. The pages read the store, keep an index of its campaigns beside it, and write what"
    " is decided on them. They are served on this machine only, unless --address says otherwise; Ctrl-C ends it."
)
EXAMPLE = """
drift dashboard
drift dashboard --store results --port 8600 --no-browser
drift dashboard --tracking-uri http://127.0.0.1:5000
"""
INTERRUPTED = "the dashboard was closed; the store is as it was"

APP = "asgi.py"
SERVER = "dashboard.serve"
START_LIMIT_S = 60.0
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, default=8501, metavar="N", help="port to listen on (default 8501)")
    parser.add_argument("--address", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--store", metavar="DIR", help="store to show (default: DRIFT_STORE, else ./drift-store)")
    parser.add_argument("--tracking-uri", metavar="URI", help="MLflow to read (default: the database in the store)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open nothing")


def run(args: argparse.Namespace) -> int:
    refuse_taken_port(args.address, args.port)
    environment = environment_for(args.store, args.tracking_uri)
    url = f"http://{shown_host(args.address)}:{args.port}"
    if args.address not in LOOPBACK:
        print(f"drift: note: {args.address} can be reached by other machines, without a password", file=sys.stderr)
    # A plain kill and a closed terminal are a close as well: else the server would outlive its command and keep the
    # port. Under nohup, which ignores the latter, it goes on.
    for closing in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(closing) is not signal.SIG_IGN:
            signal.signal(closing, signal.default_int_handler)
    process = subprocess.Popen(
        command_for(args.address, args.port), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        wait_until_served(process, url)
        print(f"{url}  (Ctrl-C ends it)", flush=True)
        if not args.no_browser:
            import webbrowser

            webbrowser.open(url)
        code = process.wait()
    except KeyboardInterrupt:
        print("drift: the dashboard is closed", file=sys.stderr)
        return 0
    finally:
        stop(process)
    if code:
        raise DriftError(f"the dashboard's server ended with code {code}", where="drift dashboard")
    return 0


def command_for(address: str, port: int) -> list[str]:
    """The command line of the server. Telemetry is off, no file is watched, and an error shows no traceback."""
    # Looked up and not imported: nothing imports the pages.
    package = importlib.util.find_spec("dashboard")
    if package is None or package.origin is None:
        raise ConfigError("the package 'dashboard' is not installed", todo="install drift-runs again")
    options = {
        "server.address": address,
        "server.port": str(port),
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "server.showEmailPrompt": "false",
        # The view is put into each widget before it is drawn: that is no mistake to warn of.
        "global.disableWidgetStateDuplicationWarning": "true",
        "runner.magicEnabled": "false",  # every script would be parsed and rewritten first
        "browser.gatherUsageStats": "false",
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "stacktrace" if os.environ.get("DRIFT_DEBUG") else "type",
        "theme.light.primaryColor": "#2f86c6",
        "theme.light.backgroundColor": palette.PAGE_LIGHT,
        "theme.dark.primaryColor": "#2f86c6",
        "theme.dark.backgroundColor": palette.PAGE_DARK,
    }
    app = Path(package.origin).with_name(APP)
    flags = [text for name, value in options.items() for text in (f"--{name}", value)]
    return [sys.executable, "-m", SERVER, "run", str(app), *flags]


def environment_for(store: str | None, tracking_uri: str | None) -> Mapping[str, str]:
    """The server's environment: the store by name, so that nothing of it stands in a list of processes."""
    from drift_runs.tracking.uris import resolve_uri

    environment = dict(os.environ)
    if store:
        if not Path(store).is_dir():
            raise ConfigError(
                f"{store!r} is no folder",
                where="option --store",
                expected="a folder that a run wrote",
                todo="'drift demo' makes one",
            )
        environment["DRIFT_STORE"] = str(Path(store).absolute())
    if tracking_uri:
        environment["DRIFT_TRACKING_URI"] = tracking_uri
    # Refused here rather than on a page.
    resolve_uri(environment.get("DRIFT_TRACKING_URI") or None, Path(environment.get("DRIFT_STORE") or "drift-store"))
    return environment


def refuse_taken_port(address: str, port: int) -> None:
    if not 1 <= port <= 65535:
        raise ConfigError(f"{port} is no port", where="option --port", expected="1 to 65535")
    if not address:  # the system would take it for every address
        raise ConfigError("the address is empty", where="option --address", expected="for example 127.0.0.1")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {address} port {port}: {error.strerror or error}",
                where="drift dashboard",
                todo="close what uses it, or choose another with --port N",
            ) from error


def shown_host(address: str) -> str:
    if address in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{address}]" if ":" in address else address


def wait_until_served(process: subprocess.Popen, url: str) -> None:
    """Wait for the health page; ``DriftError`` when the server ends or does not answer in time."""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise DriftError(
                f"the dashboard's server ended with code {process.returncode} before it answered",
                where="drift dashboard",
                todo="its own message stands above",
            )
        try:
            with urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.05)
    raise DriftError(f"the dashboard did not answer within {START_LIMIT_S:.0f} s", where=url)


def stop(process: subprocess.Popen) -> None:
    """End the server: ask, then insist."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
