package probe

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"loadline/cost"
	"loadline/internal/regular"
	"loadline/internal/whole"
)

// File is a measured machine as it is kept. Key says what was measured: the processor, the kernels, the threads, the version;
// with another key the measurement says nothing.
type File struct {
	Key     string       `json:"key"`
	Machine cost.Machine `json:"machine"`
}

// maxFileBytes bounds a file that is read.
const maxFileBytes = 1 << 20

// Load reads a file and checks that a cost model can use what it says.
func Load(path string) (*File, error) {
	p, err := regular.ReadAll(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	f := &File{}
	if err := json.Unmarshal(p, f); err != nil {
		return nil, fmt.Errorf("probe: %s: %w", path, err)
	}
	if err := check(&f.Machine); err != nil {
		return nil, fmt.Errorf("probe: %s: %w", path, err)
	}
	return f, nil
}

// check refuses numbers that no machine has.
func check(m *cost.Machine) error {
	good := func(x float64) bool { return x >= 0 && x <= math.MaxFloat32 }
	for _, x := range []float64{m.FLOPs, m.Bandwidth} {
		if !good(x) || x == 0 {
			return fmt.Errorf("machine %q: got %g FLOP/s and %g bytes/s, want more than 0", m.Name, m.FLOPs, m.Bandwidth)
		}
	}
	if !good(m.Overhead) || slices.ContainsFunc(m.Link[:], func(x float64) bool { return !good(x) }) {
		return fmt.Errorf("machine %q: got an overhead of %g and links of %v, want 0 or more", m.Name, m.Overhead, m.Link)
	}
	if m.Rates == nil {
		return nil
	}
	list := m.Rates.List
	for i, r := range list {
		parts, sum := r.Parts(), 0.0
		for _, x := range parts {
			sum += x
		}
		if slices.ContainsFunc(parts[:], func(x float64) bool { return !good(x) }) || sum == 0 {
			return fmt.Errorf("machine %q: rate %q: got parts of %g, want 0 or more and not all 0", m.Name, r.Key, parts)
		}
		if i > 0 && cmp.Compare(list[i-1].Key, r.Key) >= 0 {
			return fmt.Errorf("machine %q: rate %q follows %q, want them ascending", m.Name, r.Key, list[i-1].Key)
		}
	}
	return nil
}

// maxBusy is how many milliseconds Store waits for another that writes the same file.
const maxBusy = 1000

// Store writes a file, whole or not at all, and makes its directory. A file that is there keeps its mode.
func Store(path string, f *File) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	p, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	w, err := whole.Create(path)
	for range maxBusy {
		if !errors.Is(err, whole.ErrBusy) {
			break
		}
		time.Sleep(time.Millisecond)
		w, err = whole.Create(path)
	}
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	_, err = w.Write(append(p, '\n'))
	if st, e := os.Stat(path); err == nil && e == nil {
		err = os.Chmod(path+whole.Suffix, st.Mode().Perm())
	}
	if err == nil {
		err = whole.Commit(w)
	}
	if err != nil {
		return fmt.Errorf("probe: %w", errors.Join(err, w.Abort()))
	}
	return nil
}
