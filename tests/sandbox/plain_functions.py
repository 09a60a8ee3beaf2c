"""Functions for the tests of black boxes: a secret, and how it shows."""

from __future__ import annotations

import math
import os
import time


def function(secret):
    secret = secret[0] if isinstance(secret, list) else secret

    def f(x, y):
        if x == -1.0:
            return float(os.getpid())
        if x == -2.0:
            time.sleep(y)
        return secret + math.sqrt(x) * y  # no value for the other negative numbers

    return f
