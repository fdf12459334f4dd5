package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"loadline/internal/regular"
	"loadline/planner/hardware"
	"loadline/planner/logcheck"
	"loadline/planner/score"
	"loadline/planner/search"
	"loadline/planner/shape"
)

// scoreCommand is plan score.
func (a *app) scoreCommand() *cobra.Command {
	var write, leaveOut string
	c := &cobra.Command{
		Use:   "score FILE.csv",
		Short: "Hold the planner's predictions against measurements",
		Long: `plan score predicts every row of a table of measured memory and prints the errors by family: fractions, 0.03 is 3%. The rows have
the columns system, model, arch, gpu, ranks, dtype, micro-batch, seq, parallel, metric, value, unit and extras as docs/planner-accuracy.md
describes them; rows that its rules leave out are listed with the reason. With --write it writes that document and its plot: predicted
against measured, by family. That document leaves out the ids that it lists besides, so that its figures differ from the first example's.`,
		Example: `  loadline plan score planner/testdata/measured_memory.csv
  loadline plan score mine.csv --json
  loadline plan score mine.csv --write report`,
		Args: exactlyOne("FILE.csv", "loadline plan score mine.csv"),
		RunE: func(_ *cobra.Command, args []string) error { return a.planScore(args[0], write, leaveOut) },
	}
	c.Flags().StringVar(&write, "write", "", "write "+score.DocumentName+" and its plot into `DIR`")
	c.Flags().StringVar(&leaveOut, "leave-out", "", "`IDS` of rows, with commas between, that are not to be scored: "+score.Suspect)
	return c
}

// exactlyOne wants one argument.
func exactlyOne(what, try string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage(try, "want one %s, got %d", what, len(args))
		}
		return nil
	}
}

// planScore scores a table.
func (a *app) planScore(path, write, leaveOut string) error {
	if err := present("", path); err != nil {
		return err
	}
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	rows, err := score.Read(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return advise(fmt.Errorf("%s: %w", path, err), "give a table with a header line and the columns of docs/planner-accuracy.md")
	}
	cards, err := loadCards()
	if err != nil {
		return err
	}
	left := strings.FieldsFunc(leaveOut, func(c rune) bool { return c == ',' || c == ' ' })
	for _, id := range left {
		if !slices.ContainsFunc(rows, func(r *score.Row) bool { return r.ID == id }) {
			return usage("name ids of the table's first column", "--leave-out %s: %s has no row %.40q", leaveOut[:min(len(leaveOut), 40)], path, id)
		}
	}
	rows = slices.DeleteFunc(rows, func(r *score.Row) bool { return slices.Contains(left, r.ID) })
	rep := score.Score(rows, cards)
	if write != "" {
		if err := writeScore(write, rep, rows, cards, left); err != nil {
			return err
		}
	}
	text := [][]string{{"family", "rows", "median", "p90", "bias"}}
	for _, x := range rep.Families {
		text = append(text, []string{x.Name, fmt.Sprint(x.Rows), percent(x.Median), percent(x.P90), fmt.Sprintf("%+.2f%%", 100*x.Bias)})
	}
	w := a.text()
	table(w, text)
	reasons := map[string]int{}
	var order []string
	for _, s := range rep.Skipped {
		if reasons[s.Reason]++; reasons[s.Reason] == 1 {
			order = append(order, s.Reason)
		}
	}
	fmt.Fprintf(w, "%s left out\n", count(len(rep.Skipped), "row"))
	for _, r := range order {
		fmt.Fprintf(w, "  %d: %s\n", reasons[r], r)
	}
	return a.listed(rep)
}

// writeScore writes the document of a score and its plot.
func writeScore(dir string, rep *score.Report, rows []*score.Row, cards *shape.Cards, left []string) error {
	known, err := hardware.Load()
	if err != nil {
		return err
	}
	speeds, _ := score.Speeds(rows, cards, known)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return advise(fmt.Errorf("--write: %w", err), "name a directory that can be written")
	}
	for name, body := range map[string]string{score.DocumentName: score.Document(rep, speeds, score.PlotName, left), score.PlotName: score.Plot(rep)} {
		if err := replaceFile(filepath.Join(dir, name), []byte(body)); err != nil {
			return advise(fmt.Errorf("--write: %w", err), "name a directory that can be written")
		}
	}
	return nil
}

func percent(x float64) string { return fmt.Sprintf("%.2f%%", 100*x) }

// checkCommand is plan check.
func (a *app) checkCommand() *cobra.Command {
	t, s, h := &trainFlags{}, &serveFlags{}, &hardwareFlags{}
	var learn bool
	c := &cobra.Command{
		Use:   "check LOG",
		Short: "Hold a framework's log of its memory against the plan",
		Long: `plan check reads a log of vLLM, SGLang, llama.cpp, DeepSpeed or torch, plans the job that the flags describe, and compares line by
line, with what explains the difference. --framework, --quant and --kv-type are the log's own where it names them. With --learn it keeps
what was learnt in the user's profile, which plan --hardware applies from then on.`,
		Example: `  loadline plan check vllm.log --model llama-3.1-8b --hardware H100-SXM-80GB --context 8192 --concurrency 16 --quant bf16
  loadline plan check llama-server.log --model model.gguf --hardware RTX-4090 --context 8192 --learn`,
		Args: exactlyOne("LOG", "loadline plan check vllm.log --model llama-3.1-8b --hardware H100-SXM-80GB"),
		RunE: func(c *cobra.Command, args []string) error { return a.planCheck(c, args[0], h, t, s, learn) },
	}
	t.register(c)
	s.register(c)
	h.register(c, t)
	c.Flags().BoolVar(&learn, "learn", false, "keep what the log teaches in the profile")
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "learn" && (slices.Contains(planOnly, f.Name) || h.own.Lookup(f.Name) == nil && !slices.Contains(shared, f.Name)) {
			f.Hidden = true
		}
	})
	return c
}

// checkDocument is the document of plan check.
type checkDocument struct {
	*logcheck.Report
	Framework string `json:"framework"` // of the plan
	Quant     string `json:"quant"`     // of the plan's weights
	Profile   string `json:"profile"`   // where it was kept; empty without --learn
}

// fromLog takes the formats of weights and cache from the log where no flag gives them, and says so.
func (h *hardwareFlags) fromLog(log *logcheck.Log, m *planModel) []string {
	var said []string
	if h.task.value != search.Serve {
		return nil
	}
	if h.quant == "" && m.Stored == nil && log.Quant != "" {
		h.quant = log.Planned(search.Quants())
		switch {
		case h.quant == "":
			said = append(said, fmt.Sprintf("the log's weights are in %s, which no plan has: --quant says what to hold it against", log.Quant))
		case h.quant == log.Quant:
			said = append(said, "planned with weights in "+h.quant+", as the log says")
		default:
			said = append(said, fmt.Sprintf("planned with weights in %s, the nearest to the log's %s", h.quant, log.Quant))
		}
	}
	if h.kvType == "" {
		if h.kvType = log.PlannedKV(); h.kvType != "" {
			said = append(said, "planned with keys and values in "+h.kvType+", as the log says")
		}
	}
	return said
}

// planCheck compares a log with its plan.
func (a *app) planCheck(c *cobra.Command, path string, h *hardwareFlags, t *trainFlags, s *serveFlags, learn bool) error {
	for _, name := range typed(c) {
		if slices.Contains(planOnly, name) {
			return usage("loadline plan MODEL --"+name+" …", "--%s is of plan, not of plan check", name)
		}
	}
	if learn {
		if err := (output{makes: true, replaces: true}).check("--profile", h.profile); err != nil {
			return err
		}
	}
	if h.hardware == "" {
		return usage("--hardware RTX-4090, or another machine", "which hardware does %s come from? want --hardware", path)
	}
	if err := present("", path); err != nil {
		return err
	}
	f, err := regular.Open(path)
	if err != nil {
		return err
	}
	log, err := logcheck.Read(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return advise(fmt.Errorf("%s: %w", path, err), "give the log of a run from its start")
	}
	if h.framework == "" && slices.Contains([]string{"vllm", "sglang", "llamacpp", "deepspeed"}, log.System) {
		h.framework = log.System
	}
	if slices.Contains(search.Frameworks(search.Serve), log.System) && h.framework != log.System {
		return usage("--framework "+log.System+", or leave it out", "--framework %s: %s is a log of %s", h.framework, path, log.System)
	}
	if h.task.value == "" && !slices.Contains(search.Frameworks(search.Serve), h.framework) {
		h.task.value = search.Finetune
	}
	h.guessTask(c)
	if err := h.check(c); err != nil {
		return err
	}
	m, err := t.planModel()
	if err != nil {
		return err
	}
	said := h.fromLog(log, m)
	q, err := h.question(c, t, s, m)
	if err != nil {
		return err
	}
	at, profile, err := h.learnt()
	if err != nil {
		return err
	}
	if !learn { // what is learnt is the error of the formulas alone
		q.Factors = profile.Factors()
	}
	answer, err := search.Plans(q)
	if err != nil {
		return h.nonsense(err)
	}
	if len(answer.Plans) == 0 {
		return tooSmall(answer)
	}
	rep, err := logcheck.Compare(log, answer.Question, answer.Plans[0])
	if err != nil {
		return err
	}
	d := &checkDocument{Report: rep, Framework: answer.Plans[0].Config.System, Quant: answer.Plans[0].Config.Quant}
	w := a.text()
	fmt.Fprintf(w, "%s: a log of %s against a plan of %s for %s on %s\n", path, rep.System, d.Framework, m.Shape.Name, answer.Hardware)
	for _, line := range said {
		fmt.Fprintf(w, "%s\n", line)
	}
	for _, l := range rep.Lines {
		fmt.Fprintf(w, "  %s\n", l)
	}
	if len(rep.Alone) > 0 {
		fmt.Fprintf(w, "of these the plan says nothing: %s\n", strings.Join(rep.Alone, ", "))
	}
	if rep.RanOut {
		fmt.Fprintln(w, "the run ended for lack of memory")
	}
	if learn {
		if at == "" {
			return usage("--profile FILE", "--learn: this user has no directory for configuration")
		}
		profile.Learn(rep)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return advise(fmt.Errorf("--learn: %w", err), "name a file that can be written with --profile")
		}
		if err := profile.Save(at); err != nil {
			return advise(fmt.Errorf("--learn: %w", err), "name a file that can be written with --profile")
		}
		d.Profile = at
		fmt.Fprintf(w, "learnt: %s\n", at)
	}
	return a.listed(d)
}
