package serve

import (
	"errors"
	"fmt"

	"loadline/device"
	"loadline/mem"
	"loadline/mem/arena"
)

// held is a job's memory, and its programs once the weights are loaded.
type held struct {
	job     *Job
	ledger  *mem.Ledger
	session device.Session
	runtime *mem.Reservation
	arena   *arena.Arena
}

// reserve books what the job has besides its programs.
func (h *held) reserve(j *Job, ledger *mem.Ledger) (err error) {
	h.job, h.ledger = j, ledger
	if h.runtime, err = ledger.Reserve(mem.Host, mem.Runtime, j.Options.Runtime); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	if h.arena, err = arena.New(ledger, mem.Host, j.Options.buffers().parts()[mem.Host]); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// load opens the job's programs and loads the weights.
func (h *held) load(dev device.Device, env device.Env, weights Source) error {
	env.Home = newHome(h.job, weights)
	session, err := dev.Open(h.job.Job, env)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	h.session = session
	if err := h.session.Run(loadProgram, device.Args{Source: weights}); err != nil {
		return fmt.Errorf("serve: load weights: %w", err)
	}
	return nil
}

// Job returns what this was made from.
func (h *held) Job() *Job { return h.job }

// Check compares the promise with the ledger's peak.
func (h *held) Check() error {
	if err := h.job.Promise.Check(h.ledger.Peak()); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// Close releases everything. What is closed must not be used again; closing it twice does nothing more.
func (h *held) Close() error {
	var errs []error
	if h.session != nil {
		errs = append(errs, h.session.Close())
		h.session = nil
	}
	if h.arena != nil {
		errs = append(errs, h.arena.Close())
		h.arena = nil
	}
	if h.runtime != nil {
		h.runtime.Release()
		h.runtime = nil
	}
	return errors.Join(errs...)
}
