#!/usr/bin/env python3
"""Validates predictions with a larger set of measurements, if there is one: checks for crashes and coverage.

measured.py TANDEM FILE   reads $TANDEM_MEASURED, else FILE; exits with 77 (skipped) if there is none
"""

import json
import os
import subprocess
import sys

# Kinds of records that are skipped.
NOT_PREDICTED = {"hardware", "reference_prediction"}
LEAST_COVERAGE = 0.95


def main():
    tandem, file = sys.argv[1:]
    file = os.environ.get("TANDEM_MEASURED", file)
    if not os.path.isfile(file):
        print("skipped: there is no", file)
        return 77
    with open(file, encoding="utf-8") as f:
        records = json.load(f)["records"]
    out = json.loads(subprocess.run([tandem, "validate", file, "--json"], check=True, stdout=subprocess.PIPE).stdout)

    rows = {}
    for row in out["records"]:
        rows.setdefault(row["id"], []).append(row)
    missing = [r["id"] for r in records if r["id"] not in rows]
    silent = [r["id"] for r in out["records"] if r.get("predicted") is None and not r.get("skipped")]
    wrong_kind = [
        r["id"] for r in records if r["kind"] in NOT_PREDICTED and any(not x.get("skipped") for x in rows[r["id"]])
    ]
    steps = [r["id"] for r in records if r["kind"] == "train_step"]
    predicted = [i for i in steps if any(not x.get("skipped") for x in rows.get(i, []))]
    print(f"{len(records)} records, {len(predicted)} of {len(steps)} training steps predicted")
    print(f"coverage {out['coverage']}, mean error {out['mape']:.3f}")
    failures = [
        (f"records without a row: {missing[:5]}", missing),
        (f"rows neither predicted nor skipped: {silent[:5]}", silent),
        (f"predicted against their kind: {wrong_kind[:5]}", wrong_kind),
        ("too few training steps predicted", len(predicted) < LEAST_COVERAGE * len(steps)),
        ("coverage too low", steps and out["coverage"] < LEAST_COVERAGE),
    ]
    for message, failed in failures:
        if failed:
            print("FAILED:", message)
    return 1 if any(failed for _, failed in failures) else 0


if __name__ == "__main__":
    sys.exit(main())
