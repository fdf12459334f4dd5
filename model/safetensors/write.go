package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"loadline/internal/whole"
)

// Writer writes a file, or a set of them, tensor by tensor, in the order of Tensors, each in pieces of any size.
//
//	Create ─▶ Write … Write ─▶ Close: the files are complete and have their names
//	   └──────────┴───────────▶ Abort: nothing is left
//
// Until Close succeeds the bytes are in files beside them, named with whole.Suffix behind, so one path has one Writer at a time. A process that
// dies leaves those, and the next Create overwrites them.
type Writer struct {
	files []shard
	index *whole.File // of a set, or nil
	infos []Info
	next  int   // the tensor that is being written
	done  int64 // how many of its bytes are
	err   error // the first error; nothing is written after it
}

// shard is a file and how many of the tensors precede its end.
type shard struct {
	f   *whole.File
	end int
}

// ErrClosed is the error of a Writer that has been closed or aborted.
var ErrClosed = errors.New("safetensors: writer is closed")

// Create begins a file with these tensors, of which Offset and Bytes are worked out, and metadata, which may be nil.
func Create(path string, infos []Info, meta map[string]string) (*Writer, error) {
	w := &Writer{infos: slices.Clone(infos)}
	if err := w.begin(path, 0, len(infos), meta); err != nil {
		w.Abort() // the first error says more
		return nil, err
	}
	w.skipEmpty()
	return w, nil
}

// The names of a model's files in a directory, as transformers writes them.
const (
	ModelName = "model.safetensors"
	IndexName = "model.safetensors.index.json"
)

// ShardName is the name of file i of n, from 0.
func ShardName(i, n int) string { return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, n) }

// CreateSharded begins the files of a model in a directory: one called ModelName where the tensors have at most shardBytes, else as many
// shards of at most as many bytes, or of one tensor, as it takes, and their index. The tensors keep their order, but that within a file
// wide types come first: Tensors tells.
func CreateSharded(dir string, infos []Info, meta map[string]string, shardBytes int64) (*Writer, error) {
	w := &Writer{infos: slices.Clone(infos)}
	ends, total, err := w.split(shardBytes)
	if err != nil {
		return nil, err
	}
	weights := make(map[string]string, len(infos))
	from := 0
	for k, end := range ends {
		name := ModelName
		if len(ends) > 1 {
			name = ShardName(k, len(ends))
		}
		slices.SortStableFunc(w.infos[from:end], func(a, b Info) int { return int(b.DType.Bytes() - a.DType.Bytes()) })
		for _, i := range w.infos[from:end] {
			if weights[i.Name] != "" {
				err = fmt.Errorf("safetensors: tensor %q appears twice", i.Name)
			}
			weights[i.Name] = name
		}
		if err == nil {
			err = w.begin(filepath.Join(dir, name), from, end, meta)
		}
		if err != nil {
			w.Abort() // the first error says more
			return nil, err
		}
		from = end
	}
	if len(ends) > 1 {
		if err := w.beginIndex(filepath.Join(dir, IndexName), weights, total); err != nil {
			w.Abort()
			return nil, err
		}
	}
	w.skipEmpty()
	return w, nil
}

// split returns where the files end, and the bytes of all tensors.
func (w *Writer) split(shardBytes int64) (ends []int, total int64, err error) {
	bytes := int64(0)
	for k := range w.infos {
		n, err := w.infos[k].size()
		if err != nil {
			return nil, 0, err
		}
		if n > 1<<62-total {
			return nil, 0, fmt.Errorf("safetensors: tensor %q: the files would have more than 2^62 bytes", w.infos[k].Name)
		}
		if bytes > 0 && n > shardBytes-bytes {
			ends = append(ends, k)
			bytes = 0
		}
		bytes += n
		total += n
	}
	ends = append(ends, len(w.infos))
	if len(ends) > maxShards {
		return nil, 0, fmt.Errorf("safetensors: %d bytes in files of %d are %d files, want at most %d", total, shardBytes, len(ends), maxShards)
	}
	return ends, total, nil
}

// begin creates a file for the tensors from to end.
func (w *Writer) begin(path string, from, end int, meta map[string]string) error {
	header, err := formatHeader(w.infos[from:end], meta)
	if err != nil {
		return err
	}
	f, err := whole.Create(path)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	w.files = append(w.files, shard{f, end})
	if _, err := f.Write(header); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

func (w *Writer) beginIndex(path string, weights map[string]string, total int64) error {
	var x index
	x.Metadata.TotalSize, x.WeightMap = total, weights
	p, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return fmt.Errorf("safetensors: index: %w", err)
	}
	f, err := whole.Create(path)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	w.index = f
	if _, err := f.Write(append(p, '\n')); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

// Tensors returns the tensors with their places in their files, in the order of writing. The shapes are shared: do not change them.
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
	k := slices.IndexFunc(w.files, func(s shard) bool { return w.next < s.end })
	if _, err := w.files[k].f.Write(p); err != nil {
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

// Close completes the files and gives them their names, the index last, in place of files that had them; when it returns nil, all are
// on the disk. If a byte is missing or anything failed, it leaves nothing and returns the first error.
func (w *Writer) Close() error {
	if w.err == nil && w.next < len(w.infos) {
		i := &w.infos[w.next]
		w.err = fmt.Errorf("safetensors: tensor %q: has %d bytes, got %d", i.Name, i.Bytes, w.done)
	}
	if err := w.err; err != nil {
		w.Abort() // the first error says more
		w.err = ErrClosed
		return err
	}
	w.err = ErrClosed
	if err := whole.Commit(w.parts()...); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

// parts are the files in the order in which they take their names.
func (w *Writer) parts() []*whole.File {
	var parts []*whole.File
	for _, s := range w.files {
		parts = append(parts, s.f)
	}
	if w.index != nil {
		parts = append(parts, w.index)
	}
	return parts
}

// Abort gives the files up and leaves nothing. It does nothing after Close.
func (w *Writer) Abort() error {
	if w.err == nil {
		w.err = ErrClosed
	}
	var errs []error
	for _, f := range w.parts() {
		errs = append(errs, f.Abort())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}
