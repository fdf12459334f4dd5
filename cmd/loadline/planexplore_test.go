package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"loadline/web"
)

// openTestExplorer is an explorer as plan --serve makes it.
func openTestExplorer(t *testing.T, listen string, h *hardwareFlags, m *trainFlags) http.Handler {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	e, err := (&app{}).openExplorer(h, m)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := e.handler(hostCheck(listen))
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// get asks a handler.
func get(h http.Handler, method, target, host string) *http.Response {
	r := httptest.NewRequest(method, "http://127.0.0.1:8420/", nil)
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(target, "?")
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestExplorerFiles checks that the page is served with the types that browsers want, that nothing else is, and that no file of the page
// speaks of another server.
func TestExplorerFiles(t *testing.T) {
	h := openTestExplorer(t, exploreAddress, &hardwareFlags{}, &trainFlags{})
	for path, kind := range map[string]string{"/": "text/html", "/explorer.js": "text/javascript", "/explorer.css": "text/css", "/icon.svg": "image/svg+xml"} {
		r := get(h, "GET", path, "127.0.0.1:8420")
		if body, _ := io.ReadAll(r.Body); r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), kind) || len(body) == 0 {
			t.Errorf("%s: got %s, %s, %d bytes", path, r.Status, r.Header.Get("Content-Type"), len(body))
		}
		if csp := r.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: got policy %q", path, csp)
		}
	}
	for _, path := range []string{"/index.html", "/web.go", "/../web.go", "/page/explorer.js", "/../../../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/explorer.js/", "/.git/config"} {
		if r := get(h, "GET", path, "localhost"); r.StatusCode == 200 {
			t.Errorf("%s is served", path)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		if r := get(h, method, "/plan?model=gpt-2&hardware=T4", "localhost"); r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: got %s", method, r.Status)
		}
	}
	page, err := web.Page()
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
	for _, name := range []string{"index.html", "explorer.css", "explorer.js", "icon.svg"} {
		f, err := page.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range other.FindAllString(string(body), -1) {
			if at != "http://www.w3.org" { // the name of SVG, which nobody fetches
				t.Errorf("%s names %s", name, at)
			}
		}
	}
}

// TestExplorerHosts checks which Host headers are answered: a name of another site that points here is not.
func TestExplorerHosts(t *testing.T) {
	for _, x := range []struct {
		listen string
		hosts  map[string]bool
	}{
		{"127.0.0.1:8420", map[string]bool{
			"127.0.0.1:8420": true, "localhost:8420": true, "LOCALHOST": true, "[::1]:8420": true, "evil.example": false, "evil.example:8420": false, "127.0.0.1.evil.example": false, "192.168.1.2:8420": false, "": false,
			"localhost.evil.example:80": false,
		}},
		{"0.0.0.0:80", map[string]bool{"192.168.1.2": true, "10.0.0.1:80": true, "[fe80::1]:80": true, "localhost": true, "evil.example": false}},
		{"box.lan:80", map[string]bool{"box.lan": true, "BOX.lan:80": true, "192.168.1.2": true, "other.lan": false}},
	} {
		h := openTestExplorer(t, x.listen, &hardwareFlags{}, &trainFlags{})
		for host, want := range x.hosts {
			if r := get(h, "GET", "/choices", host); (r.StatusCode == 200) != want {
				t.Errorf("on %s, Host %q: got %s, want it answered %v", x.listen, host, r.Status, want)
			}
		}
	}
	for text, want := range map[string]string{"8080": "127.0.0.1:8080", ":8080": "127.0.0.1:8080", "0.0.0.0:80": "0.0.0.0:80", "localhost:0": "localhost:0", "[::1]:9": "[::1]:9"} {
		if got, err := listenAddress(text); err != nil || got != want {
			t.Errorf("--serve %s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "host:port", "1:2:3", "70000", "127.0.0.1:99999", "127.0.0.1"} {
		if got, err := listenAddress(text); exitCode(err) != codeUsage {
			t.Errorf("--serve %s: got %s, %v, want a refusal", text, got, err)
		}
	}
}

// TestExplorerPlans checks the two documents: the plans are those of the command that they name, and what makes no sense is refused with
// what to do.
func TestExplorerPlans(t *testing.T) {
	gguf := ggufFile(t)
	h := openTestExplorer(t, exploreAddress, &hardwareFlags{hardware: "2xRTX-4090"}, &trainFlags{model: gguf})
	var c choicesDocument
	r := get(h, "GET", "/choices?hardware=4x8xh100", "localhost")
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || len(c.Models) < 60 || c.Models[0].Name != filepath.Base(gguf) || c.Card != "H100-SXM5-80GB" || c.Cards != 8 || c.Nodes != 4 || len(c.Frameworks["train"]) < 4 {
		t.Fatalf("got %+v, %v", c, err)
	}
	type document struct {
		plannerDocument
		Command    string
		Error, Try string
	}
	ask := func(query string) (document, int) {
		t.Helper()
		r := get(h, "GET", "/plan?"+query, "localhost")
		var d document
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return d, r.StatusCode
	}
	for _, query := range []string{
		"model=Llama-3.1-70B&hardware=8xH100&task=train&seq=8192&global-batch=256", "model=qwen3-8b&hardware=RTX-4090&task=finetune&adapter=lora", "model=" + filepath.Base(gguf) + "&hardware=RTX-4090&context=8192",
		"model=llama-tiny&hardware=T4&task=train", "model=DeepSeek-V3&hardware=RTX-4090",
	} {
		d, code := ask(query)
		if code != 200 || len(d.Plans) == 0 || d.Error != "" {
			t.Errorf("%s: got %d, %+v", query, code, d)
			continue
		}
		if strings.Contains(query, ".gguf") {
			continue // the command names a file that is elsewhere
		}
		var same plannerDocument
		r := loadline(t, append(strings.Fields(d.Command)[1:], "--json")...)
		if err := json.Unmarshal([]byte(r.out), &same); err != nil || len(same.Plans) == 0 || same.Plans[0].Peak != d.Plans[0].Peak || same.Plans[0].StepSeconds != d.Plans[0].StepSeconds {
			t.Errorf("%s: the page has %d bytes, %s has %+v, %v", query, d.Plans[0].Peak, d.Command, same.Plans, err)
		}
	}
	for query, says := range map[string][2]string{
		"model=lama-3.1-8b&hardware=H100":                        {"the nearest built-in model is Llama-3.1-8B", "--model"},
		"model=llama-3.1-8b&hardware=H10":                        {"the nearest is", "--hardware"},
		"model=llama-3.1-8b":                                     {"which hardware", "--hardware"},
		"hardware=H100":                                          {"which model", "--model"},
		"model=llama-3.1-8b&hardware=8xH100&tp=3":                {"the nearest valid value is 2", "--tp 2"},
		"model=llama-3.1-8b&hardware=H100&seq=abc":               {"want a whole number", "--help"},
		"model=llama-3.1-8b&hardware=H100&seq=99999999999":       {"the nearest valid value", "--seq"},
		"model=llama-3.1-8b&hardware=H100&memory=-1":             {"negative", "--help"},
		"model=llama-3.1-8b&hardware=H100&task=cook":             {"want train", "--"},
		"model=llama-3.1-8b&hardware=H100&html=x":                {"no setting", "--help"},
		"model=llama-3.1-8b&hardware=H100&write-config=x":        {"no setting", "--help"},
		"model=llama-3.1-8b&hardware=H100&tp=1&tp=2":             {"2 times", "one"},
		"model=llama-3.1-8b&hardware=H100&%zz":                   {"query", "flag=value"},
		"model=" + url.QueryEscape(gguf) + "&hardware=H100":      {"no model", "--model"}, // no path is opened
		"model=/etc/passwd&hardware=H100":                        {"no model", "--model"},
		"model=llama-3.1-8b&hardware=/tmp/x.yaml":                {"nearest", "--hardware"},
		"model=" + strings.Repeat("x", 200) + "&hardware=H100":   {"want at most 128", "shorter"},
		"model=x&hardware=H100&" + strings.Repeat("a=b&", 2000):  {"want at most 4096", "fewer"},
		"model=llama-3.1-8b&hardware=999999999999999999999xH100": {"too many cards", "--hardware"},
	} {
		d, code := ask(query)
		if code != 400 || !strings.Contains(d.Error, says[0]) || !strings.Contains(d.Try, says[1]) || strings.Contains(d.Error+d.Try, "\n") {
			t.Errorf("%.80s: got %d, %q, try %q, want %q and %q", query, code, d.Error, d.Try, says[0], says[1])
		}
	}
}

// TestExplorerRuns starts the explorer as a process, asks it and stops it.
func TestExplorerRuns(t *testing.T) {
	c := command("plan", "llama-3.1-8b", "--hardware", "8xH100", "--seq", "8192", "--serve", "127.0.0.1:0", "--json")
	c.Env = append(c.Env, "XDG_CONFIG_HOME="+t.TempDir())
	out := &strings.Builder{}
	c.Stdout = out
	pipe, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	if !lines.Scan() {
		t.Fatal("it printed nothing")
	}
	at, ok := strings.CutPrefix(lines.Text(), "explorer: http://127.0.0.1:")
	if !ok || !strings.HasSuffix(at, "/?hardware=8xH100&model=llama-3.1-8b&seq=8192") {
		t.Errorf("got %q", lines.Text())
	}
	at, _, _ = strings.Cut(at, "/")
	r, err := http.Get("http://127.0.0.1:" + at + "/plan?hardware=8xH100&model=llama-3.1-8b&seq=8192")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(r.Body); err != nil || r.StatusCode != 200 || !json.Valid(body) {
		t.Errorf("got %s, %.100q, %v", r.Status, body, err)
	}
	if err := r.Body.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
	var d exploreDocument
	if err := json.Unmarshal([]byte(out.String()), &d); err != nil || d.Requests != 1 || !strings.Contains(d.Address, at) {
		t.Errorf("got %q, %v", out.String(), err)
	}
	if r := loadline(t, "plan", "--serve", "--write-config", "x"); r.code != codeUsage || !strings.Contains(r.err, "says nothing to the explorer") {
		t.Errorf("got %d, %s", r.code, r.err)
	}
	if r := loadline(t, "plan", "--serve=nowhere"); r.code != codeUsage || !strings.Contains(r.err, "want a port or host:port") {
		t.Errorf("got %d, %s", r.code, r.err)
	}
}
