from progevo.search.islands import Islands
from progevo.testing import SearchCase


class TestContract(SearchCase):
    def make(self) -> Islands:
        return Islands(seed=7)
