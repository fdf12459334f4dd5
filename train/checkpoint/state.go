package checkpoint

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"loadline/data"
	"loadline/internal/regular"
)

// format is the version of trainer.json.
const format = 1

// maxTrainerBytes bounds trainer.json when it is read.
const maxTrainerBytes = 64 << 20

// State is what trainer.json holds: all that a run needs to go on, besides the tensors.
type State struct {
	Format    int                 `json:"format"`
	Step      int64               `json:"step"`                 // steps done
	Agree     map[string]string   `json:"agree"`                // settings without which the run would not be the same, by name
	Ranks     int                 `json:"ranks"`                // how many files hold optimizer state
	Sharded   bool                `json:"sharded"`              // each file holds a shard; otherwise there is one, with all
	Position  data.Position       `json:"position"`             // in the stream of tokens
	Losses    []float32           `json:"losses"`               // of every step from the first
	ValLosses []ValLoss           `json:"val_losses"`           // in order of steps
	LossScale *LossScale          `json:"loss_scale,omitempty"` // nil unless the loss is scaled
	LR        float64             `json:"lr,omitempty"`         // peak learning rate; 0 where it is not known
	Kernels   string              `json:"kernels,omitempty"`    // what computed the step, for people; empty where it is not known
	Files     map[string]FileInfo `json:"files"`                // every other file of the checkpoint
}

// ValLoss is the loss on validation data after a step.
type ValLoss struct {
	Step int64   `json:"step"`
	Loss float32 `json:"loss"`
}

// LossScale is the state of dynamic loss scaling between two steps.
type LossScale struct {
	Scale      float32 `json:"scale"`      // of the next step
	Clean      int     `json:"clean"`      // steps since the last overflow or growth; below 0 while they do not count
	Hysteresis int     `json:"hysteresis"` // overflows until one halves the scale
	Row        int     `json:"row"`        // steps skipped without one between that was not
	Skipped    int64   `json:"skipped"`    // steps skipped in all
}

// FileInfo is what a file is checked against before it is used.
type FileInfo struct {
	Bytes  int64  `json:"bytes"`
	CRC32C uint32 `json:"crc32c"`
}

// files returns the number of optimizer state files.
func (s *State) files() int {
	if s.Sharded {
		return s.Ranks
	}
	return 1
}

// Disagreement names a setting in which a run and a checkpoint differ.
type Disagreement struct{ Name, Have, Want string }

// Error returns one line.
func (e *Disagreement) Error() string {
	return fmt.Sprintf("checkpoint: resume: the checkpoint was made with %s %s, this run has %s", e.Name, e.Have, e.Want)
}

// Check compares the settings that must agree with those of a run. It returns a *Disagreement about the first that differs, in order
// of names; one that only the run has comes last, since it follows from another.
func (s *State) Check(agree map[string]string) error {
	names := make([]string, 0, len(agree))
	for n := range agree {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		if s.Agree[a] == "" && s.Agree[b] != "" {
			return 1
		} else if s.Agree[a] != "" && s.Agree[b] == "" {
			return -1
		}
		return cmp.Compare(a, b)
	})
	for _, n := range names {
		if s.Agree[n] != agree[n] {
			return &Disagreement{n, s.Agree[n], agree[n]}
		}
	}
	return nil
}

// ReadState reads trainer.json of the checkpoint at path.
func ReadState(path string) (*State, error) {
	name := filepath.Join(path, TrainerName)
	f, err := regular.Open(name)
	if err != nil {
		return nil, missing(path, TrainerName, err)
	}
	s, err := readState(io.LimitReader(f, maxTrainerBytes))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, damaged(path, fmt.Errorf("%s: %w", TrainerName, err))
	}
	switch {
	case s.Format != format:
		return nil, fmt.Errorf("checkpoint: %s: format %d, want %d", path, s.Format, format)
	case s.Step < 0 || s.Ranks < 1 || int64(len(s.Losses)) != s.Step:
		return nil, damaged(path, fmt.Errorf("%s: %d losses of %d steps on %d ranks", TrainerName, len(s.Losses), s.Step, s.Ranks))
	}
	return s, nil
}

// write writes trainer.json. Losses go out one by one, behind the rest: the whole as one text would be several times a million numbers.
func (s *State) write(w io.Writer) error {
	type plain State
	rest, err := json.Marshal(struct {
		*plain
		Losses []float32 `json:"losses,omitempty"` // takes the place of plain's, and is left out
	}{plain: (*plain)(s)})
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	b.Write(rest[:len(rest)-1]) // Flush returns the first error
	b.WriteString(`,"losses":[`)
	for i, x := range s.Losses {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(strconv.AppendFloat(b.AvailableBuffer(), float64(x), 'g', -1, 32))
	}
	b.WriteString("]}\n")
	return b.Flush()
}

// readState reads what write has written, or the same in another order, with losses one by one.
func readState(r io.Reader) (*State, error) {
	d := json.NewDecoder(r)
	if t, err := d.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	rest := map[string]json.RawMessage{}
	var losses []float32
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		if key == "losses" {
			losses, err = readLosses(d)
		} else {
			var v json.RawMessage
			err = d.Decode(&v)
			rest[key.(string)] = v // the decoder allows no other key
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil { // }
		return nil, err
	}
	p, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	s := new(State)
	if err := json.Unmarshal(p, s); err != nil {
		return nil, err
	}
	s.Losses = losses
	return s, nil
}

// readLosses reads a list of numbers, or null.
func readLosses(d *json.Decoder) ([]float32, error) {
	t, err := d.Token()
	if err != nil || t == nil {
		return nil, err
	}
	if t != json.Delim('[') {
		return nil, errors.New("losses is no list")
	}
	var all []float32
	for d.More() {
		var x float32
		if err := d.Decode(&x); err != nil {
			return nil, fmt.Errorf("loss %d: %w", len(all), err)
		}
		all = append(all, x)
	}
	_, err = d.Token() // ]
	return all, err
}

// Verify reads every file of the checkpoint at path and compares it with what was written.
func (s *State) Verify(path string) error {
	names := make([]string, 0, len(s.Files))
	for n := range s.Files {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		got, err := sum(filepath.Join(path, n), s.Files[n].Bytes)
		switch {
		case err != nil:
			return missing(path, n, err)
		case got.Bytes != s.Files[n].Bytes:
			return damaged(path, fmt.Errorf("%s has %d bytes, want %d", n, got.Bytes, s.Files[n].Bytes))
		case got.CRC32C != s.Files[n].CRC32C:
			return damaged(path, fmt.Errorf("%s has checksum %08x, want %08x", n, got.CRC32C, s.Files[n].CRC32C))
		}
	}
	return nil
}

// sum reads a file and returns its size and checksum. One that has not the bytes that are wanted is not read: it may be of any length.
// Any number will do where want is negative.
func sum(path string, want int64) (FileInfo, error) {
	f, err := regular.Open(path)
	if err != nil {
		return FileInfo{}, err
	}
	st, err := f.Stat()
	if err != nil {
		return FileInfo{}, errors.Join(err, f.Close())
	}
	if want >= 0 && st.Size() != want {
		return FileInfo{Bytes: st.Size()}, f.Close()
	}
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.CopyBuffer(h, struct{ io.Reader }{f}, make([]byte, 64<<10))
	return FileInfo{n, h.Sum32()}, errors.Join(err, f.Close())
}
