"""The thread that writes beside the training."""

import threading
import time

import pytest

from trainer.writer import Writer


def test_work_runs_beside_the_loop_one_at_a_time():
    writer, events, go = Writer(), [], threading.Event()

    def first():
        assert go.wait(10)
        events.append("first")

    writer.begin("first", first)
    events.append("loop")
    writer.check()
    threading.Timer(0.05, go.set).start()
    writer.begin("second", lambda: events.append("second"))
    writer.join()
    assert events == ["loop", "first", "second"]
    writer.close()


@pytest.mark.parametrize("verb", ["check", "join", "begin"])
def test_an_error_is_raised_in_the_loop_once_with_its_cause(verb):
    writer = Writer()

    def fail():
        raise OSError(28, "No space left on device")

    writer.begin("handing over the encoder of step 50", fail)
    ends = time.monotonic() + 5
    while not writer._under_way.done() and time.monotonic() < ends:
        time.sleep(0.001)
    with pytest.raises(RuntimeError, match="encoder of step 50: .*No space left") as caught:
        writer.begin("next", lambda: None) if verb == "begin" else getattr(writer, verb)()
    assert isinstance(caught.value.__cause__, OSError)
    writer.join()
    writer.close()


def test_closing_waits_and_tells_but_never_raises(caplog):
    writer = Writer()

    def fail():
        time.sleep(0.02)
        raise OSError("gone")

    writer.begin("step 7", fail)
    writer.close()
    assert "step 7: gone" in caplog.text
