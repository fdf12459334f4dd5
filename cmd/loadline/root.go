package main

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is what --version prints, besides the commit if the build knows it.
const version = "0.1.0"

// maxThreads bounds --threads: each thread has a stack, and scratch in every plan.
const maxThreads = 1024

// rootCommand builds the whole command line.
func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "loadline",
		Short: "Train and serve language models inside a memory limit",
		Long: `loadline trains and serves transformer language models inside a memory limit that you set.
Every step is compiled into a program whose peak memory is known before it runs, and kept.`,
		Example: `  loadline demo
  loadline plan --preset llama-tiny --memory 96MiB --recompute auto
  loadline train --preset llama-tiny --data book.txt --memory 96MiB --recompute auto --out run
  loadline generate --model run --prompt "Once upon" --max-tokens 100`,
		Version:       versionText(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noVerb(c, args)
			}
			if c.Flags().NFlag() > 0 {
				return usage("loadline --help lists the verbs", "a verb is missing")
			}
			return c.Help()
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		a.unparsed = true
		if e := noVerb(c, c.Flags().Args()); e != nil { // whose flags they are is not known
			return e
		}
		if e := missingVerb(c, err); e != nil {
			return e
		}
		return flagError(c, err)
	})
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one JSON document on stdout at the end; text goes to stderr")
	f.StringVar(&a.events, "events", "", "append a JSON line for each event to `FILE`")
	f.IntVar(&a.threads, "threads", 0, "threads that compute, each rank's (default: cores / ranks)")
	f.Uint64Var(&a.seed, "seed", 1, "seed of everything random")
	f.BoolVar(&a.quiet, "quiet", false, "show no progress; errors are always shown")
	f.StringVar(&a.config, "config", "", "read flags from a YAML `FILE`; flags on the command line win")
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if c == root {
			return nil
		}
		if err := a.readConfig(c.Flags(), len(args) > 0 && strings.Contains(c.Use, "[MODEL]")); err != nil {
			return err
		}
		if a.threads < 0 {
			return usage("leave --threads out to use all cores", "--threads %d: want at least 1", a.threads)
		}
		if a.threads > maxThreads {
			return usage("leave --threads out to use all cores", "--threads %d: want at most %d", a.threads, maxThreads)
		}
		a.small = smallSizes(c.Flags())
		if err := a.checkOutputs(c, args); err != nil {
			return err
		}
		var err error
		a.log, err = openEvents(a.events, strings.TrimPrefix(c.CommandPath(), "loadline "))
		return err
	}
	root.SetHelpCommand(&cobra.Command{
		Use: "help [VERB]", Short: "Tell what a verb does", Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || c == root && len(rest) > 0 {
				return noVerb(root, args)
			}
			if len(rest) > 0 {
				return cmp.Or(noVerb(c, rest), usage(c.CommandPath()+" --help", "unexpected argument %q", rest[0]))
			}
			return c.Help()
		},
	})
	root.AddCommand(a.trainCommand(), a.planCommand(), a.generateCommand(), a.chatCommand(), a.evalCommand(), a.benchCommand(), a.inspectCommand(), a.tokenizeCommand(), a.pullCommand(), a.convertCommand(), a.demoCommand())
	return root
}

// noVerb is the error about arguments of which the first stands where a verb might and is none, nil if there is no such one. Behind a verb
// that has others of its own it is one that is nearly the name of such a one, and no path.
func noVerb(c *cobra.Command, args []string) error {
	if len(args) == 0 || !c.HasSubCommands() {
		return nil
	}
	var verbs []string
	for _, v := range c.Commands() {
		if !v.Hidden {
			verbs = append(verbs, v.Name())
		}
	}
	word := args[0]
	if !c.HasParent() {
		return usage(didYouMean(word, verbs, "", "loadline --help"), "there is no verb %q", word)
	}
	if n := nearest(word, verbs); n != "" && !exists(word) && !strings.ContainsAny(word, "./") {
		return usage(c.CommandPath()+" "+n, "there is neither a model nor a verb %q of %s", word, c.CommandPath())
	}
	return nil
}

// missingVerb is the error about a flag that is not of every verb where no verb stands before it, nil if err is about something else.
func missingVerb(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if c.HasParent() || !errors.As(err, &unknown) {
		return nil
	}
	name := unknown.GetSpecifiedName()
	dashes, lookup := "--", (*pflag.FlagSet).Lookup
	if unknown.GetSpecifiedShortnames() != "" {
		dashes, lookup = "-", (*pflag.FlagSet).ShorthandLookup
	}
	var verbs, flags []string
	for _, v := range c.Commands() {
		if f := lookup(v.Flags(), name); !v.Hidden && f != nil && !f.Hidden {
			verbs = append(verbs, v.Name())
		}
		v.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	}
	if len(verbs) == 0 {
		return usage(didYouMean(name, flags, "a verb with --", "loadline --help lists the verbs"), "a verb is missing, and no verb has a flag %s%s", dashes, name)
	}
	slices.SortStableFunc(verbs, func(a, b string) int { return likely(a) - likely(b) })
	return usage(fmt.Sprintf("loadline %s %s%s …", verbs[0], dashes, name), "a verb is missing before %s%s: want %s", dashes, name, orList(verbs))
}

// likely orders verbs by how likely one is that was left out.
func likely(verb string) int {
	all := []string{"generate", "chat", "train", "plan"}
	if at := slices.Index(all, verb); at >= 0 {
		return at
	}
	return len(all)
}

// versionText is the version, the commit and the toolchain.
func versionText() string {
	s := version
	if b, ok := debug.ReadBuildInfo(); ok {
		i := slices.IndexFunc(b.Settings, func(s debug.BuildSetting) bool { return s.Key == "vcs.revision" })
		if i >= 0 {
			s += " " + b.Settings[i].Value[:min(12, len(b.Settings[i].Value))]
		}
	}
	return fmt.Sprintf("loadline %s (%s %s/%s)", s, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// noArgs refuses arguments that are no flags.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("give it to a flag", "unexpected argument %q", args[0])
	}
	return nil
}

// atMostOne refuses more than one argument.
func atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage("give one", "unexpected argument %q: there is already %q", args[1], args[0])
	}
	return nil
}
