class Solver:
    def solve(self, problem, **kwargs):
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
