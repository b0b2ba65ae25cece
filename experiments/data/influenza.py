"""Influenza by age: sick days under vaccination, by a model of infections (Del Valle et al. 2013).

People of each age group are susceptible, infected, or recovered. The authors' contact matrix isn't
public; that of the United States by Mistry et al. (2021) stands in for it, whose contacts between
groups are the same from both sides.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.integrate import solve_ivp

from kem_pymc.data.datasets.files import Folder, not_csv, read_csv
from kem_pymc.errors import InputError

#: Files of contacts and of the population.
CONTACTS, POPULATION = "contact/us_mistry2021_5groups.csv", "contact/us_age_groups_population.csv"

#: Where the files come from, for error messages.
SOURCE = "the mixing patterns of Mistry et al. (2021), with five age groups"

#: Age groups in years.
AGES = ("0-19", "20-49", "50-64", "65-69", "70+")

#: Days of infection, days of the epidemic, and share of people who are infected at first.
INFECTED_DAYS, YEAR, FIRST = 4.0, 365.0, 1e-4

#: Share of vaccinated people who are immune.
EFFICACY = 0.6


@dataclass(frozen=True, eq=False)
class Epidemic:
    """An epidemic of influenza in five age groups.

    Attributes
    ----------
    contacts : ndarray, shape (5, 5)
        Contacts a day of a person in one group with people of another.
    shares : ndarray, shape (5,)
        Shares of the groups in the population.
    susceptibility : ndarray, shape (5,)
        Relative probability of infection by a contact.
    reproduction : float
        Basic reproduction number: infections by the first infected person.
    """

    contacts: np.ndarray
    shares: np.ndarray
    susceptibility: np.ndarray
    reproduction: float

    @property
    def transmission(self) -> np.ndarray:
        """Infections (5, 5) a day of a group by an infected share of another.

        They are scaled so that the largest eigenvalue of the next generation is the basic
        reproduction number.
        """
        rates = self.susceptibility[:, None] * self.contacts
        next_generation = rates * self.shares[:, None] / self.shares
        largest = float(np.abs(np.linalg.eigvals(next_generation)).max())
        return rates * self.reproduction / (largest * INFECTED_DAYS)

    def sick_days(self, x: np.ndarray) -> np.ndarray:
        """Return each group's contribution to the sick days per person in a year.

        Parameters
        ----------
        x : ndarray, shape (m, 5)
            Vaccination rates of the groups, from 0 to 1.

        Returns
        -------
        ndarray, shape (m, 5)
            Their sum is the mean number of sick days of a person.

        Raises
        ------
        InputError
            If a rate isn't between 0 and 1.
        """
        x = np.atleast_2d(np.asarray(x, dtype=np.float64))
        if x.shape[1] != len(AGES) or not ((x >= -1e-9) & (x <= 1 + 1e-9)).all():
            raise InputError("Vaccination rates aren't between 0 and 1. Give five for each row.")
        susceptible = (1 - EFFICACY * np.clip(x, 0, 1)) * (1 - FIRST)
        start = np.stack([susceptible, np.full_like(susceptible, FIRST)])
        rates = self.transmission

        def change(_: float, state: np.ndarray) -> np.ndarray:
            well, ill = state.reshape(start.shape)
            infections = well * (ill @ rates.T)
            return np.stack([-infections, infections - ill / INFECTED_DAYS]).ravel()

        end = solve_ivp(change, (0.0, YEAR), start.ravel(), rtol=1e-6, atol=1e-9).y[:, -1]
        infected = susceptible - end.reshape(start.shape)[0] + FIRST
        return infected * self.shares * INFECTED_DAYS


def epidemic(
    reproduction: float = 1.6,
    susceptibility: np.ndarray | None = None,
    data_home: Folder = None,
) -> Epidemic:
    """Return an epidemic with the contacts and the population of the United States.

    Parameters
    ----------
    reproduction : float
        Basic reproduction number.
    susceptibility : ndarray, shape (5,), optional
        Relative probability of infection by a contact; equal by default.
    data_home : path, optional
        Folder of the data files, see :func:`kem_pymc.data.datasets.data_home`.

    Raises
    ------
    InputError
        If a number isn't positive, or a file has other groups.
    DataFileNotFoundError
        If a file isn't in the data home.
    """
    susceptible = (
        np.ones(len(AGES)) if susceptibility is None else np.asarray(susceptibility, float)
    )
    if susceptible.shape != (len(AGES),) or not (np.append(susceptible, reproduction) > 0).all():
        raise InputError("Give a positive reproduction number and five positive susceptibilities.")
    columns = ["setting", "age_group_i", "age_group_j", "contacts_per_day_i_with_j"]
    table = read_csv(CONTACTS, data_home, source=SOURCE, columns=columns)
    counted = ["age_group", "population"]
    people = read_csv(POPULATION, data_home, source=SOURCE, columns=counted).set_index("age_group")
    overall = table[table["setting"] == "overall"]
    try:
        wide = overall.pivot_table(index=columns[1], columns=columns[2], values=columns[3])
        contacts = wide.loc[list(AGES), list(AGES)].to_numpy(np.float64)
        population = people.loc[list(AGES), "population"].to_numpy(np.float64)
    except (KeyError, ValueError, TypeError, pd.errors.DataError) as error:
        raise not_csv(CONTACTS) from error
    return Epidemic(contacts, population / population.sum(), susceptible, float(reproduction))
