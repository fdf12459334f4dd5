// Package pricing says what every key of a DeepSpeed configuration costs in bytes, on the card, in host memory and on
// disk, for a given model and number of ranks, and names keys that DeepSpeed does not know and settings that
// contradict each other.
//
// Invariants: every key of the file has one line; the lines of a tier add up to what the file asks of one rank, beside
// the driver's context. Reading is bounded in bytes and depth, and a key that stands twice is an error, as it is for
// DeepSpeed.
//
// It does not judge speed. Sources: deepspeed/runtime/zero/config.py, offload_config.py, runtime/config.py,
// runtime/activation_checkpointing/config.py (0.19), docs/code-docs/source/memory.rst, arXiv 1910.02054.
package pricing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds of a file.
const (
	maxBytes = 1 << 20
	maxDepth = 16
	maxKeys  = 4096
	maxWord  = 512 // bytes of a key, and of a text
)

// entry is one leaf of the file.
type entry struct {
	path  string // zero_optimization.offload_param.device
	value any    // float64, bool, string, nil, or json.RawMessage of a list
}

// read flattens a file in its own order.
func read(body []byte) ([]entry, error) {
	if len(body) > maxBytes {
		return nil, fmt.Errorf("pricing: a file of %d bytes, want at most %d", len(body), maxBytes)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	var all []entry
	if err := object(d, "", 0, &all); err != nil {
		return nil, fmt.Errorf("pricing: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("pricing: something follows the object")
	}
	return all, nil
}

func object(d *json.Decoder, prefix string, depth int, all *[]entry) error {
	open, err := d.Token()
	if err != nil {
		return err
	}
	if open != json.Delim('{') {
		return fmt.Errorf("%s: want an object, got %v", strings.TrimSuffix("the file."+prefix, "."), open)
	}
	return members(d, prefix, depth, all)
}

func members(d *json.Decoder, prefix string, depth int, all *[]entry) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: nested deeper than %d", prefix, maxDepth)
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		path := prefix + fmt.Sprint(key)
		if len(path) > maxWord {
			return fmt.Errorf("a key of %d bytes, %.40q...: want at most %d", len(path), path, maxWord)
		}
		if seen[path] {
			return fmt.Errorf("key %q stands twice; DeepSpeed refuses that", path)
		}
		seen[path] = true
		if len(*all) >= maxKeys {
			return fmt.Errorf("more than %d keys", maxKeys)
		}
		v, err := d.Token()
		if err != nil {
			return err
		}
		if s, ok := v.(string); ok && len(s) > maxWord {
			return fmt.Errorf("%s: a text of %d bytes, %.40q...: want at most %d", path, len(s), s, maxWord)
		}
		switch v {
		case json.Delim('{'):
			if err := members(d, path+".", depth+1, all); err != nil {
				return err
			}
		case json.Delim('['):
			n := 0
			for d.More() {
				var skipped json.RawMessage
				if err := d.Decode(&skipped); err != nil {
					return err
				}
				n++
			}
			if _, err := d.Token(); err != nil {
				return err
			}
			*all = append(*all, entry{path, fmt.Sprintf("a list of %d", n)})
		default:
			*all = append(*all, entry{path, v})
		}
	}
	_, err := d.Token()
	return err
}
