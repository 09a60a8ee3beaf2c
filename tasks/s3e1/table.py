"""A table of our own that stands in for S3E1 where the real rows are not there: same columns, made-up values.

No row, and no statistic beyond rough ranges, comes from the real file. Towns, incomes and prices follow the smooth
rules below, so that the best possible predictor is known exactly: it is `expected`, and its RMSE is `NOISE_RMSE`.
Plain Python with one generator and fixed digits: the same bytes everywhere.
"""

from __future__ import annotations

import functools
import random
from bisect import bisect
from collections.abc import Callable
from itertools import accumulate, pairwise
from math import exp, hypot, log, sin, tanh
from statistics import NormalDist
from typing import NamedTuple

HEADER = "id,MedInc,HouseAge,AveRooms,AveBedrms,Population,AveOccup,Latitude,Longitude,MedHouseVal"
ROWS = 37_137
SEED = 31

#: Standard deviation of what no column explains, before prices are cut to their range.
NOISE_SD = 0.50
LOW, CAP = 0.14999, 5.00001
#: RMSE of `expected` over the scored tail: the average over the noise, which is a little below NOISE_SD because the
#: cut at LOW and CAP takes some of it away. No predictor does better, other than by luck with these draws.
NOISE_RMSE = 0.4851

#: Where the land ends, as (latitude, longitude), from south to north.
COAST = ((32.5, -117.1), (33.7, -118.2), (34.4, -119.7), (34.6, -120.6), (36.6, -121.9), (37.8, -122.5), (42.0, -124.2))


class Town(NamedTuple):
    """A cluster of rows: its weight, its centre, its spread in degrees, and what living there adds to a price."""

    weight: float
    latitude: float
    longitude: float
    spread: float
    premium: float


TOWNS = (
    Town(33, 34.0, -118.2, 0.22, 0.35),
    Town(8, 33.7, -117.8, 0.15, 0.25),
    Town(8, 32.8, -117.1, 0.14, 0.20),
    Town(12, 37.8, -122.3, 0.18, 0.70),
    Town(7, 37.3, -121.9, 0.12, 0.60),
    Town(6, 38.6, -121.4, 0.18, 0.00),
    Town(4, 36.8, -119.8, 0.20, -0.10),
    Town(3, 35.4, -119.0, 0.20, -0.15),
    Town(3, 34.4, -119.6, 0.15, 0.45),
    Town(6, 34.0, -117.2, 0.25, -0.05),
    Town(10, 37.5, -120.5, 1.60, -0.10),
)


def text(rows: int = ROWS, seed: int = SEED) -> str:
    """The table as CSV text, header first, every line ended by a line feed."""
    rng = random.Random(seed)
    # Only random() is promised to draw the same numbers in every Python; the normal draws are made from it.
    inverse = NormalDist().inv_cdf
    lines = [HEADER]
    for row in range(rows):
        features = _features(rng, lambda: inverse(rng.random()))
        value = min(max(price(*features) + NOISE_SD * inverse(rng.random()), LOW), CAP)
        lines.append(",".join(map(str, (row, *features, round(value, 5)))))
    return "\n".join(lines) + "\n"


@functools.cache
def standard_text() -> str:
    """`text()` with its defaults, made once in a process (about a second)."""
    return text()


def _features(rng: random.Random, normal: Callable[[], float]) -> tuple[float, ...]:
    """One row's eight features in the order of the header, rounded to what is printed."""
    town = TOWNS[bisect(_LADDER, rng.random() * _LADDER[-1])]
    latitude = round(_within(town.latitude + town.spread * normal(), 32.55, 41.95), 2)
    longitude = town.longitude + town.spread * normal() * 1.2
    inland = coast(latitude) + 0.02 + 0.05 * rng.random()  # nobody lives in the sea
    longitude = round(_within(max(longitude, inland), -124.35, -114.55), 2)

    centre = hypot(latitude - town.latitude, longitude - town.longitude) / town.spread
    income = exp(1.20 + 0.22 * neighbourhood(latitude, longitude) + 0.15 * town.premium + 0.42 * normal())
    income = round(_within(income, 0.4999, 15.0001), 4)
    age = round(_within(37 - 8 * centre + 9 * normal(), 2, 52))
    rooms = exp(1.20 + 0.32 * log(income) + 0.04 * centre + 0.13 * normal())
    bedrooms = exp(0.05 + 0.05 * normal())
    if rng.random() < 0.004:  # holiday homes: many rooms for few people
        rooms, bedrooms = 3 * rooms, 2.5 * bedrooms
    people = exp(7.2 + 0.55 * normal() + (0.5 if age < 12 else 0.0))
    household = exp(1.0 - 0.05 * log(income) + 0.22 * normal())
    if rng.random() < 0.001:  # dormitories and prisons
        household *= 20
    return (
        income,
        float(age),
        round(_within(rooms, 0.8, 29.0), 4),
        round(_within(bedrooms, 0.5, 5.9), 4),
        float(round(_within(people, 3, 35_682))),
        round(_within(household, 0.95, 503.0), 4),
        latitude,
        longitude,
    )


def price(
    income: float,
    age: float,
    rooms: float,
    bedrooms: float,
    population: float,
    household: float,
    latitude: float,
    longitude: float,
) -> float:
    """What a row is worth before noise and cuts, in 100,000 USD."""
    shore = exp(-(longitude - coast(latitude)) / 0.35)
    wealth = 5.4 * (1 - exp(-income / 6.5))  # saturates
    value = -0.25 + wealth * (0.70 + 0.60 * shore)
    for town in TOWNS:
        distance = hypot(latitude - town.latitude, longitude - town.longitude) / (1.6 * town.spread)
        if distance < 4:  # beyond, less than 1e-6 is left
            value += 1.5 * town.premium * exp(-distance * distance)
    value += 0.40 * neighbourhood(latitude, longitude)
    value += 0.45 * ((age - 22) / 30) ** 2  # new and old houses are dearer than those of the middle
    value -= 0.45 * tanh(household - 2.8)
    value += 0.30 * tanh(2 * (rooms / bedrooms - 4.5)) * shore
    return value - 0.10 * tanh((population - 1500) / 1500)


def expected(*features: float) -> float:
    """The mean of a row's cut price over the noise: the best prediction there is."""
    return _moments(price(*features))[0]


def variance(*features: float) -> float:
    """The variance of a row's cut price over the noise: the squared error that even `expected` makes on average."""
    return _moments(price(*features))[1]


def _moments(value: float) -> tuple[float, float]:
    """Mean and variance of a normal variable around `value` that is cut to [LOW, CAP] (a doubly censored normal)."""
    standard = NormalDist()
    a, b = (LOW - value) / NOISE_SD, (CAP - value) / NOISE_SD
    below, above = standard.cdf(a), standard.cdf(-b)
    at_a, at_b = standard.pdf(a), standard.pdf(b)
    inside = 1 - below - above
    # In units of NOISE_SD around `value`.
    mean = a * below + b * above + at_a - at_b
    square = a * a * below + b * b * above + inside + a * at_a - b * at_b
    return value + NOISE_SD * mean, NOISE_SD**2 * (square - mean * mean)


def neighbourhood(latitude: float, longitude: float) -> float:
    """Good and bad sides of town, between -1 and 1: a smooth pattern with a period of about a third of a degree."""
    return sin(19 * latitude + 6 * longitude) * sin(17 * longitude - 5 * latitude)


def coast(latitude: float) -> float:
    """The longitude of the shore at a latitude."""
    for (south, start), (north, end) in pairwise(COAST):
        if latitude <= north:
            return start + (end - start) * (latitude - south) / (north - south)
    return COAST[-1][1]


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


_LADDER = tuple(accumulate(town.weight for town in TOWNS))
