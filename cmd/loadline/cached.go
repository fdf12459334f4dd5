package main

import (
	"os"

	"loadline/model/hub"
)

// cachedModel is what pull, or huggingface_hub, has left of a model that is named as on the hub; a path that is there, or names nothing
// in the cache, is returned as it is.
func cachedModel(path string) string {
	if path == "" || exists(path) {
		return path
	}
	s, err := readHubEnv(os.Getenv)
	if err != nil {
		return path // whoever asks the hub says it
	}
	if dir, ok := hub.Cached(s.cache, path); ok {
		return dir
	}
	return path
}
