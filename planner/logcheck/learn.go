package logcheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// Profile is what logs have taught about a user's machines: by system and figure, by how much plans were off.
type Profile struct {
	Figures map[string]Learnt `json:"figures"` // by "system/name"
}

// Learnt is one figure: the mean logarithm of measured over planned, over so many logs.
type Learnt struct {
	Logs    int     `json:"logs"`
	MeanLog float64 `json:"mean_log"`
}

// maxProfile bounds a profile's file; maxLog is the largest correction that is believed, four times.
const (
	maxProfile = 1 << 20
	maxLog     = 1.3862943611198906
)

// Load reads a profile. A file that is not there is an empty profile.
func Load(path string) (*Profile, error) {
	p := &Profile{Figures: map[string]Learnt{}}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("logcheck: %w", err)
	}
	if info.Size() > maxProfile {
		return nil, fmt.Errorf("logcheck: profile %s of %d bytes, want at most %d", path, info.Size(), maxProfile)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("logcheck: %w", err)
	}
	if err := json.Unmarshal(body, p); err != nil {
		return nil, fmt.Errorf("logcheck: profile %s: %w", path, err)
	}
	if p.Figures == nil {
		p.Figures = map[string]Learnt{}
	}
	for key, l := range p.Figures {
		if l.Logs < 1 || !(math.Abs(l.MeanLog) <= maxLog) {
			return nil, fmt.Errorf("logcheck: profile %s: %q: %d logs of mean %g", path, key, l.Logs, l.MeanLog)
		}
	}
	return p, nil
}

// Learn adds a report to the profile. Figures that are off by more than four times are taken as another job's.
func (p *Profile) Learn(rep *Report) {
	for _, l := range rep.Lines {
		x := math.Log(l.Measured / l.Planned)
		if !(math.Abs(x) <= maxLog) {
			continue
		}
		key := rep.System + "/" + l.Name
		have := p.Figures[key]
		have.MeanLog = (have.MeanLog*float64(have.Logs) + x) / float64(have.Logs+1)
		have.Logs++
		p.Figures[key] = have
	}
}

// Factor returns by what a planned figure is to be multiplied: 1 for one that was never seen. One log counts half,
// so that a single odd run does not decide.
func (p *Profile) Factor(system, name string) float64 {
	l := p.Figures[system+"/"+name]
	return math.Exp(l.MeanLog * float64(l.Logs) / float64(l.Logs+1))
}

// purposes are what the planner calls a figure of a log, where one purpose holds it alone.
var purposes = map[string]string{"vllm/" + Activations: "activations", "vllm/" + Graphs: "workspace", "sglang/" + Graphs: "workspace", "llamacpp/" + Compute: "workspace"}

// Factors returns the profile for search.Question.Factors. Weights and caches are exact, so that differences there
// are another job's, not the formulas'.
func (p *Profile) Factors() map[string]float64 {
	out := map[string]float64{}
	for key := range p.Figures {
		if purpose, ok := purposes[key]; ok {
			system, name, _ := strings.Cut(key, "/")
			out[system+"/"+purpose] = p.Factor(system, name)
		}
	}
	return out
}

// Save writes the profile, as a whole or not at all.
func (p *Profile) Save(path string) (err error) {
	body, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("logcheck: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".profile-*")
	if err != nil {
		return fmt.Errorf("logcheck: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("logcheck: %w", err), os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(append(body, '\n')); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
