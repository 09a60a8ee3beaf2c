"""Graph: how far away the farthest node is, from every node of a weighted graph.

A problem is a dict: `n`, and `edges`, a list of tuples (u, v, length) between nodes 0 to n - 1, undirected, lengths
above 0; the graph is connected. A solution is a list of n floats: for each node the largest of its shortest
distances, to within 1e-9.
"""

import heapq
import random

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path


def generate_problem(n, random_seed):
    """A random tree of n nodes with twice as many edges more."""
    rng = random.Random(random_seed)
    edges = {(rng.randrange(node), node) for node in range(1, n)}
    while len(edges) < min(3 * n, n * (n - 1) // 2):
        u, v = rng.randrange(n), rng.randrange(n)
        if u < v:
            edges.add((u, v))
    return {"n": n, "edges": [(u, v, rng.uniform(0.1, 10.0)) for u, v in sorted(edges)]}


def solve(problem):
    """All distances between all nodes, and the largest of each row."""
    rows = [u for u, _, _ in problem["edges"]]
    columns = [v for _, v, _ in problem["edges"]]
    lengths = [length for _, _, length in problem["edges"]]
    graph = csr_matrix((lengths, (rows, columns)), shape=(problem["n"], problem["n"]))
    distances = shortest_path(graph, method="FW", directed=False)
    return [float(row.max()) for row in distances]


def is_solution(problem, solution):
    """Whether it agrees with Dijkstra's algorithm, from every node."""
    n = problem["n"]
    if not isinstance(solution, list) or len(solution) != n or any(type(value) is not float for value in solution):
        return False
    neighbours = [[] for _ in range(n)]  # type: ignore[var-annotated]
    for u, v, length in problem["edges"]:
        neighbours[u].append((v, length))
        neighbours[v].append((u, length))
    expected = [max(_distances(neighbours, node)) for node in range(n)]
    return bool(np.all(np.abs(np.array(solution) - expected) <= 1e-9))


def _distances(neighbours, start):
    found = [float("inf")] * len(neighbours)
    found[start] = 0.0
    waiting = [(0.0, start)]
    while waiting:
        distance, node = heapq.heappop(waiting)
        if distance > found[node]:
            continue
        for other, length in neighbours[node]:
            if distance + length < found[other]:
                found[other] = distance + length
                heapq.heappush(waiting, (found[other], other))
    return found
