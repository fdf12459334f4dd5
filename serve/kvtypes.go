package serve

import (
	"loadline/device"
	"loadline/graph"
	"loadline/tensor/dtype"
)

// kvWords is the types of keys and values for people.
func kvWords(t [2]dtype.Type) string {
	if t[0] == t[1] {
		return t[0].String()
	}
	return t[0].String() + " and " + t[1].String()
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
