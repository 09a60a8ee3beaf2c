"""Regression on a table: `harness` predicts inside the sandbox, `score` computes the RMSE on the host."""

from progevo.evaluators.tabular.score import Tabular

__all__ = ["Tabular"]
