package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"loadline/model/weights"
)

// OpenModel opens the checkpoint at path, or the newest one in it, and checks that every tensor of the model is there with the shape
// that the configuration asks for. Any other model that weights.Open takes is opened too. Its Source
// hands out float32.
func OpenModel(path string) (*weights.Model, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if st.IsDir() {
		if _, err := os.Stat(filepath.Join(path, ConfigName)); err != nil {
			e, err := Latest(path)
			if err != nil && !errors.Is(err, ErrNone) {
				return nil, err
			}
			if err == nil {
				path = e.Path
			}
		}
	}
	m, err := weights.Open(path)
	switch {
	case err == nil:
		m.Widen()
		return m, nil
	case errors.Is(err, weights.ErrNone):
		return nil, fmt.Errorf("checkpoint: %s holds neither %s nor a checkpoint: %w", path, ConfigName, ErrNone)
	case errors.Is(err, fs.ErrPermission), !st.IsDir():
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return nil, damaged(path, err)
}

// missing says that a file of a checkpoint is not there or not what it should be; an unreadable one is not called damaged.
func missing(path, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return damaged(path, fmt.Errorf("%s is missing", name))
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return damaged(path, err)
}
