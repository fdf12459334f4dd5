package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"loadline/internal/whole"
)

// TestOutputFlags finds every flag that names what is written: each is looked at before its verb begins.
func TestOutputFlags(t *testing.T) {
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	writes := regexp.MustCompile("\\b(write|append) .*`(FILE|DIR)`|^`DIR` for checkpoints")
	found := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || !writes.MatchString(f.Usage) || c.CommandPath() == "loadline plan" && f.Name == "out" { // which plan only takes
				return
			}
			found++
			if !slices.ContainsFunc(outputFlags(), func(o outputFlag) bool { return o.flag == f.Name && (o.verb == "" || o.verb == c.CommandPath()) }) {
				t.Errorf("%s --%s is not in outputFlags", c.CommandPath(), f.Name)
			}
		})
	}
	root := a.rootCommand()
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { // subcommands take them over when they are parsed
		if writes.MatchString(f.Usage) && !slices.Contains(outputFlags(), outputFlag{"", f.Name, output{special: true}}) {
			t.Errorf("--%s is not in outputFlags", f.Name)
		}
	})
	if visit(root); found < len(outputFlags())-1 {
		t.Errorf("got %d flags that write, want at least %d", found, len(outputFlags())-1)
	}
}

// TestOutputs names what cannot be written: an error of usage before any work, which leaves nothing.
func TestOutputs(t *testing.T) {
	dir := t.TempDir()
	file, none := filepath.Join(dir, "file"), filepath.Join(dir, "none")
	if err := os.WriteFile(file, []byte("quiet: true"), 0o644); err != nil {
		t.Fatal(err)
	}
	nowhere, pipe, new := filepath.Join(dir, "nowhere"), filepath.Join(dir, "pipe"), filepath.Join(dir, "new")
	if err := errors.Join(os.Symlink(none+"/x", nowhere), unix.Mkfifo(pipe, 0o644)); err != nil {
		t.Fatal(err)
	}
	type bad struct{ line, says string }
	var all []bad
	lines := map[string]string{
		"": "inspect main.go", "loadline train": "train --preset llama-tiny", "loadline plan": "plan llama-3.1-8b --hardware H100", "loadline plan score": "plan score main.go",
		"loadline bench": "bench main.go", "loadline bench train": "bench train --preset llama-tiny --batch 1 --seq 8 --steps 1", "loadline bench cost": "bench cost", "loadline pull": "pull https://127.0.0.1:1/x",
	}
	for _, o := range outputFlags() {
		line := lines[o.verb] + " --" + o.flag + " "
		if o.flag == "program" {
			line = "plan --preset llama-tiny --program "
		}
		if o.what.makes {
			all = append(all, bad{line + file + "/x", file + "/x: " + file + " is not a directory"})
		} else {
			all = append(all, bad{line + file + "/x", file + "/x: " + file + " is not a directory"}, bad{line + none + "/x", none + "/x: there is no directory " + none})
		}
		if o.what.directory {
			all = append(all, bad{line + file, file + ": it is not a directory"})
		} else {
			all = append(all, bad{line + dir, dir + ": it is a directory"})
		}
		long, longer := filepath.Join(dir, strings.Repeat("x", 300)), filepath.Join(dir, strings.Repeat("x/", 2500))
		all = append(all, bad{line + long, long + ": file name too long"}, bad{line + longer, longer + ": file name too long"}, bad{strings.TrimSpace(line) + "=", "--" + o.flag + ": the path is empty"})
		switch {
		case o.what.directory:
			all = append(all, bad{line + nowhere, nowhere + ": it is a link to " + none + "/x, which is not there"})
		case !o.what.replaces:
			all = append(all, bad{line + nowhere, nowhere + ": " + none + "/x: there is no directory " + none}, bad{line + file + " --config " + file, "--" + o.flag + " " + file + ": this file is to be read, as --config " + file})
			if o.flag != "events" {
				all = append(all, bad{line + new + " --events " + new, "--" + o.flag + " " + new + ": it is also that of --events"})
			}
		}
		if o.flag == "events" || o.verb == "loadline bench train" {
			all = append(all, bad{line + pipe, "--" + o.flag + " " + pipe + ": nobody reads this pipe"})
		}
	}
	all = append(all,
		bad{"convert main.go " + file + "/x --to gguf", file + "/x: " + file + " is not a directory"},
		bad{"plan check main.go --learn --hardware H100 --profile " + file + "/x", "--profile " + file + "/x: " + file + " is not a directory"},
		bad{"convert main.go " + file + " --to gguf", file + ": it exists"}, bad{"convert main.go " + nowhere + " --to gguf", nowhere + ": it exists"},
		bad{"convert main.go " + filepath.Join(dir, strings.Repeat("x", 250)) + " --to gguf", whole.Suffix + ": file name too long"},
		bad{"train --preset llama-tiny --data " + file + " --events " + file, "--events " + file + ": this file is to be read, as --data " + file},
		bad{"plan --preset llama-tiny --program " + new + " --html " + new, "--html " + new + ": it is also that of --program"},
		bad{"train --preset llama-tiny --out " + new + " --events " + new, "--out " + new + ": it is also that of --events"},
		bad{"bench cost --machine nowhere --write " + dir, dir + ": it is a directory"},
	)
	for _, x := range all {
		var out, errs bytes.Buffer
		code := run(strings.Fields(x.line), strings.NewReader(""), &out, &errs)
		if code != codeUsage || out.Len() > 0 {
			t.Errorf("%s: got exit code %d and %q on stdout, want 2 and nothing", x.line, code, out.String())
		}
		twoLines(t, errs.String(), x.says)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("got %v left, %v, want file, link and pipe alone", left, err)
	}
}
