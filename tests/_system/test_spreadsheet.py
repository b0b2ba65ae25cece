import pandas as pd

from kem_pymc._system.spreadsheet import escape, unescape, write_table

NAMES = ("=1+1", "+a", "-b", "@c", "\td", "\re", "\uff1df", "'=f", "''=g", "'h", "i=j", "")


def test_no_text_begins_as_a_formula_and_none_is_lost(tmp_path):
    """In no column of any type of text, and in no column's name."""
    table = pd.DataFrame({"user": NAMES, "=feature": -1.5, "term": pd.Series(NAMES, dtype=object)})
    table["contrast"] = pd.Categorical(NAMES)
    write_table(table, tmp_path / "t.csv")
    there = pd.read_csv(tmp_path / "t.csv", keep_default_na=False)
    cells = [*there["user"], *there["term"], *there["contrast"], *there.columns]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r", "\uff1d")) for cell in cells)
    assert there["user"].nunique() == len(NAMES)
    assert there["'=feature"].eq(-1.5).all()
    pd.testing.assert_frame_equal(unescape(there), table.astype({"term": "str", "contrast": "str"}))


def test_numbers_stay():
    table = pd.DataFrame({"user": [-1, 2]})
    pd.testing.assert_frame_equal(escape(table), table)
