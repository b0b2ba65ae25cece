"""Updaters that are killed and lose their connections, while others read and rows come in."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import create_engine, func, make_url, select, text

import kem_pymc as kem
from kem_pymc.selection.kem import KEMSelector
from kem_pymc.trial import Trial, schema
from tests.selection.pilots import user

#: Participants, time steps, kills of an updater, cuts of all connections: short, and whole.
SIZES = [
    pytest.param((5, 4, 3, 2), marks=pytest.mark.faults),
    pytest.param((200, 10, 50, 20), marks=pytest.mark.slow),
    pytest.param((1000, 10, 50, 20), marks=pytest.mark.slow),
]

UPDATE = """
import sys
import kem_pymc.trial.updating as updating
updating.LEASE = 1.0
updating.update_trial(updating.Store(updating.schema.connected(sys.argv[1])), None, None)
"""

#: Predicts without a pause for participants, until its input ends, and writes how long each took,
#: but for the first, which loads compiled code: afterwards it says so.
READ = """
import json, random, sys, threading, time
from kem_pymc.trial import Trial
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
waits, users, week = [], int(sys.argv[2]), float(sys.argv[3])
with Trial.open(sys.argv[1]) as trial:
    while not over.is_set():
        before = time.perf_counter()
        trial.predict(f"p{random.randrange(users)}", [[week]])
        waits.append(time.perf_counter() - before)
        if len(waits) == 1:
            print("ready", flush=True)
print(json.dumps(waits[1:]))
"""


def cut(url):
    """Cut all connections to the schema's database but one's own; SQLite has none to cut."""
    if not url.startswith("postgresql"):
        return
    engine = create_engine(make_url(url).update_query_dict({"application_name": "cutter"}))
    with engine.connect() as db:
        db.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = :name"
            ),
            {"name": f"kem_{os.getpid()}"},
        )
    engine.dispose()


@pytest.mark.parametrize("size", SIZES)
def test_killed_and_cut_off_updaters_lose_nothing(url, evolutions, size):
    """Two processes update, of which one is killed again and again, while a third predicts."""
    users, weeks, kills, cuts = size
    if url.startswith("postgresql"):
        named = make_url(url).update_query_dict({"application_name": f"kem_{os.getpid()}"})
        url = named.render_as_string(hide_password=False)
    times = np.arange(weeks) / 4  # within the range of the pilot users' weeks
    parts = [
        pd.DataFrame({"id": f"p{n}", "week": times, "steps": user(weeks, n)[1]})
        for n in range(users)
    ]
    rows = pd.concat(parts, ignore_index=True)
    total = users * weeks

    with Trial.create(url, evolutions, user="id", time="week") as trial:
        trial.add(rows[rows["week"] == 0], register=True)
        trial.update()
        reader = subprocess.Popen(
            [sys.executable, "-c", READ, url, str(users), str(weeks)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert reader.stdout.readline() == "ready\n"
        count = select(func.count()).select_from(schema.selections)

        @schema.lasting
        def made():
            """Return the number of selections so far."""
            with schema.reading(trial._store.engine) as db:
                return db.execute(count).scalar_one()

        start, began = [sys.executable, "-c", UPDATE, url], time.monotonic()
        updaters, done = [subprocess.Popen(start) for _ in range(2)], [0, 0]
        try:
            coming = list(times[1:])
            while (left := total - made()) or done < [kills, cuts]:
                if coming:  # with some rows that came before
                    week = coming.pop(0)
                    again = rows[rows["week"] < week].sample(users // 5, random_state=0)
                    receipt = trial.add(pd.concat([rows[rows["week"] == week], again]))
                    assert set(receipt.entries["status"]) == {"accepted", "duplicate"}
                progress = 1 - left / total
                if done[0] < kills and (done[0] < kills * progress or not left):
                    updaters[0].kill()
                    done[0] += 1
                if done[1] < cuts and (done[1] < cuts * progress or not left):
                    cut(url)
                    done[1] += 1
                for place, one in enumerate(updaters):
                    if one.poll() is not None:
                        assert one.returncode in (0, -9), "an updater failed"
                        updaters[place] = subprocess.Popen(start)
                assert time.monotonic() - began < 60 + total
                time.sleep(0.3)
        finally:
            waits, _ = reader.communicate("")
            for one in updaters:
                one.kill() if sys.exc_info()[0] else one.wait()
        assert reader.returncode == 0, "the reader failed"
        found = trial.selections()
        assert len(found) == total
        assert not found.duplicated(["participant", "time_step"]).any()
        assert set(found["severity"]) == {"green"}
        clean = kem.select_online(
            KEMSelector(evolutions),
            kem.Cohort.from_frame(rows, user="id", time="week", target="steps", scope="new"),
        )
        for label, path in clean.items():
            own = found[found["participant"] == label]
            assert list(own["composition"]) == [one.label() for one in path]
        live = trial._store.table(schema.observations.select())
        assert (live["state"] == "live").sum() == len(live) == total
        assert trial.replay() is None
    waits = json.loads(waits)
    p50, p99 = np.quantile(waits, [0.5, 0.99])
    sys.stdout.write(
        f"{url.split(':')[0]}: {len(waits)} predictions, half of them within {1000 * p50:.1f} ms, "
        f"99 % within {1000 * p99:.1f} ms; the longest took {1000 * max(waits):.0f} ms\n"
    )
    assert p99 < 1  # where an update kept readers waiting, this would be its selections' time
