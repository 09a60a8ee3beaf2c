"""result.json: its schema, and that it follows from the journal."""

from __future__ import annotations

import json
from importlib import resources

import jsonschema
import pytest

from progevo import run
from progevo.errors import RunError
from progevo.result import read_result, to_json
from progevo.run import report


@pytest.fixture(scope="module")
def schema():
    return json.loads((resources.files("progevo") / "result.schema.json").read_text())


def test_the_schema_is_one(schema):
    jsonschema.Draft202012Validator.check_schema(schema)


def test_a_real_result_follows_the_schema_to_the_last_key(tmp_path, schema, toy):
    cases = {"whole": {}, "seed alone": {"iterations": 0}, "no test": {}, "islands": {"search": "openevolve"}}
    for name, changes in cases.items():
        domain = toy(splits=("search",)) if name == "no test" else toy()
        result = run(domain, **{"iterations": 3, "out": tmp_path / name, **changes})
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
        assert [error.message for error in validator.iter_errors(json.loads(to_json(result)))] == []
        assert read_result(tmp_path / name / "result.json") == result
        (tmp_path / name / "result.json").unlink()
        (tmp_path / name / "best.py").unlink()
        assert report(tmp_path / name) == result
        assert read_result(tmp_path / name / "result.json") == result
        assert (tmp_path / name / "best.py").exists()


def test_what_is_no_result_is_refused(tmp_path):
    for content in ("{", "[]", '{"schema": "progevo.result/2"}'):
        (tmp_path / "result.json").write_text(content)
        with pytest.raises(RunError):
            read_result(tmp_path / "result.json")
