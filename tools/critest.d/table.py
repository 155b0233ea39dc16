"""Prints a line for each test of a JUnit report: name, verdict, and why it was skipped."""

import sys
import xml.etree.ElementTree as tree

for path in sys.argv[1:]:
    lines = []
    for case in tree.parse(path).iter("testcase"):
        name = case.get("name", "")
        skipped = case.find("skipped")
        if not name.startswith("[It]"):
            continue
        if case.find("failure") is not None or case.find("error") is not None:
            lines.append(f"{name}\tfail")
        elif skipped is not None:
            why = " ".join((skipped.get("message") or "").replace("skipped - ", "").split())
            lines.append(f"{name}\tskip\t{why}")
        else:
            lines.append(f"{name}\tpass")
    print("\n".join(sorted(lines)))
