"""``drift.toml``: where each arm's model lies, and every way to get it wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from drift_runs.errors import ConfigError
from drift_runs.machine import Machine, load_machine, machine_text, usable_processors

HEAD = 'schema = "drift.machine/1"\n'


def machine(tmp_path: Path, text: str) -> Machine:
    path = tmp_path / "drift.toml"
    path.write_text(HEAD + text)
    return load_machine(path)


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = machine(
        tmp_path, '[arms.a]\nmodel = "models/a.gguf"\n[arms.b]\nmodel = "/b.gguf"\n[arms.c]\nmodel = "~/c.gguf"\n'
    )
    assert found.model_file("a") == tmp_path / "models" / "a.gguf"
    assert found.model_file("b") == Path("/b.gguf")
    assert found.model_file("c") == tmp_path / "home" / "c.gguf"


def test_a_chain_of_arms_that_share_a_file(tmp_path: Path) -> None:
    found = machine(
        tmp_path, '[arms.a]\nmodel = "a.gguf"\n[arms.b]\nsame_model_as = "a"\n[arms.c]\nsame_model_as = "b"\n'
    )
    assert found.model_file("c") == found.model_file("a")


@pytest.mark.parametrize("circle", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_a_circle_is_shown(tmp_path: Path, circle: list[str]) -> None:
    text = "".join(
        f'[arms.{arm}]\nsame_model_as = "{circle[(at + 1) % len(circle)]}"\n' for at, arm in enumerate(circle)
    )
    with pytest.raises(ConfigError, match=f"goes in a circle: {' -> '.join([*circle, circle[0]])}"):
        machine(tmp_path, text).model_file("a")


def test_threads_of_the_arm_the_default_the_processors(tmp_path: Path) -> None:
    found = machine(tmp_path, '[defaults]\nthreads = 3\n[arms.a]\nmodel = "a"\nthreads = 5\n[arms.b]\nmodel = "b"\n')
    assert (found.threads("a"), found.threads("b"), found.threads("none")) == (5, 3, 3)
    assert machine(tmp_path, "").threads("a") == usable_processors() >= 1


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ('[arms.q4_0]\nmodel = "a"\n', "drift.toml: arms.q4_O", r"this arm has no entry.*did you mean 'q4_0'"),
        ("", "drift.toml: arms.q4_O", r"this arm has no entry; expected a table with model = .*; add it"),
        (
            "[arms.q4_O]\nthreads = 2\n",
            "drift.toml: arms.q4_O",
            "no weight file is named; expected model or same_model_as",
        ),
        ('[arms.q4_O]\nsame_model_as = "f16"\n', "drift.toml: arms.f16", "this arm has no entry"),
    ],
)
def test_an_arm_without_a_file(tmp_path: Path, text: str, where: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        machine(tmp_path, text).model_file("q4_O")
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ('[arms.a]\nmodle = "a"\n', "arms.a.modle", "did you mean 'model'"),
        ("[default]\nthreads = 2\n", "default", "did you mean 'defaults'"),
        ("[defaults]\nthreads = 0\n", "defaults.threads", "greater than or equal to 1"),
        ('[defaults]\nthreads = "two"\n', "defaults.threads", "valid integer"),
        ("[arms]\na = 3\n", "arms.a", "dictionary|MachineArm|mapping"),
    ],
)
def test_a_wrong_key_or_value(tmp_path: Path, text: str, key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?i){message}") as caught:
        machine(tmp_path, text)
    assert caught.value.where == f"drift.toml: {key}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'schema = "drift.machine/2"\n', r"drift\.toml: schema: input should be 'drift\.machine/1'"),
        (b"[arms]\n", r"drift\.toml: schema: field required"),
        (b"arms = [", "not TOML"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_file_of_another_kind(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "drift.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_machine(tmp_path / "drift.toml")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: no such file; expected a machine file.*--machine"):
        load_machine(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_machine(tmp_path)


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    odd = tmp_path / 'a "quoted" \\ folder' / "m.gguf"
    text = machine_text({"f16": odd, "q4.0": Path("q.gguf")}, same_model={"kv-q8_0": "f16"}, threads=4)
    (tmp_path / "drift.toml").write_text(text)
    found = load_machine(tmp_path / "drift.toml")
    assert found.model_file("kv-q8_0") == found.model_file("f16") == odd
    assert found.model_file("q4.0") == tmp_path / "q.gguf" and found.threads("f16") == 4


def test_an_adapter_is_each_arm_s_own(tmp_path: Path) -> None:
    text = '[arms.a]\nmodel = "a.gguf"\nadapter = "sub/ops.gguf"\n[arms.b]\nsame_model_as = "a"\n'
    found = machine(tmp_path, f'{text}[arms.c]\nsame_model_as = "b"\nadapter = "/other.gguf"\n')
    assert found.adapter_file("a") == tmp_path / "sub" / "ops.gguf"
    assert found.adapter_file("c") == Path("/other.gguf") and found.model_file("c") == found.model_file("a")
    assert found.adapter_file("b") is None and found.adapter_file("not there") is None
    with pytest.raises(ConfigError, match=r"arms\.d\.adapter: no path of a file: .*the path of an adapter"):
        machine(tmp_path, '[arms.d]\nadapter = "a\\u0000b"\n').adapter_file("d")
    with pytest.raises(ConfigError, match="no weight file is named"):
        machine(tmp_path, '[arms.d]\nadapter = "ops.gguf"\n').model_file("d")


def test_written_adapters_are_read_back(tmp_path: Path) -> None:
    plain = machine_text({"f16": Path("m.gguf")}, same_model={"a": "f16"}, threads=1)
    assert plain == machine_text({"f16": Path("m.gguf")}, same_model={"a": "f16"}, threads=1, adapters={})
    text = machine_text(
        {"f16": Path("m.gguf")},
        same_model={"a": "f16", "b": "f16"},
        threads=1,
        adapters={"a": tmp_path / "x.gguf", "f16": Path("y.gguf")},
    )
    (tmp_path / "drift.toml").write_text(text)
    found = load_machine(tmp_path / "drift.toml")
    files = [found.adapter_file(arm) for arm in ("f16", "a", "b")]
    assert files == [tmp_path / "y.gguf", tmp_path / "x.gguf", None]
    assert found.model_file("a") == found.model_file("b") == tmp_path / "m.gguf"


@pytest.mark.parametrize("model", ["~no-such-user-here/a.gguf", "a\\u0000b"])
def test_what_is_no_path(tmp_path: Path, model: str) -> None:
    with pytest.raises(ConfigError, match=r"drift\.toml: arms\.a\.model: no path of a file: .*expected the path of a"):
        machine(tmp_path, f'[arms.a]\nmodel = "{model}"\n').model_file("a")


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8101",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://host:0",
        "http://host:abc",
        "http://[::1",
        "http://[::zz]:80",
        "http://ho st",
        "http://host\u202e:1",
        "http://user:secret@host",
        "http://host/v1?key=secret",
        "http://host/a#b",
    ],
)
def test_what_is_no_address_is_refused_before_anything_is_asked(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"arms\.a\.url: no address of a server") as caught:
        machine(tmp_path, f'[arms.a]\nurl = "{url}"\n').place("a")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "kept", "shown"),
    [
        ("http://127.0.0.1:8101", "http://127.0.0.1:8101", "http://127.0.0.1:8101"),
        ("http://127.0.0.1:8101/v1/", "http://127.0.0.1:8101", "http://127.0.0.1:8101"),
        ("https://[::1]:443", "https://[::1]:443", "https://[::1]:443"),
        ("https://gate.example/secret-account/v1", "https://gate.example/secret-account", "https://gate.example/…"),
    ],
)
def test_a_path_of_an_address_is_not_shown(tmp_path: Path, url: str, kept: str, shown: str) -> None:
    found = machine(tmp_path, f'[arms.a]\nurl = "{url}"\n').place("a")
    assert (found.url, found.shown) == (kept, shown)
