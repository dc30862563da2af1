"""The exchange across processes: alone, stopped, killed, forked."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dance.exchange import open_publisher, open_subscriber
from dance.paths import RunPaths
from tests.exchanging import KIND, free_port, publish, settings, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_id(request):
    """Unique to a test, so that they may run side by side."""
    return f"{request.node.name}-{os.getpid()}"


@pytest.fixture
def theirs(tmp_path):
    return RunPaths(tmp_path / "theirs")


@pytest.fixture
def ours(tmp_path):
    return RunPaths(tmp_path / "ours")


ALONE = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored
from pathlib import Path
from dance.exchange import open_publisher, open_subscriber
from dance.paths import RunPaths
from tests.exchanging import settings
config, paths = settings("{run}"), RunPaths(Path("{root}"))
with open_publisher(config, paths, "encoders") as publisher, open_subscriber(config, paths, "negatives"):
    publisher.announce(None, phase="wait")
    print("up", flush=True)
    {body}
"""


def start(code, **names):
    code = code.format(**names)
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("body", "interrupt", "code"),
    [("pass", False, 0), ("time.sleep(60)", True, 130), ("raise OSError", False, 1)],
)
def test_a04_a_process_without_a_peer_exits_at_once(body, interrupt, code, run_id, tmp_path):
    process = start(ALONE, run=f"{run_id}-{code}", root=tmp_path, body=body)
    assert process.stdout.readline() == "up\n"
    begun = time.monotonic()
    if interrupt:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=5)
    assert time.monotonic() - begun < 5
    assert process.returncode in (code, -signal.SIGINT if interrupt else code)


PUBLISHER = """
import time
from pathlib import Path
from dance.exchange import open_publisher
from dance.paths import RunPaths
from tests.exchanging import settings
config, paths = settings("{run}", negatives="{address}"), RunPaths(Path("{root}"))
with open_publisher(config, paths, "negatives") as publisher:
    publisher.announce({step}, phase="mine")
    print("up", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["auto", "tcp"])
def test_a07_a_stopped_and_a_killed_publisher_are_heard_again(transport, run_id, theirs, ours):
    address = "auto" if transport == "auto" else f"tcp://127.0.0.1:{free_port()}"
    names = {"run": run_id, "root": theirs.root, "address": address}
    config = settings(run_id, negatives=address)
    publish(theirs, 1)
    publish(theirs, 2, {"a": 3_000_000})
    with open_subscriber(config, ours, KIND) as subscriber:
        first = start(PUBLISHER, step=1, **names)
        try:
            until(lambda: subscriber.newest() == 1)
            first.send_signal(signal.SIGSTOP)
            until(lambda: subscriber.peer().last_seen > 0.6)
            first.send_signal(signal.SIGCONT)
            until(lambda: subscriber.peer().last_seen < 0.2)
        finally:
            first.kill()
            first.communicate()
        second = start(PUBLISHER, step=2, **names)
        try:
            until(lambda: subscriber.newest() == 2)
            assert subscriber.peer().restarts == 1
        finally:
            second.kill()
            second.communicate()


def test_s04_a_forked_child_leaves_the_exchange_alone(run_id, theirs):
    config = settings(run_id)
    publish(theirs, 1)
    with open_publisher(config, theirs, KIND) as publisher, open_subscriber(config, theirs, KIND) as subscriber:
        child = multiprocessing.get_context("fork").Process(target=sum, args=([1, 2],))
        child.start()
        child.join(5)
        assert child.exitcode == 0
        publisher.announce(1)
        until(lambda: subscriber.newest() == 1)
