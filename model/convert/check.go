package convert

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"

	"loadline/internal/whole"
	"loadline/model"
	"loadline/model/gguf"
	"loadline/model/weights"
)

// readsBack writes a GGUF file without its weights, reads its configuration and takes it away again. A configuration that is not the
// model's is one that GGUF has no words for: readers have it in their code, by the architecture. That is refused before anything is made.
func (o *Options) readsBack(c model.Config, tensors []*tensor, meta gguf.Metadata) (err error) {
	path, err := o.outFile()
	if err != nil {
		return err
	}
	path += ".check"
	order := slices.Clone(tensors)
	slices.SortStableFunc(order, func(a, b *tensor) int { return made2int(b) - made2int(a) }) // the reader looks into those
	w, err := gguf.Create(path, ggufInfos(order), meta, 0)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer func() { err = errors.Join(err, w.Abort()) }()
	end := int64(0)
	for _, i := range w.Tensors() {
		end = max(end, i.Offset+i.Bytes)
	}
	for _, t := range order {
		if t.made {
			if err := o.one(t, func(p []byte) error { return w.Write(t.name, p) }); err != nil {
				return err
			}
		}
	}
	if err := os.Truncate(path+whole.Suffix, end); err != nil { // a hole, which takes no room
		return fmt.Errorf("convert: %w", err)
	}
	_, got, err := weights.ReadConfig(path + whole.Suffix)
	if err != nil {
		return fmt.Errorf("convert: GGUF cannot say what this model is: %w", err)
	}
	return sameConfig(c, got)
}

func made2int(t *tensor) int {
	if t.made {
		return 1
	}
	return 0
}

// sameConfig compares what two configurations compute.
func sameConfig(want, got model.Config) error {
	a, err := readConfig(want)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	b, err := readConfig(got)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	a.plain(b)
	b.plain(a)
	var differ []string
	for key := range maps.Keys(a) {
		if !reflect.DeepEqual(a[key], b[key]) {
			differ = append(differ, fmt.Sprintf("%s %v (it would be read as %v)", key, a[key], b[key]))
		}
	}
	for key := range maps.Keys(b) {
		if _, ok := a[key]; !ok {
			differ = append(differ, fmt.Sprintf("no %s (it would be read as %v)", key, b[key]))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	slices.Sort(differ)
	return fmt.Errorf("convert: a GGUF file of a %v model cannot say its %s", a["model_type"], strings.Join(differ, ", "))
}

// plain takes out what says nothing about what is computed: the tokens that begin and end texts, which readers complete, the name of
// Llama with or without a window, and a factor of attention that is what it is computed as.
func (j config) plain(other config) {
	for _, key := range []string{"architectures", "eos_token_id", "bos_token_id", "torch_dtype", "use_sliding_window"} {
		delete(j, key)
	}
	if j["model_type"] == "mistral" {
		j["model_type"] = "llama"
	}
	maps.DeleteFunc(j, func(_ string, v any) bool { return v == nil || v == false }) // both are written by some families alone
	for _, name := range []string{"rope_scaling", "rope_parameters"} {
		r, _ := j[name].(map[string]any)
		o, _ := other[name].(map[string]any)
		x, ok := config(r).number("attention_factor")
		if _, theirs := config(o).number("attention_factor"); !ok || theirs || o == nil {
			continue
		}
		all, ok1 := j.number("max_position_embeddings")
		original, ok2 := j.number("original_max_position_embeddings")
		if !ok2 {
			original, ok2 = config(r).number("original_max_position_embeddings")
		}
		if ok1 && ok2 && math.Abs(attentionFactor(all, original)-x) < 1e-6*x {
			delete(r, "attention_factor")
		}
	}
}

// attentionFactor is longrope's, where a configuration has none.
func attentionFactor(positions, original float64) float64 {
	if positions <= original || original <= 1 {
		return 1
	}
	return math.Sqrt(1 + math.Log(positions/original)/math.Log(original))
}
