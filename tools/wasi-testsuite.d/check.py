"""Checks the list of expected failures: each names a case of the suite and a reason."""

import json
import sys
import tomllib
from pathlib import Path

listed, *folders = sys.argv[1:]
cases = {
    json.loads((Path(folder) / "manifest.json").read_text())["name"]: {case.stem for case in Path(folder).glob("*.wasm")}
    for folder in folders
}
wrong = []
for suite in tomllib.loads(Path(listed).read_text()).get("suite", []):
    known = cases.get(suite["name"], set())
    for test in suite.get("test", []):
        if test["name"] not in known:
            wrong.append(f"{suite['name']} has no case {test['name']}")
        if not test.get("reason"):
            wrong.append(f"{test['name']} has no reason")
for line in wrong:
    print(f"{listed}: {line}", file=sys.stderr)
sys.exit(bool(wrong))
