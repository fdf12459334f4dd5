package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"loadline/serve"
)

// generateFlags are the flags of generate.
type generateFlags struct {
	model, prompt, kvType            string
	maxTokens, topK                  int
	temperature, topP                float64
	context, blockSize, prefillChunk int
	stop                             []string
	memory                           sizeFlag
}

func (a *app) generateCommand() *cobra.Command {
	g := &generateFlags{}
	c := &cobra.Command{
		Use:   "generate [MODEL]",
		Short: "Go on from a prompt",
		Long: `generate runs one request on the serving engine. Text appears as it comes, never half a character. The tokens depend on
the prompt, the seed and the sampling flags alone, not on memory, threads, block size or prefill chunk.`,
		Example: `  loadline generate --model run --prompt "Once upon a time" --max-tokens 100
  loadline generate run --prompt "ROMEO:" --temperature 0 --stop "JULIET:"
  loadline generate --model run/step-100 --prompt "To be" --top-k 40 --top-p 0.95 --seed 7 --json`,
		Args: atMostOne,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				if g.model != "" {
					return usage("give one of them", "the model is %q and also --model %s", args[0], g.model)
				}
				g.model = args[0]
			}
			if !c.Flags().Changed("prompt") {
				return usage(`--prompt "Once upon a time"`, "what is the text to go on from? want --prompt TEXT")
			}
			return a.generate(g)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&g.model, "model", "", "directory at `PATH`: an --out of train (its newest checkpoint), a checkpoint, or Hugging Face files")
	f.StringVar(&g.prompt, "prompt", "", "`TEXT` to go on from, as it is")
	f.IntVar(&g.maxTokens, "max-tokens", 128, "most new tokens")
	f.Float64Var(&g.temperature, "temperature", 0.8, "how freely tokens are drawn; 0 always takes the likeliest")
	f.IntVar(&g.topK, "top-k", 0, "draw from the `K` likeliest tokens; 0 is all")
	f.Float64Var(&g.topP, "top-p", 1, "draw from the likeliest tokens that together have this probability")
	f.StringArrayVar(&g.stop, "stop", nil, "end before this `TEXT`; may be given more than once")
	f.IntVar(&g.context, "context", 0, "tokens that the engine holds (default: prompt + max-tokens)")
	f.IntVar(&g.blockSize, "block-size", serve.DefaultBlockSize, "tokens of a block of keys and values")
	f.IntVar(&g.prefillChunk, "prefill-chunk", serve.DefaultPrefillChunk, "prompt tokens that are computed at once")
	f.StringVar(&g.kvType, "kv-type", "f32,f32", kvTypesHelp)
	f.Var(&g.memory, "memory", "peak resident memory, such as 512MiB (default: 80% of what is available)")
	return c
}

// maxTokens bounds --max-tokens: no model has more positions.
const maxTokens = 1 << 30

// validate checks the flags that no package checks.
func (g *generateFlags) validate() error {
	switch {
	case g.model == "":
		return usage("--model DIR, where DIR is an --out of loadline train", "which model? want --model PATH")
	case g.maxTokens < 1:
		return usage("--max-tokens 128", "--max-tokens %d: want at least 1", g.maxTokens)
	case g.maxTokens > maxTokens:
		return usage(fmt.Sprintf("--max-tokens %d", maxTokens), "--max-tokens %d: want at most %d", g.maxTokens, maxTokens)
	case g.blockSize < 1:
		return usage("--block-size 16", "--block-size %d: want at least 1", g.blockSize)
	case g.prefillChunk < 1:
		return usage("--prefill-chunk 128", "--prefill-chunk %d: want at least 1", g.prefillChunk)
	}
	for _, s := range g.stop {
		if s == "" {
			return usage("leave --stop out", "--stop: want a text")
		}
	}
	_, err := kvTypes(g.kvType)
	return err
}
