"""Reads OpenAPI documents with openapi-spec-validator, and writes the problems that it reports.

    python check_openapi.py FILE...

It validates v2 and v3 documents. The output is one JSON document a line: {"reader": ..., "file": ..., "problems": [...]}.
It judges nothing: the test does.
"""

import json
import sys
from pathlib import Path

from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator

# A message can contain much of a document.
LONGEST = 300


def described(error):
    """A problem: the place, the message, and the schema, which a problem of a default value names by its description only."""
    schema = error.schema if isinstance(error.schema, dict) else {}
    return f"{error.json_path}: {error.message}"[:LONGEST] + " | " + schema.get("description", "")[:LONGEST]


def problems_of(document):
    validator = OpenAPIV2SpecValidator if "swagger" in document else OpenAPIV30SpecValidator
    problems = []
    try:
        for error in validator(document).iter_errors():
            problems.append(described(error))
    # The validator raises errors of several packages, for instance for a reference that leads nowhere.
    except Exception as error:
        problems.append(f"{type(error).__name__}: {error}"[:LONGEST])
    return problems


for path in map(Path, sys.argv[1:]):
    found = sorted(problems_of(json.loads(path.read_bytes())))
    print(json.dumps({"reader": "openapi-spec-validator", "file": path.name, "problems": found}), flush=True)
