"""Writes cache.json: the tree that huggingface_hub makes of a small model, from a hub on this machine.

    python golden.py                     writes cache.json
    python golden.py --peer LOADLINE     checks the program of that path against huggingface_hub, in both directions

Versions: the file names the one of huggingface_hub that it is from.
"""
import base64, hashlib, http.server, json, os, random, subprocess, sys, tempfile, threading, urllib.parse

REPO, COMMIT = "org/name", "0123456789abcdef0123456789abcdef01234567"
rng = random.Random(1)
FILES = {
    "config.json": b'{"model_type": "llama"}\n',
    "empty.txt": b"",
    "same.json": b'{"model_type": "llama"}\n',
    "sub/dir/notes \u00e4.txt": b"notes\n",
    "model.safetensors": bytes(rng.randrange(256) for _ in range(3000)),
}
LARGE = {"model.safetensors"}


def etag(name):
    p = FILES[name]
    return hashlib.sha256(p).hexdigest() if name in LARGE else hashlib.sha1(b"blob %d\0" % len(p) + p).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asks = []

    def log_message(self, *args):
        pass

    def reply(self, code, headers, body=b""):
        self.send_response(code)
        for k, v in headers.items():
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        Hub.asks.append((self.command, path))
        if path.startswith(f"/api/models/{REPO}/tree/"):
            entries = []
            for name, p in FILES.items():
                e = {"type": "file", "path": name, "size": len(p), "oid": etag(name)}
                if name in LARGE:
                    e["lfs"] = {"oid": etag(name), "size": len(p), "pointerSize": 130}
                entries.append(e)
            return self.reply(200, {"Content-Type": "application/json"}, json.dumps(entries).encode())
        if path.startswith(f"/api/models/{REPO}"):
            siblings = []
            for name, p in FILES.items():
                s = {"rfilename": name, "size": len(p), "blobId": etag(name)}
                if name in LARGE:
                    s["lfs"] = {"sha256": etag(name), "size": len(p), "pointerSize": 130}
                siblings.append(s)
            return self.reply(200, {"Content-Type": "application/json"}, json.dumps({"id": REPO, "modelId": REPO, "sha": COMMIT, "siblings": siblings, "tags": [], "private": False, "downloads": 0, "likes": 0}).encode())
        head = {"X-Repo-Commit": COMMIT}
        for prefix in (f"/{REPO}/resolve/{COMMIT}/", f"/{REPO}/resolve/main/", "/storage/"):
            if path.startswith(prefix) and path[len(prefix):] in FILES:
                name = path[len(prefix):]
                if name in LARGE and prefix != "/storage/":
                    head.update({"X-Linked-Etag": f'"{etag(name)}"', "X-Linked-Size": str(len(FILES[name])), "Location": f"http://{self.headers['Host']}/storage/{name}"})
                    return self.reply(302, head)
                head["ETag"] = f'"{etag(name)}"'
                body, code = FILES[name], 200
                span = self.headers.get("Range")
                if span and self.command == "GET":
                    a = int(span.split("=")[1].split("-")[0])
                    head["Content-Range"] = f"bytes {a}-{len(body) - 1}/{len(body)}"
                    body, code = body[a:], 206
                return self.reply(code, head, body)
        self.reply(404, {"X-Error-Code": "EntryNotFound"})


def tree(root):
    out = {}
    for dir, dirs, files in os.walk(root):
        for name in dirs + files:
            path = os.path.join(dir, name)
            key = os.path.relpath(path, root)
            if os.path.islink(path):
                out[key] = {"link": os.readlink(path)}
            elif os.path.isfile(path):
                out[key] = {"body": base64.b64encode(open(path, "rb").read()).decode()}
            else:
                out[key] = {}
    return dict(sorted(out.items()))


def gets():
    return [p for m, p in Hub.asks if m == "GET" and "/api/" not in p]


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    os.environ.update(HF_ENDPOINT=endpoint, HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_PROGRESS_BARS="1", HF_HUB_DISABLE_TELEMETRY="1")
    import huggingface_hub
    with tempfile.TemporaryDirectory() as home:
        os.environ["HF_HOME"] = home
        cache = os.path.join(home, "hub")
        if len(sys.argv) == 1:
            huggingface_hub.snapshot_download(REPO, cache_dir=cache, max_workers=1, token=False)
            doc = {"huggingface_hub": huggingface_hub.__version__, "repo": REPO, "commit": COMMIT,
                   "files": {n: {"body": base64.b64encode(p).decode(), "large": n in LARGE} for n, p in FILES.items()}, "tree": tree(cache)}
            with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cache.json"), "w") as f:
                json.dump(doc, f, indent=1)
                f.write("\n")
            return
        pull = [sys.argv[2], "pull", REPO, "--include", "*", "--json"]
        # Ours first, then theirs without the network, and with it: nothing is fetched again.
        doc = json.loads(subprocess.run(pull, check=True, stdout=subprocess.PIPE).stdout)
        ours = tree(cache)
        Hub.asks.clear()
        assert huggingface_hub.snapshot_download(REPO, cache_dir=cache, local_files_only=True) == doc["path"]
        assert huggingface_hub.snapshot_download(REPO, cache_dir=cache, token=False) == doc["path"]
        assert not gets(), gets()
        for name, p in FILES.items():
            assert open(huggingface_hub.hf_hub_download(REPO, name, cache_dir=cache, local_files_only=True), "rb").read() == p
        # What we left half-way, they complete.
        blob = os.path.join(cache, "models--org--name", "blobs", etag("model.safetensors"))
        p = FILES["model.safetensors"]
        os.rename(blob, blob + ".incomplete")
        os.truncate(blob + ".incomplete", 1000)
        os.remove(os.path.join(doc["path"], "model.safetensors"))
        huggingface_hub.snapshot_download(REPO, cache_dir=cache, token=False)
        assert open(os.path.join(doc["path"], "model.safetensors"), "rb").read() == p
        # Theirs first, then ours.
        other = os.path.join(home, "other")
        huggingface_hub.snapshot_download(REPO, cache_dir=other, max_workers=1, token=False)
        theirs = tree(other)
        Hub.asks.clear()
        doc = json.loads(subprocess.run(pull, check=True, stdout=subprocess.PIPE, env=dict(os.environ, HF_HUB_CACHE=other)).stdout)
        assert doc["fetched_bytes"] == 0 and not gets(), (doc, gets())
        assert tree(other) == theirs
        for key in sorted(set(ours) ^ set(theirs)):
            print("in one of the two alone:", key)
        print("huggingface_hub", huggingface_hub.__version__, "and loadline use each other's cache")


main()
