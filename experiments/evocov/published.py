"""Results that Roman et al. (2019) published, to print beside ours."""

from io import StringIO

import pandas as pd

from experiments.data.series import TSDL


def _table(text: str) -> pd.DataFrame:
    """Return a table of the thirteen series in the order of the paper."""
    return pd.read_csv(StringIO(text), sep=r"\s+").set_axis(list(TSDL))


#: Table 4: mean test RMSE of kernels of Duvenaud et al. (2013), fitted with each metric.
METRICS = _table("""LML LOOCV posterior_LML SoPL RMSE
37.00 230.27 157.96 57.10 97.34
269.12 539.64 925.25 279.24 132.04
4.40 37.61 3.94 2.34 3.19
54.13 99.64 67.94 52.58 266.37
4.92 6.63 4.62 5.62 4.67
49352.14 4994073.33 38259.26 23756.89 25970.23
212.22 43078.20 1460.47 844.32 55.08
2.14 2.01 1.27 0.74 1.63
13791.03 179944.80 26403.55 18066.63 50771.39
39.58 1979.48 56.56 53.42 67.89
142.30 4436.13 265.76 192.34 219.65
44.78 16203.27 49.84 44.54 46.40
23.26 40.97 15.16 15.38 13.61
""").rename(columns={"posterior_LML": "posterior LML"})

#: Table 5: shares of mutated kernels that are better fitted, simpler, and both.
MUTATIONS = _table("""better simpler both
.38 .43 .13
.55 .32 .21
.18 .34 .05
.40 .19 .11
.23 .27 .00
.24 .38 .07
.50 .48 .20
.36 .30 .05
.71 .41 .30
.56 .43 .23
.47 .38 .15
.48 .32 .13
.38 .28 .08
""")

#: Table 7: mean numbers of hyperparameters, the noise included.
SIZES = _table("""GPSS RS GWF EL ES
15 6.1 6.3 10.2 8.5
13 4.8 5.4 7.0 6.3
11 6.7 4.9 7.0 10.8
7 5.4 4.9 6.6 5.8
9 4.5 4.5 4.2 5.3
15 4.1 6.0 10.1 6.3
19 5.1 8.2 11.3 7.6
9 6.0 6.1 7.6 8.0
21 5.8 8.0 13.4 8.7
17 5.4 6.5 7.5 7.2
15 6.4 4.8 7.1 8.3
11 5.0 5.6 6.8 7.0
13 3.0 5.0 6.3 5.6
""")
