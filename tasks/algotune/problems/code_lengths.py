"""Combinatorial: how long the words of an optimal prefix code are.

A problem is a list of n whole numbers above 0, how often each symbol occurs. A solution is a list of n whole numbers,
the length in bits of each symbol's word in a binary prefix code with the least total length.
"""

import heapq
import random


def generate_problem(n, random_seed):
    """n counts, of which few are large."""
    rng = random.Random(random_seed)
    return [1 + int(rng.paretovariate(0.8)) + rng.randrange(100) for _ in range(n)]


def solve(problem):
    """Joins the two rarest groups of symbols until one is left, and keeps the groups in order by sorting them."""
    parents = [-1] * len(problem)
    groups = [(count, symbol) for symbol, count in enumerate(problem)]
    groups.sort()
    while len(groups) > 1:
        first, second = groups.pop(0), groups.pop(0)
        parents[first[1]] = parents[second[1]] = len(parents)
        groups.append((first[0] + second[0], len(parents)))
        groups.sort()
        parents.append(-1)
    depths = [0] * len(parents)
    for node in range(len(parents) - 2, -1, -1):
        depths[node] = depths[parents[node]] + 1
    return depths[: len(problem)]


def is_solution(problem, solution):
    """Whether a prefix code with these lengths exists (Kraft), and whether none is shorter in all (by a heap)."""
    if not isinstance(solution, list) or len(solution) != len(problem):
        return False
    if any(type(length) is not int or not 0 < length < len(problem) for length in solution):
        return False
    longest = max(solution)
    if sum(1 << (longest - length) for length in solution) > 1 << longest:
        return False
    waiting, least = list(problem), 0
    heapq.heapify(waiting)
    while len(waiting) > 1:
        joined = heapq.heappop(waiting) + heapq.heappop(waiting)
        least += joined
        heapq.heappush(waiting, joined)
    return sum(count * length for count, length in zip(problem, solution, strict=True)) == least
