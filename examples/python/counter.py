#!/usr/bin/env python3
# examples/python/counter.py
"""Counts the lines and words of every text file, and writes report.md."""
import json
import os
import re
import sys


def say(line):
    """Shows a line to whoever watches the session."""
    print(line, file=sys.stderr, flush=True)


def leave(**result):
    """Leaves the result; a dict that has an "error" is a failed attempt."""
    with open(os.environ["MAESTRO_RESULT"], "w", encoding="utf-8") as f:
        json.dump(result, f)


def count(names):
    """Returns (name, lines, words) of every input that is text."""
    rows = []
    for name in names:
        say(f"counting {name}")
        try:
            with open(name, encoding="utf-8") as f:
                text = f.read()
        except UnicodeDecodeError:
            continue
        rows.append((name, text.count("\n"), len(text.split())))
    return rows


def report(rows, columns):
    """Writes the page, with the columns that somebody has asked for besides."""
    lines = ["| file | lines | words |", "|---|---|---|"]
    lines += [f"| {name} | {n} | {words} |" for name, n, words in rows]
    if "total" in columns:
        lines.append(f"| total | {sum(r[1] for r in rows)} | {sum(r[2] for r in rows)} |")
    with open("report.md", "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def main():
    brief = json.load(sys.stdin)
    asked = []
    if brief["feedback"]:  # what the attempt before lacked
        say(f"trying again: {brief['feedback']['message']}")
        asked = re.findall(r"^missing: (\w+)$", brief["feedback"]["output"], re.M)
    rows = count(brief["inputs"])
    if not rows:
        leave(error={
            "category": "contract_violation",
            "message": "there is no text to count; start the session with --workspace DIR",
            "retryable": False,
        })
        return 1
    report(rows, asked)
    words = sum(row[2] for row in rows)
    leave(
        summary=f"{len(rows)} files, {words} words.",
        decisions={"words": str(words)},
        usage={"input_tokens": words, "output_tokens": 10 * len(rows), "cost_usd": 0.000001 * words},
    )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as e:  # the disk is full, or worse: not the work's fault
        leave(error={"category": "resource_error", "message": str(e)})
        sys.exit(1)
