"""The least value of a function that can only be called, and not often."""

import random


# EVOLVE-BLOCK-START
def search(objective, bounds, budget, rng):
    """Random search: the best of as many points as there are calls."""
    low, high = bounds
    best_x, best_y = rng.uniform(low, high), rng.uniform(low, high)
    best_value = objective(best_x, best_y)

    for _ in range(budget - 1):
        x = rng.uniform(low, high)
        y = rng.uniform(low, high)
        value = objective(x, y)
        if value < best_value:
            best_value, best_x, best_y = value, x, y

    return best_x, best_y


# EVOLVE-BLOCK-END


def run_search(objective, bounds, budget, seed):
    """The point (x, y) at which the objective was found to be least."""
    return search(objective, bounds, budget, random.Random(seed))
