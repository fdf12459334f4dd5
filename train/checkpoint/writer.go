package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"loadline/model/safetensors"
)

// Writer makes one checkpoint. With several ranks every rank has a Writer of the same step; they share the directory:
//
//	rank 0   Begin ─▶ Tensors, File … ─▶ Commit: the checkpoint has its name, or nothing is left
//	others   Join  ─▶ Tensors …       ─▶ (rank 0 commits)
//
// The caller keeps the order between ranks: Join after Begin, Commit after everybody's last file.
type Writer struct {
	dir   *Dir
	step  int64
	temp  string
	wants map[string]int64 // elements that a tensor file must hold, by name
}

// Begin starts the checkpoint of a step, of which there must be none yet: replacing one could not be done in one moment.
func (d *Dir) Begin(step int64) (*Writer, error) {
	w := d.Join(step)
	if _, err := os.Lstat(w.final()); err == nil {
		return nil, fmt.Errorf("checkpoint: %s exists", w.final())
	}
	err := d.removeAll(w.temp) // of a failed attempt
	if err == nil {
		err = d.mkdir(w.temp)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: step %d: %w", step, err)
	}
	return w, nil
}

// Join returns a rank's Writer for a checkpoint that rank 0 has begun.
func (d *Dir) Join(step int64) *Writer {
	return &Writer{dir: d, step: step, temp: filepath.Join(d.Path, fmt.Sprintf("%s%s%d", tempPrefix, stepPrefix, step)), wants: map[string]int64{}}
}

// final is the checkpoint's path.
func (w *Writer) final() string {
	return filepath.Join(w.dir.Path, fmt.Sprintf("%s%d", stepPrefix, w.step))
}

// Expect says how many elements the tensors of a file must hold together before Commit accepts it.
func (w *Writer) Expect(name string, elems int64) { w.wants[name] = elems }

// File writes a file of the checkpoint.
func (w *Writer) File(name string, fill func(io.Writer) error) error {
	if err := w.dir.writeFile(filepath.Join(w.temp, name), fill); err != nil {
		return fmt.Errorf("checkpoint: step %d: %s: %w", w.step, name, err)
	}
	return nil
}

// TensorFile is a tensor file being written.
type TensorFile struct {
	w    *Writer
	name string
	f    *safetensors.Writer
}

// Tensors begins a tensor file. infos are in the order in which they will be written.
func (w *Writer) Tensors(name string, infos []safetensors.Info) (*TensorFile, error) {
	path := filepath.Join(w.temp, name)
	err := w.dir.before("create", path)
	if err == nil {
		var f *safetensors.Writer
		if f, err = safetensors.Create(path, infos, map[string]string{"format": "pt"}); err == nil {
			return &TensorFile{w, name, f}, nil
		}
	}
	return nil, fmt.Errorf("checkpoint: step %d: %s: %w", w.step, name, err)
}

// Write appends p to a tensor.
func (t *TensorFile) Write(tensor string, p []byte) error {
	err := t.w.dir.before("write", filepath.Join(t.w.temp, t.name))
	if err == nil {
		err = t.f.Write(tensor, p)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: step %d: %s: %w", t.w.step, t.name, err)
	}
	return nil
}

// Close completes the file.
func (t *TensorFile) Close() error {
	err := t.w.dir.before("sync", filepath.Join(t.w.temp, t.name))
	if err == nil {
		err = t.f.Close()
	}
	if err != nil {
		return fmt.Errorf("checkpoint: step %d: %s: %w", t.w.step, t.name, err)
	}
	return nil
}

// Abort gives the file up.
func (t *TensorFile) Abort() { _ = t.f.Abort() } // the directory goes as a whole

// Commit verifies all files, writes trainer.json and gives the checkpoint its name; then it removes the oldest beyond Keep. It
// returns the checkpoint's path. If the checkpoint could not be made, nothing of it is left; an error with a path means that the
// checkpoint is there and an old one could not be removed.
func (w *Writer) Commit(s State) (string, error) {
	final := w.final()
	if err := w.commit(s, final); err != nil {
		return "", errors.Join(fmt.Errorf("checkpoint: step %d: %w", w.step, err), w.Abort())
	}
	if err := w.dir.prune(); err != nil {
		return final, err
	}
	return final, nil
}

func (w *Writer) commit(s State, final string) error {
	s.Format, s.Step = format, w.step
	if err := w.verify(&s); err != nil {
		return err
	}
	err := w.dir.writeFile(filepath.Join(w.temp, TrainerName), s.write)
	if err != nil {
		return fmt.Errorf("%s: %w", TrainerName, err)
	}
	if err := w.dir.syncDir(w.temp); err != nil {
		return err
	}
	if err := w.dir.rename(w.temp, final); err != nil {
		return err
	}
	return w.dir.syncDir(w.dir.Path)
}

// verify opens every tensor file again, compares the elements it holds with those expected, and sums up all files.
func (w *Writer) verify(s *State) error {
	names, err := os.ReadDir(w.temp)
	if err != nil {
		return err
	}
	s.Files = map[string]FileInfo{}
	for _, n := range names {
		path := filepath.Join(w.temp, n.Name())
		if s.Files[n.Name()], err = sum(path, -1); err != nil {
			return err
		}
	}
	wanted := make([]string, 0, len(w.wants))
	for n := range w.wants {
		wanted = append(wanted, n)
	}
	slices.Sort(wanted)
	for _, n := range wanted {
		got, err := elements(filepath.Join(w.temp, n))
		if err != nil {
			return err
		}
		if got != w.wants[n] {
			return fmt.Errorf("%s holds %d elements, want %d", n, got, w.wants[n])
		}
	}
	return nil
}

// elements is the number of elements of all tensors of a file.
func elements(path string) (int64, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return 0, err
	}
	var n int64
	for _, i := range f.Tensors() {
		n += i.Bytes / i.DType.Bytes()
	}
	return n, f.Close()
}

// Abort removes what has been written. The error of removing is not of interest beside the one that led here, and the next Open of
// the directory removes what is left.
func (w *Writer) Abort() error {
	if err := w.dir.removeAll(w.temp); err != nil {
		return fmt.Errorf("checkpoint: step %d: %w", w.step, err)
	}
	return nil
}
