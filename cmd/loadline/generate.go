package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/mem"
	"loadline/model"
	"loadline/model/tokenizer"
	"loadline/model/weights"
	"loadline/serve"
	"loadline/serve/sample"
)

// generateDocument is generate's document.
type generateDocument struct {
	memoryReport
	streamReport
	Text            string  `json:"text"`
	TokenIDs        []int32 `json:"token_ids"` // the new ones
	PromptTokens    int     `json:"prompt_tokens"`
	Finish          string  `json:"finish"` // stop, length or interrupted
	TokensPerSecond float64 `json:"tokens_per_second"`
	Context         int     `json:"context"`
	Kernels         string  `json:"kernels"`

	Logprobs []tokenLogprobs `json:"logprobs,omitempty"` // with --logprobs, of every new token
}

// generation is one call of generate.
type generation struct {
	*generateFlags
	a      *app
	model  *weights.Model
	tok    *tokenizer.Tokenizer
	prompt []int32
	params sample.Params
	ends   []int32 // tokens that end the text
	job    *serve.Job
	dev    device.Device
}

// generate is the verb.
func (a *app) generate(g *generateFlags) (err error) {
	if err := g.validate(); err != nil {
		return err
	}
	x := &generation{generateFlags: g, a: a}
	var limit mem.Bytes
	if x.model, limit, err = openServed(g.model, g.memory); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.model.Close()) }()
	if x.tok, err = modelTokenizer(x.model, limit); err != nil {
		return err
	}
	if err := x.plan(limit); err != nil {
		return err
	}
	settle(x.job.Options.Runtime)
	d, err := x.run(limit)
	if err != nil {
		return err
	}
	d.Seconds = a.seconds()
	return x.finish(d)
}

// plan encodes the prompt and plans the engine.
func (g *generation) plan(limit mem.Bytes) error {
	before, _ := g.tok.Frame() // what stands after a text ends it
	g.prompt = append(slices.Clone(before), g.tok.Encode(g.generateFlags.prompt)...)
	if len(g.prompt) == 0 {
		return usage(`--prompt "Once upon a time"`, "--prompt: it has no tokens")
	}
	kv, err := kvTypes(g.kvType)
	if err != nil {
		return err
	}
	o := serve.Options{
		Config: g.model.Config, Types: g.model.Types, Memory: limit, Context: g.context, BlockSize: g.blockSize, PrefillChunk: g.prefillChunk,
		Runtime: runtimeWith(g.tok) + g.model.HeapBytes(), KVTypes: kv,
	}
	if err := checkLengths(len(g.prompt), g.maxTokens, o.Context, o.Config.MaxPositionEmbeddings); err != nil {
		return err
	}
	if o.Context == 0 {
		o.Context = len(g.prompt) + g.maxTokens
	}
	if err := o.Validate(); err != nil {
		return usage("loadline generate --help lists the settings", "%v", err)
	}
	if err := g.choose(o.Config); err != nil {
		return err
	}
	g.dev = cpu.New(cpu.Options{Threads: g.a.computeThreads(1), Set: g.set})
	job, err := serve.Plan(o, g.dev)
	if err != nil {
		return g.a.refuseEngine(err, g.shorter)
	}
	g.job = job
	g.a.notes(g.model, job)
	return nil
}

// modelTokenizer reads the tokenizer of an open model inside a limit.
func modelTokenizer(m *weights.Model, limit mem.Bytes) (*tokenizer.Tokenizer, error) {
	path, err := weights.TokenizerPath(m.Path)
	if errors.Is(err, weights.ErrNoTokenizer) {
		return nil, advise(fmt.Errorf("%s has no tokenizer.json", m.Path), "put the model's tokenizer.json beside its config.json")
	}
	if err != nil {
		return nil, err
	}
	return loadTokenizer(path, limit)
}

// runtimeWith is the Runtime line of an engine: the fixed one, and the tokenizer's tables.
func runtimeWith(t *tokenizer.Tokenizer) mem.Bytes {
	return serve.DefaultRuntime + mem.Bytes(t.HeapBytes())
}

// takeFiles fills in what options take from the files of the model at a path: the Runtime line and the types of weights. A plan needs no
// files: one of a preset or of a config.json alone is of f32 weights, without a tokenizer's tables.
func takeFiles(o *serve.Options, path string) error {
	o.Runtime = serve.DefaultRuntime
	if path == "" {
		return nil
	}
	name, err := weights.TokenizerPath(path)
	if err == nil {
		t, err := loadTokenizer(name, o.Memory)
		if err != nil {
			return err
		}
		o.Runtime = runtimeWith(t)
	} else if !errors.Is(err, weights.ErrNoTokenizer) {
		return err
	}
	m, err := weights.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	o.Runtime += m.HeapBytes()
	o.Types = m.Types
	return m.Close()
}

// shorter is --max-tokens, and --context where it was given, for a context of so many tokens; empty where that leaves no room behind the prompt.
func (g *generation) shorter(context int) string {
	room := context - len(g.prompt)
	var flags []string
	if g.context > 0 {
		flags = append(flags, fmt.Sprintf("--context %d", context))
	}
	if room < g.maxTokens {
		flags = append(flags, fmt.Sprintf("--max-tokens %d", room))
	}
	if room < 1 {
		return ""
	}
	return strings.Join(flags, " ")
}

// choose settles how tokens are chosen and what ends the text.
func (g *generation) choose(c model.Config) (err error) {
	if g.ends, err = g.samplingFlags.ends(endings(g.model, g.tok), g.tok, c.VocabSize); err != nil {
		return err
	}
	if err := g.samplingFlags.take(g.model, g.a.say); err != nil {
		return err
	}
	g.params, err = g.samplingFlags.params(g.a.seed, g.tok, c.VocabSize)
	g.params.Logprobs, g.params.TopLogprobs = g.logprobs >= 0, min(max(g.logprobs, 0), c.VocabSize)
	return err
}

// run generates.
func (g *generation) run(limit mem.Bytes) (_ *generateDocument, err error) {
	ledger := mem.NewLedger(mem.Limits{Memory: limit})
	reads := newMeter(g.a, g.job, g.model.Source)
	e, err := serve.New(g.job, g.dev, device.Env{Ledger: ledger}, reads.source)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	ctx, stop := g.a.interruptible("finishing the token; once more to stop at once")
	defer stop()
	d := &generateDocument{PromptTokens: len(g.prompt), Context: g.job.Options.Context, Kernels: g.set.Name()}
	if err := g.a.log.write("start", map[string]any{"verb": "generate", "prompt_tokens": d.PromptTokens, "limit_bytes": limit}); err != nil {
		return nil, err
	}
	reads.reset()
	began := g.a.seconds()
	if err := g.stream(ctx, e, d); err != nil {
		return nil, err
	}
	d.TokensPerSecond = float64(len(d.TokenIDs)) / max(g.a.seconds()-began, 1e-9)
	d.streamReport = reads.report()
	if d.memoryReport, err = reportMemory(limit, g.job.Promise.Peak, ledger.Peak()); err != nil {
		return nil, err
	}
	return d, e.Check()
}

// stream runs the request; text goes out as it comes, unless a document does.
func (g *generation) stream(ctx context.Context, e *serve.Engine, d *generateDocument) error {
	out := g.a.out
	if g.a.json {
		out = io.Discard
	}
	s := &textStream{decoder: g.tok.NewContinuation(), cut: cutter{stops: g.stop}, out: out}
	request := serve.Request{ID: "generate", Prompt: g.prompt, Params: g.params, MaxTokens: g.maxTokens, Stop: g.ends}
	err := s.run(ctx, e, request, func(x *serve.Event) {
		if g.logprobs >= 0 {
			d.Logprobs = append(d.Logprobs, logprobsOf(x, g.tok))
		}
	})
	if err != nil {
		return err
	}
	d.TokenIDs, d.Text, d.Finish = nonNil(s.ids), s.text.String(), s.finish
	if !g.a.json {
		_, err = fmt.Fprintln(g.a.out)
	}
	return err
}

// finish prints the document, or for people what it took.
func (g *generation) finish(d *generateDocument) error {
	if g.logprobs >= 0 {
		printLogprobs(g.a.text(), d.Logprobs)
	}
	if !g.a.quiet {
		fmt.Fprintf(g.a.err, "%d tokens after %d of the prompt, %.1f tokens/s; memory promised %v, ledger %v, process peak RSS %v of %v%s\n",
			len(d.TokenIDs), d.PromptTokens, d.TokensPerSecond, d.Predicted, d.Ledger, d.RSS, d.Limit, d.streamReport.words())
	}
	if err := g.a.log.write("end", map[string]any{"tokens": len(d.TokenIDs), "finish": d.Finish, "rss_peak_bytes": d.RSS, "seconds": d.Seconds}); err != nil {
		return err
	}
	if g.a.json {
		if err := g.a.document(d); err != nil {
			return err
		}
	}
	return d.check()
}
