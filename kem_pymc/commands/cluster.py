"""``kem cluster``: a Dask cluster of this machine's processes, for commands with ``--cluster``."""

import signal
import threading
from typing import Annotated

import typer

from kem_pymc.commands import screen
from kem_pymc.errors import InputError

EXAMPLE = "Example: kem cluster --workers 2 --port 8786"


def cluster(
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Worker processes.")] = 2,
    port: Annotated[
        int, typer.Option(min=0, metavar="N", help="Port of the scheduler; 0 takes a free one.")
    ] = 8786,
) -> None:
    """Start a Dask scheduler and workers on this machine, until Ctrl-C.

    Workers on other machines join with Dask's own command: dask worker ADDRESS.
    """
    try:
        import dask
        from distributed import LocalCluster
    except ImportError:
        raise InputError(
            "A cluster needs Dask, which isn't installed. Install kem-pymc[cluster]."
        ) from None
    dask.config.set(
        {
            # Workers would look at themselves a hundred times a second.
            "distributed.worker.profile.enabled": False,
            # Some seconds after a worker died Dask gives its place up, unless its successor is
            # there by then. On a busy machine it isn't, and work would wait for nobody.
            "distributed.deploy.lost-worker-timeout": "1000 days",
        }
    )
    try:
        running = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            scheduler_port=port,
            dashboard_address=None,
        )
    except (OSError, RuntimeError) as error:
        raise InputError(
            f"No scheduler starts at port {port} ({error}). Give another with --port, or 0."
        ) from error
    with running:
        stopped = _wish_to_stop()
        screen.say(f"{workers} workers at {running.scheduler_address}")
        screen.say("Ctrl-C stops them.")
        stopped.wait()


def _wish_to_stop() -> threading.Event:
    """Return what Ctrl-C, or a request to end, sets from now on.

    In jobs in the background, Ctrl-C stays ignored.
    """
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: stopped.set())
    return stopped
