package shape

import (
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"

	"loadline/model/gguf"
)

// GGUF is what the header of a GGUF file says.
type GGUF struct {
	Shape *Shape
	// Bytes and Elems are of the tensors that the header lists; of a file in parts, of this part.
	Bytes, Elems int64
	// LinearBits and OtherBits are the bits of a weight of the layers, and of the embedding and the head.
	LinearBits, OtherBits float64
	// Parts is how many files the model is in.
	Parts int
}

// maxGGUFList bounds lists that are kept: of one number a layer.
const maxGGUFList = 1 << 13

// listLength stands for an array that was not kept.
type listLength uint64

// ReadGGUF reads the header of a GGUF file and no further.
func ReadGGUF(name string, r io.Reader) (*GGUF, error) {
	h, err := gguf.ReadHeader(r, -1)
	if err != nil {
		return nil, fmt.Errorf("shape: %s: %w", name, err)
	}
	list := ggufTensors{names: map[string]bool{}}
	for i := range h.Tensors {
		if err := list.add(&h.Tensors[i]); err != nil {
			return nil, fmt.Errorf("shape: %s: %w", name, err)
		}
	}
	meta := map[string]any{}
	for _, kv := range h.Meta {
		meta[kv.Key] = jsonValue(kv.Value)
	}
	s, err := ggufShape(name, meta, &list)
	if err != nil {
		return nil, err
	}
	out := &GGUF{Shape: s, Parts: 1, Bytes: list.linearBytes + list.otherBytes, Elems: list.linear + list.other}
	if list.linear > 0 {
		out.LinearBits = 8 * float64(list.linearBytes) / float64(list.linear)
	}
	if list.other > 0 {
		out.OtherBits = 8 * float64(list.otherBytes) / float64(list.other)
	}
	if n, ok := h.Meta.Int("split.count"); ok && n > 1 && n < 1e5 {
		out.Parts = int(n)
	}
	return out, nil
}

// jsonValue is a value as encoding/json has it; of texts and of long lists only the length.
func jsonValue(v any) any {
	x := reflect.ValueOf(v)
	switch {
	case x.Kind() == reflect.Slice && (x.Len() > maxGGUFList || x.Type().Elem().Kind() == reflect.String):
		return listLength(x.Len())
	case x.Kind() == reflect.Slice:
		list := make([]any, x.Len())
		for i := range list {
			list[i] = jsonValue(x.Index(i).Interface())
		}
		return list
	case x.CanInt():
		return float64(x.Int())
	case x.CanUint():
		return float64(x.Uint())
	case x.CanFloat():
		return x.Float()
	}
	return v
}

// ggufTensors is what the list of tensors says.
type ggufTensors struct {
	linear, linearBytes, other, otherBytes int64
	names                                  map[string]bool // of the first layer and outside layers
}

func (t *ggufTensors) add(i *gguf.Info) error {
	n := i.Elems()
	if n > math.MaxInt64-t.linear-t.other || i.Bytes > math.MaxInt64-t.linearBytes-t.otherBytes {
		return fmt.Errorf("tensors together are too large")
	}
	if strings.HasPrefix(i.Name, "blk.") {
		t.linear, t.linearBytes = t.linear+n, t.linearBytes+i.Bytes
		if strings.HasPrefix(i.Name, "blk.0.") {
			t.names[i.Name] = true
		}
		return nil
	}
	t.other, t.otherBytes = t.other+n, t.otherBytes+i.Bytes
	if len(t.names) < 4096 {
		t.names[i.Name] = true
	}
	return nil
}
