package serve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"loadline/device"
	"loadline/mem"
	"loadline/model"
	"loadline/serve/sched"
)

// TestPromise holds the ledger to the plan, and the plan to the limit.
func TestPromise(t *testing.T) {
	for _, dev := range []device.Device{newRef(), newCPU(2)} {
		o := base(tiny(model.Mixtral))
		j, err := Plan(o, dev)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := j.Options.Blocks, 3*10; got != want {
			t.Errorf("blocks: got %d, want %d", got, want)
		}
		u := j.Promise.Peak
		kv := mem.Bytes(2 * 2 * 30 * 16 * 2 * 8 * 4) // pools, layers, blocks, tokens, heads, width, f32
		if u[mem.Device][mem.KVBlocks] != kv || u[mem.Host][mem.Runtime] != DefaultRuntime {
			t.Errorf("got %v of KV blocks and %v of runtime, want %v and %v", u[mem.Device][mem.KVBlocks], u[mem.Host][mem.Runtime], kv, DefaultRuntime)
		}
		if got, want := u[mem.Device][mem.Weights], 4*mem.Bytes(o.Config.Params()); got < want || got > want+want/10 {
			t.Errorf("weights: got %v, want %v and a little for alignment", got, want)
		}
		l := mem.NewLedger(mem.Limits{Memory: j.Promise.Memory()})
		e, err := New(j, dev, device.Env{Ledger: l}, fill(o.Config, nil))
		if err != nil {
			t.Fatal(err)
		}
		add(t, e, requests()...)
		drive(t, e, nil)
		if err := e.Check(); err != nil {
			t.Error(err)
		}
		if got := l.PeakMemory(); got != j.Promise.Memory() {
			t.Errorf("ledger peak: got %d, want %d", got, j.Promise.Memory())
		}
		if err := errors.Join(e.Close(), e.Close()); err != nil {
			t.Error(err)
		}

		// One byte less: New is refused and gives back what it had.
		l = mem.NewLedger(mem.Limits{Memory: j.Promise.Memory() - 1})
		var over *mem.OverBudgetError
		if _, err := New(j, dev, device.Env{Ledger: l}, fill(o.Config, nil)); !errors.As(err, &over) {
			t.Errorf("got %v, want a *mem.OverBudgetError", err)
		}
		if u := l.InUse(); u != (mem.Usage{}) {
			t.Errorf("after a refusal: %v is still booked", u)
		}
	}
}

// TestFewerBlocks lowers the limit: first the pool shrinks, then nothing fits, and the advice does.
func TestFewerBlocks(t *testing.T) {
	dev := newCPU(1)
	o := base(tiny(model.Llama))
	o.Context, o.MaxSeqs = 512, 8
	whole, err := Plan(o, dev)
	if err != nil {
		t.Fatal(err)
	}
	blocks := whole.Options.Blocks
	if blocks != 8*32 {
		t.Fatalf("blocks without a limit: got %d, want %d", blocks, 8*32)
	}
	var refused *DoesNotFitError
	for o.Memory = whole.Promise.Memory(); o.Memory > DefaultRuntime; o.Memory -= 40 * mem.KiB {
		j, err := Plan(o, dev)
		if errors.As(err, &refused) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := j.Options.Blocks; n > blocks || n < 32 || j.Promise.Memory() > o.Memory {
			t.Fatalf("limit %d: got %d blocks in %d bytes, before %d", o.Memory, n, j.Promise.Memory(), blocks)
		}
		more := j.Options
		if more.Blocks++; more.Blocks <= whole.Options.Blocks {
			if k, err := build(more, dev); err != nil || k.fits() {
				t.Fatalf("limit %d: got %d blocks, but one more fits (%v)", o.Memory, j.Options.Blocks, err)
			}
		}
		blocks = j.Options.Blocks
	}
	if refused == nil || blocks > 34 {
		t.Fatalf("got no refusal, or one with %d blocks", blocks)
	}
	for refused != nil { // follow the advice, down to what cannot be
		text, advice := refused.Error(), refused.Advice()
		need, limit := refused.Need.String(), o.Memory.String()
		if need == limit { // rounded
			need, limit = fmt.Sprintf("%d bytes", int64(refused.Need)), fmt.Sprint(int64(o.Memory))
		}
		for _, want := range []string{"needs " + need, "--memory is " + limit, "runtime on host 48 MiB", "tokens, in"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q does not mention %q", text, want)
			}
		}
		t.Log(text, ";", advice)
		if refused.Need <= o.Memory {
			t.Errorf("refused although %v fits into %v", refused.Need, o.Memory)
		}
		raised := refused.Wanted
		raised.Memory = refused.Need
		if _, err := Plan(raised, dev); err != nil {
			t.Errorf("with the memory it asked for: %v", err)
		}
		n := refused.Nearest
		if n == nil {
			if want := "smaller model"; refused.Narrower == nil && !strings.Contains(advice, want) || refused.Narrower != nil && strings.Contains(advice, want) {
				t.Errorf("advice %q: want a smaller model only where no narrower keys and values fit", advice)
			}
			break
		}
		j, err := Plan(*n, dev)
		if err != nil {
			t.Fatalf("the nearest options do not fit: %v", err)
		}
		o = j.Options
		o.Blocks, o.Memory = 0, j.Promise.Memory()-mem.KiB
		refused = nil
		if j, err = Plan(o, dev); !errors.As(err, &refused) && err != nil {
			t.Fatal(err)
		} else if err == nil {
			t.Fatalf("%d bytes: fits with %d blocks, want a refusal", o.Memory, j.Options.Blocks)
		}
	}
}

func TestValidate(t *testing.T) {
	dev := newRef()
	for _, c := range []struct {
		edit func(*Options)
		want string
	}{
		{func(o *Options) { o.Context = 0 }, "context 0"},
		{func(o *Options) { o.Context = 513 }, "context 513: the model has 512 positions"},
		{func(o *Options) { o.MaxSeqs = -1 }, "sequences -1"},
		{func(o *Options) { o.BlockSize = -4 }, "block size -4"},
		{func(o *Options) { o.PrefillChunk = -1 }, "prefill chunk -1"},
		{func(o *Options) { o.Blocks = 9 }, "want at least 10"},
		{func(o *Options) { o.Memory = -1 }, "memory -1"},
		{func(o *Options) { o.BlockSize = 1 << 21 }, "block size 2097152"},
		{func(o *Options) { o.MaxSeqs = 1 << 25 }, "rows 33554432"},
		{func(o *Options) { o.MaxSeqs, o.BlockSize, o.Context = 1<<20, 1<<12, 1 }, "4294967296 key/value slots"},
		{func(o *Options) { o.Config.NumHeads = 0 }, "num_attention_heads 0"},
	} {
		o := base(tiny(model.Llama))
		c.edit(&o)
		if _, err := Plan(o, dev); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

// TestRefusedRequests asks for what can never run.
func TestRefusedRequests(t *testing.T) {
	e := open(t, newRef(), base(tiny(model.Llama)), nil)
	ok := Request{ID: "a", Prompt: prompt(100, 1), MaxTokens: 60}
	long := ok
	long.MaxTokens = 61
	err := e.Add(long)
	var ce *ContextError
	if !errors.As(err, &ce) || *ce != (ContextError{"a", 100, 61, 160}) {
		t.Errorf("got %v, want a *ContextError with the numbers", err)
	}
	if want := `serve: request "a": 100 prompt tokens and 61 new ones are more than the context of 160`; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	long.MaxTokens = int(^uint(0) >> 1)
	if err := e.Add(long); !errors.As(err, &ce) {
		t.Errorf("got %v, want a *ContextError", err)
	}
	many := ok
	many.N = 4
	var le *sched.LimitError
	if err := e.Add(many); !errors.As(err, &le) || le.Want != 4 || le.Have != 3 {
		t.Errorf("got %v, want a *sched.LimitError: 4 of 3 samples", err)
	}
	for _, edit := range []func(r *Request){
		func(r *Request) { r.Prompt = nil },
		func(r *Request) { r.Prompt = []int32{61} },
		func(r *Request) { r.Prompt = []int32{-1} },
		func(r *Request) { r.MaxTokens = 0 },
		func(r *Request) { r.Params.TopP = 2 },
		func(r *Request) { r.N = -1 },
	} {
		bad := ok
		edit(&bad)
		if err := e.Add(bad); err == nil {
			t.Errorf("%+v: got no error", bad)
		}
	}
	if !e.Idle() || len(e.active) != 0 {
		t.Errorf("refused requests left something behind: %v", e.active)
	}
	add(t, e, ok)
	if err := e.Add(ok); err == nil {
		t.Error("a second request of one name: got no error")
	}
	if a := drive(t, e, nil)["a/0"]; len(a.Tokens) != 60 {
		t.Errorf("got %d tokens, want 60", len(a.Tokens))
	}
	if len(e.active) != 0 {
		t.Errorf("done requests are still there: %v", e.active)
	}
}
