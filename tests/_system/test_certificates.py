"""Certificates of a cluster: made, read and refused."""

import gc
import re
import subprocess
import sys
import time
from contextlib import closing

import pytest
from typer.testing import CliRunner

from kem_pymc._system.certificates import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    VARIABLE,
    certificates,
    given_certificates,
    make_certificates,
)
from kem_pymc._system.executors import Serial, make_executor
from kem_pymc.cli.main import app
from kem_pymc.errors import InputError
from tests._system.test_executors import done, drawn
from tests.conftest import running_cluster
from tests.refusals import refused

pytestmark = pytest.mark.cluster


@pytest.fixture
def pem(tmp_path):
    """A folder with certificates that others made."""
    make_certificates(tmp_path / "others")
    return tmp_path / "others"


def refused_cluster(*arguments):
    result = CliRunner().invoke(app, ["cluster", "--port", "0", *map(str, arguments)])
    assert result.exit_code == 2
    return result.stderr


def test_an_open_host_needs_certificates(tmp_path, pem):
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"):
        assert "any program that connects to a cluster can run code" in refused_cluster(
            "--host", host
        )
    (pem / "key.pem").unlink()
    assert "has no key.pem" in refused_cluster("--certificates", pem)
    (pem / "key.pem").write_text("no key")
    assert "can't be used" in refused_cluster("--certificates", pem)
    (tmp_path / "file").touch()
    assert "has no ca.pem" in refused_cluster("--certificates", tmp_path / "file")


def test_only_the_right_certificate_connects(tmp_path, pem, monkeypatch):
    own = tmp_path / "own"
    options = ("--host", "0.0.0.0", "--certificates", str(own))
    with running_cluster(*options) as (process, _):
        lines = [process.stdout.readline() for _ in range(3)]
        (found,) = re.findall(r"--cluster (tls://\S+)", lines[1])
        assert "can run code on this machine" in lines[0]
        assert f"dask worker {found} --tls-ca-file {own}/ca.pem" in lines[2]
        assert {path.name for path in own.iterdir()} == {"ca.pem", "cert.pem", "key.pem"}
        assert (own / "key.pem").stat().st_mode & 0o077 == 0
        found = f"tls://127.0.0.1:{found.rpartition(':')[2]}"
        monkeypatch.setattr("kem_pymc._system.executors.PATIENCE_SECONDS", 2.0)
        refuses(found, "with the same certificates")
        monkeypatch.setenv("KEM_CERTIFICATES", str(pem))
        refuses(found, "with the same certificates")
        refuses(found.replace("tls://", "tcp://"), "No Dask scheduler responds")
        joining = subprocess.run(joins(found, pem), capture_output=True, timeout=120)
        assert joining.returncode != 0
        monkeypatch.setattr("kem_pymc._system.executors.PATIENCE_SECONDS", 30.0)
        monkeypatch.setenv("KEM_CERTIFICATES", str(own))
        with closing(make_executor(cluster=found)) as executor:
            assert executor.width == 4
            assert done(executor, drawn) == done(Serial(), drawn)
            with subprocess.Popen(joins(found, own), stderr=subprocess.DEVNULL) as joining:
                try:
                    until = time.monotonic() + 60
                    while executor.width < 6 and time.monotonic() < until:
                        time.sleep(0.1)
                    assert executor.width == 6
                finally:
                    joining.terminate()


def refuses(address, message):
    """Check that no connection is made; collect the client that Dask leaves behind.

    If it were collected while the next client starts, it would wait for a lock that this one holds.
    """
    with pytest.raises(InputError, match=message):
        make_executor(cluster=address)
    gc.collect()


def joins(address, folder):
    """Return the command that lets a worker of one thread join a cluster."""
    program = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
    files = {"--tls-ca-file": "ca.pem", "--tls-cert": "cert.pem", "--tls-key": "key.pem"}
    own = [part for name, file in files.items() for part in (name, str(folder / file))]
    return [*program, "--no-nanny", "--no-dashboard", "--death-timeout", "5", *own]


def test_what_is_made_is_read(tmp_path, monkeypatch):
    """Fails where one side of a connection has no certificate, or others may read the key."""
    folder = tmp_path / "new" / "own"
    monkeypatch.delenv(VARIABLE, raising=False)
    assert given_certificates() is None
    make_certificates(folder)
    assert (folder.stat().st_mode & 0o777, (folder / KEY).stat().st_mode & 0o777) == (0o700, 0o600)
    monkeypatch.setenv(VARIABLE, str(folder))
    for found in (certificates(folder), given_certificates()):
        assert found.require_encryption
        assert found.tls_ca_file == str(folder / AUTHORITY)
        for side in ("client", "scheduler", "worker"):
            assert getattr(found, f"tls_{side}_cert") == str(folder / CERTIFICATE)
            assert getattr(found, f"tls_{side}_key") == str(folder / KEY)
    before = (folder / KEY).read_bytes()
    refused(lambda: make_certificates(folder), "can't be written", "Give another folder")
    assert (folder / KEY).read_bytes() == before
