package probe

import (
	"errors"
	"fmt"
	"time"

	"loadline/cost"
	"loadline/device"
	"loadline/mem"
)

// Meter measures a device a little at a time: every visit to one of its models adds some tries to what is known. Visits to all models take
// turns with each other, and with whatever the caller measures beside, so that what comes and goes on a shared machine meets all alike.
type Meter struct {
	dev    device.Device
	o      Options
	models []metered
}

// metered is one small model and what its steps took.
type metered struct {
	rig     *Rig // nil until the first visit
	samples []cost.Sample
	times   Times
}

// The number of steps that are timed in a visit.
const (
	leastSteps = 3
	mostSteps  = 6
)

// NewMeter is a Meter that knows nothing yet. o.Time is of no concern to it.
func NewMeter(dev device.Device, o Options) *Meter {
	return &Meter{dev: dev, o: o, models: make([]metered, len(settings()))}
}

// Models is how many models there are to visit.
func (m *Meter) Models() int { return len(m.models) }

// Visit makes steps of model i for about the time given, three at least.
func (m *Meter) Visit(i int, about time.Duration) (err error) {
	x := &m.models[i]
	defer func() {
		if err != nil {
			err = fmt.Errorf("probe: model %d of %d: %w", i+1, len(m.models), err)
		}
	}()
	if x.rig == nil {
		if x.rig, err = Compile(m.dev, settings()[i].options()); err != nil {
			return err
		}
		x.samples = x.rig.Samples(0)
	}
	if m.o.Memory > 0 && x.rig.Job(0).Promise.Memory() > m.o.Memory {
		return nil
	}
	begin := time.Now()
	if err := x.rig.Open(m.dev, m.o.Dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.rig.Close()) }()
	for n := 0; n < leastSteps || n < mostSteps && time.Since(begin) < about; n++ { // the first touches memory, and is seldom the lowest
		if err := x.times.Add(x.rig, 0); err != nil {
			return err
		}
	}
	return nil
}

// Samples are the instructions of all models that were visited, each with the time that Low says.
func (m *Meter) Samples() (out []cost.Sample) {
	for i := range m.models {
		x := &m.models[i]
		for j, seconds := range x.times.Instrs() {
			s := x.samples[j]
			s.Seconds = seconds
			out = append(out, s)
		}
	}
	return out
}

// Machine is what all visits say, and how fast bytes are copied and written now.
func (m *Meter) Machine() (cost.Machine, error) {
	c := describe(m.o.Name, m.Samples())
	var err error
	if c.Link[mem.Host], err = copyRate(); err != nil {
		return c, err
	}
	c.Link[mem.Disk], err = fileRate(m.o.Dir)
	return c, err
}
