"""Addresses and keys: short, private, unique per run, and refused in time where they are not safe."""

import os
import stat

import pytest

from dance.exchange import endpoints
from dance.exchange.endpoints import check, is_loopback, numeric, resolve
from dance.exchange.keys import load_keys, make_keys
from tests.exchanging import settings


def socket_path(address):
    return address.removeprefix("ipc://")


def test_a05_a_long_run_folder_does_not_lengthen_the_socket_path(tmp_path):
    run = str(tmp_path / ("läuft-" * 40))
    endpoint = resolve(settings(run_id=run), "negatives")
    assert len(os.fsencode(socket_path(endpoint.files))) <= 103
    assert endpoint == resolve(settings(run_id=run), "negatives")  # the same on both sides


def test_a05_a_long_temporary_folder_is_left_for_a_short_one(tmp_path, monkeypatch):
    long = tmp_path / ("ü" * 60)
    long.mkdir()
    monkeypatch.setattr(endpoints.tempfile, "gettempdir", lambda: str(long))
    endpoint = resolve(settings(), "encoders")
    assert len(os.fsencode(socket_path(endpoint.files))) <= 103


def test_c05_two_runs_and_two_kinds_never_share_an_address():
    found = {
        address
        for run in ("one", "two")
        for kind in ("encoders", "negatives")
        for address in (resolve(settings(run), kind).news, resolve(settings(run), kind).files)
    }
    assert len(found) == 8


def test_the_socket_folder_is_of_this_user_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(endpoints.tempfile, "gettempdir", lambda: str(tmp_path))
    resolve(settings(), "encoders")
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.rmdir()
    folder.symlink_to("/tmp")
    with pytest.raises(ValueError, match="set TMPDIR"):
        resolve(settings(), "encoders")


@pytest.mark.parametrize("value", ["tcp://127.0.0.1:5000", "tcp://localhost:5000", "tcp://[::1]:5000"])
def test_loopback_needs_no_keys(value):
    endpoint = resolve(settings(encoders=value), "encoders")
    assert (endpoint.news[-4:], endpoint.files[-4:]) == ("5000", "5001")


@pytest.mark.parametrize("host", ["0.0.0.0", "*", "10.1.2.3", "gpu7.example", "[2001:db8::1]"])
def test_a09_anything_beyond_loopback_needs_keys(host, tmp_path):
    with pytest.raises(ValueError, match=r"exchange.negatives=tcp://.* `dance keys FOLDER`"):
        resolve(settings(negatives=f"tcp://{host}:5000"), "negatives")
    keys = tmp_path / "keys"
    make_keys(keys)
    resolve(settings(negatives=f"tcp://{host}:5000", keys=str(keys)), "negatives")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "auto2",
        "tcp://",
        "tcp://host",
        "tcp://host:0",
        "tcp://host:65535",
        "tcp://host:x",
        "udp://host:1",
        "ipc://x",
    ],
)
def test_an_address_that_is_none_is_refused_with_the_option_named(value):
    with pytest.raises(ValueError, match=r"exchange.encoders=.*expected auto or tcp://HOST:PORT"):
        resolve(settings(encoders=value), "encoders")


def test_addresses_that_overlap_are_refused():
    with pytest.raises(ValueError, match="at least 2 apart"):
        check(settings(encoders="tcp://127.0.0.1:5000", negatives="tcp://127.0.0.1:5001"))
    check(settings(encoders="tcp://127.0.0.1:5000", negatives="tcp://127.0.0.1:5002"))
    check(settings())


def test_a_socket_is_bound_to_a_number():
    assert numeric("tcp://localhost:5000") in ("tcp://127.0.0.1:5000", "tcp://[::1]:5000")
    assert numeric("ipc:///tmp/x") == "ipc:///tmp/x"
    with pytest.raises(ValueError, match="unknown here"):
        numeric("tcp://no-such-host.invalid:5000")
    assert is_loopback("127.9.9.9") and not is_loopback("localhost.example")


def test_keys_are_private_and_never_overwritten(tmp_path):
    path = make_keys(tmp_path / "keys")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    keys = load_keys(tmp_path / "keys")
    assert keys.public != keys.secret and len(keys.public) == len(keys.secret) == 40
    with pytest.raises(ValueError, match="exists"):
        make_keys(tmp_path / "keys")
    assert load_keys(tmp_path / "keys") == keys


def test_absent_and_spoilt_keys_say_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="make them with `dance keys"):
        load_keys(tmp_path)
    path = make_keys(tmp_path)
    for spoilt in ("{}", "nonsense", '{"public": "a", "secret": "b"}'):
        path.write_text(spoilt)
        with pytest.raises(ValueError, match="make new ones"):
            load_keys(tmp_path)
