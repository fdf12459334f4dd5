package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Names of files in a checkpoint. The first three are Hugging Face's, the others the trainer's own.
const (
	ConfigName    = "config.json"
	ModelName     = "model.safetensors"
	TokenizerName = "tokenizer.json"
	TrainerName   = "trainer.json"
)

// Names of directories in OUT.
const (
	stepPrefix = "step-"
	tempPrefix = ".tmp-" // what is being made or removed: of no meaning to a reader
	gonePrefix = tempPrefix + "gone-"
	lockFile   = ".lock"
)

// StateName is the name of the file with one rank's optimizer state.
func StateName(rank int) string { return fmt.Sprintf("state-rank-%d.safetensors", rank) }

// ErrNone says that a directory holds no checkpoint.
var ErrNone = errors.New("no checkpoint")

// DamagedError says that a checkpoint cannot be what was written.
type DamagedError struct {
	Path     string // the checkpoint's directory
	Previous string // the newest checkpoint before it; empty if none
	Err      error
}

// Error returns one line, with what to do if there is an older checkpoint.
func (e *DamagedError) Error() string {
	s := fmt.Sprintf("checkpoint: %s is damaged: %v", e.Path, e.Err)
	if e.Previous != "" {
		s += "; remove it to go on from " + filepath.Base(e.Previous)
	}
	return s
}

// Unwrap returns Err.
func (e *DamagedError) Unwrap() error { return e.Err }

// Dir is a directory of checkpoints: OUT.
type Dir struct {
	Path string
	Keep int // how many of the newest checkpoints Commit leaves; 0 is all

	// Before is called before every change to the file system with its name ("mkdir", "create", "write", "sync", "rename",
	// "remove", "syncdir") and path; an error takes the change's place. nil is none. It is there to test what a full disk or a
	// kill at that moment leaves behind.
	Before func(op, path string) error
}

// Entry is one checkpoint of a Dir.
type Entry struct {
	Step int64
	Path string
}

// Open makes the directory if it is missing, takes its lock, and removes what dead writers left.
func (d *Dir) Open() (*Lock, error) {
	if err := d.before("mkdir", d.Path); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	l, err := lock(filepath.Join(d.Path, lockFile))
	if err != nil {
		return nil, err
	}
	if err := d.clean(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// clean removes what is being made or removed by nobody any more. The lock is held.
func (d *Dir) clean() error {
	names, err := os.ReadDir(d.Path)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), tempPrefix+stepPrefix) || strings.HasPrefix(n.Name(), gonePrefix+stepPrefix) {
			if err := d.removeAll(filepath.Join(d.Path, n.Name())); err != nil {
				return fmt.Errorf("checkpoint: %w", err)
			}
		}
	}
	return nil
}

// List returns the checkpoints, oldest first; none if the directory does not exist.
func (d *Dir) List() ([]Entry, error) {
	names, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	var all []Entry
	for _, n := range names {
		text, ok := strings.CutPrefix(n.Name(), stepPrefix)
		step, err := strconv.ParseInt(text, 10, 64)
		if ok && err == nil && step >= 0 && n.IsDir() && n.Name() == stepPrefix+strconv.FormatInt(step, 10) {
			all = append(all, Entry{step, filepath.Join(d.Path, n.Name())})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Step, b.Step) })
	return all, nil
}

// Latest returns the newest checkpoint of a directory, or ErrNone.
func Latest(path string) (Entry, error) {
	all, err := (&Dir{Path: path}).List()
	if err != nil {
		return Entry{}, err
	}
	if len(all) == 0 {
		return Entry{}, fmt.Errorf("checkpoint: %s: %w", path, ErrNone)
	}
	return all[len(all)-1], nil
}

// damaged wraps err for the checkpoint at path.
func damaged(path string, err error) error {
	e := &DamagedError{Path: path, Err: err}
	if all, lerr := (&Dir{Path: filepath.Dir(path)}).List(); lerr == nil {
		for i, x := range all {
			if filepath.Base(x.Path) == filepath.Base(path) && i > 0 {
				e.Previous = all[i-1].Path
			}
		}
	}
	return e
}

// prune removes the oldest checkpoints beyond Keep.
func (d *Dir) prune() error {
	if d.Keep <= 0 {
		return nil
	}
	all, err := d.List()
	if err != nil {
		return err
	}
	for len(all) > d.Keep {
		if err := d.retire(all[0].Path); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		all = all[1:]
	}
	return nil
}

// retire removes a checkpoint so that no moment shows half of it.
func (d *Dir) retire(path string) error {
	gone := filepath.Join(d.Path, gonePrefix+filepath.Base(path))
	if err := d.rename(path, gone); err != nil {
		return err
	}
	return d.removeAll(gone)
}

func (d *Dir) before(op, path string) error {
	if d.Before == nil {
		return nil
	}
	return d.Before(op, path)
}

func (d *Dir) mkdir(path string) error {
	if err := d.before("mkdir", path); err != nil {
		return err
	}
	return os.Mkdir(path, 0o755)
}

func (d *Dir) rename(from, to string) error {
	if err := d.before("rename", to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

func (d *Dir) removeAll(path string) error {
	if err := d.before("remove", path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// writeFile makes a file, lets fill write it, and leaves it on the disk.
func (d *Dir) writeFile(path string, fill func(io.Writer) error) error {
	if err := d.before("create", path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = d.before("write", path)
	if err == nil {
		err = fill(f)
	}
	if err == nil {
		if err = d.before("sync", path); err == nil {
			err = f.Sync()
		}
	}
	return errors.Join(err, f.Close())
}

// syncDir makes what was done in a directory last.
func (d *Dir) syncDir(path string) error {
	if err := d.before("syncdir", path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
