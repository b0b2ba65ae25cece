"""Ctrl-C is noticed, and everything is then as it was."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from kem_pymc.runs.interruption import noticing_interruption


@pytest.mark.usefixtures("at_a_terminal")
def test_ctrl_c_is_noticed_and_raises_again_afterwards():
    with noticing_interruption() as noticed:
        assert not noticed.happened
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        assert noticed.happened
        with noticing_interruption() as inner:
            assert inner is noticed
        assert signal.getsignal(signal.SIGINT) is noticed  # the inner one didn't end it
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("at_a_terminal")
def test_an_error_leaves_ctrl_c_as_it_was():
    with pytest.raises(ZeroDivisionError), noticing_interruption():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize("usual", [signal.SIG_IGN, lambda *_: None], ids=["ignored", "another"])
def test_handlers_of_others_stay(usual):
    """Fails where jobs in the background of a shell begin to heed Ctrl-C."""
    signal.signal(signal.SIGINT, usual)
    with noticing_interruption() as noticed:
        assert signal.getsignal(signal.SIGINT) is usual
    assert not noticed.happened


@pytest.mark.usefixtures("at_a_terminal")
def test_other_threads_change_nothing():
    def work():
        with noticing_interruption() as noticed:
            return noticed.happened, signal.getsignal(signal.SIGINT)

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(work).result() == (False, signal.default_int_handler)
