#!/usr/bin/env python3
"""Runs the commands of the pages in docs, each page in an empty folder of its own.

A block of `sh` must succeed. In a block of `console`, lines that begin with `$ ` are commands, which must fail if
the lines below them say so with `exit code N`; all other lines below are looked for in what the command prints, `...`
standing for anything. A page without any command fails, but for those that are meant to have none.
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
# One lists the others, one is about code.
WITHOUT_COMMANDS = {"README.md", "own-models.md"}


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


def blocks(page):
    """What is run of a page: a whole block of `sh`, or a command, the exit code it should have, and what it should say."""
    for kind, text in BLOCK.findall(page.read_text()):
        if kind == "sh":
            yield text, 0, []
            continue
        for command, lines in dialogues(text):
            wanted = next((int(m[1]) for m in map(EXIT.match, lines) if m), 0)
            yield command, wanted, [line for line in lines if not EXIT.match(line)]


def problems(page, environment):
    with tempfile.TemporaryDirectory() as folder:
        for command, wanted, lines in blocks(page):
            code, said = run(command, folder, environment)
            if code != wanted:
                yield f"{command}\nended with exit code {code}, not {wanted}:\n{said}"
            for line in lines:
                if not holds(line, said):
                    yield f"{command}\ndid not print\n{line}\nbut\n{said}"


def main():
    programs = sys.argv[1]
    environment = dict(os.environ, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}", ROOT=str(ROOT))
    failed = False
    for page in sorted(ROOT.glob("docs/*.md")):
        count = len(list(blocks(page)))
        found = list(problems(page, environment))
        if count == 0 and page.name not in WITHOUT_COMMANDS:
            found.append("it has no command, or none in a block of sh or console")
        print(f"{page.relative_to(ROOT)}: {count} run{'' if found else ', ok'}", *found, sep="\n", flush=True)
        failed |= bool(found)
    sys.exit(failed)


if __name__ == "__main__":
    main()
