import io

import pandas as pd

from kem_pymc._system.spreadsheet import escape, unescape

NAMES = ("=1+1", "+a", "-b", "@c", "\td", "\re", "'=f", "''=g", "'h", "i=j", "")


def test_no_name_begins_as_a_formula_and_none_is_lost():
    table = pd.DataFrame({"user": NAMES, "=feature": -1.5})
    there = escape(table)
    cells = [*there["user"], *there.columns]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)
    assert there["user"].nunique() == len(NAMES)
    assert there["'=feature"].eq(-1.5).all()
    pd.testing.assert_frame_equal(unescape(there), table)
    file = io.StringIO(there.to_csv(index=False))
    back = unescape(pd.read_csv(file, keep_default_na=False))
    pd.testing.assert_frame_equal(back, table)


def test_numbers_stay():
    table = pd.DataFrame({"user": [-1, 2]})
    pd.testing.assert_frame_equal(escape(table), table)
