package train

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"loadline/compile"
	"loadline/device"
	"loadline/mem"
	"loadline/mem/arena"
)

// orLower is Options.Lower at work: where job gives time up, or err says that nothing fits, it compiles the run again with masters and the
// optimizer's States on the lower tier, as many as have to be, and returns that if it is within what the tier may take, and modelled to be faster.
// job and err are what compiling the run as it is gave.
func orLower(o Options, dev device.Device, fixed FixedBytes, job *Job, err error) (*Job, error) {
	if no := new(DoesNotFitError); err != nil && !errors.As(err, &no) || err == nil && job.Step.Again == 0 {
		return job, err
	}
	o.OffloadOptimizer = true
	if o.Validate() != nil { // there is no link
		return job, err
	}
	low, e := compileRun(o, dev, fixed)
	if e != nil {
		return job, err
	}
	low = fewest(low, dev, fixed)
	if low.Promise.Peak.Total(o.OffloadTier()) > o.Lower || err == nil && low.Seconds() >= job.Seconds() {
		return job, err
	}
	return low, nil
}

// fewest compiles low again so that what the limits leave is filled with States that need not lie below, and returns the fastest that fits.
func fewest(low *Job, dev device.Device, fixed FixedBytes) *Job {
	left := low.left()
	for range 3 { // what else is in memory may grow a little with the programs
		o := low.Options
		if o.stay = low.stay(left); len(o.stay) == 0 {
			return low
		}
		j, err := compileRun(o, dev, fixed)
		if err == nil && j.Seconds() <= low.Seconds() {
			j.compiler = low.compiler // the least memory is with all of them below
			return j
		}
		left -= left / 8
	}
	return low
}

// left is what the limits leave of the device tier.
func (j *Job) left() mem.Bytes {
	o, peak := &j.Options, j.Promise.Peak
	left := mem.Bytes(math.MaxInt64)
	if o.DeviceMemory > 0 {
		left = o.DeviceMemory - peak.Total(mem.Device)
	}
	if o.Memory > 0 && o.OffloadTier() == mem.Disk { // what the host tier holds is in memory either way
		left = min(left, o.Memory-peak.Memory())
	}
	page := arena.Round(1) // the mapping that grows is of whole pages
	if mem.Bytes(j.PersistentBytes(mem.Device))+left >= 4*hugePage {
		page = hugePage
	}
	return left - page
}

// stay chooses weights whose masters and States are on the lower tier and take up to n bytes together, the largest first.
func (j *Job) stay(n mem.Bytes) map[string]bool {
	type weight struct {
		name  string
		bytes mem.Bytes
	}
	var all []weight
	at := map[string]int{}
	for i := range j.Slots {
		s := &j.Slots[i]
		if s.Tier == mem.Device {
			continue
		}
		name := compile.WeightOf(s.Name)
		if _, ok := at[name]; !ok {
			at[name] = len(all)
			all = append(all, weight{name: name})
		}
		all[at[name]].bytes += mem.Bytes(s.Bytes)
	}
	slices.SortStableFunc(all, func(a, b weight) int { return cmp.Compare(b.bytes, a.bytes) })
	stay := map[string]bool{}
	for _, w := range all {
		if w.bytes <= n {
			stay[w.name] = true
			n -= w.bytes
		}
	}
	return stay
}
