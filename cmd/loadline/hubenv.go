package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"loadline/internal/regular"
	"loadline/model/hub"
)

// hubSettings is what the environment says of the hub, in huggingface_hub's variables.
type hubSettings struct {
	endpoint string
	token    string
	cache    string
	offline  bool
}

// maxTokenBytes bounds the file that holds a token.
const maxTokenBytes = 4 << 10

// readHubEnv reads HF_ENDPOINT, HF_TOKEN or the token that `hf auth login` keeps, HF_HUB_CACHE, HF_HOME and HF_HUB_OFFLINE. get is
// os.Getenv.
func readHubEnv(get func(string) string) (s hubSettings, err error) {
	on := func(name string) bool {
		switch strings.ToUpper(get(name)) {
		case "1", "ON", "YES", "TRUE":
			return true
		}
		return false
	}
	first := func(names ...string) string {
		for _, n := range names {
			if v := strings.TrimSpace(get(n)); v != "" {
				return v
			}
		}
		return ""
	}
	s.endpoint = first("HF_ENDPOINT")
	if s.endpoint == "" {
		s.endpoint = hub.Endpoint
	}
	s.offline = on("HF_HUB_OFFLINE") || on("TRANSFORMERS_OFFLINE")
	home := first("HOME")
	below := func(path string, elem ...string) string {
		if rest, ok := strings.CutPrefix(path, "~/"); ok {
			path = filepath.Join(home, rest)
		}
		return filepath.Join(append([]string{path}, elem...)...)
	}
	hf := ""
	switch {
	case first("HF_HOME") != "":
		hf = below(first("HF_HOME"))
	case first("XDG_CACHE_HOME") != "":
		hf = below(first("XDG_CACHE_HOME"), "huggingface")
	case home != "":
		hf = filepath.Join(home, ".cache", "huggingface")
	}
	if s.cache = first("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"); s.cache != "" {
		s.cache = below(s.cache)
	} else if hf != "" {
		s.cache = filepath.Join(hf, "hub")
	} else {
		return s, usage("set HF_HUB_CACHE to a directory", "there is no home directory to keep models in")
	}
	if s.token = first("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"); s.token != "" || on("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
		return s, nil
	}
	path := first("HF_TOKEN_PATH")
	if path == "" && hf == "" {
		return s, nil
	} else if path == "" {
		path = filepath.Join(hf, "token")
	}
	text, err := regular.ReadAll(below(path), maxTokenBytes)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return s, nil
	}
	s.token = strings.TrimSpace(string(text))
	return s, err
}
