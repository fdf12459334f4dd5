package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/serve"
	"loadline/serve/sample"
	"loadline/tensor/kernel"
)

// generateFlags are the flags of generate.
type generateFlags struct {
	samplingFlags
	engineFlags
	model, prompt       string
	maxTokens, logprobs int
}

func (a *app) generateCommand() *cobra.Command {
	g := &generateFlags{samplingFlags: plainSampling()}
	c := &cobra.Command{
		Use:   "generate [MODEL]",
		Short: "Go on from a prompt",
		Long: `generate runs one request on the serving engine. Text appears as it comes, never half a character. The tokens depend on
the prompt, the seed, the sampling flags and the kernels alone, not on memory, threads, block size or prefill chunk. Sampling flags that are not given
are as the model's generation_config.json has them, or a GGUF file's general.sampling keys; generate then says so.`,
		Example: `  loadline generate --model run --prompt "Once upon a time" --max-tokens 100
  loadline generate run --prompt "ROMEO:" --temperature 0 --stop "JULIET:"
  loadline generate --model run/step-100 --prompt "To be" --top-k 40 --top-p 0.95 --seed 7 --json
  loadline generate run --prompt "To be" --min-p 0.05 --repetition-penalty 1.1 --logprobs 3`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			if err := modelArgument(&g.model, args); err != nil {
				return err
			}
			if !c.Flags().Changed("prompt") {
				return usage(`--prompt "Once upon a time"`, "what is the text to go on from? want --prompt TEXT")
			}
			return a.generate(g)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&g.model, "model", "", "model at `PATH`: an --out of train (its newest checkpoint), a Hugging Face directory, a GGUF file, or ORG/NAME as pulled")
	f.StringVar(&g.prompt, "prompt", "", "`TEXT` to go on from, as it is")
	f.IntVar(&g.maxTokens, "max-tokens", 128, "most new tokens")
	g.samplingFlags.register(f)
	f.IntVar(&g.logprobs, "logprobs", -1, "tell the log probability of each new token, and the `N` likeliest in its place, before temperature, cuts and penalties; -1 tells none")
	g.engineFlags.register(f, "prompt + max-tokens")
	return c
}

// maxTokens bounds --max-tokens: no model has more positions.
const maxTokens = 1 << 30

// validate checks the flags that no package checks.
func (g *generateFlags) validate() error {
	switch {
	case g.model == "":
		return whichModel()
	case g.maxTokens < 1:
		return usage("--max-tokens 128", "--max-tokens %d: want at least 1", g.maxTokens)
	case g.maxTokens > maxTokens:
		return usage(fmt.Sprintf("--max-tokens %d", maxTokens), "--max-tokens %d: want at most %d", g.maxTokens, maxTokens)
	case g.logprobs < -1 || g.logprobs > sample.MaxTopLogprobs:
		return usage(fmt.Sprintf("--logprobs %d", sample.MaxTopLogprobs), "--logprobs %d: want 0 to %d", g.logprobs, sample.MaxTopLogprobs)
	}
	return errors.Join(g.engineFlags.validate(), g.samplingFlags.validate())
}

// whichModel is the error of a verb that runs a model and was given none.
func whichModel() error {
	return usage("--model PATH, where PATH is a GGUF file, a Hugging Face directory or an --out of loadline train", "which model? want --model PATH")
}

// engineFlags are the flags of verbs that keep sequences in the memory of a pass.
type engineFlags struct {
	context, blockSize, prefillChunk int
	kvType, kernels                  string
	memory                           sizeFlag

	set kernel.Set // that kernels names, once validate has found it
}

// register adds the flags; def tells in words what the context is where it is not given.
func (e *engineFlags) register(f *pflag.FlagSet, def string) {
	f.IntVar(&e.context, "context", 0, "tokens that the engine holds (default: "+def+")")
	f.IntVar(&e.blockSize, "block-size", serve.DefaultBlockSize, "tokens of a block of keys and values")
	f.IntVar(&e.prefillChunk, "prefill-chunk", serve.DefaultPrefillChunk, "prompt tokens that are computed at once")
	f.StringVar(&e.kvType, "kv-type", plainKV, kvTypesHelp)
	registerKernels(f, &e.kernels)
	f.Var(&e.memory, "memory", "peak resident memory, such as 512MiB (default: 80% of what is available)")
}

// validate checks the flags, and finds the kernels.
func (e *engineFlags) validate() error {
	switch {
	case e.context < 0:
		return usage("leave --context out", "--context %d: want at least 1", e.context)
	case e.blockSize < 1:
		return usage("--block-size 16", "--block-size %d: want at least 1", e.blockSize)
	case e.prefillChunk < 1:
		return usage("--prefill-chunk 128", "--prefill-chunk %d: want at least 1", e.prefillChunk)
	}
	if _, err := kvTypes(e.kvType); err != nil {
		return err
	}
	var err error
	e.set, err = kernelSet(e.kernels)
	return err
}

// modelArgument takes the model that is an argument for --model's.
func modelArgument(flag *string, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if *flag != "" {
		return usage("give one of them", "the model is %q and also --model %s", args[0], *flag)
	}
	*flag = args[0]
	return nil
}
