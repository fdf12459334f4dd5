package mem

import "fmt"

// Tier is a place where bytes can lie, fastest first.
type Tier uint8

// The tiers. Device and Host are memory of this process; Disk and Remote are not.
const (
	Device Tier = iota // the memory that the device computes in
	Host               // main memory outside the device tier
	Disk               // files
	Remote             // another machine
)

// NumTiers is the number of tiers.
const NumTiers = 4

var tierNames = [NumTiers]string{"device", "host", "disk", "remote"}

// String returns the tier's name in lower case.
func (t Tier) String() string {
	if int(t) < len(tierNames) {
		return tierNames[t]
	}
	return fmt.Sprintf("tier(%d)", uint8(t))
}

// Memory reports whether bytes in t count as memory of this process.
func (t Tier) Memory() bool { return t == Device || t == Host }

// MarshalText writes the tier's name.
func (t Tier) MarshalText() ([]byte, error) { return marshalName(tierNames[:], "tier", uint8(t)) }

// UnmarshalText reads a name that MarshalText wrote.
func (t *Tier) UnmarshalText(text []byte) error {
	i, err := unmarshalName(tierNames[:], "tier", text)
	if err == nil {
		*t = Tier(i)
	}
	return err
}

// Purpose is what bytes are held for.
type Purpose uint8

// The purposes, in the order in which they are printed.
const (
	Weights       Purpose = iota // parameters in the type that computes
	MasterWeights                // parameters in the type that is updated, where it differs
	Grads                        // gradients
	OptimState                   // the optimizer's moments
	Activations                  // values kept or in flight between operations
	KVBlocks                     // keys and values of attention
	Workspace                    // scratch of one operation, and slack in an arena
	CommBuffers                  // buffers of collectives
	Staging                      // buffers on the way between tiers and files
	Runtime                      // the Go heap, stacks, code
)

// NumPurposes is the number of purposes.
const NumPurposes = 10

var purposeNames = [NumPurposes]string{
	"weights", "master_weights", "grads", "optim_state", "activations", "kv_blocks", "workspace", "comm_buffers", "staging", "runtime",
}

// String returns the purpose's name as documents write it: "master_weights".
func (p Purpose) String() string {
	if int(p) < len(purposeNames) {
		return purposeNames[p]
	}
	return fmt.Sprintf("purpose(%d)", uint8(p))
}

// Purposes returns every purpose in order.
func Purposes() []Purpose {
	all := make([]Purpose, NumPurposes)
	for i := range all {
		all[i] = Purpose(i)
	}
	return all
}

// MarshalText writes the purpose's name, so that a map keyed by purpose encodes as a JSON object.
func (p Purpose) MarshalText() ([]byte, error) {
	return marshalName(purposeNames[:], "purpose", uint8(p))
}

// UnmarshalText reads a name that MarshalText wrote.
func (p *Purpose) UnmarshalText(text []byte) error {
	i, err := unmarshalName(purposeNames[:], "purpose", text)
	if err == nil {
		*p = Purpose(i)
	}
	return err
}

func marshalName(names []string, kind string, i uint8) ([]byte, error) {
	if int(i) >= len(names) {
		return nil, fmt.Errorf("mem: %s %d: want less than %d", kind, i, len(names))
	}
	return []byte(names[i]), nil
}

func unmarshalName(names []string, kind string, text []byte) (uint8, error) {
	for i, name := range names {
		if name == string(text) {
			return uint8(i), nil
		}
	}
	return 0, fmt.Errorf("mem: %s %q: want one of %q", kind, text, names)
}
