"""Adds up a folder of orders: reads ORDERS/*.csv, writes OUT/report.txt."""

import collections
import csv
import pathlib
import sys

orders, out = map(pathlib.Path, sys.argv[1:3])
turnover = collections.Counter()
for path in sorted(orders.glob("*.csv")):
    with path.open(newline="") as file:
        for order in csv.DictReader(file):
            turnover[order["product"]] += int(order["pieces"]) * float(order["price"])

lines = [f"{product:<8}{amount:>10.2f}" for product, amount in turnover.most_common()]
(out / "report.txt").write_text("\n".join(lines) + "\n")
print(f"{len(lines)} products, {turnover.total():.2f} in all")
