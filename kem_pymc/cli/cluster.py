"""``kem cluster``: start a Dask cluster on this machine, for commands with ``--cluster``."""

import shlex
import signal
import threading
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kem_pymc._system.certificates import AUTHORITY, CERTIFICATE, KEY, VARIABLE
from kem_pymc.cli import screen
from kem_pymc.errors import InputError

if TYPE_CHECKING:
    from distributed.security import Security

EXAMPLE = "Example: kem cluster --workers 2 --port 8786"


#: Address of this machine that other machines can't reach.
LOOPBACK = "127.0.0.1"


def cluster(
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Worker processes.")] = 2,
    port: Annotated[
        int, typer.Option(min=0, metavar="N", help="Port of the scheduler; 0 chooses a free port.")
    ] = 8786,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Address to listen on; other machines can reach addresses other than 127.0.0.1, "
            "so these need --certificates.",
        ),
    ] = LOOPBACK,
    certificates: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            envvar=VARIABLE,
            help="Folder of the certificates (TLS) that are needed to connect: ca.pem, cert.pem "
            "and key.pem. If it is new or empty, they are created.",
        ),
    ] = None,
) -> None:
    """Start a Dask scheduler and workers on this machine; they run until Ctrl-C.

    Any program that can connect to the scheduler's port can run code on this machine, with your
    rights. Therefore the scheduler accepts connections from this machine only. To allow other
    machines, give an address with --host and a folder of TLS certificates with --certificates;
    clients and workers then need a copy of the certificates. The command that starts a worker on
    another machine is then printed.
    """
    try:
        import dask
        from distributed import LocalCluster
    except ImportError:
        raise InputError(
            "A cluster needs Dask, which isn't installed. Install kem-pymc[cluster]."
        ) from None
    security = _security(host, certificates)
    dask.config.set(
        {
            # The profiler would sample every worker about a hundred times a second.
            "distributed.worker.profile.enabled": False,
            # By default, Dask gives up a worker that died if its replacement isn't running within
            # some seconds. On a busy machine it may take longer, and tasks would wait forever.
            "distributed.deploy.lost-worker-timeout": "1000 days",
        }
    )
    try:
        running = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host=host,
            scheduler_port=port,
            dashboard_address=None,
            protocol=None if security is None else "tls://",
            security=security,
        )
    except (OSError, RuntimeError) as error:
        raise InputError(
            f"The scheduler can't start at port {port} of {host} ({error}). "
            "Choose another port with --port, or 0 for a free one."
        ) from error
    with running:
        stopped = _wish_to_stop()
        screen.info(f"{workers} workers at {running.scheduler_address}")
        if certificates is not None:
            _tell_how_to_join(running.scheduler_address, certificates)
        screen.info("Press Ctrl-C to stop them.")
        stopped.wait()


def _security(host: str, folder: Path | None) -> "Security | None":
    """Return the TLS certificates of a cluster, or None without TLS.

    If the folder doesn't exist or is empty, certificates are created in it.
    """
    from kem_pymc._system.certificates import certificates, make_certificates

    if folder is None:
        if not _is_loopback(host):
            raise InputError(
                f"Other machines may reach {host}, and any program that connects to a cluster can "
                "run code on it. Add --certificates with a folder, which may be new."
            )
        return None
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        make_certificates(folder)
    return certificates(folder)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tell_how_to_join(address: str, folder: Path) -> None:
    place = shlex.quote(str(folder.resolve()))
    files = {"ca-file": AUTHORITY, "cert": CERTIFICATE, "key": KEY}
    options = " ".join(f"--tls-{name} {place}/{file}" for name, file in files.items())
    screen.info(
        f"Any program with a copy of {place} can run code on this machine. Keep it private."
    )
    screen.info(f"To use the cluster: export {VARIABLE}={place}, and add --cluster {address}")
    screen.info(f"To start a worker on another machine: dask worker {address} {options}")


def _wish_to_stop() -> threading.Event:
    """Return an event that is set by Ctrl-C (SIGINT) or by SIGTERM.

    A signal that is ignored, as Ctrl-C is in background jobs, stays ignored.
    """
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: stopped.set())
    return stopped
