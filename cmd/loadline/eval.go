package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"loadline/device"
	"loadline/device/cpu"
	"loadline/eval"
	"loadline/internal/regular"
	"loadline/mem"
	"loadline/model/tokenizer"
	"loadline/model/weights"
	"loadline/serve"
)

// evalFlags are the flags of eval.
type evalFlags struct {
	engineFlags
	perplexity  bool
	model, data string
	score       choiceFlag
	windows     int
}

// defaultWindow is the context of an evaluation where none is given; it is llama.cpp's.
const defaultWindow = 512

func (a *app) evalCommand() *cobra.Command {
	x := &evalFlags{score: choiceFlag{"half", []string{"half", "all"}}}
	c := &cobra.Command{
		Use:   "eval --perplexity --data FILE [MODEL]",
		Short: "Measure how well a model foretells a text",
		Long: `eval --perplexity reads FILE as one stream of tokens, in windows of --context tokens that the model sees each by itself, and prints
the exponential of the mean loss of the tokens that are scored. The last window, if it is not whole, is dropped; nothing ends the stream,
and what begins it, if the tokenizer adds such a token, takes the place of each window's first. --score half scores the tokens behind the
middle of each window, as llama.cpp does; all scores every token but each window's first. The figures depend on neither memory, threads,
block size nor prefill chunk.`,
		Example: `  loadline eval --perplexity --model model.gguf --data book.txt
  loadline eval --perplexity --model run --data book.txt --context 1024 --score all --json
  loadline eval --perplexity run --data book.txt --windows 16`,
		Args: atMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := modelArgument(&x.model, args); err != nil {
				return err
			}
			return a.eval(x)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&x.perplexity, "perplexity", false, "measure perplexity")
	f.StringVar(&x.model, "model", "", "model at `PATH`, as of generate")
	f.StringVar(&x.data, "data", "", "text in `FILE`, read byte for byte")
	f.Var(&x.score, "score", "tokens of a window that are scored")
	f.IntVar(&x.windows, "windows", 0, "stop after `N` windows; 0 is all")
	x.engineFlags.register(f, fmt.Sprintf("%d, or what the model has positions for", defaultWindow))
	f.Lookup("context").Usage = fmt.Sprintf("tokens of a window (default: %d, or what the model has positions for)", defaultWindow)
	return c
}

func (x *evalFlags) validate() error {
	switch {
	case !x.perplexity:
		return usage("loadline eval --perplexity --model PATH --data FILE", "what is to be measured? want --perplexity")
	case x.model == "":
		return whichModel()
	case x.data == "":
		return usage("--data FILE, with a text", "on what text? want --data FILE")
	case x.windows < 0:
		return usage("leave --windows out", "--windows %d: want at least 1", x.windows)
	}
	if err := x.engineFlags.validate(); err != nil {
		return err
	}
	return present("--data", x.data)
}

// rule is --score's.
func (x *evalFlags) rule() eval.Rule {
	if x.score.value == "all" {
		return eval.All
	}
	return eval.Half
}

// evalDocument is eval's document.
type evalDocument struct {
	memoryReport
	streamReport
	Perplexity      float64 `json:"perplexity"`
	Stderr          float64 `json:"perplexity_stderr"`
	MeanLoss        float64 `json:"mean_loss"`
	Tokens          int64   `json:"tokens"` // scored
	Windows         int64   `json:"windows"`
	Context         int     `json:"context"`
	Kernels         string  `json:"kernels"`
	Score           string  `json:"score"`
	TextTokens      int64   `json:"text_tokens"` // of the whole stream, with what begins it
	Interrupted     bool    `json:"interrupted"`
	TokensPerSecond float64 `json:"tokens_per_second"` // computed, scored or not
}

// evaluation is one call of eval.
type evaluation struct {
	*evalFlags
	a       *app
	model   *weights.Model
	tok     *tokenizer.Tokenizer
	bos     []int32
	job     *serve.Job
	dev     device.Device
	doc     evalDocument
	windows int64 // that there are to score
}

// eval is the verb.
func (a *app) eval(f *evalFlags) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	x := &evaluation{evalFlags: f, a: a}
	var limit mem.Bytes
	if x.model, limit, err = openServed(f.model, f.memory); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.model.Close()) }()
	if x.tok, err = modelTokenizer(x.model, limit); err != nil {
		return err
	}
	x.bos, _ = x.tok.Frame()
	if err := x.plan(limit); err != nil {
		return err
	}
	settle(x.job.Options.Runtime)
	if err := x.count(); err != nil {
		return err
	}
	return x.run(limit)
}

// plan plans the runner.
func (x *evaluation) plan(limit mem.Bytes) error {
	positions := x.model.Config.MaxPositionEmbeddings
	kv, err := kvTypes(x.kvType)
	if err != nil {
		return err
	}
	o := serve.Options{
		Config: x.model.Config, Types: x.model.Types, KVTypes: kv, Memory: limit, Context: x.engineFlags.context, PrefillChunk: x.prefillChunk, Outs: x.prefillChunk,
		BlockSize: x.blockSize, Runtime: runtimeWith(x.tok) + x.model.HeapBytes(), NoCache: true,
	}
	if o.Context == 0 {
		o.Context = min(defaultWindow, positions)
	}
	if err := checkContext(o.Context, positions); err != nil {
		return err
	}
	if x.rule().Scored(o.Context) == 0 {
		longest := min(defaultWindow, positions)
		if x.rule().Scored(longest) == 0 {
			return usage("another model", "the model has %d positions: a window leaves no token to score", positions)
		}
		return usage(fmt.Sprintf("--context %d", longest), "--context %d: a window leaves no token to score", o.Context)
	}
	if err := o.Validate(); err != nil {
		return usage("loadline eval --help lists the settings", "%v", err)
	}
	x.dev = cpu.New(cpu.Options{Threads: x.a.computeThreads(1), Set: x.set})
	if x.job, err = serve.Plan(o, x.dev); err != nil {
		return x.a.refuseEngine(err, func(context int) string {
			if x.rule().Scored(context) == 0 {
				return ""
			}
			return fmt.Sprintf("--context %d", context)
		})
	}
	x.a.notes(x.model, x.job)
	return nil
}

// encode reads the text and calls emit with its tokens. How much is read is shown where it is watched.
func (x *evaluation) encode(ctx context.Context, watched bool, emit func(ids []int32) error) (err error) {
	f, err := regular.Open(x.data)
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	g, err := newGauge(f)
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	if watched {
		defer x.a.watch("counting the tokens of "+x.data, g.read)()
	}
	return x.tok.EncodeStream(&stoppable{ctx, g, nil}, tokenizer.StreamOptions{Replace: true}, emit)
}

// count counts the tokens of the text, which may be larger than memory: so there is a time to tell until it is done.
func (x *evaluation) count() error {
	n := int64(len(x.bos))
	err := x.encode(context.Background(), true, func(ids []int32) error {
		n += int64(len(ids))
		return nil
	})
	if err != nil {
		return err
	}
	c := int64(x.job.Options.Context)
	if x.windows = n / c; x.evalFlags.windows > 0 {
		x.windows = min(x.windows, int64(x.evalFlags.windows))
	}
	x.doc = evalDocument{Context: int(c), Kernels: x.set.Name(), Score: x.score.value, TextTokens: n}
	if x.windows == 0 {
		try := "a longer text"
		if x.rule().Scored(int(n)) > 0 {
			try += fmt.Sprintf(", or --context %d", n)
		}
		return advise(fmt.Errorf("%s has %s, a window is %d", x.data, count(int(n), "token"), c), "%s", try)
	}
	return nil
}

// errEnough ends the stream.
var errEnough = errors.New("enough")

// run scores the text.
func (x *evaluation) run(limit mem.Bytes) (err error) {
	ledger := mem.NewLedger(mem.Limits{Memory: limit})
	reads := newMeter(x.a, x.job, x.model.Source)
	r, err := serve.NewRunner(x.job, x.dev, device.Env{Ledger: ledger}, reads.source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	o := &x.job.Options
	p, err := eval.NewPerplexity(r, eval.Options{
		Context: o.Context, Chunk: o.PrefillChunk, Vocab: o.Config.VocabSize, Rule: x.rule(), BOS: x.bos, Kernels: x.set,
	})
	if err != nil {
		return err
	}
	if err := x.a.log.write("start", map[string]any{"verb": "eval", "windows": x.windows, "context": x.doc.Context, "limit_bytes": limit}); err != nil {
		return err
	}
	reads.reset()
	began := x.a.seconds()
	if err := x.stream(p, limit); err != nil {
		return err
	}
	s, d := p.Score(), &x.doc
	d.Perplexity, d.Stderr, d.MeanLoss, d.Tokens, d.Windows = s.Perplexity(), s.Stderr(), s.Mean(), s.Tokens, s.Windows
	d.TokensPerSecond = float64(s.Windows*int64(d.Context)) / max(x.a.seconds()-began, 1e-9)
	d.streamReport = reads.report()
	if d.memoryReport, err = reportMemory(limit, x.job.Promise.Peak, ledger.Peak()); err != nil {
		return err
	}
	d.Seconds = x.a.seconds()
	return errors.Join(x.finish(), r.Check())
}

// stream scores windows until there are enough, or an interrupt.
func (x *evaluation) stream(p *eval.Perplexity, limit mem.Bytes) error {
	ctx, stop := x.a.interruptible("finishing the window; once more to stop at once")
	defer stop()
	bar := x.a.newProgress("window", x.windows, 0)
	defer bar.close()
	last := time.Now()
	err := x.encode(ctx, false, func(ids []int32) error {
		return p.Add(ids, func(s eval.Score) error {
			took := time.Since(last)
			last = last.Add(took)
			rate := float64(x.doc.Context) / max(took.Seconds(), 1e-9)
			bar.set(s.Windows, took, fmt.Sprintf("perplexity %.4f  %s tokens/s", s.Perplexity(), grouped(int64(rate))), fmt.Sprintf("memory %v / %v", x.job.Promise.Memory(), limit))
			if err := x.a.log.write("window", map[string]any{"window": s.Windows, "perplexity": s.Perplexity(), "tokens": s.Tokens, "seconds": took.Seconds()}); err != nil {
				return err
			}
			if s.Windows == x.windows {
				return errEnough
			}
			return ctx.Err()
		})
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case errors.Is(err, context.Canceled):
		if x.doc.Interrupted = true; p.Score().Windows == 0 {
			return advise(errors.New("interrupted"), "the same command again")
		}
		return nil
	case err == nil || errors.Is(err, io.EOF): // the text has become shorter
		return advise(fmt.Errorf("%s: it has changed while it was read", x.data), "the same command again")
	}
	return err
}

// finish prints the result.
func (x *evaluation) finish() error {
	d, t := &x.doc, x.a.text()
	if d.Interrupted {
		fmt.Fprintf(t, "interrupted after window %d of %d\n", d.Windows, x.windows)
	}
	fmt.Fprintf(t, "perplexity %.4f ± %.4f: %s tokens scored (%s) in %s of %d; mean loss %.5f, %s tokens/s\n", d.Perplexity, d.Stderr,
		grouped(d.Tokens), d.Score, count(int(d.Windows), "window"), d.Context, d.MeanLoss, grouped(int64(d.TokensPerSecond)))
	x.a.say("memory promised %v, ledger %v, process peak RSS %v of %v%s\n", d.Predicted, d.Ledger, d.RSS, d.Limit, d.streamReport.words())
	if err := x.a.log.write("end", map[string]any{"perplexity": d.Perplexity, "tokens": d.Tokens, "rss_peak_bytes": d.RSS, "seconds": d.Seconds}); err != nil {
		return err
	}
	if x.a.json {
		if err := x.a.document(d); err != nil {
			return err
		}
	}
	return d.check()
}
