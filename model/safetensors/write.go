package safetensors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Writer writes a file tensor by tensor, in the order of its infos, each in pieces of any size.
//
//	Create ─▶ Write … Write ─▶ Close: the file is complete and has its name
//	   └──────────┴───────────▶ Abort: nothing is left
//
// Until Close succeeds the bytes are in a file beside it, named with .tmp behind, so one path has one Writer at a time. A
// process that dies leaves that file, and the next Create overwrites it.
type Writer struct {
	f     *os.File
	path  string
	infos []Info
	bytes int64 // of the whole file
	next  int   // the tensor that is being written
	done  int64 // how many of its bytes are
	err   error // the first error; nothing is written after it
}

// ErrClosed is the error of a Writer that has been closed or aborted.
var ErrClosed = errors.New("safetensors: writer is closed")

// Create begins a file with these tensors, of which Offset and Bytes are worked out, and metadata, which may be nil.
func Create(path string, infos []Info, meta map[string]string) (*Writer, error) {
	infos = slices.Clone(infos)
	header, err := formatHeader(infos, meta)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	w := &Writer{f: f, path: path, infos: infos, bytes: int64(len(header))}
	for _, i := range infos {
		w.bytes += i.Bytes
	}
	if _, err := f.Write(header); err != nil {
		w.Abort() // the error of writing says more
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	w.skipEmpty()
	return w, nil
}

// Tensors returns the tensors with their places in the file. The shapes are shared: do not change them.
func (w *Writer) Tensors() []Info { return slices.Clone(w.infos) }

// Write appends p to the tensor name, which must be the first that is not complete.
func (w *Writer) Write(name string, p []byte) error {
	if w.err != nil {
		return w.err
	}
	if len(p) == 0 {
		return nil
	}
	if w.next == len(w.infos) {
		return w.fail(fmt.Errorf("safetensors: tensor %q: all tensors are complete", name))
	}
	i := &w.infos[w.next]
	if i.Name != name {
		return w.fail(fmt.Errorf("safetensors: tensor %q: want %q, of which %d of %d bytes are written", name, i.Name, w.done, i.Bytes))
	}
	if int64(len(p)) > i.Bytes-w.done {
		return w.fail(fmt.Errorf("safetensors: tensor %q: has %d bytes, got %d", name, i.Bytes, w.done+int64(len(p))))
	}
	if _, err := w.f.Write(p); err != nil {
		return w.fail(fmt.Errorf("safetensors: tensor %q: %w", name, err))
	}
	w.done += int64(len(p))
	if w.done == i.Bytes {
		w.next++
		w.done = 0
		w.skipEmpty()
	}
	return nil
}

// skipEmpty passes the tensors without bytes.
func (w *Writer) skipEmpty() {
	for w.next < len(w.infos) && w.infos[w.next].Bytes == 0 {
		w.next++
	}
}

func (w *Writer) fail(err error) error {
	w.err = err
	return err
}

// Close completes the file and gives it its name, in place of a file that had it; when it returns nil, both are on the
// disk. If a byte is missing or anything failed, it leaves nothing and returns the first error.
func (w *Writer) Close() error {
	if w.f == nil {
		return ErrClosed
	}
	if err := w.complete(); err != nil {
		w.Abort() // the first error says more
		return err
	}
	return nil
}

func (w *Writer) complete() error {
	if w.err != nil {
		return w.err
	}
	if w.next < len(w.infos) {
		i := &w.infos[w.next]
		return fmt.Errorf("safetensors: tensor %q: has %d bytes, got %d", i.Name, i.Bytes, w.done)
	}
	st, err := w.f.Stat()
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	if st.Size() != w.bytes {
		return fmt.Errorf("safetensors: %s has %d bytes, want %d", w.f.Name(), st.Size(), w.bytes)
	}
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	if err := w.f.Close(); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	if err := os.Rename(w.path+".tmp", w.path); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	w.f, w.err = nil, ErrClosed
	return syncDir(filepath.Dir(w.path))
}

// Abort gives the file up and leaves nothing. It does nothing after Close.
func (w *Writer) Abort() error {
	if w.f == nil {
		return nil
	}
	name := w.f.Name()
	w.f.Close() // closed already, or of no interest: the file goes
	w.f = nil
	if w.err == nil {
		w.err = ErrClosed
	}
	if err := os.Remove(name); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

// syncDir makes a rename in the directory last.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	defer d.Close() // read only
	if err := d.Sync(); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}
