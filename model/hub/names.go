package hub

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	repoPattern   = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9._-]{0,95}/)?[A-Za-z0-9_][A-Za-z0-9._-]{0,95}$`)
	commitPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	etagPattern   = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`)
	sha256Pattern = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// DefaultRevision is the branch that a model is taken from where none is named.
const DefaultRevision = "main"

// Name is what a user asks for: a model of the hub, one of its files, or a file elsewhere.
type Name struct {
	Repo     string // ORG/NAME, or NAME of the oldest models; empty for a file elsewhere
	Revision string // a branch, tag or commit; empty where none is named
	File     string // of the model; empty for all
	URL      string // of a file elsewhere
}

// ParseName reads ORG/NAME, ORG/NAME@REVISION, an address of a model or of one of its files on the hub, or any other address.
func ParseName(text, endpoint string) (Name, error) {
	if rest, ok := strings.CutPrefix(text, "hf://"); ok {
		text = strings.TrimPrefix(rest, "models/")
	}
	if !strings.Contains(text, "://") {
		repo, revision, at := strings.Cut(text, "@")
		if err := checkRepo(repo); err != nil {
			return Name{}, err
		}
		if at {
			if err := checkRevision(revision); err != nil {
				return Name{}, err
			}
		}
		return Name{Repo: repo, Revision: revision}, nil
	}
	u, err := parseURL(text)
	if err != nil {
		return Name{}, badName("%v", err)
	}
	if endpoint == "" {
		endpoint = Endpoint
	}
	for _, base := range []string{endpoint, Endpoint, "https://www.huggingface.co", "https://hf.co"} {
		b, err := url.Parse(strings.TrimRight(base, "/"))
		if err != nil || !sameOrigin(b, u) {
			continue
		}
		if rest, ok := strings.CutPrefix(u.EscapedPath(), b.EscapedPath()+"/"); ok {
			if n, ok, err := hubPath(rest); ok || err != nil {
				return n, err
			}
		}
	}
	return Name{URL: text}, nil
}

// hubPath reads the path of an address of the hub. ok is false where it is not of a model.
func hubPath(escaped string) (n Name, ok bool, err error) {
	parts := strings.Split(strings.Trim(escaped, "/"), "/")
	for i, p := range parts {
		if parts[i], err = url.PathUnescape(p); err != nil {
			return Name{}, false, badName("%.200q: it is no path", escaped)
		}
	}
	if len(parts) == 0 || slices.Contains([]string{"datasets", "spaces", "api", "collections", "papers", "docs", "buckets"}, parts[0]) {
		return Name{}, false, nil
	}
	verbs := []string{"tree", "blob", "resolve", "raw"}
	at := slices.IndexFunc(parts, func(p string) bool { return slices.Contains(verbs, p) })
	repo := parts
	if at >= 0 {
		repo = parts[:at]
	}
	if ext := path.Ext(parts[len(parts)-1]); len(repo) == 0 || len(repo) > 2 || repo[0] == "" || at < 0 && (ext == ".gguf" || ext == ".safetensors") {
		return Name{}, false, nil
	}
	n.Repo = strings.Join(repo, "/")
	if err := checkRepo(n.Repo); err != nil {
		return Name{}, false, err
	}
	if at >= 0 && at+1 < len(parts) {
		n.Revision = parts[at+1]
		if err := checkRevision(n.Revision); err != nil {
			return Name{}, false, err
		}
		if parts[at] != "tree" {
			n.File = strings.Join(parts[at+2:], "/")
			if err := checkFile(n.File); err != nil {
				return Name{}, false, err
			}
		}
	}
	return n, true, nil
}

func checkRepo(repo string) error {
	if !repoPattern.MatchString(repo) || strings.Contains(repo, "--") || strings.Contains(repo, "..") || strings.HasSuffix(repo, ".git") {
		return badName("%.200q does not name a model: want ORG/NAME", repo)
	}
	return nil
}

func checkRevision(revision string) error {
	if checkFile(revision) != nil {
		return badName("%.200q does not name a revision: want a branch, a tag or a commit", revision)
	}
	return nil
}

// checkFile accepts what is a path below a directory, whatever the directory is.
func checkFile(name string) error {
	bad := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
	if name == "" || len(name) > maxNameBytes || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return badName("%.200q does not name a file of a model", name)
	}
	for _, p := range strings.Split(name, "/") {
		if p == "" || p == "." || p == ".." || len(p) > 255 {
			return badName("%.200q does not name a file of a model", name)
		}
	}
	return nil
}

// cleanETag takes an entity tag's mark of weakness and its quotes off, and refuses what cannot name a file.
func cleanETag(etag string) (string, error) {
	etag = strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
	if !etagPattern.MatchString(etag) || path.Ext(etag) == incompleteSuffix {
		return "", badName("the server calls a file's bytes %.200q, which cannot name a file", etag)
	}
	return etag, nil
}

// folder is the directory of a model in a cache.
func folder(repo string) string { return "models--" + strings.ReplaceAll(repo, "/", "--") }

// maxPattern bounds a pattern of Select.
const maxPattern = 1 << 10

// glob compiles a pattern of Python's fnmatch: * is any text, slashes too, ? any character, [abc] and [!abc] one of a list; one that
// ends in a slash means all below.
func glob(pattern string) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, badName("a pattern of %d bytes, want at most %d", len(pattern), maxPattern)
	}
	if strings.HasSuffix(pattern, "/") {
		pattern += "*"
	}
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for i := 0; i < len(pattern); {
		r, n := utf8.DecodeRuneInString(pattern[i:])
		i += n
		switch r {
		case '*':
			b.WriteString(`.*`)
		case '?':
			b.WriteString(`.`)
		case '[':
			list, n := globList(pattern[i:])
			b.WriteString(list)
			i += n
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	b.WriteString(`$`)
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, badName("%.200q is no pattern", pattern)
	}
	return re, nil
}

// globList reads what is behind a bracket that opens: the class, and its length; a bracket that nothing closes stands for itself.
func globList(s string) (class string, n int) {
	from := 0
	if strings.HasPrefix(s, "!") {
		from = 1
	}
	end := -1
	if len(s) > from {
		end = strings.IndexByte(s[from+1:], ']') // the first may be a bracket itself
	}
	if end < 0 {
		return `\[`, 0
	}
	end += from + 1
	var b strings.Builder
	b.WriteByte('[')
	if from == 1 {
		b.WriteByte('^')
	}
	for _, r := range s[from:end] {
		if r == '\\' || r == '[' || r == ']' || r == '^' || r == '&' || r == '~' {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	b.WriteByte(']')
	return b.String(), end + 1
}

// Exactly is the pattern that matches one name alone.
func Exactly(name string) string {
	return strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]").Replace(name)
}
