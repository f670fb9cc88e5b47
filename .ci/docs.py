#!/usr/bin/env python3
"""Runs the commands of the pages in docs, each page in an empty folder of its own.

A block of `sh` must succeed. In a block of `console`, lines that begin with `$ ` are commands, which must fail if
the lines below them say so with `exit code N`; all other lines below are looked for in what the command prints, `...`
standing for anything.
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"^exit code (\d+)$")


def run(command, folder, environment):
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=folder, env=environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=600, text=True)
    return done.returncode, done.stdout


def dialogues(text):
    """Commands of a console block, each with the lines below it."""
    found = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


def holds(line, said):
    parts = [re.escape(part) for part in line.split("...")]
    return re.search(".*".join(parts), said) is not None


def problems(page, environment):
    with tempfile.TemporaryDirectory() as folder:
        for kind, text in BLOCK.findall(page.read_text()):
            if kind == "sh":
                code, said = run(text, folder, environment)
                if code != 0:
                    yield f"{text}\nended with exit code {code}:\n{said}"
                continue
            for command, lines in dialogues(text):
                wanted = next((int(m[1]) for m in map(EXIT.match, lines) if m), 0)
                code, said = run(command, folder, environment)
                if code != wanted:
                    yield f"{command}\nended with exit code {code}, not {wanted}:\n{said}"
                for line in lines:
                    if not EXIT.match(line) and not holds(line, said):
                        yield f"{command}\ndid not print\n{line}\nbut\n{said}"


def main():
    programs = sys.argv[1]
    environment = dict(os.environ, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}", ROOT=str(ROOT))
    failed = False
    for page in sorted(ROOT.glob("docs/*.md")):
        found = list(problems(page, environment))
        print(f"{page.relative_to(ROOT)}: {'ok' if not found else ''}", *found, sep="\n", flush=True)
        failed |= bool(found)
    sys.exit(failed)


if __name__ == "__main__":
    main()
