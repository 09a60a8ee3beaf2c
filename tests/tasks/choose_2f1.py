"""2F1 by whichever of four ways loses least: 1/z, Pfaff, the plain series, SciPy. Written by hand, as an upper mark."""

import math

from scipy import special


def series(a, b, c, z):
    """The power series, and by how much its largest term outgrew its sum."""
    total = term = largest = 1.0
    for n in range(3000):
        if c + n == 0.0:
            return math.nan, math.inf
        term *= (a + n) * (b + n) / ((c + n) * (n + 1)) * z
        total += term
        largest = max(largest, abs(term))
        if n > 60 and abs(term) <= 1e-18 * abs(total):
            break
    return total, max(1.0, largest / abs(total)) if total else math.inf


def ratio(above, below):
    """Gamma(above[0]) Gamma(above[1]) / (Gamma(below[0]) Gamma(below[1])), by logarithms."""
    sign = math.prod(float(special.gammasgn(x)) for x in (*above, *below))
    return sign, sum(map(special.gammaln, above)) - sum(map(special.gammaln, below))


def by_inverse(a, b, c, z):
    terms, losses = [], []
    for p, q in ((a, b), (b, a)):
        sign, size = ratio((c, q - p), (q, c - p))
        value, loss = series(p, p - c + 1.0, p - q + 1.0, 1.0 / z)
        terms.append(sign * math.exp(size - p * math.log(-z)) * value)
        losses.append(loss * abs(terms[-1]))
    total = sum(terms)
    return total, max(losses) / abs(total) if total else math.inf


def by_pfaff(a, b, c, z):
    ways = []
    for p, q in ((a, b), (b, a)):
        value, loss = series(p, c - q, c, z / (z - 1.0))
        ways.append((value * (1.0 - z) ** -p, loss))
    return min(ways, key=lambda way: way[1])


def hyp2f1(a, b, c, z):
    # SciPy does not say what it has lost; on average it is as good as a series that lost seven digits.
    ways = [(float(special.hyp2f1(a, b, c, z)), 1e7)]
    if z < -1.1:
        ways.append(by_inverse(a, b, c, z))
    if -9.0 < z < 0.0:
        ways.append(by_pfaff(a, b, c, z))
    if abs(z) < 0.9:
        ways.append(series(a, b, c, z))
    sound = [(loss, value) for value, loss in ways if math.isfinite(value) and math.isfinite(loss)]
    return min(sound, default=(math.inf, math.nan))[1]
