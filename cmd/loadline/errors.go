package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"loadline/data"
	"loadline/internal/regular"
	"loadline/mem"
	"loadline/mem/tier"
	"loadline/model/gguf"
	"loadline/model/safetensors"
	"loadline/serve"
	"loadline/train"
	"loadline/train/checkpoint"
)

// Exit codes.
const (
	codeDone = iota
	codeFailed
	codeUsage
	codeDoesNotFit
)

// usageError is what the user typed wrong.
type usageError struct{ text, try string }

// Error returns one line.
func (e *usageError) Error() string { return e.text }

// Advice returns one line: what to do.
func (e *usageError) Advice() string { return e.try }

// usage returns a usageError. Errors among args are told in words.
func usage(try, format string, args ...any) error {
	for i, x := range args {
		if err, ok := x.(error); ok {
			args[i] = words(err)
		}
	}
	return &usageError{fmt.Sprintf(format, args...), try}
}

// advised is an error with a line about what to do.
type advised struct {
	error
	try string
}

// Advice returns one line: what to do.
func (e *advised) Advice() string { return e.try }

// Unwrap returns the error.
func (e *advised) Unwrap() error { return e.error }

// advise adds what to do to an error.
func advise(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &advised{err, fmt.Sprintf(format, args...)}
}

// exitCode is the code that a verb's error ends the process with.
func exitCode(err error) int {
	var (
		u        *usageError
		option   *train.OptionError
		training *train.DoesNotFitError
		serving  *serve.DoesNotFitError
		budget   *mem.OverBudgetError
		rank     *rankError
		disk     *tierError
		heap     *heapError
	)
	switch {
	case err == nil:
		return codeDone
	case errors.As(err, &rank):
		return rank.code
	case errors.As(err, &u), errors.As(err, &option):
		return codeUsage
	case errors.As(err, &training), errors.As(err, &serving), errors.As(err, &budget), errors.As(err, &disk), errors.As(err, &heap):
		return codeDoesNotFit
	}
	return codeFailed
}

// fail prints an error, and returns it.
func (a *app) fail(err error) error {
	a.printing.Lock()
	defer a.printing.Unlock()
	return a.failHeld(err)
}

// failHeld is fail for who holds a.printing.
func (a *app) failHeld(err error) error {
	err = a.aboutSizes(err)
	text, try := oneLine(words(err)), oneLine(advice(err))
	fmt.Fprintf(a.err, "loadline: %s\n", text)
	if try != "" {
		fmt.Fprintf(a.err, "  try: %s\n", try)
	}
	code := exitCode(err)
	if e := a.log.write("error", map[string]any{"error": text, "try": try, "exit_code": code}); e != nil {
		fmt.Fprintf(a.err, "loadline: %s\n", oneLine(words(e)))
	}
	if a.json && !a.printed {
		if e := a.documentHeld(errorDocument(err)); e != nil {
			fmt.Fprintf(a.err, "loadline: %s\n", oneLine(words(e)))
		}
	}
	return err
}

// aboutSizes adds to what does not fit that a size may lack its unit, once.
func (a *app) aboutSizes(err error) error {
	if a.small == "" || exitCode(err) != codeDoesNotFit || strings.HasSuffix(advice(err), a.small) {
		return err
	}
	return advise(err, "%s; %s", advice(err), a.small)
}

// errorDocument is the document of a verb that failed and has no other.
func errorDocument(err error) map[string]any {
	return map[string]any{"error": oneLine(words(err)), "try": oneLine(advice(err)), "exit_code": exitCode(err)}
}

// oneLine joins lines, and makes them fit for a terminal.
func oneLine(s string) string { return plain(strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ")) }

// plain is a text from elsewhere as a terminal may have it: what moves its cursor or changes its colours is written out.
func plain(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if unicode.IsPrint(r) && r != utf8.RuneError {
			b.WriteString(s[i : i+n])
		} else {
			q := strconv.QuoteToASCII(s[i : i+n])
			b.WriteString(q[1 : len(q)-1])
		}
		i += n
	}
	return b.String()
}

// advice is what to do about an error.
func advice(err error) string {
	var adviser interface{ Advice() string }
	if errors.As(err, &adviser) {
		return strings.TrimPrefix(adviser.Advice(), "use ")
	}
	var (
		option    *train.OptionError
		numbers   *train.NonFiniteError
		damaged   *checkpoint.DamagedError
		disagrees *checkpoint.Disagreement
		locked    *checkpoint.LockedError
		budget    *mem.OverBudgetError
		promise   *mem.BrokenPromiseError
	)
	switch {
	case errors.As(err, &option):
		return fmt.Sprintf("loadline train --help tells what --%s takes", option.Option)
	case errors.As(err, &numbers) && numbers.Checkpoint == "":
		return "start again with a smaller --lr, a longer --warmup or a smaller --clip"
	case errors.As(err, &numbers):
		return "resume from the last checkpoint with a smaller --lr, a longer --warmup or a smaller --clip"
	case errors.As(err, &damaged):
		return "resume from another checkpoint, or copy this one again"
	case errors.As(err, &disagrees):
		return resumeAdvice(disagrees)
	case errors.As(err, &locked):
		return "wait for the other run, or choose another --out"
	case errors.As(err, &budget):
		return "raise --memory"
	case errors.As(err, &promise):
		return "this is a fault of loadline: please report it with the command line"
	case errors.Is(err, gguf.ErrCut), errors.Is(err, safetensors.ErrCut):
		return "fetch or copy the file again"
	case errors.Is(err, data.ErrOtherText):
		return "give --data, --seq and the model as when the run began; a new run, with another --out, may begin from its model with --model"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "free some space, or write to another disk; what train had saved goes on with --resume"
	case errors.Is(err, unix.EFBIG):
		return "raise the limit of a file's size (ulimit -f), or write to another file system"
	case errors.Is(err, unix.EMFILE):
		return "raise the limit of open files (ulimit -n)"
	case errors.Is(err, unix.EIO), errors.Is(err, tier.ErrShort):
		return "see to the disk, and to what else writes to the file; what train had saved goes on with --resume"
	case errors.Is(err, fs.ErrPermission):
		return "check who may read and write the file"
	case errors.Is(err, fs.ErrNotExist):
		return "check the path"
	case errors.Is(err, checkpoint.ErrNone):
		return "name a directory that loadline train has written, or one with config.json and model.safetensors"
	case errors.Is(err, regular.ErrNot):
		return "name a regular file, not a directory, a pipe or a device"
	}
	return "look at the file or the setting that this line names"
}

// resumeAdvice is what to do about a setting that a checkpoint was made with and the run has not.
func resumeAdvice(d *checkpoint.Disagreement) string {
	flags := ""
	switch d.Name {
	case "seq", "seed":
		flags = "--" + d.Name + " " + d.Have
	case "sequences a step":
		flags = "--batch, --accumulate and --ranks with a product of " + d.Have
	case "precision":
		precision, noMasters := strings.CutSuffix(d.Have, " without masters")
		if flags = "--precision " + precision; noMasters {
			flags += " --master none"
		} else if strings.HasPrefix(d.Want, precision+" ") {
			flags += " --master fp32"
		}
	case "optimizer": // such as "sgd, momentum 0.9, nesterov"
		name, momentum, _ := strings.Cut(d.Have, ", ")
		flags = "--optimizer " + name
		if momentum != "" {
			number, nesterov := strings.CutSuffix(momentum, ", nesterov")
			flags += fmt.Sprintf(" --%s --nesterov=%v", number, nesterov)
		}
	}
	if flags == "" || d.Have == "" {
		flags = "use the settings that the checkpoint was made with"
	}
	return flags + ", or start anew with another --out"
}
