"""The way from a table of pilot users to a running server, as docs/tutorials/trial.md has it."""

import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.cli.conftest import SMALL, fine

DOCUMENT = Path(__file__).parents[2] / "docs" / "tutorials" / "trial.md"

#: Opens the program in a process of its own.
PROGRAM = "from kem_pymc.cli.main import main; main()"


def table(labels, weeks, seed):
    """Return steps of users, in weeks."""
    rng, parts = np.random.default_rng(seed), []
    for label in labels:
        steps = 50 + rng.normal(0, 5) + 2 * np.arange(weeks) + rng.normal(0, 3, weeks)
        parts.append(pd.DataFrame({"id": label, "week": np.arange(weeks), "steps": steps}))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.integration
def test_ten_commands_lead_to_a_server(tmp_path, monkeypatch):
    (block,) = (
        b
        for b in re.findall(r"```console\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
        if "kem fit --data" in b
    )
    lines = [line.split("#")[0].strip() for line in block.splitlines()]
    assert len(lines) == 10
    monkeypatch.chdir(tmp_path)
    table("abcd", 6, 0).to_csv("pilots.csv", index=False)
    table(["p1", "p2", "p3"], 4, 1).to_csv("monday.csv", index=False)
    pd.DataFrame({"id": "p3", "week": [4, 5]}).to_csv("coming.csv", index=False)
    said = []
    for line in lines[:-1]:
        words = shlex.split(line)[1:]
        said.append(fine(*words, *(SMALL if words[0] == "fit" else ())))
    for text, expected in zip(
        said[1:],
        [
            "created",
            "12 accepted",
            "wait for a decision: 0.",
            "12 selections (12 green)",
            "mean",
            "Registered",
            "compared with",
            "as they were made",
        ],
        strict=True,
    ):
        assert expected in text
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    *_, words = lines[-1].partition(" kem ")
    words = words.replace("8000", str(port))
    monkeypatch.setenv("KEM_TRIAL_TOKENS", "a token of some length")
    server = subprocess.Popen([sys.executable, "-c", PROGRAM, *shlex.split(words)])
    try:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/page?label=p3")
        request.add_header("Authorization", "Bearer a token of some length")
        deadline = time.monotonic() + 60
        while True:
            try:
                page = urllib.request.urlopen(request).read().decode()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.2)
        assert "<svg" in page
    finally:
        server.terminate()
        server.wait()
