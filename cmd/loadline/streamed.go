package main

import (
	"fmt"
	"sync"

	"loadline/mem"
	"loadline/model/weights"
	"loadline/serve"
)

// streamReport is the part of a document about weights that memory does not hold. All is 0 where it does.
type streamReport struct {
	StreamedBytes mem.Bytes `json:"streamed_bytes_per_pass,omitempty"` // weights that every pass reads again
	ReadRate      float64   `json:"read_bytes_per_second,omitempty"`   // of those reads, while one was under way
	MostPasses    float64   `json:"passes_per_second_bound,omitempty"` // what that rate would allow if nothing else took time; a sequence gets at most a token a pass
}

// notes prints what a plan gave up, and which of a model's quantised weights are widened.
func (a *app) notes(m *weights.Model, j *serve.Job) {
	for _, n := range append(m.Widened(), j.Notes()...) {
		if !a.quiet {
			fmt.Fprintln(a.err, n)
		}
	}
}

// meter measures how fast weights are read again.
type meter struct {
	a       *app
	job     *serve.Job
	read    serve.Source
	mu      sync.Mutex
	bytes   mem.Bytes
	seconds float64
}

// newMeter meters a source for the engine of j.
func newMeter(a *app, j *serve.Job, source serve.Source) *meter {
	return &meter{a: a, job: j, read: source}
}

// source is the source, metered.
func (m *meter) source(state string, p []byte) error {
	began := m.a.seconds()
	err := m.read(state, p)
	took := m.a.seconds() - began
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes, m.seconds = m.bytes+mem.Bytes(len(p)), m.seconds+took
	return err
}

// reset forgets what was read so far.
func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bytes, m.seconds = 0, 0
}

// report is what the reads since reset came to.
func (m *meter) report() (r streamReport) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.StreamedBytes = m.job.Streamed(); r.StreamedBytes > 0 && m.seconds > 0 {
		r.ReadRate = float64(m.bytes) / m.seconds
		r.MostPasses = r.ReadRate / float64(r.StreamedBytes)
	}
	return r
}

// words says it for people; nothing where all weights are in memory, or none has been read.
func (r streamReport) words() string {
	if r.ReadRate == 0 {
		return ""
	}
	return fmt.Sprintf("; %v of weights read for every pass, at %v/s: reading alone would allow at most %.2f passes/s", r.StreamedBytes, mem.Bytes(r.ReadRate), r.MostPasses)
}
