package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"loadline/mem"
	"loadline/planner/search"
	"loadline/serve"
	"loadline/train"
)

// runsHere tells whether our own device is of a machine's kind, and our own code runs the model of the flags.
func (t *trainFlags) runsHere(m *search.Machine) bool {
	if m.Card.Vendor != search.HostVendor {
		return false
	}
	_, _, err := t.source(&trainRun{})
	return err == nil
}

// plans answers a question, with our own runs compiled where they are candidates.
func (a *app) plans(c *cobra.Command, h *hardwareFlags, t *trainFlags, q search.Question) (*search.Answer, error) {
	q.Own = t.runsHere(&q.Machine)
	answer, err := search.Plans(q)
	if err != nil {
		return nil, h.nonsense(err)
	}
	if len(answer.Own) > 0 {
		own, err := a.ownPlans(c, t, answer)
		if err != nil {
			return nil, err
		}
		answer.Include(own)
	}
	if len(answer.Plans) == 0 {
		return nil, usage("leave some of what is held out", "%s on %s: nothing plans it as it is asked for", answer.Question.Shape.Name, answer.Hardware)
	}
	return answer, nil
}

// ownPlans compiles what the planner found worth compiling. What the compiler refuses is left out.
func (a *app) ownPlans(c *cobra.Command, t *trainFlags, answer *search.Answer) ([]search.Plan, error) {
	var out []search.Plan
	for _, p := range answer.Own {
		entry, err := a.compileOwn(c, t, &answer.Question, &p.Config)
		if err == nil && answer.Question.Task != search.Serve && p.Config.Offload == "none" && (entry == nil || entry.Peak > answer.Limit) { // a host has a disk
			below := p.Config
			below.Offload = "optimizer"
			var other *planEntry
			if other, err = a.compileOwn(c, t, &answer.Question, &below); err == nil && other != nil && other.Peak <= answer.Limit {
				entry, p.Config = other, below
			}
		}
		if err != nil {
			return nil, err
		}
		if entry == nil {
			continue
		}
		p.Peak, p.Range, p.OOMChance, p.ByPurpose = entry.Peak, entry.Range, entry.OOMChance, entry.ByPurpose
		p.Ranks, p.Options = entry.Ranks, entry.Options
		if answer.Question.Task != search.Serve { // an entry's time is of a pass full of prompts, a plan's of tokens made
			p.StepSeconds, p.TokensPerSecond = entry.StepSeconds, entry.TokensPerSecond
		}
		p.Options["framework"], p.Options["task"] = search.Own, answer.Question.Task
		p.Stages = []search.Stage{{Name: "every rank", Peak: p.Peak, ByPurpose: p.ByPurpose}}
		if p.Peak > answer.Limit {
			p.OOMChance = 1
		}
		if p.Bound == "" {
			p.Bound = "compute"
		}
		p.Path = []string{
			"our own run, compiled: its bytes are exact, and what train and generate reserve", entry.Why,
			fmt.Sprintf("%v a process of %v", p.Peak, answer.Limit), fmt.Sprintf("precision %s, recompute %s, offload %s", p.Config.Precision, p.Config.Recompute, p.Config.Offload), "the time is modelled for this machine",
		}
		p.Why = entry.Why
		out = append(out, p)
	}
	return out, nil
}

// compileOwn compiles one setting; nothing where it cannot be.
func (a *app) compileOwn(c *cobra.Command, t *trainFlags, q *search.Question, x *search.Config) (*planEntry, error) {
	t2 := &trainFlags{}
	one := &cobra.Command{Use: c.Use}
	t2.register(one)
	flags := [][2]string{{"preset", t.preset}, {"model", t.model}, {"machine", t.machine}}
	if q.Task != search.Serve {
		flags = append(flags, [2]string{"seq", fmt.Sprint(q.Seq)}, [2]string{"batch", fmt.Sprint(x.MicroBatch)}, [2]string{"accumulate", fmt.Sprint(x.Accumulate)},
			[2]string{"precision", x.Precision}, [2]string{"recompute", x.Recompute}, [2]string{"optimizer", x.Optimizer}, [2]string{"attention", "flash"})
		if x.Offload != "none" {
			flags = append(flags, [2]string{"offload", x.Offload})
		}
	}
	for _, f := range flags {
		if f[1] == "" {
			continue
		}
		if err := one.Flags().Set(f[0], f[1]); err != nil {
			return nil, nil // a value that our own runs do not have: no candidate
		}
	}
	r, err := t2.resolve(a, one, nil)
	if err != nil {
		return nil, nil // no candidate
	}
	r.Options.Memory = mem.Bytes(1) << 50 // whether it fits is asked afterwards, of the machine described
	if q.Task == search.Serve {
		o := serve.Options{Config: r.Options.Config, Memory: r.Options.Memory, Context: q.Context, MaxSeqs: q.Concurrency, BlockSize: serve.DefaultBlockSize, PrefillChunk: min(serve.DefaultPrefillChunk, q.Context)}
		if o.KVTypes, err = kvTypes(cmp.Or(q.Hold.KVType, plainKV)); err != nil {
			return nil, nil // no candidate
		}
		if err := takeFiles(&o, r.Weights); err != nil {
			return nil, nil // no candidate
		}
		job, err := serve.Plan(o, r.device())
		var no *serve.DoesNotFitError
		if errors.As(err, &no) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		entry := servingEntry(r, job, o.Memory)
		return &entry, nil
	}
	done := a.planning(&r.Options)
	job, err := r.planWith(train.Attempt)
	done()
	if err != nil {
		return nil, nil // more than can be addressed
	}
	entry := r.entry(job, why(job))
	return &entry, nil
}
