package quant

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Scheme is how the linear layers that Targets names are stored.
type Scheme struct {
	// Storage is gptq, awq, pack-quantized, int-quantized, float-quantized, nf4, fp4 or mxfp4. DeepSeek's fp8 is float-quantized.
	Storage   string
	Targets   []string // names, or re: and a pattern, or kinds of layers; empty for all that are not in Layout.Skip
	Bits      int
	GroupSize int // of elements of a row that share a scale; 0 for a whole row
	RowBlock  int // of rows that share a scale; 0 for one. 0 with PerTensor
	PerTensor bool
	Symmetric bool
	ActOrder  bool
	Format    string // of gptq: what the checkpoint says of its zeros; see GPTQVersion1
	ScaleName string // the name of the scales beside the weight
}

// Layout is the quantization_config of a Hugging Face config.json.
type Layout struct {
	Schemes []Scheme
	Skip    []string // layers that are not quantised, as Scheme.Targets has them
}

// Tensors are the names that stand in the place of a layer's weight.
func (s *Scheme) Tensors() []string {
	var names []string
	switch s.Storage {
	case "gptq":
		return []string{"qweight", "qzeros", "scales", "g_idx"}
	case "awq":
		return []string{"qweight", "qzeros", "scales"}
	case "pack-quantized":
		names = []string{"weight_packed", "weight_scale", "weight_shape"}
		if s.ActOrder {
			names = append(names, "weight_g_idx")
		}
	case "int-quantized", "float-quantized":
		names = []string{"weight", s.ScaleName}
	case "nf4", "fp4":
		return []string{"weight", "weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map", "weight.quant_state.bitsandbytes__" + s.Storage}
	case "mxfp4":
		return []string{"blocks", "scales"}
	}
	if !s.Symmetric {
		names = append(names, "weight_zero_point")
	}
	return names
}

// layoutJSON is the keys of every method.
type layoutJSON struct {
	Method       string          `json:"quant_method"`
	Bits         int             `json:"bits"`
	GroupSize    int             `json:"group_size"`
	DescAct      bool            `json:"desc_act"`
	Sym          *bool           `json:"sym"`
	Checkpoint   string          `json:"checkpoint_format"`
	Dynamic      json.RawMessage `json:"dynamic"`
	Version      string          `json:"version"`
	Skip         []string        `json:"modules_to_not_convert"`
	Ignored      []string        `json:"ignored_layers"`
	BlockSize    []int           `json:"weight_block_size"`
	Fmt          string          `json:"fmt"`
	Load4        bool            `json:"load_in_4bit"`
	Load8        bool            `json:"load_in_8bit"`
	Type4        string          `json:"bnb_4bit_quant_type"`
	SkipInt8     []string        `json:"llm_int8_skip_modules"`
	ConfigGroups map[string]struct {
		Targets []string     `json:"targets"`
		Weights *weightsJSON `json:"weights"`
		Format  string       `json:"format"`
	} `json:"config_groups"`
	Format   string   `json:"format"`
	Ignore   []string `json:"ignore"`
	Sparsity struct {
		Format string `json:"format"`
	} `json:"sparsity_config"`
}

type weightsJSON struct {
	Bits      int             `json:"num_bits"`
	Type      string          `json:"type"`
	Symmetric bool            `json:"symmetric"`
	Strategy  string          `json:"strategy"`
	GroupSize int             `json:"group_size"`
	ActOrder  json.RawMessage `json:"actorder"`
	Block     []int           `json:"block_structure"`
}

// given tells whether a key is there and says something.
func given(p json.RawMessage) bool {
	s := string(p)
	return s != "" && s != "null" && s != "false" && s != "{}" && s != `""`
}

// ParseLayout reads a quantization_config. What is not known is refused by name: a guess would read weights as something else.
func ParseLayout(config []byte) (*Layout, error) {
	var c layoutJSON
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("quant: quantization_config: %w", err)
	}
	l := &Layout{Skip: slices.Concat(c.Skip, c.Ignored, c.SkipInt8, c.Ignore)}
	var err error
	switch strings.ToLower(c.Method) {
	case "gptq":
		err = l.gptq(&c)
	case "awq":
		err = l.awq(&c)
	case "fp8":
		err = l.fp8(&c)
	case "compressed-tensors":
		err = l.compressed(&c)
	case "bitsandbytes":
		kind := strings.ToLower(c.Type4)
		if kind == "" {
			kind = "fp4" // the library's default
		}
		if c.Load8 || !c.Load4 || kind != "nf4" && kind != "fp4" {
			return nil, fmt.Errorf("quant: quantization_config: bitsandbytes is read in 4 bits as nf4 or fp4 only")
		}
		l.Schemes = []Scheme{{Storage: kind, Bits: 4, Symmetric: true}}
	case "mxfp4":
		l.Schemes = []Scheme{{Storage: "mxfp4", Bits: 4, GroupSize: smallElems, Symmetric: true}}
	default:
		err = fmt.Errorf("quant: quantization_config: quant_method %q is not known", c.Method)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// group is a group_size as a file has it: −1 is a whole row.
func group(n int) (int, error) {
	switch {
	case n == -1:
		return 0, nil
	case n < 1 || n > 1<<20:
		return 0, fmt.Errorf("quant: quantization_config: group_size is %d", n)
	}
	return n, nil
}

func (l *Layout) gptq(c *layoutJSON) error {
	if given(c.Dynamic) {
		return errors.New("quant: quantization_config: gptq with dynamic overrides is not read")
	}
	if c.Checkpoint != "" && c.Checkpoint != "gptq" && c.Checkpoint != "gptq_v2" {
		return fmt.Errorf("quant: quantization_config: checkpoint_format %q is not known", c.Checkpoint)
	}
	if !slices.Contains([]int{2, 3, 4, 8}, c.Bits) {
		return fmt.Errorf("quant: quantization_config: gptq of %d bits, want 2, 3, 4 or 8", c.Bits)
	}
	n, err := group(c.GroupSize)
	l.Schemes = []Scheme{{Storage: "gptq", Bits: c.Bits, GroupSize: n, Symmetric: c.Sym == nil || *c.Sym, ActOrder: c.DescAct, Format: c.Checkpoint}}
	return err
}

func (l *Layout) awq(c *layoutJSON) error {
	if v := strings.ToLower(c.Version); v != "" && v != "gemm" || c.Bits != 4 {
		return fmt.Errorf("quant: quantization_config: awq version %q of %d bits, want gemm of 4", c.Version, c.Bits)
	}
	n, err := group(c.GroupSize)
	l.Schemes = []Scheme{{Storage: "awq", Bits: 4, GroupSize: n}}
	return err
}

func (l *Layout) fp8(c *layoutJSON) error {
	s := Scheme{Storage: "float-quantized", Bits: 8, Symmetric: true, ScaleName: "weight_scale_inv"}
	switch {
	case c.Fmt != "" && c.Fmt != "e4m3":
		return fmt.Errorf("quant: quantization_config: fp8 %q, want e4m3", c.Fmt)
	case len(c.BlockSize) == 2 && c.BlockSize[0] > 0 && c.BlockSize[1] > 0:
		s.RowBlock, s.GroupSize = c.BlockSize[0], c.BlockSize[1]
	case c.BlockSize == nil:
		s.PerTensor, s.ScaleName = true, "weight_scale"
	default:
		return fmt.Errorf("quant: quantization_config: weight_block_size is %v", c.BlockSize)
	}
	l.Schemes = []Scheme{s}
	return nil
}

func (l *Layout) compressed(c *layoutJSON) error {
	if c.Sparsity.Format != "" && c.Sparsity.Format != "dense" {
		return fmt.Errorf("quant: quantization_config: sparse weights in format %q are not read", c.Sparsity.Format)
	}
	var names []string
	for name := range c.ConfigGroups {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		g := c.ConfigGroups[name]
		if g.Weights == nil {
			continue
		}
		format := g.Format
		if format == "" {
			format = c.Format
		}
		s := Scheme{Storage: format, Targets: g.Targets, Bits: g.Weights.Bits, Symmetric: g.Weights.Symmetric, ActOrder: given(g.Weights.ActOrder), ScaleName: "weight_scale"}
		if err := s.compressed(g.Weights); err != nil {
			return fmt.Errorf("%w (in %s)", err, name)
		}
		l.Schemes = append(l.Schemes, s)
	}
	if len(l.Schemes) == 0 {
		return errors.New("quant: quantization_config: no config_groups with weights")
	}
	return nil
}

func (s *Scheme) compressed(w *weightsJSON) (err error) {
	kind, bits := w.Type, w.Bits
	switch s.Storage {
	case "pack-quantized":
		if kind != "int" || bits < 1 || bits > 8 {
			return fmt.Errorf("quant: quantization_config: pack-quantized %s of %d bits", kind, bits)
		}
	case "naive-quantized", "int-quantized", "float-quantized":
		if bits != 8 || kind != "int" && kind != "float" || s.Storage == "int-quantized" && kind != "int" || s.Storage == "float-quantized" && kind != "float" {
			return fmt.Errorf("quant: quantization_config: %s %s of %d bits", s.Storage, kind, bits)
		}
		s.Storage = kind + "-quantized"
	default:
		return fmt.Errorf("quant: quantization_config: format %q is not known", s.Storage)
	}
	switch w.Strategy {
	case "tensor":
		s.PerTensor = true
	case "channel":
	case "group":
		s.GroupSize, err = group(w.GroupSize)
	case "block":
		if len(w.Block) != 2 || w.Block[0] < 1 || w.Block[1] < 1 {
			return fmt.Errorf("quant: quantization_config: block_structure is %v", w.Block)
		}
		s.RowBlock, s.GroupSize = w.Block[0], w.Block[1]
	default:
		return fmt.Errorf("quant: quantization_config: strategy %q is not known", w.Strategy)
	}
	return err
}
