"""A cluster as the command starts it."""

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from kem_pymc.cli.cluster import _security
from tests.conftest import running_cluster

pytestmark = pytest.mark.cluster


def test_ctrl_c_stops_a_cluster():
    # Whatever started the tests, Ctrl-C isn't ignored here.
    as_usual = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with running_cluster(preexec_fn=as_usual) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


def test_a_port_that_is_taken(address):
    command = [str(Path(sys.executable).with_name("kem")), "cluster", "--port"]
    port = address.rsplit(":", 1)[1]
    result = subprocess.run([*command, port], capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert f"The scheduler can't start at port {port}" in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_hosts_that_others_cannot_reach_need_no_certificates(host):
    """Those that others can reach are tested with the certificates."""
    assert _security(host, None) is None


def test_certificates_are_made_in_a_new_folder_and_never_replaced(tmp_path):
    made = _security("0.0.0.0", tmp_path / "own")
    key = (tmp_path / "own" / "key.pem").read_bytes()
    again = _security("0.0.0.0", tmp_path / "own")
    assert (tmp_path / "own" / "key.pem").read_bytes() == key
    assert made.tls_ca_file == again.tls_ca_file
