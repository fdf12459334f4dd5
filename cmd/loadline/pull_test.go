package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"loadline/model/hub"
)

// smallHub serves models whose files hold their own names.
func smallHub(t *testing.T, models map[string][]string) *httptest.Server {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for repo, files := range models {
			if strings.HasPrefix(r.URL.Path, "/api/models/"+repo+"/revision/") {
				var list []map[string]any
				for _, f := range files {
					sum := sha256.Sum256([]byte(f))
					list = append(list, map[string]any{"rfilename": f, "lfs": map[string]any{"sha256": hex.EncodeToString(sum[:]), "size": len(f)}})
				}
				json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": list})
				return
			}
			if name, ok := strings.CutPrefix(r.URL.Path, "/"+repo+"/resolve/"+commit+"/"); ok {
				w.Write([]byte(name))
				return
			}
		}
		switch {
		case r.URL.Path == "/file.gguf":
			w.Write([]byte("a file"))
		case strings.Contains(r.URL.Path, "gated"):
			w.Header().Set("X-Error-Code", "GatedRepo")
			w.WriteHeader(http.StatusForbidden)
		case r.Header.Get("Authorization") == "":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestPullVerb(t *testing.T) {
	s := smallHub(t, map[string][]string{
		"org/st": {"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json",
			"consolidated.safetensors", "pytorch_model.bin", "onnx/model.onnx", "tokenizer.model", "README.md", "x.gguf"},
		"org/ggufs": {"README.md", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-m.gguf", "big/m-F16-00001-of-00002.gguf", "big/m-F16-00002-of-00002.gguf"},
		"org/one":   {"README.md", "config.json", "m.gguf"},
		"org/bin":   {"config.json", "pytorch_model.bin"},
	})
	home := t.TempDir()
	t.Setenv("HF_ENDPOINT", s.URL)
	t.Setenv("HF_HOME", home)
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN_PATH", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"} {
		t.Setenv(name, "")
	}
	t.Chdir(t.TempDir())
	for _, x := range []struct {
		args string
		path string // below the snapshot
		want string
	}{
		{"org/st", "", "README.md config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json tokenizer.model"},
		{"org/st --include *.bin", "", "pytorch_model.bin"},
		{"org/st --exclude *.safetensors --exclude *.md", "/x.gguf", "config.json model.safetensors.index.json tokenizer.model x.gguf"},
		{"org/one", "/m.gguf", "README.md config.json m.gguf"},
		{"org/ggufs --include *Q8_0*", "/m-Q8_0.gguf", "m-Q8_0.gguf"},
		{"org/ggufs --include *F16*", "/big/m-F16-00001-of-00002.gguf", "big/m-F16-00001-of-00002.gguf big/m-F16-00002-of-00002.gguf"},
		{s.URL + "/org/st/resolve/main/onnx/model.onnx", "/onnx/model.onnx", "onnx/model.onnx"},
	} {
		var d pullDocument
		document(t, &d, codeDone, strings.Fields("pull "+x.args)...)
		var names []string
		for _, f := range d.Files {
			names = append(names, f.Name)
			dir := strings.TrimSuffix(d.Path, x.path)
			if got, err := os.ReadFile(filepath.Join(dir, f.Name)); err != nil || string(got) != f.Name {
				t.Errorf("%s: %s holds %q, %v", x.args, f.Name, got, err)
			}
		}
		if got := strings.Join(names, " "); got != x.want || !strings.HasSuffix(d.Path, d.Commit+x.path) || d.Revision != "main" {
			t.Errorf("%s: got %s at %s, want %s", x.args, got, d.Path, x.want)
		}
	}
	r := loadline(t, "pull", "org/one")
	if dir, ok := hub.Cached(filepath.Join(home, "hub"), "org/one"); !ok || r.code != 0 || r.out != filepath.Join(dir, "m.gguf")+"\n" || !strings.Contains(r.err, "all of it was there") {
		t.Errorf("got %q and %q, want the path alone", r.out, r.err)
	}
	sum := sha256.Sum256([]byte("a file"))
	if r := loadline(t, "pull", s.URL+"/file.gguf", "--sha256", hex.EncodeToString(sum[:])); r.code != 0 || r.out != "file.gguf\n" {
		t.Errorf("a URL: got %+v", r)
	}
	if got, err := os.ReadFile("file.gguf"); err != nil || string(got) != "a file" {
		t.Errorf("a URL: got %q, %v", got, err)
	}
	for _, x := range []struct {
		args, says, try string
		code            int
	}{
		{"org/ggufs", "has 3 models in GGUF: big/m-F16-00001-of-00002.gguf (", "--include '*Q4_K_M*'", codeUsage},
		{"org/bin", "in formats that loadline does not read", "--include '*'", codeUsage},
		{"org/st --include *.xyz", "none of the 10 files of org/st is chosen", "README.md", codeUsage},
		{s.URL + "/org/st/resolve/main/no.bin", "org/st has no file no.bin", "address", codeUsage},
		{"org/none", "answers 401", "HF_TOKEN", codeFailed},
		{"org/gated", "answers 403", "accept the model's terms at " + s.URL + "/org/gated", codeFailed},
		{"../x", "does not name a model", "ORG/NAME", codeUsage},
		{"org/st@a --revision b", "revision a and also --revision b", "one", codeUsage},
		{"org/st --out x", "are of a URL", "HF_HUB_CACHE", codeUsage},
		{s.URL + "/file.gguf --include x", "are of a model", "ORG/NAME", codeUsage},
		{s.URL + "/file.gguf --sha256 " + strings.Repeat("0", 64), "there is another file", "--out", codeFailed},
		{s.URL + "/file.gguf --out other --sha256 " + strings.Repeat("0", 64), "sha256 is", "the same command again", codeFailed},
		{s.URL + "/", "names no file", "--out", codeFailed},
		{"http://127.0.0.1:1/x", "connection refused", "network", codeFailed},
		{"", "want one NAME or URL, got 0", "loadline pull ORG/NAME", codeUsage},
	} {
		r := loadline(t, strings.Fields("pull "+x.args)...)
		lines := strings.Split(strings.TrimSpace(r.err), "\n")
		if len(lines) < 2 || r.code != x.code || r.out != "" {
			t.Errorf("%s: got exit code %d, %q and %q", x.args, r.code, r.out, r.err)
			continue
		}
		if says, try := lines[len(lines)-2], lines[len(lines)-1]; !strings.Contains(says, x.says) || !strings.HasPrefix(try, "  try: ") || !strings.Contains(try, x.try) {
			t.Errorf("%s: got\n%s\nwant %q and %q in it", x.args, r.err, x.says, x.try)
		}
	}
	t.Setenv("HF_TOKEN", "hf_x")
	if r := loadline(t, "pull", "org/none"); !strings.Contains(r.err, "answers 404") || strings.Contains(r.err, "hf_x") {
		t.Errorf("with a token: got %s", r.err)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	if r := loadline(t, "pull", "org/st"); r.code != codeUsage || !strings.Contains(r.err, "HF_HUB_OFFLINE") {
		t.Errorf("offline: got %+v", r)
	}
}

// TestHubEnv compares with what huggingface_hub's constants are under the same variables.
func TestHubEnv(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("hf_kept\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]hubSettings{
		"HOME=/h":                                             {hub.Endpoint, "", "/h/.cache/huggingface/hub", false},
		"HOME=/h XDG_CACHE_HOME=/x":                           {hub.Endpoint, "", "/x/huggingface/hub", false},
		"HOME=/h HF_HOME=~/y":                                 {hub.Endpoint, "", "/h/y/hub", false},
		"HOME=/h HF_HOME=/y HF_HUB_CACHE=~/z":                 {hub.Endpoint, "", "/h/z", false},
		"HOME=/h HUGGINGFACE_HUB_CACHE=/z":                    {hub.Endpoint, "", "/z", false},
		"HF_HOME=" + dir:                                      {hub.Endpoint, "hf_kept", dir + "/hub", false},
		"HF_HOME=" + dir + " HF_TOKEN=hf_set":                 {hub.Endpoint, "hf_set", dir + "/hub", false},
		"HF_HOME=/y HF_TOKEN_PATH=" + dir + "/token":          {hub.Endpoint, "hf_kept", "/y/hub", false},
		"HF_HOME=" + dir + " HF_HUB_DISABLE_IMPLICIT_TOKEN=1": {hub.Endpoint, "", dir + "/hub", false},
		"HOME=/h HF_ENDPOINT=https://m HF_HUB_OFFLINE=true":   {"https://m", "", "/h/.cache/huggingface/hub", true},
		"HOME=/h HF_HUB_OFFLINE=0":                            {hub.Endpoint, "", "/h/.cache/huggingface/hub", false},
	} {
		vars := map[string]string{}
		for _, kv := range strings.Fields(env) {
			k, v, _ := strings.Cut(kv, "=")
			vars[k] = v
		}
		if got, err := readHubEnv(func(name string) string { return vars[name] }); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", env, got, err, want)
		}
	}
	if _, err := readHubEnv(func(string) string { return "" }); exitCode(err) != codeUsage {
		t.Errorf("no home: got %v", err)
	}
}

func TestPullProgress(t *testing.T) {
	var r rate
	at := time.Now()
	for i := range 11 {
		r.add(int64(i)<<20, at.Add(time.Duration(i)*time.Second))
	}
	if r.perSecond != 1<<20 {
		t.Errorf("got %g bytes a second, want %d", r.perSecond, 1<<20)
	}
	p := hub.Progress{File: "model.safetensors", Done: 10 << 20, All: 100 << 20}
	if got, want := pullText(p, r.perSecond), "model.safetensors  10 MiB / 100 MiB  1 MiB/s  ETA 1m30s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.All = -1
	if got, want := pullText(p, r.perSecond), "model.safetensors  10 MiB  1 MiB/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var w bytes.Buffer
	v := &pullView{w: &w, last: at.Add(-time.Hour)}
	v.set(p)
	v.set(p)
	v.close()
	if w.String() != fmt.Sprintf("%s\n", pullText(p, 0)) {
		t.Errorf("got %q, want one line", w.String())
	}
}
