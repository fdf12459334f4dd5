package serve

import (
	"loadline/device"
	"loadline/graph"
	"loadline/tensor/dtype"
)

// kvWords is the types of keys and values as a flag takes them: one for both, or both.
func kvWords(t [2]dtype.Type) string {
	var words [2]string
	for i, t := range t {
		if words[i] = t.String(); t == dtype.F8E4M3 {
			words[i] = "fp8"
		}
	}
	if words[0] == words[1] {
		return words[0]
	}
	return words[0] + "," + words[1]
}

// narrower returns j's options with keys and values in the widest type with which they fit, or nil. What is stored narrower
// already stays.
func narrower(j *Job, dev device.Device) (*Options, error) {
	const some = 256 // elements, whole blocks of every type
	for _, t := range graph.KVTypes() {
		o := j.Options
		for i := range o.KVTypes {
			if t.Bytes(some) < o.KVTypes[i].Bytes(some) {
				o.KVTypes[i] = t
			}
		}
		if o.KVTypes == j.Options.KVTypes || o.pass().Validate(o.Config) != nil {
			continue
		}
		n, err := build(o, dev)
		if err != nil {
			return nil, err
		}
		if n.fits() {
			return &n.Options, nil
		}
	}
	return nil, nil
}
